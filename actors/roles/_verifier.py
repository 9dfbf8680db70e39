"""The Verifier: one per agent, shared by all its invocations. It alone runs the agent's verifiers.

It never fails open: a verifier that raises, hangs or answers nonsense has not let the claim pass.
A question that was taken back gets no answer, for any answer would be a verdict.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from loopwright.protocol import (
    CancelVerify,
    Claim,
    InvocationId,
    Verification,
    Verified,
    Verify,
    bounded,
    failed,
)

from .._clock import Clock, Timer
from .._work import TEXT_LIMIT, Work, described, first_cause, passes_through
from ..definitions._verifiers import TIMEOUT, AnyVerifier, time_limit, verifier_names
from ..kernel import ActorRef, Request
from ._service import Service, answer
from ._threads import ThreadPool

_Key: TypeAlias = tuple[InvocationId, int]
MAX_THREADS: Final = 32
"""Threads for one blocking verifier; more claims wait their turn, and their time runs."""


@dataclass(slots=True, eq=False)
class _Question:
    """A claim that is being looked at."""

    order: Verify
    name: str
    reply_to: ActorRef[Any]
    task: asyncio.Task[None] | None = None
    timer: Timer | None = None

    @property
    def key(self) -> _Key:
        """What it is found by: the verifiers of a turn are asked one after the other."""
        return self.order.invocation_id, self.order.turn


class Verifier(Service[Verify | CancelVerify]):
    """Shows claims to an agent's verifiers, and answers what they say.

    Args:
        verifiers: The agent's, in their order.
        clock: Time.
        timeout: Seconds for a verifier that has no `timeout` of its own.

    Raises:
        ConfigurationError: If `verifier_names` refuses them.
    """

    def __init__(
        self, verifiers: Sequence[AnyVerifier], clock: Clock, timeout: float = TIMEOUT
    ) -> None:
        super().__init__()
        self._verifiers = tuple(verifiers)
        self._names = verifier_names(self._verifiers)
        self._limits = tuple(time_limit(verifier, timeout) for verifier in self._verifiers)
        self._clock = clock
        self._questions: dict[_Key, _Question] = {}
        self._threads = [ThreadPool(name, MAX_THREADS) for name in self._names]
        self._work = Work()

    def serve(self, request: Request[Verify | CancelVerify]) -> None:
        """Show a claim to a verifier, or give one up."""
        order = request.message
        # A rebuilt Supervisor asks again: nobody waits for the first answer any more.
        earlier = self._questions.get((order.invocation_id, order.turn))
        if earlier is not None:
            self._take_back(earlier)
        if isinstance(order, CancelVerify):
            return
        question = _Question(order, self._names[order.number], request.reply_to)
        self._questions[question.key] = question
        question.task = self._work.start(self._ask(question), request.context)
        until = self._clock.now().monotonic + self._limits[order.number]
        question.timer = self._clock.call_at(until, partial(self._give_up, question))

    async def post_stop(self) -> None:
        """End what still runs; a verifier that does not obey is abandoned."""
        for question in tuple(self._questions.values()):
            self._take_back(question)
        await self._work.close()
        for pool in self._threads:
            pool.close()

    async def _ask(self, question: _Question) -> None:
        try:
            verification = await self._verdict(question)
        finally:
            if question.task is not None:
                self._work.ended(question.task)
        self._answer(question, verification)

    async def _verdict(self, question: _Question) -> Verification:
        """Ask the verifier; whatever happens in it becomes a verdict."""
        try:
            return _checked(await self._said(question.order), question.name)
        except BaseException as error:  # noqa: BLE001 - a verifier is foreign code
            cause = first_cause(error)
            if passes_through(cause, question.task):
                # The loop hands on an interrupt, but not a group that holds one.
                raise cause from None
            return failed(f"verifier {question.name!r} failed with {described(cause)}")

    async def _said(self, order: Verify) -> object:
        number = order.number
        return await self._threads[number].ask(self._verifiers[number], _own(order.claim))

    def _give_up(self, question: _Question) -> None:
        limit = self._limits[question.order.number]
        late = failed(f"verifier {question.name!r} did not answer within {limit} s")
        if self._answer(question, late) and question.task is not None:
            self._work.interrupt(question.task)

    def _take_back(self, question: _Question) -> None:
        self._closed(question)
        if question.task is not None:
            self._work.interrupt(question.task)

    def _answer(self, question: _Question, verification: Verification) -> bool:
        """Answer, unless it has been, or was taken back; return whether this was the answer."""
        if not self._closed(question):
            return False
        number = question.order.number
        done = number == len(self._verifiers) - 1
        said = Verified(question.order.turn, number, question.name, verification, done)
        answer(question.reply_to, said)
        return True

    def _closed(self, question: _Question) -> bool:
        """Close a question; return whether it was open."""
        if self._questions.get(question.key) is not question:
            return False
        del self._questions[question.key]
        if question.timer is not None:
            question.timer.cancel()
        return True


def _own(claim: Claim) -> Claim:
    """Copy what foreign code could change: the answer that counts, the ledger, the caller's data."""
    output, effects, metadata = copy.deepcopy((claim.output, claim.effects, claim.metadata))
    return claim._replace(output=output, effects=effects, metadata=metadata)


def _checked(said: object, name: str) -> Verification:
    if not isinstance(said, Verification):
        kind = type(said).__name__
    elif type(said.passed) is not bool or type(said.reason) is not str:
        kind = f"a verification of {type(said.passed).__name__} and {type(said.reason).__name__}"
    else:
        reason = _shown(said.reason)
        if not (said.passed or reason.strip()):
            reason = f"verifier {name!r} gives no reason"
        return Verification(said.passed, reason)
    return failed(f"verifier {name!r} returned {bounded(kind)}; return passed() or failed(reason)")


def _shown(text: str) -> str:
    """Make a reason fit to be journaled and shown: bounded, but with its lines."""
    if len(text) > TEXT_LIMIT:
        text = f"{text[:TEXT_LIMIT]}… ({len(text)} characters)"
    return "\n".join(bounded(line, len(line)) for line in text.split("\n"))
