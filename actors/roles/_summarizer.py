"""The Summarizer: one per agent. It runs the agent's `Context.summarize`, which is foreign code.

Whatever happens is an answer: without a summary, turns are only left out.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from loopwright.policy import Summary, ToSummarize
from loopwright.protocol import Compact, Compacted, check_json, cut_text

from .._clock import Clock, Timer
from .._work import Work, described, first_cause, passes_through
from ..definitions._agent import Agent
from ..kernel import ActorRef, Request
from ._replies import is_usage
from ._service import Service, answer
from ._threads import ThreadPool

MAX_THREADS: Final = 4
"""Threads for the blocking `summarize` of one agent."""


@dataclass(slots=True, eq=False)
class _Question:
    """An order that has not been answered."""

    order: Compact
    reply_to: ActorRef[Any]
    task: asyncio.Task[None] | None = None
    timer: Timer | None = None
    answered: bool = False


class Summarizer(Service[Compact]):
    """Makes summaries; each order is answered exactly once.

    Args:
        agent: Whose; its `Context` says how and how long.
        clock: Time.
    """

    def __init__(self, agent: Agent, clock: Clock) -> None:
        super().__init__()
        self._context = agent.policy.context
        self._clock = clock
        self._work = Work()
        self._threads = ThreadPool(f"{agent.name}-summarize", MAX_THREADS)

    def serve(self, request: Request[Compact]) -> None:
        """Begin to make a summary."""
        question = _Question(request.message, request.reply_to)
        question.task = self._work.start(self._put(question), request.context)
        until = self._clock.now().monotonic + self._context.summary_timeout
        question.timer = self._clock.call_at(until, partial(self._give_up, question))

    async def post_stop(self) -> None:
        """End what still runs; what does not obey is abandoned."""
        self._threads.close()
        await self._work.close()

    async def _put(self, question: _Question) -> None:
        order, task = question.order, asyncio.current_task()
        try:
            said = _checked(await self._ask(order), self._context.max_result_chars)
            answered = Compacted(order.turn, order.upto, said.text, said.usage, said.endpoint)
        except asyncio.CancelledError:
            answered = Compacted(order.turn, order.upto, "", error="it was cancelled")
        except BaseException as error:  # noqa: BLE001 - what summarizes is foreign code
            cause = first_cause(error)
            if passes_through(cause, task):
                raise cause from None
            answered = Compacted(order.turn, order.upto, "", error=described(cause))
        finally:
            if question.task is not None:
                self._work.ended(question.task)
        self._answer(question, answered)

    async def _ask(self, order: Compact) -> object:
        """Ask for it.

        Raises:
            BaseException: Whatever it raises.
        """
        function, limit = self._context.summarize, self._context.max_result_chars
        assert function is not None  # `compact_due` says so
        turns = order.history.view(order.summarized, order.upto, limit=limit)
        return await self._threads.ask(function, ToSummarize(order.goal, turns, order.summary))

    def _give_up(self, question: _Question) -> None:
        if question.task is not None and not question.answered:
            self._work.interrupt(question.task)
            order = question.order
            error = f"it took longer than {self._context.summary_timeout:g} s"
            self._answer(question, Compacted(order.turn, order.upto, "", error=error))

    def _answer(self, question: _Question, compacted: Compacted) -> None:
        if question.answered:
            return
        question.answered = True
        if question.timer is not None:
            question.timer.cancel()
        answer(question.reply_to, compacted)


def _checked(said: object, limit: int) -> Summary:
    """Take nothing about it for granted: all of it goes into the journal.

    Raises:
        TypeError: If it is no text and no `Summary`, or has no words.
        RemoteProtocolError: If it has characters that are none.
    """
    summary = Summary(said) if isinstance(said, str) else said
    if not (isinstance(summary, Summary) and is_usage(summary.usage)):
        kind = type(said).__name__
        msg = f"summarize returned {kind}; return a text, or a Summary of a text and its usage"
        raise TypeError(msg)
    for text in (summary.text, summary.endpoint):
        if type(text) is not str:
            msg = f"summarize returned a Summary with a {type(text).__name__}; give texts"
            raise TypeError(msg)
        check_json(text, where="summary")
    if not summary.text.strip():
        raise TypeError("summarize returned a text without words")
    return summary._replace(text=cut_text(summary.text, limit))
