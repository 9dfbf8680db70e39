"""The journal: facts in the past tense, appended per invocation as (invocation id, seq).

State is a fold over these records and nothing is stored that the fold cannot rebuild. A
committed turn is self-contained: the write-ahead records of a turn (`TurnProposed`,
`CallDispatched`, `CallCompleted`, the approval records) matter only until its
`TurnCommitted` is there, and that one record is also the history a model is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Final, Literal, TypeAlias

import orjson
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ._budget import NO_COST, NO_USAGE, Budget, Price, Principal, Reserved, Usage
from ._canonical import dumps
from ._decisions import ProgressNote
from ._effects import Effect, EffectEntry, EffectStatus, Finding, Reconciled
from ._errors import JournalCorruptError, first_fault
from ._evidence import Ask, CallAnswer, Fault, Parent, Proposal
from ._ids import CallId, EffectKey, InvocationId, ProposalDigest
from ._json import JsonObject, JsonValue
from ._reasons import Reason
from ._results import ToolResult
from ._wire import lean_turn


@dataclass(frozen=True, slots=True)
class InvocationStarted:
    """The invocation exists; definitions, budget and principal are pinned."""

    invocation_id: InvocationId
    agent: str
    agent_version: str
    policy_version: str
    goal: str
    principal: Principal
    budget: Budget
    at: float
    """Wall clock, seconds since the epoch; for people, no decision rests on it."""
    key: str | None = None
    metadata: JsonValue = None
    parent: Parent | None = None
    """Whose call it works for; its reservation is this invocation's budget."""
    prices: tuple[Price, ...] = ()
    """Of every model that may be asked, as they were when it started."""
    kind: Literal["invocation_started"] = "invocation_started"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class NoticeInjected:
    """The runtime told the model something, once, before this turn's reply."""

    turn: int
    notice: Literal["soft_stop", "replan"]
    text: str
    at: float
    kind: Literal["notice_injected"] = "notice_injected"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class ModelAttempted:
    """A model was asked and gave no reply that could be used: what it cost is spent all the same."""

    turn: int
    attempt: int
    """Counts from 1 in its turn, over all models of the chain."""
    model: str
    """Name of the endpoint."""
    category: str
    """What kind of failure it was, as `ModelErrorKind`; or ``discarded``: it came after a stop."""
    error: str
    at: float
    usage: Usage = NO_USAGE
    cost: Decimal = NO_COST
    kind: Literal["model_attempted"] = "model_attempted"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class TurnProposed:
    """The model replied; write-ahead of the turn."""

    turn: int
    proposal: Proposal
    at: float
    kind: Literal["turn_proposed"] = "turn_proposed"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class CallDispatched:
    """A write is about to be handed to its tool; durable before it is."""

    turn: int
    call_id: CallId
    attempt: int
    tool_name: str
    arguments: JsonObject
    """What the tool gets, after defaults and coercion."""
    effect_key: EffectKey
    at: float
    effect: Effect = Effect.MANUAL
    """Its tool's class when it was dispatched."""
    reserved: Reserved | None = None
    """Set for a call that starts a child: what is kept aside for it until it has ended."""
    kind: Literal["call_dispatched"] = "call_dispatched"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class CallCompleted:
    """One call of an open turn has its result; `outcome_unknown` is one until it is settled."""

    turn: int
    result: ToolResult
    at: float
    kind: Literal["call_completed"] = "call_completed"
    v: Literal[1] = 1


NOBODY: Final = "runtime"
"""Who let something happen that no person did: time has passed, or a child has ended."""

RECONCILER: Final = "reconciler"
"""Who said what became of a write, where its tool's reconciler did."""


@dataclass(frozen=True, slots=True)
class EffectReconciled:
    """Somebody has said what became of a write, in an open turn or long after."""

    turn: int
    call_id: CallId
    tool_name: str
    effect_key: EffectKey
    found: Reconciled
    by: str
    """A person, or ``reconciler`` or ``late result`` for what the runtime learned itself."""
    at: float
    child: bool = False
    """Whether the call stands for a child: then no line of the ledger changes."""
    kind: Literal["effect_reconciled"] = "effect_reconciled"
    v: Literal[1] = 1

    @property
    def last_word(self) -> bool:
        """Whether it settles the matter: a reconciler that cannot tell leaves it to a person."""
        return self.found.finding != "unknown" or self.by != RECONCILER


@dataclass(frozen=True, slots=True)
class TurnCommitted:
    """The whole turn: the proposal and one result for each of its calls, in declared order."""

    turn: int
    proposal: Proposal
    results: tuple[ToolResult, ...]
    tool_calls: int
    """How many of its calls were dispatched."""
    active_seconds: float
    """Running time of the invocation so far."""
    at: float
    fault: Fault | None = None
    kind: Literal["turn_committed"] = "turn_committed"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class AnswerVerified:
    """A verifier has looked at the answer of the open turn."""

    turn: int
    verifier: str
    passed: bool
    reason: str
    bound: str
    """Digest of what it looked at: the verdict holds only while that is the same."""
    at: float
    kind: Literal["answer_verified"] = "answer_verified"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class HandedOff:
    """The invocation goes on with another agent; written with the turn that said so."""

    turn: int
    source: str
    target: str
    reason: str
    progress: ProgressNote
    fingerprint: str
    """Digest of the state it was handed over in; see `policy.state_fingerprint`."""
    at: float
    escaped: bool = False
    """Whether the runtime sent it to the escape agent, instead of where the model wanted it."""
    kind: Literal["handed_off"] = "handed_off"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class ContextCompacted:
    """From here on a summary stands for the first turns when a model is asked; they stay as they are."""

    upto: int
    """The last turn it stands for."""
    summary: str
    replaced: str
    """Digest of what it stands for."""
    at: float
    usage: Usage = NO_USAGE
    cost: Decimal = NO_COST
    kind: Literal["context_compacted"] = "context_compacted"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """A human is asked about this exact set of calls."""

    turn: int
    digest: ProposalDigest
    asks: tuple[Ask, ...]
    at: float
    expires_at: float | None = None
    """Wall clock, seconds since the epoch; unanswered by then, its calls are refused."""
    kind: Literal["approval_requested"] = "approval_requested"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """A human answered for some or all of the calls asked about."""

    turn: int
    digest: ProposalDigest
    answers: tuple[CallAnswer, ...]
    by: str
    at: float
    reason: str = ""
    expired: bool = False
    """Whether nobody answered in time: that is no human's no, and `by` is the runtime's word."""
    kind: Literal["approval_decided"] = "approval_decided"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Suspended:
    """The invocation waits for somebody; it holds no task, thread or lease."""

    reason: Reason
    active_seconds: float
    at: float
    question: str = ""
    kind: Literal["suspended"] = "suspended"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Resumed:
    """Somebody let the invocation go on: with an answer, a grant, or a plain resume."""

    by: str
    at: float
    answer: str | None = None
    grant: Budget | None = None
    kind: Literal["resumed"] = "resumed"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody wants it to stop; from here on nothing new is dispatched."""

    reason: str
    by: str
    at: float
    kind: Literal["cancel_requested"] = "cancel_requested"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class InvocationEnded:
    """The invocation is over, for this reason."""

    reason: Reason
    active_seconds: float
    at: float
    answer: str = ""
    output: JsonValue = None
    cause: str | None = None
    kind: Literal["invocation_ended"] = "invocation_ended"
    v: Literal[1] = 1


Record: TypeAlias = (
    InvocationStarted
    | NoticeInjected
    | ModelAttempted
    | TurnProposed
    | CallDispatched
    | CallCompleted
    | EffectReconciled
    | TurnCommitted
    | AnswerVerified
    | HandedOff
    | ContextCompacted
    | ApprovalRequested
    | ApprovalDecided
    | Suspended
    | Resumed
    | CancelRequested
    | InvocationEnded
)

_AFTER_FINDING: dict[Finding, EffectStatus] = {
    "applied": "committed",
    "rejected": "rejected",
    "not_applied": "not_applied",
    "unknown": "outcome_unknown",
}


def effects_of(record: Record) -> tuple[EffectEntry, ...]:
    """Say which lines of the effect ledger a record changes; see `EffectEntry.over`.

    A call that stands for a child changes none: what the child writes is in its own ledger.
    """
    match record:
        case TurnCommitted(turn=turn, results=results):
            for result in results:
                if result.effect_key is not None:
                    return tuple([_effect(turn, r) for r in results if r.effect_key is not None])
            return ()
        case CallCompleted(turn=turn, result=result) if result.effect_key is not None:
            return (_effect(turn, result),)
        case CallDispatched(reserved=None):
            return (
                EffectEntry(
                    record.effect_key,
                    record.tool_name,
                    record.turn,
                    record.call_id,
                    "dispatched",
                    None,
                    record.attempt,
                    record.arguments,
                ),
            )
        case EffectReconciled(found=found, child=False):
            return (
                EffectEntry(
                    record.effect_key,
                    record.tool_name,
                    record.turn,
                    record.call_id,
                    _AFTER_FINDING[found.finding],
                    found.receipt,
                ),
            )
        case _:
            return ()


def _effect(turn: int, result: ToolResult) -> EffectEntry:
    assert result.effect_key is not None
    return EffectEntry(
        result.effect_key,
        result.tool_name,
        turn,
        result.call_id,
        result.effect_status,
        # What is queued has happened to nobody yet.
        result.output if result.effect_status == "committed" else None,
        result.attempts,
        result.arguments,
    )


_STRICT = ConfigDict(extra="forbid", defer_build=True)
_records: TypeAdapter[Record] = TypeAdapter(
    Annotated[Record, Field(discriminator="kind")], config=_STRICT
)
VERSION = 1


def encode_record(record: Record) -> bytes:
    """Write a record as one line of JSON without a line break."""
    line = dumps(lean_turn(record) if isinstance(record, TurnCommitted) else record)
    # A copy: behind orjson's own bytes are kilobytes of unused room, and lines are kept.
    return bytes(memoryview(line))


def decode_record(line: bytes) -> Record:
    """Read one line back.

    Raises:
        JournalCorruptError: If it is no record, or of a version this code does not know.
    """
    try:
        record: Record = _records.validator.validate_json(line)
    except ValidationError as error:
        raise _unreadable(line, error) from None
    return record


def _unreadable(line: bytes, error: ValidationError) -> JournalCorruptError:
    try:
        raw = orjson.loads(line)
        version, kind = raw.get("v"), raw.get("kind")
    except (orjson.JSONDecodeError, AttributeError):
        return JournalCorruptError("a journal record is not JSON; restore the store from a backup")
    if isinstance(version, int) and version > VERSION:
        return JournalCorruptError(
            f"the journal record {kind!r} has version {version}, this loopwright reads up to "
            f"{VERSION}; upgrade loopwright to open it"
        )
    path, problem = first_fault(error)
    return JournalCorruptError(
        f"the journal record {kind!r} is malformed at {path or 'its kind'} ({problem}); "
        "restore the store from a backup"
    )
