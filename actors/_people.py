"""What people say to an invocation: from any process that opens the store, days later as well."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from loopwright.protocol import (
    Answer,
    AnswerApproval,
    CallId,
    Cancel,
    ConfigurationError,
    Input,
    Outcome,
    ProposalDigest,
    RemoteProtocolError,
    bounded,
)

from ._run import Run


class People(ABC):
    """The part of a runtime that takes answers; each is durable when its call returns."""

    @abstractmethod
    def get(self, invocation_id: str) -> Run:
        """Return a handle."""

    @abstractmethod
    async def _say(self, invocation_id: str, message: Input) -> Run:
        """Bring an invocation into memory if it is not, and tell it something."""

    async def approve(
        self,
        invocation_id: str,
        digest: str,
        *,
        by: str,
        calls: Iterable[str] | None = None,
    ) -> Run:
        """Say yes to a proposal, or to some of its calls; it is durable when this returns.

        Works from any process that opens the store. Once every call has an answer, the
        invocation goes on here.

        Args:
            invocation_id: Which invocation.
            digest: Of the proposal, as in `Outcome.proposal`.
            by: Who says yes.
            calls: Call ids; by default all that are not answered yet.

        Raises:
            UnknownProposalError: If nothing waits for an answer under this digest and call.
            AlreadyDecidedError: If it was answered before; the first answer stands.
            LeaseHeldError: If another live worker is at work on it.
        """
        return await self._answer_approval(invocation_id, digest, True, by, calls, "")

    async def deny(
        self,
        invocation_id: str,
        digest: str,
        *,
        by: str,
        reason: str = "",
        calls: Iterable[str] | None = None,
    ) -> Run:
        """Say no to a proposal, or to some of its calls; otherwise as `approve`."""
        return await self._answer_approval(invocation_id, digest, False, by, calls, reason)

    async def answer_approval(
        self,
        invocation_id: str,
        digest: str,
        answers: Mapping[str, bool],
        *,
        by: str,
        reason: str = "",
    ) -> Run:
        """Answer call by call, as with a form a human has filled in.

        Only `True` is a yes and only `False` is a no: nothing else is read as either.

        Raises:
            RemoteProtocolError: If an answer is neither, or there is none at all.
        """
        if not answers:
            raise RemoteProtocolError("answers", "must answer for at least one call")
        for call, said in answers.items():
            if said is not True and said is not False:
                problem = f"must be true or false, not {said!r}"
                raise RemoteProtocolError(f"answers.{bounded(call)}", problem)
        for approved in (False, True):
            calls = [call for call, said in answers.items() if said is approved]
            if calls:
                await self._answer_approval(invocation_id, digest, approved, by, calls, reason)
        return self.get(invocation_id)

    async def _answer_approval(
        self,
        invocation_id: str,
        digest: str,
        approved: bool,
        by: str,
        calls: Iterable[str] | None,
        reason: str,
    ) -> Run:
        if not by.strip():
            raise ConfigurationError("an approval needs a name: say who decides with by=")
        chosen = None if calls is None else tuple(CallId(call) for call in calls)
        message = AnswerApproval(ProposalDigest(digest), approved, by, chosen, reason)
        return await self._say(invocation_id, message)

    async def answer(self, invocation_id: str, text: str, *, by: str) -> Run:
        """Answer the model's question; the invocation then goes on here.

        Raises:
            InvocationStateError: If it does not wait for an answer.
        """
        return await self._say(invocation_id, Answer(text, by))

    async def cancel(
        self, invocation_id: str, reason: str = "", *, by: str = "caller", hard: bool = False
    ) -> Outcome:
        """Cancel an invocation, running here or suspended in the store; wait for its end.

        Raises:
            InvocationStateError: If it is over already.
            LeaseHeldError: If another live worker is at work on it; cancel it there.
        """
        run = await self._say(invocation_id, Cancel(reason, by, hard))
        return await run.outcome()
