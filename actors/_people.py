"""What people say to an invocation: from any process that opens the store, days later as well."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from loopwright.protocol import (
    NOBODY,
    RECONCILER,
    AlreadyDecidedError,
    Answer,
    AnswerApproval,
    ApprovalExpiredError,
    CallId,
    Cancel,
    CancelNote,
    ConfigurationError,
    DecideInstead,
    Decision,
    Expire,
    Input,
    InvocationId,
    InvocationStateError,
    JsonObject,
    LeaseHeldError,
    Outcome,
    ProposalDigest,
    Reconciled,
    RemoteProtocolError,
    Settle,
    UnknownProposalError,
    bounded,
)

from ._run import Run
from ._said import check_edits, check_said, chosen
from .machine._results import LATE_RESULT

_NO_EDITS: Final[Mapping[CallId, JsonObject]] = MappingProxyType({})


class People(ABC):
    """The part of a runtime that takes answers; each is durable when its call returns.

    What has another type than it is declared with is refused with `RemoteProtocolError`, which
    names it, and a blank `by` with `ConfigurationError`; the invocation waits on as it did.
    """

    @abstractmethod
    def get(self, invocation_id: str) -> Run:
        """Return a handle."""

    @abstractmethod
    async def _say(self, invocation_id: str, message: Input) -> Run:
        """Bring an invocation into memory if it is not, and tell it something."""

    @abstractmethod
    async def _check_edits(
        self, invocation_id: str, digest: str, edits: Mapping[str, JsonObject]
    ) -> Mapping[CallId, JsonObject]:
        """Check edited arguments; return them as they will run."""

    @abstractmethod
    async def _check_undelivered(self, invocation_id: str, call_id: str, turn: int | None) -> None:
        """Refuse to settle what a relay has settled: the journal does not know of it."""

    @abstractmethod
    async def _waiting_children(self, invocation_id: str) -> tuple[InvocationId, ...]:
        """List the children because of which it waits."""

    @abstractmethod
    async def _check_decision(self, invocation_id: str, decision: object) -> Decision:
        """Parse and judge what a person decides."""

    @abstractmethod
    async def _check_approver(self, invocation_id: str, message: AnswerApproval) -> None:
        """Refuse an approver whom policy does not let approve what would run, edits included."""

    @abstractmethod
    async def _check_answers(
        self, invocation_id: str, digest: str, answers: Mapping[CallId, bool], by: str
    ) -> None:
        """Refuse answers of which one would be refused, before any of them is told."""

    @abstractmethod
    async def _cancel_elsewhere(self, note: CancelNote) -> Outcome | None:
        """Have another worker cancel; return how it ended, or `None` if nobody owns it now."""

    async def approve(
        self,
        invocation_id: str,
        digest: str,
        *,
        by: str,
        calls: Iterable[str] | None = None,
        edits: Mapping[str, JsonObject] | None = None,
    ) -> Run:
        """Say yes to a proposal, or to some of its calls; it is durable when this returns.

        Works from any process that opens the store. Once every call has an answer, the
        invocation goes on here.

        Args:
            invocation_id: Which invocation.
            digest: Of the proposal, as in `Outcome.proposal`.
            by: Who says yes.
            calls: Call ids; by default all that are not answered yet.
            edits: By call id, arguments with which an approved call is to run instead. They are
                checked against its tool and today's policy, as proposed ones are.

        Raises:
            RemoteProtocolError: If edited arguments don't fit, or are denied, or `calls` names
                none; it still waits.
            UnknownProposalError: If nothing waits for an answer under this digest and call.
            AlreadyDecidedError: If it was answered before; the first answer stands.
            ApproverRefusedError: If policy does not let them approve what would run.
            LeaseHeldError: If another live worker is at work on it.
        """
        checked = _NO_EDITS
        if edits is not None:
            check_edits(edits)
        if edits:
            checked = await self._check_edits(invocation_id, digest, edits)
        return await self._answer_approval(invocation_id, digest, True, by, calls, "", checked)

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

        Only `True` is a yes and only `False` is a no: nothing else is read as either. If one of
        the answers is refused, none of them counts. All are checked first, then the noes become
        durable, then the yeses. After a crash in between the noes stand, and the other calls
        still wait for an answer.

        Raises:
            RemoteProtocolError: If an answer is neither, or there is none at all.
            UnknownProposalError: If nothing waits for an answer under this digest, or one call.
            AlreadyDecidedError: If a call was answered before; the first answer stands.
            ApproverRefusedError: If policy does not let them approve one of the yeses.
            LeaseHeldError: If another live worker is at work on it.
        """
        if not answers:
            raise RemoteProtocolError("answers", "must answer for at least one call")
        for call, said in answers.items():
            if said is not True and said is not False:
                problem = f"must be true or false, not {said!r}"
                raise RemoteProtocolError(f"answers.{bounded(call)}", problem)
        named = {call: answers[call] for call in chosen(answers) or ()}
        await self._check_answers(invocation_id, digest, named, by)
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
        edits: Mapping[CallId, JsonObject] = _NO_EDITS,
    ) -> Run:
        meant = chosen(calls)
        for call_id in edits:
            if meant is not None and call_id not in meant:
                where, problem = f"edits.{bounded(call_id)}", "edits a call that is not approved"
                raise RemoteProtocolError(where, problem)
        message = AnswerApproval(ProposalDigest(digest), approved, by, meant, reason, edits)
        check_said(message)
        try:
            return await self._say_in_tree(invocation_id, message)
        except ApprovalExpiredError:
            # Late answers count for nothing; but it need not wait any longer.
            with suppress(InvocationStateError):
                await self._say_in_tree(invocation_id, Expire(NOBODY))
            raise

    async def answer(self, invocation_id: str, text: str, *, by: str) -> Run:
        """Answer the model's question, or that of a child; the invocation then goes on here.

        Raises:
            InvocationStateError: If it does not wait for an answer.
        """
        return await self._say_in_tree(invocation_id, Answer(text, by))

    async def decide(self, invocation_id: str, decision: object, *, by: str) -> Run:
        """Take one step in the model's place: of an invocation that is stuck, or waits for a text.

        The decision is validated, authorized, journaled and charged as a step like any other;
        after it the model decides again, as far as the budget goes.

        Args:
            invocation_id: One that is suspended with a question, or has failed between two turns.
            decision: As a model gives it: a typed decision, a mapping, or JSON.
            by: Who decides.

        Raises:
            RemoteProtocolError: If it is no decision, or unusable; nothing has changed.
            InvocationStateError: If it is not one that a person can take over.
        """
        parsed = await self._check_decision(invocation_id, decision)
        return await self._say(invocation_id, DecideInstead(parsed, by))

    async def _say_in_tree(self, invocation_id: str, message: Input) -> Run:
        """Say something to an invocation; or to the child because of which it waits."""
        if isinstance(message, AnswerApproval) and message.approved:
            await self._check_approver(invocation_id, message)
        try:
            return await self._say(invocation_id, message)
        except InvocationStateError as error:
            problem = error
        for child in await self._waiting_children(invocation_id):
            try:
                await self._say_in_tree(child, message)
                return self.get(invocation_id)
            except InvocationStateError as error:
                if not isinstance(error, UnknownProposalError):
                    problem = error
        raise problem

    async def settle(
        self,
        invocation_id: str,
        call_id: str,
        found: Reconciled,
        *,
        by: str,
        turn: int | None = None,
    ) -> Run:
        """Say what became of a write whose outcome is unknown; it is durable when this returns.

        An invocation that waits for it goes on here, once all its unknown writes are settled;
        `not_applied()` lets the write be dispatched again. For a write of an earlier turn, or of
        an invocation that is over, the ledger and the history are corrected. `applied` or
        `rejected` also take a write out of the outbox that is not delivered yet.

        Args:
            invocation_id: Which invocation.
            call_id: Which call, as in `Outcome.unresolved_effects`.
            found: `applied(receipt)`, `rejected(reason)`, `not_applied()`, or `unknown(reason)`
                where nobody will ever know, so that it goes on without.
            by: Who says so.
            turn: Which turn's, where turns share a call id; by default the last one's.

        Raises:
            AlreadyDecidedError: If it is settled; the first word stands.
            InvocationStateError: If there is no such call.
            LeaseHeldError: If another live worker is at work on it.
        """
        message = Settle(CallId(call_id), found, by, turn)
        check_said(message)
        if by in (RECONCILER, LATE_RESULT):
            msg = f"nobody is called {by!r}: that name is the runtime's; say who knows with by="
            raise ConfigurationError(msg)
        try:
            await self._check_undelivered(invocation_id, call_id, turn)
        except AlreadyDecidedError:
            # It may be the call of a child that is meant, under the same id.
            if not await self._waiting_children(invocation_id):
                raise
        return await self._say_in_tree(invocation_id, message)

    async def cancel(
        self, invocation_id: str, reason: str = "", *, by: str = "caller", hard: bool = False
    ) -> Outcome:
        """Cancel an invocation, wherever it is; wait for its end.

        Where another live worker is at work on it, the cancel is kept in the store for that one,
        or for whoever follows if it dies, this runtime among them.

        Raises:
            InvocationStateError: If it is over already.
        """
        note = CancelNote(InvocationId(invocation_id), reason, by)
        while True:
            try:
                run = await self._say(invocation_id, Cancel(reason, by, hard))
            except LeaseHeldError:
                outcome = await self._cancel_elsewhere(note)
                if outcome is not None:
                    return outcome
            else:
                return await run.outcome()
