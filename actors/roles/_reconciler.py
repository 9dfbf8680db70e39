"""Asking the owner of the data what became of a write, through its tool's reconciler.

Whatever happens is a finding: a reconciler that fails, answers nonsense or does not answer in
time has told nothing, and `unknown` is the honest word for that.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, get_args

from loopwright.protocol import (
    EffectKey,
    Finding,
    Found,
    Reconcile,
    Reconciled,
    bounded,
    to_json,
    unknown,
)

from .._clock import Clock, Timer
from .._work import Work, described, first_cause, passes_through
from ..definitions._tool import AnyTool
from ..kernel import ActorRef, Request
from ._service import answer
from ._threads import ThreadPool

MAX_THREADS: Final = 4
"""Threads for the blocking reconciler of one tool."""


@dataclass(slots=True, eq=False)
class _Question:
    """A question that has not been answered."""

    order: Reconcile
    reply_to: ActorRef[Any]
    task: asyncio.Task[None] | None = None
    timer: Timer | None = None
    answered: bool = False


class Reconciler:
    """Asks one tool's reconciler; each question is answered exactly once.

    Args:
        tool: Whose reconciler; its timeout holds for a question too.
        clock: Time.
        work: The executor's, in which foreign code runs.
    """

    def __init__(self, tool: AnyTool, clock: Clock, work: Work) -> None:
        self._tool = tool
        self._clock = clock
        self._work = work
        self._threads = ThreadPool(tool.name, MAX_THREADS)

    def ask(self, request: Request[Reconcile]) -> None:
        """Begin to ask."""
        question = _Question(request.message, request.reply_to)
        question.task = self._work.start(self._ask(question), request.context)
        if self._tool.timeout is not None:
            until = self._clock.now().monotonic + self._tool.timeout
            question.timer = self._clock.call_at(until, partial(self._give_up, question))

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.close()

    async def put(self, effect_key: EffectKey) -> Reconciled:
        """Ask, and wait for the answer without any limit of time.

        Raises:
            BaseException: What `passes_through`, and a cancellation of the waiting task.
        """
        function = self._tool.reconciler
        if function is None:
            return unknown(f"tool {self._tool.name!r} has no reconciler")
        try:
            return _checked(await self._threads.ask(function, effect_key), self._tool.name)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return unknown("its reconciler cancelled itself")
        except BaseException as error:  # noqa: BLE001 - a reconciler is foreign code
            cause = first_cause(error)
            if passes_through(cause, asyncio.current_task()):
                raise cause from None
            return unknown(f"its reconciler failed with {described(cause)}")

    async def _ask(self, question: _Question) -> None:
        try:
            found = await self.put(question.order.effect_key)
        except asyncio.CancelledError:
            found = unknown("its reconciler was interrupted")
        finally:
            if question.task is not None:
                self._work.ended(question.task)
        self._answer(question, found)

    def _give_up(self, question: _Question) -> None:
        if question.task is not None and not question.answered:
            self._work.interrupt(question.task)
            text = f"its reconciler did not answer within {self._tool.timeout} s"
            self._answer(question, unknown(text))

    def _answer(self, question: _Question, found: Reconciled) -> None:
        if question.answered:
            return
        question.answered = True
        if question.timer is not None:
            question.timer.cancel()
        order = question.order
        answer(question.reply_to, Found(order.turn, order.attempt_id, found))


def _checked(said: object, tool: str) -> Reconciled:
    if not isinstance(said, Reconciled) or said.finding not in get_args(Finding):
        kind = type(said).__name__
        return unknown(
            f"the reconciler of tool {tool!r} returned {bounded(kind)}; "
            "return applied(receipt), rejected(reason), not_applied() or unknown()"
        )
    return replace(
        said, receipt=to_json(said.receipt).value, reason=bounded(str(said.reason), 2000)
    )
