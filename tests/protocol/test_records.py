"""Journal records: read back equal, refused when foreign, and of a version that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast, get_args

import orjson
import pytest

from loopwright.protocol import (
    NOBODY,
    AnswerVerified,
    ApprovalDecided,
    ApprovalRequested,
    Ask,
    BrokenCall,
    Budget,
    CallAnswer,
    CallCompleted,
    CallDispatched,
    CallId,
    CancelRequested,
    ChildStand,
    ContextCompacted,
    Effect,
    EffectKey,
    EffectReconciled,
    ErrorCategory,
    Fault,
    Final,
    HandedOff,
    Handoff,
    Head,
    InvocationEnded,
    InvocationId,
    InvocationStarted,
    JournalCorruptError,
    Malformed,
    ModelAttempted,
    NoticeInjected,
    Parent,
    Price,
    Principal,
    ProgressNote,
    Proposal,
    ProposalDigest,
    Reason,
    Reconciled,
    Record,
    Reserved,
    ResultStatus,
    Resumed,
    Stored,
    Summary,
    Suspended,
    ToolCall,
    ToolCalls,
    ToolError,
    ToolResult,
    TurnCommitted,
    TurnProposed,
    Usage,
    Verdict,
    applied,
    decode_record,
    effects_of,
    encode_record,
    not_applied,
    rejected,
    unknown,
)

C1, C2 = CallId("c1"), CallId("c2")
KEY, DIGEST = EffectKey("call:7"), ProposalDigest("d1")
CALLS = ToolCalls(
    (
        ToolCall(C1, "pay", {"amount": 7, "big": 2**70, "nested": [None, {"a": 1.5}]}),
        ToolCall(CallId("c3"), "read", {}, ("blank",)),
        BrokenCall(C2, "read", "no JSON", "{"),
    ),
    "let me see",
)
PROPOSAL = Proposal(
    CALLS, Usage(9, 1, estimated=True), "m1", "r1", 2, "ctx", (Verdict(C1, "ask", "over", "much"),)
)
OK = ToolResult(C1, "pay", ResultStatus.OK, {"receipt": "ü\u2028"}, attempts=2, effect_key=KEY)
LOST = ToolResult(
    C1,
    "pay",
    ResultStatus.OUTCOME_UNKNOWN,
    error=ToolError(ErrorCategory.INTERNAL, "OutcomeUnknown", "no answer"),
    attempts=2,
    effect_key=KEY,
    arguments={"amount": 5},
)
QUEUED = ToolResult(C1, "pay", ResultStatus.OK, {"queued": KEY}, effect_key=KEY, effect="prepared")
BAD = ToolResult(
    C2,
    "read",
    ResultStatus.INVALID_ARGUMENTS,
    error=ToolError(ErrorCategory.INVALID_INPUT, "InvalidArguments", "no JSON", retryable=True),
)
NOTE = ProgressNote(("looked",), ("pay",), (C1,))
HANDOFF = Handoff("refunds", "not mine", NOTE, CALLS.calls)
CLAIM = Proposal(Final("8"), Usage(9, 1), cost=Decimal("0.01"))
CHILD = ToolResult(
    C2,
    "hire",
    ResultStatus.OUTCOME_UNKNOWN,
    attempts=1,
    effect_key=KEY,
    child=ChildStand(
        InvocationId("i2"), Reason.APPROVAL_REQUIRED, 2, Usage(5, 1), Decimal("0.125")
    ),
)
RECORDS: tuple[Record, ...] = (
    InvocationStarted(
        InvocationId("i1"),
        "desk",
        "2",
        "3",
        "goal\nwith a line break",
        Principal("ann", "acme", ("admin",), ("pay",)),
        Budget(max_steps=0, soft_ratio=0.5),
        1.5,
        "key",
        {"order": [7]},
    ),
    NoticeInjected(2, "soft_stop", "come to an end", 1.0),
    TurnProposed(1, PROPOSAL, 1.0),
    CallDispatched(1, C1, 2, "pay", {"amount": 7}, KEY, 1.0, Effect.RECONCILABLE),
    CallCompleted(1, OK, 1.0),
    CallCompleted(1, LOST, 1.0),
    EffectReconciled(1, C1, "pay", KEY, applied({"receipt": 7}), "ann", 1.0),
    EffectReconciled(1, C1, "pay", KEY, rejected("no funds"), "reconciler", 1.0),
    EffectReconciled(1, C1, "pay", KEY, not_applied(), "reconciler", 1.0),
    EffectReconciled(1, C1, "pay", KEY, unknown("no trace"), "late result", 1.0),
    TurnCommitted(1, PROPOSAL, (OK, BAD), 1, 0.25, 1.0, Fault("call", "no JSON")),
    TurnCommitted(1, PROPOSAL, (LOST, QUEUED, BAD), 2, 0.25, 1.0),
    TurnCommitted(2, Proposal(Malformed("no JSON", "{"), Usage()), (), 0, 0.25, 1.0),
    TurnCommitted(3, Proposal(Final("done", {"n": 1}), Usage()), (), 0, 0.1 + 0.2, 1e9 + 1 / 3),
    TurnProposed(
        1, Proposal(HANDOFF, Usage(9, 1, cached_tokens=4), cost=Decimal("0.10"), by="ann"), 1.0
    ),
    TurnCommitted(4, Proposal(HANDOFF, Usage(), by="ann"), (OK, CHILD), 1, 0.25, 1.0),
    TurnCommitted(5, CLAIM, (), 0, 0.25, 1.0, Fault("answer", "it does not add up")),
    CallDispatched(
        1, C1, 1, "hire", {}, KEY, 1.0, Effect.RECONCILABLE, Reserved(3, 50, Decimal("0.5"))
    ),
    CallDispatched(1, C1, 1, "hire", {}, KEY, 1.0, Effect.RECONCILABLE, Reserved()),
    CallCompleted(1, CHILD, 1.0),
    ModelAttempted(1, 2, "m1", "rate_limited", "429", 1.0, Usage(9), Decimal("0.000001")),
    ModelAttempted(1, 1, "m1", "transient", "503", 1.0),
    AnswerVerified(1, "sums", False, "7 is not 8", "0" * 64, 1.0),
    HandedOff(1, "desk", "refunds", "not mine", NOTE, "f" * 64, 1.0),
    HandedOff(1, "desk", "human", "round and round", NOTE, "f" * 64, 1.0, escaped=True),
    ContextCompacted(7, "in short", "a" * 64, 1.0, Usage(100, 10), Decimal("0.25")),
    NoticeInjected(2, "replan", "another way", 1.0),
    ApprovalRequested(1, DIGEST, (Ask(C1, "pay", {}, "over"),), 1.0, 31.0),
    ApprovalDecided(1, DIGEST, (CallAnswer(C1, False),), NOBODY, 1.0, expired=True),
    InvocationStarted(
        InvocationId("i2"),
        "helper",
        "1",
        "1",
        "look",
        Principal("ann"),
        Budget(max_cost=Decimal("0.30"), max_tool_failures=0, max_handoffs=None, reserve_steps=1),
        1.0,
        parent=Parent(InvocationId("i1"), 1, C1, 2),
        prices=(Price("m1", Decimal("2.50"), Decimal(10), Decimal("0.25")),),
    ),
    ApprovalRequested(1, DIGEST, (Ask(C1, "pay", {"amount": 7}, "over"),), 1.0),
    ApprovalDecided(1, DIGEST, (CallAnswer(C1, False),), "ann", 1.0, "too much"),
    ApprovalDecided(1, DIGEST, (CallAnswer(C1, True, {"amount": 5}),), "ann", 1.0),
    Suspended(Reason.CLARIFICATION_REQUIRED, 0.5, 1.0, "which?"),
    Resumed("ann", 1.0, "order 7", Budget(max_steps=5)),
    CancelRequested("enough", "ann", 1.0),
    InvocationEnded(Reason.COMPLETED, 0.5, 1.0, "done", {"n": 1}, None),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
def test_a_record_is_read_back_equal_from_one_line(record: Record) -> None:
    """What is folded live is what is folded after a restart, to the last digit."""
    line = encode_record(record)
    assert b"\n" not in line
    assert decode_record(line) == record
    assert encode_record(decode_record(line)) == line


def test_every_record_is_tried() -> None:
    """The list above is complete, and kinds and classes go together."""
    kinds = {type(record): record.kind for record in RECORDS}
    assert set(kinds) == set(get_args(Record))
    assert len(set(kinds.values())) == len(kinds)


def older(record: Record, *fields: str) -> bytes:
    """Write a record as code did that did not know these fields, wherever they stand."""

    def without(value: Any) -> Any:
        if isinstance(value, list):
            return [without(item) for item in cast("Sequence[Any]", value)]
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {key: without(item) for key, item in items if key not in fields}
        return value

    return orjson.dumps(without(orjson.loads(encode_record(record))))


def test_a_line_of_before_effect_classes_still_reads() -> None:
    """What it does not say is taken at its strictest: a write nobody can be asked about."""
    record = CallDispatched(1, C1, 2, "pay", {}, KEY, 1.0, Effect.IDEMPOTENT)
    read = decode_record(older(record, "effect"))
    assert read == replace(record, effect=Effect.MANUAL)


@pytest.mark.parametrize(
    "record",
    [
        CallCompleted(1, OK, 1.0),
        TurnCommitted(1, PROPOSAL, (OK, BAD), 1, 0.25, 1.0, Fault("call", "no JSON")),
        TurnCommitted(2, Proposal(Malformed("no JSON", "{"), Usage()), (), 0, 0.25, 1.0),
    ],
)
def test_a_result_of_before_the_ledger_had_all_its_words_still_reads(record: Record) -> None:
    """No word on the effect, and no edited arguments, means that there were none."""
    assert decode_record(older(record, "effect", "normalized")) == decode_record(
        older(record, "normalized")
    )


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (RECORDS[0], ("parent", "prices", "max_cost", "max_tool_failures", "reserve_steps")),
        (CallDispatched(1, C1, 2, "pay", {}, KEY, 1.0), ("reserved",)),
        (TurnProposed(1, PROPOSAL, 1.0), ("cost", "by", "cached_tokens")),
        (CallCompleted(1, OK, 1.0), ("child",)),
        (ApprovalRequested(1, DIGEST, (), 1.0), ("expires_at",)),
        (ApprovalDecided(1, DIGEST, (), "ann", 1.0), ("expired",)),
    ],
)
def test_a_line_of_before_there_were_children_and_prices_still_reads(
    record: Record, fields: tuple[str, ...]
) -> None:
    """Nobody's child, nothing kept aside, no cost, no end of the time: as it was then."""
    line = older(record, *fields)
    assert len(line) < len(encode_record(record))
    assert decode_record(line) == record


@pytest.mark.parametrize("amount", ["0.1", "0.10", "1e-7", "12345678901234567890.123456789"])
def test_money_is_kept_to_the_last_digit(amount: str) -> None:
    """It is no float on the way: what is charged live is what is charged after a restart."""
    record = ModelAttempted(1, 1, "m1", "transient", "503", 1.0, Usage(1), Decimal(amount))
    read = decode_record(encode_record(record))
    assert isinstance(read, ModelAttempted)
    assert str(read.cost) == str(record.cost)


def test_an_answer_of_before_edits_still_reads() -> None:
    """It was for what was proposed."""
    record = ApprovalDecided(1, DIGEST, (CallAnswer(C1, True),), "ann", 1.0)
    assert decode_record(older(record, "arguments")) == record


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (OK, "committed"),
        (replace(OK, status=ResultStatus.ERROR), "rejected"),
        (replace(OK, status=ResultStatus.NOT_STARTED), "not_applied"),
        (replace(OK, status=ResultStatus.ERROR, effect="not_applied"), "not_applied"),
        (replace(OK, status=ResultStatus.DENIED, effect="not_applied"), "not_applied"),
        (LOST, "outcome_unknown"),
        (QUEUED, "prepared"),
    ],
)
def test_what_a_result_says_of_its_effect(result: ToolResult, status: str) -> None:
    """The status says it, unless the result says more; the same in an open turn and at its end."""
    assert result.effect_status == status
    for record in (
        CallCompleted(1, result, 1.0),
        TurnCommitted(1, PROPOSAL, (result, BAD), 1, 0.25, 1.0),
    ):
        (entry,) = effects_of(record)
        assert (entry.effect_key, entry.status, entry.turn, entry.call_id) == (KEY, status, 1, C1)


@pytest.mark.parametrize(
    ("found", "by", "last", "status"),
    [
        (applied("r"), "reconciler", True, "committed"),
        (rejected("no"), "reconciler", True, "rejected"),
        (not_applied(), "reconciler", True, "not_applied"),
        (unknown(), "reconciler", False, "outcome_unknown"),
        (unknown(), "ann", True, "outcome_unknown"),
        (applied("r"), "late result", True, "committed"),
    ],
)
def test_whose_word_is_the_last_one(found: Reconciled, by: str, last: bool, status: str) -> None:
    """A reconciler that cannot tell leaves it to a person, and a person's word stands."""
    word = EffectReconciled(1, C1, "pay", KEY, found, by, 1.0)
    (entry,) = effects_of(word)
    assert (word.last_word, entry.status) == (last, status)
    assert entry.receipt == found.receipt


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
def test_an_unknown_field_is_refused(record: Record) -> None:
    """A record with more than this code knows is not half understood."""
    line = orjson.dumps({"kind": record.kind, "v": 1, "shadow": 1})
    with pytest.raises(JournalCorruptError, match="malformed"):
        decode_record(line)


def test_a_newer_version_is_refused_by_name() -> None:
    """The error says which record, which version, and what to do."""
    line = orjson.dumps({"kind": "suspended", "v": 2, "mood": "fine"})
    with pytest.raises(JournalCorruptError, match=r"'suspended' has version 2.*upgrade loopwright"):
        decode_record(line)


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"null", b"[]", b'"text"', b"\xff", b"{}", b'{"kind":"shell","v":1}'],
)
def test_what_is_no_record_is_refused(line: bytes) -> None:
    """A damaged journal is named as such, never guessed at."""
    with pytest.raises(JournalCorruptError):
        decode_record(line)


@pytest.mark.parametrize("line", [b"{", b"{}"])
def test_a_damaged_line_is_named_by_invocation_and_seq(line: bytes) -> None:
    """Whoever reads the error has to find the place, and has to know what to do."""
    summary = Summary(InvocationId("i"), Head("agent", "running", None, 0.0), 8, 0.0, None, False)
    with pytest.raises(JournalCorruptError, match=r"^invocation i, seq 8: .*; restore the store"):
        Stored(summary, 7, (encode_record(RECORDS[0]), line)).entries()
