"""What every step of the machine rests on: the table, the journal, and time.

Pure: messages in, messages out. What is durable is folded into `InvocationState`; what is not
durable yet lives only here and dies with the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from loopwright.policy import Policy
from loopwright.protocol import (
    PAYLOAD_LIMIT,
    TABLE,
    Accepted,
    Append,
    CallId,
    Commit,
    Delivery,
    EffectEntry,
    EffectKey,
    EffectReconciled,
    Ending,
    Entered,
    Entry,
    Fault,
    Head,
    InvocationEnded,
    InvocationState,
    JsonValue,
    Lease,
    NeedsApproval,
    NoticeInjected,
    Outcome,
    Output,
    Proposal,
    ProtocolViolation,
    Reason,
    Record,
    Rested,
    RunState,
    Snapshot,
    Spent,
    Suspended,
    ToolResult,
    TurnCommitted,
    effects_of,
    encode_record,
    encode_snapshot,
    ending_status,
    payloads_of,
)

from .._clock import Instant
from ._batch import Batch

LINGER = 0.005
"""Seconds a record nobody waits for waits for company."""
SNAPSHOT_EVERY = 32
"""Turns after which a snapshot goes along with the next commit."""

_AFTER_ENDING = {
    Ending.FINISHED: RunState.FINISHED,
    Ending.FAILED: RunState.FAILED,
    Ending.CANCELLED: RunState.CANCELLED,
    Ending.SUSPENDED: RunState.SUSPENDED,
}


_PASSING = {state: row.get(Entered, frozenset()) | {state} for state, row in TABLE.items()}
"""Where a state that has just been entered may lead at once."""


class _Outstanding(NamedTuple):
    """A commit on its way to the store."""

    last_seq: int
    entries: tuple[Entry, ...]
    then: Callable[[], None] | None


class Core:
    """State, journal and time of one invocation."""

    __slots__ = (
        "_active_before",
        "_active_since",
        "_allowed",
        "_answering",
        "_approval_until",
        "_asked",
        "_assessing",
        "_batch",
        "_deadline",
        "_deciding",
        "_ending",
        "_findings",
        "_grace_until",
        "_known",
        "_lease",
        "_linger_due",
        "_next_seq",
        "_notice",
        "_now",
        "_observing",
        "_out",
        "_outstanding",
        "_policy",
        "_proposal",
        "_proposed",
        "_retry_due",
        "_settling",
        "_snapshot_at",
        "_stop_cause",
        "_stop_reason",
        "_store_lost",
        "_suspending",
        "_unsaved",
        "_validating",
        "_verdict",
        "folded",
        "invocation_id",
        "started",
        "state",
        "trail",
        "turn",
    )

    def __init__(
        self,
        folded: InvocationState,
        policy: Policy,
        *,
        worker: str,
        fence: int,
        known: Iterable[ToolResult] = (),
    ) -> None:
        p = folded.protocol
        self.folded = folded
        self.started = p.started
        """What was pinned at the start."""
        self.invocation_id = p.started.invocation_id
        self.turn = p.turn + 1
        """The number of the turn being worked on."""
        self.state = RunState.CREATED if p.reason is None else _AFTER_ENDING[p.reason.outcome]
        self.trail: list[RunState] = []
        """States entered while handling the last message, in order."""
        self._policy = policy
        self._lease = Lease(self.invocation_id, worker, fence)
        self._known = {result.call_id: result for result in known}
        """Results of writes of the open turn that this process has and could not store."""
        self._next_seq = p.seq + 1
        self._snapshot_at = (p.turn // SNAPSHOT_EVERY + 1) * SNAPSHOT_EVERY
        self._outstanding: list[_Outstanding] = []
        self._store_lost = False
        self._out: list[Output] = []
        self._allowed: frozenset[RunState] = frozenset()
        self._now = Instant(0.0, 0.0)
        self._forget()

    def _forget(self) -> None:
        """Know no more than the journal says: how a machine begins, and how it rests."""
        self._active_before = self.folded.protocol.active_seconds
        self._active_since: float | None = None
        self._deadline: float | None = None
        self._linger_due: float | None = None
        self._grace_until: float | None = None
        self._retry_due: float | None = None
        self._approval_until: float | None = None
        self._deciding: int | None = None
        self._validating: int | None = None
        self._assessing: int | None = None
        self._observing: int | None = None
        self._notice: str | None = None
        self._proposal: Proposal | None = None
        self._proposed = False
        self._batch: Batch | None = None
        self._verdict: Accepted | NeedsApproval | None = None
        self._answering: frozenset[CallId] = frozenset()
        self._settling: frozenset[tuple[int, CallId]] = frozenset()
        """Writes, by turn and call, on which a word is on its way to the store."""
        self._findings: list[EffectReconciled] = []
        """What was said of writes of the open turn, and no record holds yet."""
        self._asked = False
        """Whether those who can be asked about unknown outcomes were, on the way to the end."""
        self._unsaved: dict[CallId, ToolResult] = {}
        self._suspending = False
        self._ending = False
        self._stop_reason: Reason | None = None
        self._stop_cause: str | None = None

    # ------------------------------------------------------------ the table
    def _enter(self, state: RunState) -> None:
        """Go to a state the table allows after the present trigger."""
        if state not in self._allowed:
            msg = f"{self.invocation_id}: {self.state} may not lead to {state} here"
            raise ProtocolViolation(msg)
        if state is not self.state:
            self.state = state
            self.trail.append(state)
        self._allowed = _PASSING[state]

    # ------------------------------------------------------------ the journal
    def _commit(
        self,
        records: Sequence[Record],
        then: Callable[[], None] | None = None,
        head: Head | None = None,
        outbox: tuple[Delivery, ...] = (),
        concluded: tuple[EffectKey, ...] = (),
    ) -> None:
        """Send records to the store; `then` runs once they are durable."""
        entries = tuple([Entry(record, encode_record(record)) for record in records])
        lines = tuple([entry.line for entry in entries])
        large = max(map(len, lines)) > PAYLOAD_LIMIT
        first, self._next_seq = self._next_seq, self._next_seq + len(entries)
        self._outstanding.append(_Outstanding(self._next_seq - 1, entries, then))
        self._out.append(
            Commit(
                Append(
                    self.invocation_id,
                    self._lease.fence,
                    first,
                    lines,
                    self._lease.worker,
                    head,
                    _effects(records),
                    outbox,
                    concluded,
                    self._due_snapshot(),
                    payloads_of(entries) if large else (),
                )
            )
        )

    def _due_snapshot(self) -> Snapshot | None:
        """Make a snapshot of what is durable, between turns, now and then."""
        p = self.folded.protocol
        if p.turn < self._snapshot_at or p.open is not None or p.status != "running":
            return None
        self._snapshot_at = (p.turn // SNAPSHOT_EVERY + 1) * SNAPSHOT_EVERY
        return Snapshot(p.seq, encode_snapshot(self.folded))

    def _head(self, reason: Reason | None, detail: str = "") -> Head:
        started = self.started
        status = "running" if reason is None else ending_status(reason)
        return Head(
            started.agent, status, reason, self._now.wall, started.goal, started.key, detail
        )

    @property
    def _open_proposal(self) -> Proposal:
        """The reply this turn is about."""
        assert self._proposal is not None
        return self._proposal

    def _notices(self) -> list[NoticeInjected]:
        """What the model was told before this turn, to be journaled with it, once."""
        if self._notice is None:
            return []
        notice, self._notice = self._notice, None
        return [NoticeInjected(self.turn, "soft_stop", notice, self._now.wall)]

    def _committed_turn(
        self, batch: Batch | None = None, *, fault: Fault | None = None
    ) -> TurnCommitted:
        """Make the one event of this turn, complete in itself."""
        return TurnCommitted(
            self.turn,
            self._open_proposal,
            batch.in_order() if batch is not None else (),
            batch.dispatched if batch is not None else 0,
            # Microseconds: short to write, and rounded here, so that live is as recovered.
            round(self._active_seconds(), 6),
            round(self._now.wall, 6),
            fault,
        )

    # ------------------------------------------------------------ time
    def _begin_activity(self) -> None:
        """Start the running-time clock, and fix the deadline on the monotonic one."""
        if self._active_since is None:
            self._active_since = self._now.monotonic
        deadline = self.folded.protocol.budget.deadline
        if deadline is not None and self._deadline is None:
            self._deadline = self._now.monotonic + deadline.timestamp() - self._now.wall

    def _pause_activity(self) -> None:
        """Stop the running-time clock: somebody is waited for."""
        self._active_before = self._active_seconds()
        self._active_since = None

    def _active_seconds(self) -> float:
        """Running time so far: no waiting for people, no downtime."""
        if self._active_since is None:
            return self._active_before
        return self._active_before + self._now.monotonic - self._active_since

    @property
    def _active_until(self) -> float | None:
        """When the running time is used up, on the monotonic clock."""
        limit = self.folded.protocol.budget.max_active_seconds
        if limit is None or self._active_since is None:
            return None
        return self._active_since + limit - self._active_before

    def _out_of_time(self) -> tuple[Reason, str] | None:
        """Say which limit of time has been reached, if any."""
        if self._due(self._deadline):
            return Reason.DEADLINE_EXCEEDED, "the deadline has passed"
        if self._due(self._active_until):
            return Reason.TIME_BUDGET_EXHAUSTED, "the running time is used up"
        return None

    def _spent(self) -> Spent:
        p = self.folded.protocol
        return Spent(p.steps, p.tool_calls, p.usage, self._active_seconds())

    @property
    def wake_at(self) -> float | None:
        """When the machine wants to be told that time has passed, on the monotonic clock."""
        if self.state is RunState.CANCELLING:
            return self._grace_until
        if self.state.at_rest or self._ending:
            return None
        soonest = self._linger_due
        retry = self._retry_due if self.state is RunState.EXECUTE_TOOL else None
        for time in (retry, self._active_until, self._deadline, self._approval_until):
            if time is not None and (soonest is None or time < soonest):
                soonest = time
        return soonest

    def _due(self, when: float | None) -> bool:
        return when is not None and self._now.monotonic >= when

    # ------------------------------------------------------------ coming to rest
    def _end(
        self,
        reason: Reason,
        *,
        records: Sequence[Record] = (),
        answer: str = "",
        output: JsonValue = None,
        cause: str | None = None,
    ) -> None:
        """Commit the last records and the end itself, then rest."""
        self._ending = True
        ended = InvocationEnded(
            reason,
            self._active_seconds(),
            self._now.wall,
            answer,
            output,
            cause,
        )
        self._commit([*records, ended], self._rest_as_folded, self._head(reason))

    def _suspend(
        self, reason: Reason, records: Sequence[Record], *, question: str = "", detail: str = ""
    ) -> None:
        """Commit the last records and the suspension, then rest."""
        self._pause_activity()
        suspended = Suspended(reason, self._active_seconds(), self._now.wall, question)
        head = self._head(reason, detail or question)
        self._commit([*records, suspended], self._rest_as_folded, head)

    def _rest_as_folded(self) -> None:
        """Rest for the reason that is durable, unless something was said since."""
        if self._outstanding:
            return
        reason = self.folded.protocol.reason
        if reason is None:
            msg = f"{self.invocation_id}: came to rest without a reason"
            raise ProtocolViolation(msg)
        self._rest(reason, self.folded.protocol.cause)

    def _rest(self, reason: Reason, cause: str | None) -> None:
        """Go to the state of rest and say how it came out."""
        self._enter(_AFTER_ENDING[reason.outcome])
        # What it was given to know, and could not store either, it gives back.
        kept = {**self._known, **self._unsaved}
        unsaved = () if reason is Reason.LEASE_LOST else tuple(kept.values())
        durable = self.folded.protocol.reason is reason
        self._out.append(Rested(self._outcome(reason, cause), durable, unsaved))
        self._forget()

    @property
    def resting(self) -> Rested | None:
        """How it rests, if it does; what was woken and is not told to go on, lies as it did."""
        p = self.folded.protocol
        if self.state is RunState.CREATED and p.seq:
            left = self._outcome(Reason.LEASE_LOST, "it was woken for what can't be granted")
            return Rested(left, durable=False, unsaved=tuple(self._known.values()))
        if p.reason is None or not self.state.at_rest:
            return None
        return Rested(self._outcome(p.reason, p.cause))

    def _outcome(self, reason: Reason, cause: str | None) -> Outcome:
        return outcome_of(self.folded, reason, cause)


def _effects(records: Sequence[Record]) -> tuple[EffectEntry, ...]:
    """Say which lines of the effect ledger these records change, the last of each effect key."""
    changed: dict[EffectKey, EffectEntry] = {}
    for record in records:
        for effect in effects_of(record):
            changed[effect.effect_key] = effect.over(changed.get(effect.effect_key))
    return tuple(changed.values())


def outcome_of(folded: InvocationState, reason: Reason, cause: str | None = None) -> Outcome:
    """Tell how an invocation stands at rest."""
    p, business = folded.protocol, folded.business
    done = reason is Reason.COMPLETED
    return Outcome(
        invocation_id=p.started.invocation_id,
        reason=reason,
        answer=business.answer,
        output=business.output,
        partial=None if done else folded.partial(),
        spent=folded.spent,
        budget=p.budget,
        proposal=folded.proposal(),
        question=p.question,
        cause=cause,
        effects=tuple(business.effects.values()),
        history=folded.history(),
        state_version=p.seq,
    )
