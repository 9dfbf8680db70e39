"""What every step of the machine rests on: the table, the journal, and time.

Pure: messages in, messages out. What is durable is folded into `InvocationState`; what is not
durable yet lives only here and dies with the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from loopwright.policy import Seen, replan_notice
from loopwright.protocol import (
    NO_CHILD_USE,
    NO_COST,
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
    Stalled,
    Suspended,
    ToolAccess,
    ToolResult,
    TurnCommitted,
    Usage,
    effects_of,
    encode_record,
    encode_snapshot,
    ending_status,
    payloads_of,
)

from .._clock import Instant
from ._batch import Batch
from ._clocked import Clocked
from ._outcomes import outcome_of
from ._terms import Terms

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


_Notice = Literal["soft_stop", "replan"]

_PASSING = {state: row.get(Entered, frozenset()) | {state} for state, row in TABLE.items()}
"""Where a state that has just been entered may lead at once."""


class _Outstanding(NamedTuple):
    """A commit on its way to the store."""

    last_seq: int
    entries: tuple[Entry, ...]
    then: Callable[[], None] | None


class Core(Clocked):
    """State and journal of one invocation."""

    __slots__ = (
        "_allowed",
        "_answering",
        "_asked",
        "_assessing",
        "_batch",
        "_bound",
        "_compacting",
        "_deciding",
        "_findings",
        "_free",
        "_known",
        "_lease",
        "_next_seq",
        "_notices_due",
        "_observing",
        "_out",
        "_output",
        "_outstanding",
        "_policy",
        "_proposal",
        "_proposed",
        "_seen",
        "_settling",
        "_snapshot_at",
        "_stop_cause",
        "_stop_reason",
        "_store_lost",
        "_summary_again",
        "_suspending",
        "_terms",
        "_tools",
        "_unsaved",
        "_validating",
        "_verdict",
        "_verifying",
        "invocation_id",
        "started",
        "trail",
        "turn",
    )

    def __init__(
        self,
        folded: InvocationState,
        terms: Mapping[str, Terms],
        *,
        worker: str,
        fence: int,
        known: Iterable[ToolResult] = (),
        nudge: Stalled | None = None,
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
        self._terms = terms
        self._work_for(p.agent)
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
        self._seen: Seen | None = None
        self._summary_again = 0
        """The turn before which no summary is asked for, because the last one failed."""
        self._forget()
        # Where its turn is open already, it was told.
        if nudge is not None and p.open is None:
            self._nudge(nudge)

    def _forget(self) -> None:
        """Know no more than the journal says: how a machine begins, and how it rests."""
        self._active_before = self.folded.protocol.active_seconds
        self._active_since = None
        self._deadline = None
        self._linger_due = None
        self._grace_until = None
        self._retry_due = None
        self._approval_until = None
        self._deciding: int | None = None
        self._validating: int | None = None
        self._assessing: int | None = None
        self._observing: int | None = None
        self._compacting: int | None = None
        self._verifying: int | None = None
        """Which verifier is at work."""
        self._bound = ""
        """Digest of what its verdict is about."""
        self._output: JsonValue = None
        """The checked output of the answer that is being verified."""
        self._notices_due: list[tuple[_Notice, str]] = []
        """What the model is told before this turn."""
        self._tools: ToolAccess | None = None
        """Which tools this turn may use, once that is known."""
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

    def _work_for(self, agent: str) -> None:
        """Go by this agent's terms from here on."""
        terms = self._terms[agent]
        self._policy = terms.policy
        prices = self.started.prices
        self._free = any(price.free and price.model in terms.endpoints for price in prices)
        """Whether one of its models costs nothing, and may be asked when the money is gone."""

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
        if not self._notices_due:
            return []
        due, self._notices_due = self._notices_due, []
        return [NoticeInjected(self.turn, kind, text, self._now.wall) for kind, text in due]

    def _nudge(self, nudge: Stalled) -> None:
        """Have the model told to replan, before its next decision."""
        self._notices_due.append(("replan", replan_notice(nudge)))

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

    # ------------------------------------------------------------ what is used
    def _spent(self) -> Spent:
        """What is used, the open turn included: its reply, and what its children may use."""
        p, batch, reply = self.folded.protocol, self._batch, self._proposal
        use = NO_CHILD_USE
        if batch is not None:
            use = batch.used_by_children()
        elif p.open is not None:
            use = p.open.used_by_children()
        usage, cost = p.usage, p.cost
        if reply is not None:
            usage, cost = usage + reply.usage, cost + reply.cost
        if use is not NO_CHILD_USE:
            usage, cost = usage + use.usage, cost + use.cost
        calls = p.tool_calls + use.tool_calls
        handoffs = p.accepted_handoffs if p.handoffs else 0
        active = self._active_seconds()
        return Spent(p.turn, calls, usage, active, cost, p.tool_failures, handoffs)

    def _cost(self, endpoint: str, usage: Usage) -> Decimal:
        """What a reply costs, at the prices pinned at the start.

        Where cost is limited, what has no price costs the most that any of them would.
        """
        prices = self.started.prices
        for price in prices:
            if price.model == endpoint:
                return price.cost(usage)
        if self.folded.protocol.budget.max_cost is None:
            return NO_COST
        return max([price.cost(usage) for price in prices], default=NO_COST)

    # ------------------------------------------------------------ coming to rest
    def _end(
        self,
        reason: Reason,
        *,
        records: Sequence[Record] = (),
        answer: str = "",
        output: JsonValue = None,
        cause: str | None = None,
        outbox: tuple[Delivery, ...] = (),
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
        self._commit([*records, ended], self._rest_as_folded, self._head(reason), outbox)

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
