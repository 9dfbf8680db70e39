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
from decimal import Decimal
from typing import assert_never

from ._budget import NO_COST, NO_USAGE, Budget, Spent, Usage
from ._decisions import ToolCall, ToolCalls, calls_of
from ._effects import EffectEntry
from ._errors import JournalCorruptError
from ._history import History, Turn
from ._ids import EffectKey, ProposalDigest, call_fingerprint
from ._journal import Entry, Status
from ._json import JsonValue
from ._open_turn import OpenTurn
from ._outcome import ApprovalProposal, OpenCall, Partial
from ._reasons import Ending, Reason
from ._records import (
    AnswerVerified,
    ApprovalDecided,
    ApprovalRequested,
    CallCompleted,
    CallDispatched,
    CancelRequested,
    ContextCompacted,
    EffectReconciled,
    HandedOff,
    InvocationEnded,
    InvocationStarted,
    ModelAttempted,
    NoticeInjected,
    Record,
    Resumed,
    Suspended,
    TurnCommitted,
    TurnProposed,
    effects_of,
)
from ._results import ResultStatus

_OK = ResultStatus.OK
_FAILED = (ResultStatus.ERROR, ResultStatus.TIMEOUT)


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
    agent: str = ""
    """Whose turn it is."""
    handoffs: tuple[HandedOff, ...] = ()
    tool_calls: int = 0
    """Of the invocation and of its children that have ended."""
    usage: Usage = NO_USAGE
    """Of the invocation and of its children that have ended."""
    cost: Decimal = NO_COST
    """Of the invocation and of its children that have ended."""
    tool_failures: int = 0
    """Calls that ran and failed."""
    denials: int = 0
    """Calls that were denied, by policy or by a human."""
    denied: frozenset[str] = frozenset()
    """Fingerprints of those calls."""
    failed_answers: int = 0
    """Final answers that did not stand up to a verifier."""
    unavailable_turns: int = 0
    """Consecutive turns in which every call met a service that is down."""
    summary: str = ""
    """What stands for the first `summarized` turns when a model is asked."""
    summarized: int = 0
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
    def accepted_handoffs(self) -> int:
        """Handoffs that count against the budget: the way out does not."""
        return sum(not handoff.escaped for handoff in self.handoffs)

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
        self.protocol = ProtocolState(started, started.budget, agent=started.agent)
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
        """The seqs of what was said beside the turns: of writes that were history, and summaries."""

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
        calls, usage, cost = p.tool_calls, p.usage, p.cost
        if p.open is not None:
            used, reply = p.open.used_by_children(), p.open.proposal
            calls += used.tool_calls
            usage += used.usage + reply.usage
            cost += used.cost + reply.cost
        return Spent(
            p.steps,
            calls,
            usage,
            p.active_seconds,
            cost,
            p.tool_failures,
            p.accepted_handoffs,
        )

    def history(self) -> History:
        """The committed turns, as they are now."""
        return History(self.business.turns)

    def proposal(self) -> ApprovalProposal | None:
        """What a human has to decide, if anything."""
        turn = self.protocol.open
        if turn is None or turn.request is None or self.protocol.status == "ended":
            return None
        request = turn.request
        return ApprovalProposal(
            request.digest, request.asks, tuple(turn.answers), request.expires_at
        )

    def partial(self) -> Partial:
        """What is there, should the invocation not complete."""
        turn = self.protocol.open
        calls: tuple[OpenCall, ...] = ()
        if turn is not None:
            calls = tuple(
                OpenCall(call.call_id, call.tool_name, call.call_id in turn.dispatched)
                for call in calls_of(turn.proposal.decision)
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
                self._open(record.turn).ask(record)
            case ApprovalDecided():
                turn = self._open(record.turn)
                for answer in record.answers:
                    turn.answers.setdefault(answer.call_id, record)
                if not turn.unanswered():
                    p.decided |= {record.digest}
            case NoticeInjected():
                p.soft_stopped = p.soft_stopped or record.notice == "soft_stop"
                said = (self._notice, record.text)
                self._notice = "\n".join(text for text in said if text)
            case ModelAttempted():
                p.usage += record.usage
                p.cost += record.cost
            case AnswerVerified():
                self._open(record.turn).verified[record.verifier] = record
            case HandedOff():
                p.handoffs = (*p.handoffs, record)
                p.agent = record.target
            case ContextCompacted():
                self._compacted(record, entry.line)
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

    def _compacted(self, record: ContextCompacted, line: bytes) -> None:
        p = self.protocol
        if not p.summarized <= record.upto <= p.turn:
            msg = (
                f"{p.started.invocation_id}: a summary up to turn {record.upto}, after "
                f"{p.summarized} of {p.turn}"
            )
            raise JournalCorruptError(msg)
        p.summary, p.summarized = record.summary, record.upto
        p.usage += record.usage
        p.cost += record.cost
        self._digest_aside(line)

    def _digest_aside(self, line: bytes) -> None:
        """Take into the digest what a model is shown beside the turns."""
        self.found_seqs.append(self.protocol.seq)
        self._digest_turns()
        self._context.update(line)

    def _turn_committed(self, record: TurnCommitted, line: bytes) -> None:
        p, business, decision = self.protocol, self.business, record.proposal.decision
        if record.turn != p.turn + 1:
            msg = f"{p.started.invocation_id}: turn {record.turn} is stored after turn {p.turn}"
            raise JournalCorruptError(msg)
        business.turns.append(Turn(record.turn, line, self._notice))
        self.turn_seqs.append(p.seq)
        self._notice = None
        self.context_chars += len(line)
        self._children_ended(record)
        p.turn, p.open = record.turn, None
        p.tool_calls += record.tool_calls
        p.usage += record.proposal.usage
        p.cost += record.proposal.cost
        p.active_seconds = record.active_seconds
        p.faulty_decisions = p.faulty_decisions + 1 if _unusable(record) else 0
        p.faulty_turns = p.faulty_turns + 1 if _at_fault(record) else 0
        self._judged(record)
        if isinstance(decision, ToolCalls) and decision.commentary:
            business.commentary = decision.commentary
        self._effects(record)

    def _children_ended(self, record: TurnCommitted) -> None:
        """Charge what children have used; one of which nobody knows has used what it might."""
        p = self.protocol
        if p.open is not None:
            p.open.results.update((result.call_id, result) for result in record.results)
            used = p.open.used_by_children()
            p.tool_calls += used.tool_calls
            p.usage += used.usage
            p.cost += used.cost

    def _judged(self, record: TurnCommitted) -> None:
        """Count what was denied, what failed, and what was out of reach."""
        p = self.protocol
        if record.fault is not None and record.fault.level == "answer":
            p.failed_answers += 1
        bad = [result for result in record.results if result.status is not _OK]
        if not bad:
            p.unavailable_turns = 0
            return
        p.tool_failures += sum(result.status in _FAILED for result in bad)
        denied = {result.call_id for result in bad if result.denied}
        if denied:
            p.denials += len(denied)
            p.denied |= {
                call_fingerprint(call.tool_name, call.arguments)
                for call in calls_of(record.proposal.decision)
                if isinstance(call, ToolCall) and call.call_id in denied
            }
            # As it would have run as well: whoever spells out a default proposes the same.
            p.denied |= {
                call_fingerprint(result.tool_name, result.arguments)
                for result in bad
                if result.denied and result.arguments is not None
            }
        down = all(result.unavailable for result in record.results)
        p.unavailable_turns = p.unavailable_turns + 1 if down else 0

    def _resumed(self, record: Resumed) -> None:
        p = self.protocol
        if record.grant is not None:
            p.budget = p.budget.grant(record.grant)
            p.soft_stopped = False
        if record.answer is not None and self.business.turns:
            self.business.turns[-1].answer = record.answer
            self.context_chars += len(record.answer)
        p.status, p.reason, p.question, p.cause = "running", None, "", None
        p.faulty_decisions = p.faulty_turns = p.unavailable_turns = 0

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
        self._digest_aside(line)

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


def _at_fault(record: TurnCommitted) -> bool:
    """Whether the model broke the protocol; an answer that is wrong does not."""
    return record.fault is not None and record.fault.level != "answer"


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
