"""State is a fold over the journal: `InvocationState.apply` is the only way it changes.

A live invocation applies each record once it is durable, a recovered one applies what it
reads back, so both are the same by construction. *Protocol state* says how far execution has
come, *business state* what the task knows and changed; they are two types because a model's
sentence "refund done" is only ever the text of a decision, never a fact about the world.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from ._budget import NO_USAGE, Budget, Usage
from ._decisions import RequestApproval, ToolCalls
from ._effects import EffectEntry
from ._errors import JournalCorruptError
from ._history import History, Turn
from ._ids import CallId, EffectKey, ProposalDigest
from ._journal import Entry, Status
from ._json import JsonObject, JsonValue
from ._outcome import ApprovalProposal, OpenCall, Partial, Spent
from ._reasons import Ending, Reason
from ._records import (
    ApprovalDecided,
    ApprovalRequested,
    CallCompleted,
    CallDispatched,
    CancelRequested,
    EffectReconciled,
    InvocationEnded,
    InvocationStarted,
    NoticeInjected,
    Proposal,
    Record,
    Resumed,
    Suspended,
    TurnCommitted,
    TurnProposed,
    effects_of,
)
from ._results import ResultStatus, ToolResult


@dataclass(slots=True)
class OpenTurn:
    """A turn whose proposal is durable and whose `TurnCommitted` is not."""

    number: int
    proposal: Proposal
    dispatched: dict[CallId, CallDispatched] = field(default_factory=dict[CallId, CallDispatched])
    """The last dispatch of each write."""
    results: dict[CallId, ToolResult] = field(default_factory=dict[CallId, ToolResult])
    """Of the last attempt, where there was one; `outcome_unknown` is no last word."""
    found: dict[CallId, EffectReconciled] = field(default_factory=dict[CallId, EffectReconciled])
    """What was said of the last dispatch of a write."""
    request: ApprovalRequested | None = None
    answers: dict[CallId, ApprovalDecided] = field(default_factory=dict[CallId, ApprovalDecided])

    def unanswered(self) -> tuple[CallId, ...]:
        """Calls a human was asked about and has not answered."""
        asks = self.request.asks if self.request is not None else ()
        return tuple(ask.call_id for ask in asks if ask.call_id not in self.answers)

    def unsettled(self) -> tuple[CallId, ...]:
        """Dispatched writes of which nobody has said what became of them."""
        return tuple(
            call_id
            for call_id in self.dispatched
            if (call_id not in self.found or not self.found[call_id].last_word)
            and (
                call_id not in self.results
                or self.results[call_id].status is ResultStatus.OUTCOME_UNKNOWN
            )
        )

    def edits(self) -> dict[CallId, JsonObject]:
        """What calls are to run with instead of what was proposed, as humans have said."""
        return {
            answer.call_id: answer.arguments
            for call_id, decided in self.answers.items()
            for answer in decided.answers
            if answer.call_id == call_id and answer.arguments is not None
        }

    def verdicts(self) -> tuple[tuple[CallId, ...], tuple[tuple[CallId, str], ...]]:
        """Calls a human said yes to, and those with a no, each with who and why."""
        approved: list[CallId] = []
        denied: list[tuple[CallId, str]] = []
        for call_id, decided in self.answers.items():
            if any(a.approved for a in decided.answers if a.call_id == call_id):
                approved.append(call_id)
            else:
                why = f"{decided.by}: {decided.reason}" if decided.reason else decided.by
                denied.append((call_id, why))
        return tuple(approved), tuple(denied)


@dataclass(slots=True)
class ProtocolState:
    """How far execution has come."""

    started: InvocationStarted
    budget: Budget
    status: Status = "running"
    reason: Reason | None = None
    seq: int = 0
    turn: int = 0
    """The last committed turn."""
    tool_calls: int = 0
    usage: Usage = NO_USAGE
    active_seconds: float = 0.0
    soft_stopped: bool = False
    """Whether the soft-stop notice was given under the present budget."""
    faulty_decisions: int = 0
    """Consecutive turns with a decision-level fault."""
    faulty_turns: int = 0
    """Consecutive turns with any fault."""
    open: OpenTurn | None = None
    cancelling: CancelRequested | None = None
    decided: frozenset[ProposalDigest] = frozenset()
    """Proposals a human has answered, so that a second answer can be told from a wrong one."""
    question: str = ""
    cause: str | None = None

    @property
    def steps(self) -> int:
        """Model calls that count against the budget: each makes one turn."""
        return self.turn


@dataclass(slots=True)
class BusinessState:
    """What the task knows and changed."""

    goal: str
    metadata: JsonValue
    turns: list[Turn] = field(default_factory=list[Turn])
    effects: dict[EffectKey, EffectEntry] = field(default_factory=dict[EffectKey, EffectEntry])
    commentary: str = ""
    answer: str = ""
    output: JsonValue = None


class InvocationState:
    """Everything the journal says of one invocation.

    Raises:
        JournalCorruptError: By `apply`, for a record that cannot follow the ones before it.
    """

    __slots__ = (
        "_context",
        "_digested",
        "_notice",
        "business",
        "context_chars",
        "found_seqs",
        "protocol",
        "turn_seqs",
    )

    def __init__(self, started: InvocationStarted) -> None:
        self.protocol = ProtocolState(started, started.budget)
        self.business = BusinessState(started.goal, started.metadata)
        self.context_chars = len(started.goal)
        """Size of goal and history, for estimates."""
        self._context = hashlib.blake2b(started.goal.encode("utf-8", "replace"), digest_size=16)
        self._digested = 0
        """Turns that are in the digest already: it is brought up to date when it is asked for."""
        self._notice: str | None = None
        self.turn_seqs = array("q")
        """The seq of each committed turn."""
        self.found_seqs = array("q")
        """The seqs of what was said of writes of turns that were history by then."""

    @property
    def context_digest(self) -> str:
        """Digest of the goal and every committed turn: what a model can have been shown."""
        self._digest_turns()
        return self._context.hexdigest()

    def digest_anew(self, lines: Iterable[bytes]) -> str:
        """Take these lines, all turns and findings in their order, for the digest; return it."""
        for line in lines:
            self._context.update(line)
        self._digested = len(self.business.turns)
        return self._context.hexdigest()

    def _digest_turns(self) -> None:
        turns = self.business.turns
        for turn in turns[self._digested :]:
            self._context.update(turn.body)
        self._digested = len(turns)

    @property
    def spent(self) -> Spent:
        """What has been used, as far as it is durable."""
        p = self.protocol
        return Spent(p.steps, p.tool_calls, p.usage, p.active_seconds)

    def history(self) -> History:
        """The committed turns, as they are now."""
        return History(self.business.turns)

    def proposal(self) -> ApprovalProposal | None:
        """What a human has to decide, if anything."""
        turn = self.protocol.open
        if turn is None or turn.request is None or self.protocol.status == "ended":
            return None
        return ApprovalProposal(turn.request.digest, turn.request.asks, tuple(turn.answers))

    def partial(self) -> Partial:
        """What is there, should the invocation not complete."""
        turn = self.protocol.open
        calls: tuple[OpenCall, ...] = ()
        if turn is not None and isinstance(turn.proposal.decision, ToolCalls | RequestApproval):
            calls = tuple(
                OpenCall(call.call_id, call.tool_name, call.call_id in turn.dispatched)
                for call in turn.proposal.decision.calls
                if call.call_id not in turn.results
            )
        business = self.business
        return Partial(
            len(business.turns), business.commentary, calls, tuple(business.effects.values())
        )

    def apply(self, entry: Entry) -> None:
        """Take in the next durable record."""
        p, record = self.protocol, entry.record
        p.seq += 1
        match record:
            case TurnCommitted():
                self._turn_committed(record, entry.line)
            case TurnProposed():
                p.open = OpenTurn(record.turn, record.proposal)
            case CallDispatched():
                turn = self._open(record.turn)
                turn.dispatched[record.call_id] = record
                # A new attempt: what was known of the one before is no word on this one.
                turn.found.pop(record.call_id, None)
                turn.results.pop(record.call_id, None)
                self._effects(record)
            case CallCompleted():
                self._open(record.turn).results[record.result.call_id] = record.result
                self._effects(record)
            case EffectReconciled():
                self._reconciled(record, entry.line)
            case ApprovalRequested():
                turn = self._open(record.turn)
                turn.request = record
                turn.answers = {}
            case ApprovalDecided():
                turn = self._open(record.turn)
                for answer in record.answers:
                    turn.answers.setdefault(answer.call_id, record)
                if not turn.unanswered():
                    p.decided |= {record.digest}
            case NoticeInjected():
                p.soft_stopped = True
                self._notice = record.text
            case Suspended():
                p.status, p.reason, p.question = "suspended", record.reason, record.question
                p.active_seconds = record.active_seconds
            case Resumed():
                self._resumed(record)
            case CancelRequested():
                p.cancelling = p.cancelling or record
                p.status, p.reason, p.question = "running", None, ""
            case InvocationEnded():
                p.status, p.reason, p.cause = "ended", record.reason, record.cause
                p.active_seconds = record.active_seconds
                self.business.answer, self.business.output = record.answer, record.output
            case InvocationStarted():
                if p.seq != 1:
                    msg = f"{p.started.invocation_id}: record {p.seq} starts it a second time"
                    raise JournalCorruptError(msg)
            case _:
                assert_never(record)

    def _turn_committed(self, record: TurnCommitted, line: bytes) -> None:
        p, business, decision = self.protocol, self.business, record.proposal.decision
        if record.turn != p.turn + 1:
            msg = f"{p.started.invocation_id}: turn {record.turn} is stored after turn {p.turn}"
            raise JournalCorruptError(msg)
        business.turns.append(Turn(record.turn, line, self._notice))
        self.turn_seqs.append(p.seq)
        self._notice = None
        self.context_chars += len(line)
        p.turn, p.open = record.turn, None
        p.tool_calls += record.tool_calls
        p.usage += record.proposal.usage
        p.active_seconds = record.active_seconds
        p.faulty_decisions = p.faulty_decisions + 1 if _unusable(record) else 0
        p.faulty_turns = p.faulty_turns + 1 if record.fault is not None else 0
        if isinstance(decision, ToolCalls) and decision.commentary:
            business.commentary = decision.commentary
        self._effects(record)

    def _resumed(self, record: Resumed) -> None:
        p = self.protocol
        if record.grant is not None:
            p.budget = p.budget.grant(record.grant)
            p.soft_stopped = False
        if record.answer is not None and self.business.turns:
            self.business.turns[-1].answer = record.answer
            self.context_chars += len(record.answer)
        p.status, p.reason, p.question, p.cause = "running", None, "", None
        p.faulty_decisions = p.faulty_turns = 0

    def _reconciled(self, record: EffectReconciled, line: bytes) -> None:
        """Take in what became of a write: of the open turn, or of one that is history by now."""
        self._effects(record)
        turn = self.protocol.open
        if turn is not None and turn.number == record.turn:
            turn.found[record.call_id] = record
            return
        turns = self.business.turns
        if not 0 < record.turn <= len(turns):
            msg = (
                f"{self.protocol.started.invocation_id}: a finding of turn {record.turn}, not there"
            )
            raise JournalCorruptError(msg)
        past = turns[record.turn - 1]
        past.found = (*past.found, (record.call_id, record.found))
        # The model is shown it from now on, in the place of what the turn said.
        self.found_seqs.append(self.protocol.seq)
        self._digest_turns()
        self._context.update(line)

    def _effects(self, record: Record) -> None:
        effects = self.business.effects
        for effect in effects_of(record):
            effects[effect.effect_key] = effect.over(effects.get(effect.effect_key))

    def _open(self, number: int) -> OpenTurn:
        turn = self.protocol.open
        if turn is None or turn.number != number:
            msg = f"{self.protocol.started.invocation_id}: a record of turn {number}, not open"
            raise JournalCorruptError(msg)
        return turn


def ending_status(reason: Reason) -> Status:
    """How an invocation at rest for this reason is listed."""
    return "suspended" if reason.outcome is Ending.SUSPENDED else "ended"


def _unusable(record: TurnCommitted) -> bool:
    return record.fault is not None and record.fault.level == "decision"


def fold(entries: list[Entry]) -> InvocationState:
    """Rebuild an invocation from its whole journal.

    Raises:
        JournalCorruptError: If it does not begin with its start, or records don't fit.
    """
    first = entries[0].record if entries else None
    if not isinstance(first, InvocationStarted):
        msg = "a journal does not begin with InvocationStarted; restore the store from a backup"
        raise JournalCorruptError(msg)
    state = InvocationState(first)
    for entry in entries:
        state.apply(entry)
    return state
