"""What the fold makes of attempts, verdicts, handoffs, summaries, children and denials."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from loopwright.protocol import (
    EXPIRED,
    NOBODY,
    AnswerVerified,
    ApprovalDecided,
    ApprovalRequested,
    Ask,
    Budget,
    CallAnswer,
    CallCompleted,
    CallDispatched,
    CallId,
    ChildStand,
    ContextCompacted,
    Effect,
    EffectKey,
    Entry,
    ErrorCategory,
    Fault,
    Final,
    HandedOff,
    InvocationId,
    InvocationStarted,
    InvocationState,
    ModelAttempted,
    Principal,
    ProgressNote,
    Proposal,
    ProposalDigest,
    Reason,
    Record,
    Reserved,
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
    applied,
    call_fingerprint,
    encode_record,
    fold,
    settled,
)

A, B = CallId("a"), CallId("b")
KEY, DIGEST = EffectKey("k1"), ProposalDigest("d1")
STARTED = InvocationStarted(
    InvocationId("i1"), "desk", "1", "1", "goal", Principal(), Budget(max_steps=3), 0.0
)
CALLS = ToolCalls((ToolCall(A, "hire", {"n": 7}), ToolCall(B, "read", {})))
REPLY = Proposal(CALLS, Usage(10, 1), cost=Decimal("0.1"))
PROPOSED = TurnProposed(1, REPLY, 0.0)
KEPT = Reserved(5, 100, Decimal("0.5"))
HIRED = CallDispatched(1, A, 1, "hire", {}, KEY, 0.0, Effect.RECONCILABLE, KEPT)
READ = ToolResult(B, "read", ResultStatus.OK, "found", attempts=1)
STATUS = ResultStatus


def state(*records: Record) -> InvocationState:
    """Fold a start and these records."""
    return fold([Entry(record, encode_record(record)) for record in (STARTED, *records)])


def turn(number: int, *results: ToolResult, fault: Fault | None = None) -> TurnCommitted:
    """Commit a turn; its calls are counted where they ran."""
    ran = sum(result.attempts > 0 for result in results)
    return TurnCommitted(number, REPLY, results, ran, 0.0, 0.0, fault)


def failed(call_id: CallId, status: ResultStatus, down: bool = False) -> ToolResult:
    """Let a call come to nothing."""
    category = ErrorCategory.UNAVAILABLE if down else ErrorCategory.INTERNAL
    return ToolResult(call_id, "read", status, error=ToolError(category, "Error", "no"))


def child(status: ResultStatus, reason: Reason | None) -> ToolResult:
    """Say how a child stands; it has used 2 calls, 20 tokens and a fifth of a dollar."""
    used = (2, Usage(20), Decimal("0.2"))
    stand = None if reason is None else ChildStand(InvocationId("c1"), reason, *used)
    return ToolResult(A, "hire", status, attempts=1, effect_key=KEY, child=stand)


# ---------------------------------------------------------------- attempts
def test_an_attempt_is_spent_and_no_step() -> None:
    """Whatever turn it was for, and whether that ever comes."""
    attempt = ModelAttempted(1, 1, "m1", "transient", "503", 0.0, Usage(7), Decimal("0.7"))
    spent = state(attempt, replace(attempt, attempt=2)).spent
    assert (spent.steps, spent.usage, spent.cost) == (0, Usage(14), Decimal("1.4"))
    spent = state(attempt, turn(1, READ)).spent
    assert (spent.steps, spent.usage, spent.cost) == (1, Usage(17, 1), Decimal("0.8"))


def test_a_reply_is_spent_as_soon_as_it_is_durable_and_only_once() -> None:
    """In the open turn, and in the one it becomes."""
    for records in ((PROPOSED,), (PROPOSED, turn(1, READ))):
        spent = state(*records).spent
        assert (spent.usage, spent.cost) == (Usage(10, 1), Decimal("0.1"))


# ---------------------------------------------------------------- children
@pytest.mark.parametrize(
    ("status", "reason", "calls", "tokens"),
    [
        (STATUS.OK, Reason.COMPLETED, 2, 20),
        (STATUS.ERROR, Reason.MAX_STEPS, 2, 20),
        (STATUS.CANCELLED, Reason.CANCELLED, 2, 20),
        (STATUS.OUTCOME_UNKNOWN, Reason.APPROVAL_REQUIRED, 5, 100),
        (STATUS.OUTCOME_UNKNOWN, None, 5, 100),
        (STATUS.NOT_STARTED, None, 0, 0),
    ],
)
def test_a_child_that_has_ended_has_used_what_it_did_and_another_what_it_may(
    status: ResultStatus, reason: Reason | None, calls: int, tokens: int
) -> None:
    """The same while its turn is open and once it is history; its call is counted with the turn."""
    result = child(status, reason)
    spent = state(PROPOSED, HIRED, CallCompleted(1, result, 0.0)).spent
    assert (spent.tool_calls, spent.usage.total) == (calls, 11 + tokens)
    spent = state(PROPOSED, HIRED, turn(1, result, READ)).spent
    assert (spent.tool_calls, spent.usage.total) == (calls + 2, 11 + tokens)
    assert spent.cost == Decimal("0.1") + Decimal(tokens) / (100 if tokens == 20 else 200)


def test_what_is_kept_aside_is_spent_from_the_dispatch_on() -> None:
    """As an estimate, since nobody knows; without a limit on something, none of it."""
    spent = state(PROPOSED, HIRED).spent
    assert (spent.tool_calls, spent.usage, spent.cost) == (
        5,
        Usage(110, 1, estimated=True),
        Decimal("0.6"),
    )
    spent = state(PROPOSED, replace(HIRED, reserved=Reserved())).spent
    assert (spent.tool_calls, spent.usage.total) == (0, 11)


def test_a_child_settled_by_a_person_has_used_what_it_might() -> None:
    """A word that it has been done says nothing of what it took."""
    done = settled(child(STATUS.OUTCOME_UNKNOWN, None), applied("it is done"))
    assert state(PROPOSED, HIRED, turn(1, done, READ)).spent.tool_calls == 7


def test_a_new_attempt_has_what_was_kept_aside_once() -> None:
    """The same child is started again; its reservation is not made twice."""
    again = replace(HIRED, attempt=2)
    lost = CallCompleted(1, child(STATUS.OUTCOME_UNKNOWN, None), 0.0)
    assert state(PROPOSED, HIRED, lost, again).spent.tool_calls == 5


def test_whom_it_waits_for() -> None:
    """Children that wait for somebody; one that has ended is not waited for."""
    for status, reason, waits in (
        (STATUS.OUTCOME_UNKNOWN, Reason.APPROVAL_REQUIRED, ("c1",)),
        (STATUS.OUTCOME_UNKNOWN, None, ()),
        (STATUS.OK, Reason.COMPLETED, ()),
    ):
        opened = state(PROPOSED, HIRED, CallCompleted(1, child(status, reason), 0.0)).protocol.open
        assert opened is not None
        assert [str(child) for child in opened.children()] == list(waits)


# ---------------------------------------------------------------- what calls came to
def test_failures_are_calls_that_ran_and_failed() -> None:
    """In all, over sound turns as well; refused, cancelled and unknown ones are none."""
    folded = state(
        turn(1, failed(A, STATUS.ERROR), failed(B, STATUS.TIMEOUT)),
        turn(2, READ),
        turn(3, failed(A, STATUS.DENIED), failed(B, STATUS.NOT_STARTED)),
        turn(4, failed(A, STATUS.UNKNOWN_TOOL), failed(B, STATUS.INVALID_ARGUMENTS)),
        turn(5, failed(A, STATUS.CANCELLED), failed(B, STATUS.OUTCOME_UNKNOWN)),
    )
    assert folded.protocol.tool_failures == folded.spent.tool_failures == 2


def test_denied_calls_are_counted_and_remembered_by_what_they_were() -> None:
    """The same proposal twice is two denials of one thing."""
    denied = (failed(A, STATUS.DENIED), READ)
    p = state(turn(1, *denied), turn(2, READ), turn(3, *denied)).protocol
    assert p.denials == 2
    assert p.denied == {call_fingerprint("hire", {"n": 7})}


def test_a_denied_call_is_remembered_as_it_would_have_run_as_well() -> None:
    """B85: a default that is spelled out makes no other call; an expiry is remembered as nothing."""
    meant = replace(failed(A, STATUS.DENIED), tool_name="hire", arguments={"n": 7, "of": "all"})
    p = state(turn(1, meant, READ)).protocol
    assert p.denials == 1
    assert p.denied == {
        call_fingerprint("hire", {"n": 7}),
        call_fingerprint("hire", {"n": 7, "of": "all"}),
    }
    expired = ToolError(ErrorCategory.PERMISSION, EXPIRED, "nobody has answered")
    p = state(turn(1, replace(meant, error=expired), READ)).protocol
    assert (p.denials, p.denied) == (0, frozenset())


def test_turns_in_which_all_is_down_are_counted_in_a_row() -> None:
    """A single call that got through, or a person who lets it go on, starts anew."""
    down = failed(A, STATUS.ERROR, down=True)
    assert state(turn(1, down), turn(2, down, down)).protocol.unavailable_turns == 2
    assert state(turn(1, down), turn(2, down, READ)).protocol.unavailable_turns == 0
    assert state(turn(1, down), turn(2)).protocol.unavailable_turns == 0
    waits = Suspended(Reason.CLARIFICATION_REQUIRED, 0.0, 0.0)
    assert state(turn(1, down), waits, Resumed("ann", 0.0)).protocol.unavailable_turns == 0


# ---------------------------------------------------------------- verdicts
def verdict(verifier: str, passed: bool, bound: str) -> AnswerVerified:
    """Let a verifier have looked at the answer."""
    return AnswerVerified(1, verifier, passed, "", bound, 0.0)


def test_the_last_verdict_of_each_verifier_counts_while_the_turn_is_open() -> None:
    """What it is bound to says whether it still holds."""
    claim = TurnProposed(1, Proposal(Final("8"), Usage()), 0.0)
    opened = state(
        claim, verdict("sums", True, "x"), verdict("style", True, "x"), verdict("sums", False, "y")
    ).protocol.open
    assert opened is not None
    assert {name: (v.passed, v.bound) for name, v in opened.verified.items()} == {
        "sums": (False, "y"),
        "style": (True, "x"),
    }


def test_a_failed_answer_is_no_fault_of_the_protocol() -> None:
    """It is counted in all, and ends a row of faults like any sound turn."""
    unsound, wrong = Fault("call", "no such tool"), Fault("answer", "7 is not 8")
    p = state(turn(1, fault=wrong), turn(2, READ), turn(3, fault=unsound), turn(4, fault=wrong))
    assert p.protocol.failed_answers == 2
    assert (p.protocol.faulty_turns, p.protocol.faulty_decisions) == (0, 0)


# ---------------------------------------------------------------- handoffs
def test_a_handoff_says_whose_turn_it_is() -> None:
    """The start does at first; an escape is none that was granted."""
    handed = HandedOff(1, "desk", "refunds", "why", ProgressNote(), "f", 0.0)
    escaped = HandedOff(2, "refunds", "human", "why", ProgressNote(), "g", 0.0, escaped=True)
    assert state().protocol.agent == "desk"
    folded = state(turn(1), handed, turn(2), escaped)
    assert (folded.protocol.agent, folded.spent.handoffs) == ("human", 1)
    assert folded.protocol.handoffs == (handed, escaped)


# ---------------------------------------------------------------- summaries
def test_a_summary_stands_for_the_first_turns_and_is_charged() -> None:
    """The turns stay in the history; the last summary stands for the one before as well."""
    first = ContextCompacted(1, "one", "r", 0.0, Usage(30, 3), Decimal("0.3"))
    second = ContextCompacted(2, "both", "r", 0.0)
    folded = state(turn(1), turn(2), first, turn(3), second)
    assert (folded.protocol.summary, folded.protocol.summarized) == ("both", 2)
    assert (folded.spent.usage, folded.spent.cost) == (Usage(60, 6), Decimal("0.6"))
    assert len(folded.history()) == 3
    assert list(folded.found_seqs) == [4, 6]


def test_a_summary_is_in_the_digest_of_what_a_model_was_shown() -> None:
    """With its place among the turns."""
    summary = ContextCompacted(1, "one", "r", 0.0)
    digests = {
        state(turn(1), turn(2)).context_digest,
        state(turn(1), summary, turn(2)).context_digest,
        state(turn(1), turn(2), summary).context_digest,
        state(turn(1), turn(2), replace(summary, summary="another")).context_digest,
    }
    assert len(digests) == 4


# ---------------------------------------------------------------- no answer in time
def test_what_nobody_answered_in_time_is_neither_a_yes_nor_a_no() -> None:
    """It is decided, so that a late answer is told so; answers that came in time stand."""
    asks = (Ask(A, "hire", {}, "much"), Ask(B, "read", {}, "why"))
    yes = ApprovalDecided(1, DIGEST, (CallAnswer(A, True),), "ann", 0.0)
    late = ApprovalDecided(1, DIGEST, (CallAnswer(B, False),), NOBODY, 0.0, expired=True)
    folded = state(PROPOSED, ApprovalRequested(1, DIGEST, asks, 0.0, 30.0), yes, late)
    opened, proposal = folded.protocol.open, folded.proposal()
    assert opened is not None
    assert opened.verdicts() == ((A,), ())
    assert opened.expired() == {B}
    assert opened.unanswered() == ()
    assert folded.protocol.decided == {DIGEST}
    assert proposal is not None
    assert proposal.expires_at == 30.0
