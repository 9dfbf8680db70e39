"""Why an invocation came out as it did, from its journal alone: everything, turn by turn, as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple, TypeAlias, assert_never

from loopwright.protocol import (
    AnswerVerified,
    AnyCall,
    ApprovalDecided,
    ApprovalProposal,
    ApprovalRequested,
    Budget,
    CallCompleted,
    CallDispatched,
    CallId,
    CancelRequested,
    ContextCompacted,
    EffectEntry,
    EffectReconciled,
    Entry,
    Fault,
    HandedOff,
    InvocationEnded,
    InvocationStarted,
    InvocationState,
    JournalCorruptError,
    JsonObject,
    JsonValue,
    ModelAttempted,
    NoticeInjected,
    OpenCall,
    Proposal,
    Reason,
    Record,
    Resumed,
    Spent,
    Suspended,
    ToolCall,
    ToolResult,
    TurnCommitted,
    TurnProposed,
    Verdict,
    calls_of,
)

from ._tree import open_proposal

Pause: TypeAlias = Suspended | Resumed | CancelRequested | InvocationEnded


class Limit(NamedTuple):
    """One limit of a budget, and how much of it is used."""

    name: str
    used: int | float | Decimal
    limit: int | float | Decimal


@dataclass(slots=True)
class CallTold:
    """One call: what was proposed, what was said of it, what ran and what came of it."""

    call: AnyCall
    rules: tuple[Verdict, ...] = ()
    """What policy said, where it said more than a plain yes."""
    dispatched: tuple[CallDispatched, ...] = ()
    """Of a write: each attempt, with its effect key and what the tool got."""
    results: tuple[ToolResult, ...] = ()
    """What came of it, each time something else did: an outcome that is unknown is settled later."""
    found: tuple[EffectReconciled, ...] = ()
    """What was found out about it afterwards."""
    edited: JsonObject | None = None
    """What a human said it is to run with."""

    @property
    def result(self) -> ToolResult | None:
        """What is known last."""
        return self.results[-1] if self.results else None

    @property
    def ran(self) -> JsonObject | None:
        """What it ran with, or was to run with: that may be something else than was proposed."""
        if self.result is not None and self.result.arguments is not None:
            return self.result.arguments
        if self.dispatched:
            return self.dispatched[-1].arguments
        if self.edited is not None:
            return self.edited
        return self.call.arguments if isinstance(self.call, ToolCall) else None


@dataclass(slots=True)
class TurnTold:
    """One turn: everything that was journaled of it, by kind, and in its order."""

    number: int
    agent: str
    """Whose turn it was."""
    notices: list[NoticeInjected] = field(default_factory=list[NoticeInjected])
    attempts: list[ModelAttempted] = field(default_factory=list[ModelAttempted])
    """Of models that gave no reply."""
    proposal: Proposal | None = None
    """What was decided, by which model after how many attempts, or by whom in its place."""
    calls: dict[CallId, CallTold] = field(default_factory=dict[CallId, CallTold])
    asked: list[ApprovalRequested] = field(default_factory=list[ApprovalRequested])
    answered: list[ApprovalDecided] = field(default_factory=list[ApprovalDecided])
    verified: list[AnswerVerified] = field(default_factory=list[AnswerVerified])
    fault: Fault | None = None
    committed: bool = False
    handed_off: HandedOff | None = None
    compacted: list[ContextCompacted] = field(default_factory=list[ContextCompacted])
    pauses: list[Pause] = field(default_factory=list[Pause])
    """Whenever it stopped for somebody, was let go on, was to be cancelled, or ended."""
    records: list[Record] = field(default_factory=list[Record])
    """All of it, as it came."""
    limits: tuple[Limit, ...] = ()
    """How much of each limit was used after it."""


@dataclass(frozen=True, slots=True)
class Stand:
    """How it stands, and what is open."""

    reason: Reason | None
    """`None` while it runs."""
    cause: str | None
    answer: str
    output: JsonValue
    question: str
    proposal: ApprovalProposal | None
    """Of its own, that waits for an answer."""
    open_calls: tuple[OpenCall, ...]
    unresolved: tuple[EffectEntry, ...]
    spent: Spent
    limits: tuple[Limit, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything the journal tells of how an invocation came out."""

    started: InvocationStarted
    """What is pinned: versions, budget, principal, prices."""
    turns: tuple[TurnTold, ...]
    stand: Stand


def explain(entries: Sequence[Entry]) -> Explanation:
    """Tell why an invocation came out as it did.

    Args:
        entries: Its whole journal.

    Raises:
        JournalCorruptError: If it does not begin with its start, or records don't fit.
    """
    first = entries[0].record if entries else None
    if not isinstance(first, InvocationStarted):
        msg = "a journal does not begin with InvocationStarted; restore the store from a backup"
        raise JournalCorruptError(msg)
    state, teller = InvocationState(first), _Teller(first.agent)
    for entry in entries:
        state.apply(entry)
        record = entry.record
        teller.take(record)
        if isinstance(record, TurnCommitted | HandedOff):
            teller.turn(record.turn).limits = limits_of(state.protocol.budget, state.spent)
    p, business = state.protocol, state.business
    stand = Stand(
        p.reason,
        p.cause,
        business.answer,
        business.output,
        p.question,
        open_proposal(state) if p.reason is Reason.APPROVAL_REQUIRED else None,
        state.partial().open_calls if p.reason is not Reason.COMPLETED else (),
        tuple(entry for entry in business.effects.values() if not entry.settled),
        state.spent,
        limits_of(p.budget, state.spent),
    )
    return Explanation(first, tuple(teller.turns.values()), stand)


def limits_of(budget: Budget, spent: Spent) -> tuple[Limit, ...]:
    """List the limits there are, each with how much of it is used."""
    pairs = (
        ("steps", spent.steps, budget.max_steps),
        ("tool calls", spent.tool_calls, budget.max_tool_calls),
        ("tokens", spent.usage.total, budget.max_tokens),
        ("cost", spent.cost, budget.max_cost),
        ("active seconds", round(spent.active_seconds, 3), budget.max_active_seconds),
        ("tool failures", spent.tool_failures, budget.max_tool_failures),
        ("handoffs", spent.handoffs, budget.max_handoffs),
    )
    return tuple(Limit(name, used, limit) for name, used, limit in pairs if limit is not None)


class _Teller:
    """Puts each record where it belongs."""

    def __init__(self, agent: str) -> None:
        self.turns: dict[int, TurnTold] = {}
        self._agent = agent

    def turn(self, number: int) -> TurnTold:
        """Return a turn, which may not have been heard of yet."""
        return self.turns.setdefault(number, TurnTold(number, self._agent))

    def take(self, record: Record) -> None:
        """Take in one record."""
        if isinstance(record, InvocationStarted):
            return
        if isinstance(
            record, ContextCompacted | Suspended | Resumed | CancelRequested | InvocationEnded
        ):
            turn = self._last()
        else:
            turn = self.turn(record.turn)
        turn.records.append(record)
        match record:
            case NoticeInjected():
                turn.notices.append(record)
            case ModelAttempted():
                turn.attempts.append(record)
            case TurnProposed(proposal=proposal):
                _propose(turn, proposal)
            case CallDispatched():
                call = turn.calls[record.call_id]
                call.dispatched = (*call.dispatched, record)
            case CallCompleted(result=result):
                _came(turn, result)
            case EffectReconciled():
                call = turn.calls[record.call_id]
                call.found = (*call.found, record)
            case TurnCommitted():
                _propose(turn, record.proposal)
                turn.fault, turn.committed = record.fault, True
                for result in record.results:
                    _came(turn, result)
            case AnswerVerified():
                turn.verified.append(record)
            case HandedOff():
                turn.handed_off = record
                self._agent = record.target
            case ContextCompacted():
                turn.compacted.append(record)
            case ApprovalRequested():
                turn.asked.append(record)
            case ApprovalDecided():
                turn.answered.append(record)
                for answer in record.answers:
                    if answer.arguments is not None:
                        turn.calls[answer.call_id].edited = answer.arguments
            case Suspended() | Resumed() | CancelRequested() | InvocationEnded():
                turn.pauses.append(record)
            case _:
                assert_never(record)

    def _last(self) -> TurnTold:
        return self.turn(max(self.turns, default=1))


def _propose(turn: TurnTold, proposal: Proposal) -> None:
    turn.proposal = proposal
    for call in calls_of(proposal.decision):
        rules = _about(proposal.verdicts, call.call_id)
        turn.calls.setdefault(call.call_id, CallTold(call)).rules = rules


def _came(turn: TurnTold, result: ToolResult) -> None:
    call = turn.calls[result.call_id]
    if result != call.result:
        call.results = (*call.results, result)


def _about(verdicts: Iterable[Verdict], call_id: CallId) -> tuple[Verdict, ...]:
    return tuple(verdict for verdict in verdicts if verdict.call_id == call_id)
