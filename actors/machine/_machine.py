"""The state machine of one invocation: what it takes, and what people and time make it do.

Pure: no await, no clock, no randomness; time arrives with each message. `protocol.TABLE` says
which message has a meaning in which state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from loopwright.protocol import (
    NO_USAGE,
    NOBODY,
    TABLE,
    AlreadyDecidedError,
    Answer,
    AnswerApproval,
    ApprovalDecided,
    ApprovalExpiredError,
    ApprovalRequested,
    Assessed,
    AttemptFailed,
    CallAnswer,
    CallId,
    Cancel,
    ChildRested,
    CommitFailed,
    Committed,
    Compacted,
    Decided,
    DecideFailed,
    DecideInstead,
    Executed,
    Expire,
    Found,
    Grant,
    Input,
    InvocationStateError,
    Late,
    LeaseLost,
    NotDispatched,
    Observed,
    OpenTurn,
    Output,
    Proposal,
    ProtocolError,
    ProtocolViolation,
    Reason,
    Record,
    Recover,
    Resumed,
    RunState,
    ServiceFailed,
    Settle,
    Start,
    Tick,
    TurnProposed,
    UnknownProposalError,
    Validated,
    Verified,
    Wake,
    bounded,
)

from .._clock import Instant
from ._settling import Settling

_FROM_PEOPLE = frozenset({Grant, Settle, DecideInstead, Expire, Wake})
_PLACED = frozenset({Start, Recover, *_FROM_PEOPLE})
"""What is out of place in some states that take it."""
_REQUESTS: Mapping[type[Input], str] = {
    Cancel: "cancel",
    Answer: "answer",
    Settle: "settle",
    Grant: "resume",
    Recover: "recover",
    DecideInstead: "decide",
    Expire: "expire",
    Wake: "wake it for",
}
"""What is asked for without knowing where the invocation has come to meanwhile."""


class Machine(Settling):
    """The whole machine; see `Core` for what it is made of."""

    __slots__ = ()

    def on(self, message: Input, now: Instant) -> tuple[Output, ...]:
        """Handle one message; what comes back is to be sent, in this order.

        Raises:
            ProtocolViolation: For a message the state has no meaning for; nothing has changed.
            InvocationStateError: For a request that can't be granted now; nothing has changed.
        """
        self._out = []
        self.trail = []
        self._now = now
        kind = type(message)
        if self._late(message):
            return (Late(kind.__name__),)
        allowed = TABLE[self.state].get(kind)
        if allowed is None or ((self._next_seq == 1 or kind in _PLACED) and self._misplaced(kind)):
            raise self._refusal(message)
        self._allowed = allowed
        self._handle(message)
        return tuple(self._out)

    def _handle(self, message: Input) -> None:
        match message:
            case Executed():
                self._on_executed(message)
            case Committed():
                self._on_committed()
            case Decided():
                self._on_decided(message)
            case AttemptFailed():
                self._on_attempt_failed(message)
            case Validated():
                self._on_validated(message)
            case Assessed():
                self._on_assessed(message)
            case Observed():
                self._on_observed(message)
            case ChildRested():
                self._on_child_rested(message)
            case Verified():
                self._on_verified(message)
            case Compacted():
                self._on_compacted(message)
            case Tick():
                self._on_tick()
            case Start():
                self._on_start(message)
            case Recover():
                self._on_recover()
            case Cancel():
                self._on_cancel(message)
            case AnswerApproval():
                self._on_answer_approval(message)
            case Answer():
                self._on_answer(message)
            case Grant():
                self._on_grant(message)
            case DecideInstead():
                self._on_decide_instead(message)
            case Expire():
                self._on_expire(message)
            case Wake():
                self._on_wake(message)
            case DecideFailed():
                self._on_decide_failed(message)
            case NotDispatched():
                self._on_not_dispatched(message)
            case LeaseLost():
                self._on_lease_lost(message.error)
            case Found():
                self._on_found(message)
            case Settle():
                self._on_settle(message)
            case CommitFailed():
                self._on_commit_failed(message)
            case ServiceFailed():
                self._on_service_failed(message)
            case _:
                assert_never(message)

    def _late(self, message: Input) -> bool:
        """Whether it answers something nobody waits for any more."""
        match message:
            case Executed() | NotDispatched():
                batch = self._batch
                if batch is None or message.turn != self.turn:
                    return True
                return message.attempt_id not in batch.running
            case Found():
                batch = self._batch
                if batch is None or message.turn != self.turn:
                    return True
                return message.attempt_id not in batch.asking
            case Committed():
                return not self._outstanding or self._outstanding[0].last_seq != message.last_seq
            case Decided() | AttemptFailed() | DecideFailed():
                return message.turn != self._deciding
            case ChildRested():
                batch = self._batch
                if batch is None or message.turn != self.turn:
                    return True
                return message.attempt_id not in {*batch.running, *batch.asking}
            case Verified():
                return (message.turn, message.number) != (self.turn, self._verifying)
            case Compacted():
                return message.turn != self._compacting
            case Validated():
                return message.turn != self._validating
            case Assessed():
                return message.turn != self._assessing
            case Observed():
                return message.turn != self._observing
            case CommitFailed(last_seq=seq):
                return all(commit.last_seq != seq for commit in self._outstanding)
            case Tick() | LeaseLost() | ServiceFailed():
                return self.state.at_rest
            case _:
                return False

    def _misplaced(self, kind: type[Input]) -> bool:
        """Whether it begins a second time, or there is nothing here to go on from."""
        if self._next_seq == 1:
            return kind is not Start
        return (
            kind is Start
            or (kind is Recover and self.folded.protocol.seq == 0)
            or (kind in _FROM_PEOPLE and self._store_lost)
        )

    def _refusal(self, message: Input) -> ProtocolError:
        where, p = f"invocation {self.invocation_id}", self.folded.protocol
        if isinstance(message, AnswerApproval):
            if message.digest in p.decided:
                return AlreadyDecidedError(
                    f"{where}: this proposal was answered before, or has expired; that stands"
                )
            waiting = self.folded.proposal()
            if waiting is not None:
                shown = bounded(waiting.digest[:12])
                return UnknownProposalError(f"{where} waits for another proposal, {shown}")
            return UnknownProposalError(f"{where}: no proposal is waiting for an answer")
        wanted = _REQUESTS.get(type(message))
        if wanted is None:
            kind = type(message).__name__
            return ProtocolViolation(f"{where} is {self.state}: {kind} has no meaning there")
        if p.status == "ended":
            return InvocationStateError(
                f"{where} is over ({p.reason}); there is nothing to {wanted}"
            )
        why = "running" if p.reason is None else f"suspended: {p.reason}"
        if self.state is RunState.CREATED:
            why = "to be recovered: its worker is gone"
        return InvocationStateError(f"{where} is {why}; there is nothing to {wanted} now")

    # ------------------------------------------------------------ beginning and going on
    def _on_start(self, message: Start) -> None:
        self._begin_activity()
        self._commit([message.started], self._prepare, self._head(None))

    def _on_recover(self) -> None:
        self._begin_activity()
        cancelling = self.folded.protocol.cancelling
        if cancelling is not None:
            self._stop(Reason.CANCELLED, cancelling.reason or None)
        else:
            self._go_on()

    def _on_committed(self) -> None:
        done = self._outstanding.pop(0)
        for entry in done.entries:
            self.folded.apply(entry)
        if self.folded.protocol.turn >= self.turn:
            # What was known of its writes is durable now, and its reply is history.
            self._known.clear()
            self._proposal = None
        self.turn = self.folded.protocol.turn + 1
        if self.state is RunState.CANCELLING:
            self._stopped()
        elif done.then is not None:
            done.then()

    def _on_tick(self) -> None:
        if self.state is RunState.CANCELLING:
            if self._due(self._grace_until):
                self._grace_over()
        elif self._ending:
            pass
        elif (over := self._out_of_time()) is not None:
            self._stop(*over)
        elif self.state is RunState.EXECUTE_TOOL or self.state is RunState.RECONCILE:
            if self._due(self._linger_due) and (records := self._write_ahead()):
                self._commit(records)
            retry = self.state is RunState.EXECUTE_TOOL and self._due(self._retry_due)
            if self._batch is not None and retry:
                self._retry_due = None
                self._advance(self._batch)
        elif self._due(self._approval_until):
            self._approval_until = None
            open_turn = self.folded.protocol.open
            if open_turn is not None and open_turn.request is not None:
                if self._expired(open_turn.request):
                    self._expire(open_turn, NOBODY)
                else:
                    self._suspend_for_approval([], open_turn.request.digest)

    # ------------------------------------------------------------ what people say
    def _on_grant(self, message: Grant) -> None:
        reason = self.folded.protocol.reason
        if self.state is RunState.SUSPENDED and reason is not Reason.RECONCILIATION_REQUIRED:
            msg = f"invocation {self.invocation_id} is suspended: {reason}; say what it waits for"
            raise InvocationStateError(msg)
        if reason is None or not reason.resumable:
            msg = f"invocation {self.invocation_id} ended with {reason}, which can't be resumed"
            raise InvocationStateError(msg)
        self._check_free()
        self._enter(RunState.COMPACT_OR_SAVE)
        resumed = Resumed(message.by, self._now.wall, grant=message.budget)
        self._commit([resumed], self._go_on, self._head(None))

    def _on_answer(self, message: Answer) -> None:
        p = self.folded.protocol
        if p.open is not None and (children := p.open.children()):
            msg = f"invocation {self.invocation_id} waits for its child {children[0]}: answer that"
            raise InvocationStateError(msg)
        if p.reason is not Reason.CLARIFICATION_REQUIRED:
            reason = p.reason
            waits = (
                "an approval" if reason is Reason.APPROVAL_REQUIRED else f"something else: {reason}"
            )
            msg = f"invocation {self.invocation_id} waits for {waits}, not for a text"
            raise InvocationStateError(msg)
        self._enter(RunState.COMPACT_OR_SAVE)
        resumed = Resumed(message.by, self._now.wall, answer=message.text)
        self._commit([resumed], self._go_on, self._head(None))

    def _on_decide_instead(self, message: DecideInstead) -> None:
        """A person takes one step: it is a turn like any other, and costs no tokens."""
        p = self.folded.protocol
        where = f"invocation {self.invocation_id}"
        if p.open is not None:
            msg = f"{where} is in the middle of turn {p.open.number}; finish that first: {p.reason}"
            raise InvocationStateError(msg)
        self._check_free()
        self._enter(RunState.COMPACT_OR_SAVE)
        digest = self.folded.context_digest
        proposal = Proposal(message.decision, NO_USAGE, context_digest=digest, by=message.by)
        now = self._now.wall
        records: list[Record] = [Resumed(message.by, now), TurnProposed(self.turn, proposal, now)]
        self._commit(records, self._go_on, self._head(None))

    def _check_free(self) -> None:
        """Refuse to let a child go on after its end: its parent has its account, and has closed it."""
        parent = self.started.parent
        if parent is not None and self.folded.protocol.status == "ended":
            msg = (
                f"invocation {self.invocation_id} is a child and over; "
                f"have its parent {parent.invocation_id} call again"
            )
            raise InvocationStateError(msg)

    def _on_wake(self, message: Wake) -> None:
        p = self.folded.protocol
        if p.open is None or message.child not in p.open.children():
            msg = f"invocation {self.invocation_id} does not wait for child {message.child}"
            raise InvocationStateError(msg)
        self._enter(RunState.COMPACT_OR_SAVE)
        resumed = Resumed(NOBODY, self._now.wall)
        self._commit([resumed], self._go_on, self._head(None))

    def _expired(self, request: ApprovalRequested) -> bool:
        return request.expires_at is not None and self._now.wall >= request.expires_at

    def _on_expire(self, message: Expire) -> None:
        turn = self.folded.protocol.open
        if turn is None or turn.request is None or not turn.unanswered() or self._answering:
            msg = f"invocation {self.invocation_id}: no proposal is waiting for an answer"
            raise InvocationStateError(msg)
        if not self._expired(turn.request):
            msg = f"invocation {self.invocation_id}: its proposal has not expired"
            raise InvocationStateError(msg)
        self._expire(turn, message.by)

    def _expire(self, turn: OpenTurn, by: str) -> None:
        """Nobody has answered in time, which is no human's no: refuse, and let it go on."""
        assert turn.request is not None
        calls = turn.unanswered()
        answers = tuple([CallAnswer(call_id, approved=False) for call_id in calls])
        digest, now = turn.request.digest, self._now.wall
        records: list[Record] = [ApprovalDecided(self.turn, digest, answers, by, now, expired=True)]
        self._answering |= set(calls)
        suspended = self._suspending or self.folded.protocol.status == "suspended"
        if suspended:
            records.append(Resumed(by, now))
        self._enter(RunState.WAIT_APPROVAL)
        self._commit(records, self._answered, self._head(None) if suspended else None)

    def _on_answer_approval(self, message: AnswerApproval) -> None:
        turn = self.folded.protocol.open
        if turn is None or turn.request is None or turn.request.digest != message.digest:
            raise self._refusal(message)
        if self._expired(turn.request):
            msg = f"invocation {self.invocation_id}: this proposal has expired; nothing of it runs"
            raise ApprovalExpiredError(msg)
        calls = self._answerable(turn, message)
        answered = ApprovalDecided(
            self.turn,
            message.digest,
            tuple(
                CallAnswer(call_id, message.approved, message.edits.get(call_id))
                for call_id in calls
            ),
            message.by,
            self._now.wall,
            message.reason,
        )
        records: list[Record] = [answered]
        self._answering |= set(calls)
        complete = self._answering.issuperset(turn.unanswered())
        if complete:
            self._approval_until = None
        suspended = self._suspending or self.folded.protocol.status == "suspended"
        if complete and suspended:
            records.append(Resumed(message.by, self._now.wall))
        self._enter(RunState.WAIT_APPROVAL)
        head = self._head(None) if complete and suspended else None
        if head is None and self.folded.protocol.status == "suspended":
            head = self._head_at_rest()
        self._commit(records, self._answered, head)

    def _answerable(self, turn: OpenTurn, message: AnswerApproval) -> tuple[CallId, ...]:
        """Check that nobody has answered for these calls, and that somebody was asked."""
        where = f"invocation {self.invocation_id}"
        assert turn.request is not None
        waiting = [c for c in turn.unanswered() if c not in self._answering]
        calls = tuple(waiting) if message.calls is None else message.calls
        asked = {ask.call_id for ask in turn.request.asks}
        for call_id in (*calls, *message.edits):
            if call_id not in asked:
                msg = f"{where}: call {call_id!r} is not waiting for an approval"
                raise UnknownProposalError(msg)
        if not calls or not set(calls) <= set(waiting) or not message.edits.keys() <= set(calls):
            msg = f"{where}: this proposal was answered before, and the first answer stands"
            raise AlreadyDecidedError(msg)
        return calls
