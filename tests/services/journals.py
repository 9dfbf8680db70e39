"""A journal with everything in it, made by hand: what `explain` and `show` have to tell of."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final

from loopwright.protocol import (
    AnswerVerified,
    Append,
    ApprovalDecided,
    ApprovalRequested,
    Ask,
    Budget,
    CallAnswer,
    CallCompleted,
    CallDispatched,
    CallId,
    CancelRequested,
    Clarification,
    ContextCompacted,
    Effect,
    EffectKey,
    EffectReconciled,
    Entry,
    ErrorCategory,
    Fault,
    HandedOff,
    Handoff,
    Head,
    InvocationEnded,
    InvocationId,
    InvocationStarted,
    ModelAttempted,
    NoticeInjected,
    Price,
    Principal,
    ProgressNote,
    Proposal,
    ProposalDigest,
    Reason,
    Record,
    ResultStatus,
    Resumed,
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
    effects_of,
    encode_record,
    ending_status,
    settled,
    unknown,
)
from loopwright.protocol import Final as FinalAnswer
from loopwright.stores import SQLiteStore

INVOCATION: Final = InvocationId("01890000-0000-7000-8000-00000000feed")
A, B, C = CallId("a"), CallId("b"), CallId("c")
KEY: Final = EffectKey("pay:7")
DIGEST: Final = ProposalDigest("d" * 64)

STARTED: Final = InvocationStarted(
    INVOCATION,
    "triage",
    "3",
    "7",
    "refund order 7",
    Principal("ana", "acme", ("clerk",), ("refund",)),
    Budget(max_steps=6, max_tool_calls=5, max_cost=Decimal("1.50")),
    1_000.0,
    prices=(Price("big", Decimal(3), Decimal(15)),),
)
_ASK: Final = Ask(A, "pay", {"order": 7, "amount": 500}, "over(100)")
_BATCH: Final = Proposal(
    ToolCalls(
        (
            ToolCall(A, "pay", {"order": 7, "amount": 500}),
            ToolCall(B, "wipe", {}),
            ToolCall(C, "find", {"order": 7}),
        ),
        "Let me pay.",
    ),
    Usage(100, 20, estimated=True),
    "big-2026",
    attempts=2,
    verdicts=(
        Verdict(A, "ask", "over(100)", "more than 100"),
        Verdict(B, "deny", "no_wiping", "nothing may be wiped"),
    ),
    cost=Decimal("0.25"),
)
_PAID: Final = ToolResult(
    A, "pay", ResultStatus.OUTCOME_UNKNOWN, attempts=1, effect_key=KEY, arguments={"order": 7}
)
_DENIED: Final = ToolResult(
    B,
    "wipe",
    ResultStatus.DENIED,
    error=ToolError(ErrorCategory.PERMISSION, "Denied", "nothing may be wiped"),
)
_FOUND: Final = ToolResult(C, "find", ResultStatus.OK, {"total": 500}, attempts=3)

_NOTE: Final = ProgressNote(("found the order",), ("pay it",), (C,))
_HANDOFF: Final = Proposal(Handoff("billing", "not mine", _NOTE), Usage(), by="dee")
_QUESTION: Final = Proposal(Clarification("Which account?"), Usage(10, 5), "small-2026")
_ANSWER: Final = Proposal(FinalAnswer("All paid."), Usage(10, 5), "small-2026")

FIRST_TURN: Final[tuple[Record, ...]] = (
    NoticeInjected(1, "soft_stop", "2 steps are left.", 1_001.0),
    ModelAttempted(1, 1, "big", "rate_limited", "429: slow down", 1_002.0),
    TurnProposed(1, _BATCH, 1_003.0),
    ApprovalRequested(1, DIGEST, (_ASK,), 1_004.0, 1_900.0),
    Suspended(Reason.APPROVAL_REQUIRED, 1.0, 1_005.0),
    ApprovalDecided(1, DIGEST, (CallAnswer(A, True, {"order": 7}),), "bo", 1_100.0, "half"),
    Resumed("bo", 1_100.0),
    CallDispatched(1, A, 1, "pay", {"order": 7}, KEY, 1_101.0, Effect.RECONCILABLE),
    CallCompleted(1, _PAID, 1_102.0),
    EffectReconciled(1, A, "pay", KEY, unknown("the bank is closed"), "reconciler", 1_103.0),
    Suspended(Reason.RECONCILIATION_REQUIRED, 2.0, 1_104.0),
)
"""Up to where it waits for a write to be settled."""

RECORDS: Final[tuple[Record, ...]] = (
    STARTED,
    *FIRST_TURN,
    EffectReconciled(1, A, "pay", KEY, applied("receipt 9"), "cy", 1_200.0),
    Resumed("cy", 1_200.0),
    TurnCommitted(
        1,
        _BATCH,
        (settled(_PAID, applied("receipt 9")), _DENIED, _FOUND),
        2,
        2.5,
        1_201.0,
        Fault("call", "wipe is denied"),
    ),
    ContextCompacted(1, "it was paid", "f" * 64, 1_202.0),
    TurnProposed(2, _HANDOFF, 1_300.0),
    HandedOff(2, "triage", "billing", "not mine", _NOTE, "e" * 64, 1_301.0),
    TurnCommitted(2, _HANDOFF, (), 0, 3.0, 1_301.0),
    TurnCommitted(3, _QUESTION, (), 0, 3.5, 1_400.0),
    Suspended(Reason.CLARIFICATION_REQUIRED, 3.5, 1_401.0, "Which account?"),
    Resumed("ana", 1_500.0, "the second"),
    TurnProposed(4, _ANSWER, 1_501.0),
    AnswerVerified(4, "facts", False, "nothing was paid out", "b" * 64, 1_502.0),
    TurnCommitted(4, _ANSWER, (), 0, 4.0, 1_503.0, Fault("answer", "nothing was paid out")),
    Suspended(Reason.CLARIFICATION_REQUIRED, 4.0, 1_504.0, "It stalls; go on?"),
    Resumed("cy", 1_600.0, grant=Budget(max_steps=2)),
    CancelRequested("sent twice", "cy", 1_601.0),
    InvocationEnded(Reason.CANCELLED, 4.5, 1_602.0, cause="cy: sent twice"),
)


def entries(records: Sequence[Record] = RECORDS) -> list[Entry]:
    """Encode records."""
    return [Entry(record, encode_record(record)) for record in records]


def keep(path: Path, records: Sequence[Record], reason: Reason) -> None:
    """Put a journal into a store, at rest for this reason."""
    asyncio.run(_keep(path, records, reason))


async def _keep(path: Path, records: Sequence[Record], reason: Reason) -> None:
    store = SQLiteStore(path)
    await store.open()
    try:
        head = Head("triage", ending_status(reason), reason, 1_602.0, "refund order 7")
        lines = tuple(entry.line for entry in entries(records))
        effects = {e.effect_key: e for record in records for e in effects_of(record)}
        append = Append(INVOCATION, 1, 1, lines, "w", head, tuple(effects.values()))
        assert await store.append([append]) == [None]
    finally:
        await store.close()
