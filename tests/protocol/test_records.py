"""Journal records: read back equal, refused when foreign, and of a version that is known."""

from __future__ import annotations

from typing import get_args

import orjson
import pytest

from loopwright.protocol import (
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
    EffectKey,
    ErrorCategory,
    Fault,
    Final,
    Head,
    InvocationEnded,
    InvocationId,
    InvocationStarted,
    JournalCorruptError,
    Malformed,
    NoticeInjected,
    Principal,
    Proposal,
    ProposalDigest,
    Reason,
    Record,
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
    decode_record,
    encode_record,
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
BAD = ToolResult(
    C2,
    "read",
    ResultStatus.INVALID_ARGUMENTS,
    error=ToolError(ErrorCategory.INVALID_INPUT, "InvalidArguments", "no JSON", retryable=True),
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
    CallDispatched(1, C1, 2, "pay", {"amount": 7}, KEY, 1.0),
    CallCompleted(1, OK, 1.0),
    TurnCommitted(1, PROPOSAL, (OK, BAD), 1, 0.25, 1.0, Fault("call", "no JSON")),
    TurnCommitted(2, Proposal(Malformed("no JSON", "{"), Usage()), (), 0, 0.25, 1.0),
    TurnCommitted(3, Proposal(Final("done", {"n": 1}), Usage()), (), 0, 0.1 + 0.2, 1e9 + 1 / 3),
    ApprovalRequested(1, DIGEST, (Ask(C1, "pay", {"amount": 7}, "over"),), 1.0),
    ApprovalDecided(1, DIGEST, (CallAnswer(C1, False),), "ann", 1.0, "too much"),
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
