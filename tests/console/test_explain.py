"""`explain` tells from the journal alone why an invocation came out as it did: as data, then shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from services.journals import (
    DIGEST,
    FIRST_TURN,
    INVOCATION,
    KEY,
    RECORDS,
    STARTED,
    A,
    B,
    C,
    entries,
    keep,
)

from loopwright.console._explain import Explanation, Limit, explain
from loopwright.protocol import (
    ApprovalRequested,
    Budget,
    CallCompleted,
    CannotContinue,
    ErrorCategory,
    InvocationEnded,
    JournalCorruptError,
    Malformed,
    Proposal,
    Proposed,
    Reason,
    RequestApproval,
    ResultStatus,
    Resumed,
    Suspended,
    ToolCall,
    ToolError,
    ToolResult,
    TurnCommitted,
    Usage,
)

Cli = Callable[..., Any]


@pytest.fixture
def told() -> Explanation:
    return explain(entries())


# ---------------------------------------------------------------- as data
def test_what_was_pinned_is_told(told: Explanation) -> None:
    assert told.started == STARTED


def test_a_turn_tells_who_decided_after_which_attempts_and_notices(told: Explanation) -> None:
    first = told.turns[0]
    assert [notice.notice for notice in first.notices] == ["soft_stop"]
    assert [(a.model, a.category) for a in first.attempts] == [("big", "rate_limited")]
    assert first.proposal is not None
    assert (first.proposal.model, first.proposal.attempts) == ("big-2026", 2)
    assert first.agent == "triage"


def test_each_call_tells_its_rules_what_ran_and_what_came_of_it(told: Explanation) -> None:
    calls = told.turns[0].calls
    assert [(r.verdict, r.rule) for call in calls.values() for r in call.rules] == [
        ("ask", "over(100)"),
        ("deny", "no_wiping"),
    ]
    paid = calls[A]
    assert [(d.effect_key, d.attempt, d.arguments) for d in paid.dispatched] == [
        (KEY, 1, {"order": 7})
    ]
    assert [(f.found.finding, f.by) for f in paid.found] == [
        ("unknown", "reconciler"),
        ("applied", "cy"),
    ]
    results = {call: told.result.status if told.result else None for call, told in calls.items()}
    assert results == {A: "ok", B: "denied", C: "ok"}


def test_approvals_pauses_and_faults_are_in_their_turn(told: Explanation) -> None:
    first, _, third, fourth = told.turns
    assert [asked.digest for asked in first.asked] == [DIGEST]
    assert [(one.by, one.reason, one.answers[0].arguments) for one in first.answered] == [
        ("bo", "half", {"order": 7})
    ]
    assert [type(pause).__name__ for pause in first.pauses] == [
        *("Suspended", "Resumed", "Suspended", "Resumed"),
    ]
    assert first.fault is not None
    assert [type(pause).__name__ for pause in third.pauses] == ["Suspended", "Resumed"]
    assert [type(pause).__name__ for pause in fourth.pauses] == [
        *("Suspended", "Resumed", "CancelRequested", "InvocationEnded"),
    ]


def test_handoffs_compactions_and_verdicts_are_told(told: Explanation) -> None:
    first, second, third, fourth = told.turns
    assert [one.upto for one in first.compacted] == [1]
    assert second.handed_off is not None
    assert second.proposal is not None
    assert second.proposal.by == "dee"
    assert [turn.agent for turn in told.turns] == ["triage", "triage", "billing", "billing"]
    assert [(v.verifier, v.passed) for v in fourth.verified] == [("facts", False)]
    assert third.committed


def test_what_was_used_of_each_limit_is_told_after_each_turn(told: Explanation) -> None:
    assert told.turns[0].limits == (
        Limit("steps", 1, 6),
        Limit("tool calls", 2, 5),
        Limit("cost", Decimal("0.25"), Decimal("1.50")),
        Limit("handoffs", 0, 4),
    )
    assert told.turns[1].limits[-1] == Limit("handoffs", 1, 4)
    # With what was granted since.
    assert told.stand.limits[0] == Limit("steps", 4, 8)


def test_the_end_is_told_with_its_cause(told: Explanation) -> None:
    stand = told.stand
    assert (stand.reason, stand.cause) == (Reason.CANCELLED, "cy: sent twice")
    assert (stand.open_calls, stand.unresolved, stand.proposal) == ((), (), None)


def test_what_is_open_is_told_of_one_that_waits() -> None:
    told = explain(entries((STARTED, *FIRST_TURN)))
    (turn,) = told.turns
    assert not turn.committed
    assert turn.limits == ()
    stand = told.stand
    assert stand.reason is Reason.RECONCILIATION_REQUIRED
    assert [(c.call_id, c.dispatched) for c in stand.open_calls] == [(B, False), (C, False)]
    assert [e.effect_key for e in stand.unresolved] == [KEY]
    assert stand.proposal is None


def test_a_proposal_that_waits_is_told() -> None:
    told = explain(entries((STARTED, *FIRST_TURN[:5])))
    assert told.stand.proposal is not None
    assert told.stand.proposal.digest == DIGEST


def test_a_beginning_alone_is_no_journal() -> None:
    with pytest.raises(JournalCorruptError, match="does not begin"):
        explain([])
    with pytest.raises(JournalCorruptError, match="does not begin"):
        explain(entries(FIRST_TURN))
    assert explain(entries((STARTED,))).turns == ()


# ---------------------------------------------------------------- nothing is lost
def test_every_end_is_told_where_it_was() -> None:
    """One that ended and was given more has ended more than once."""
    answer = Proposal(CannotContinue("no_data", "gone"), Usage())
    told = explain(
        entries(
            (
                STARTED,
                TurnCommitted(1, answer, (), 0, 1.0, 1_001.0),
                InvocationEnded(Reason.MAX_STEPS, 1.0, 1_002.0),
                Resumed("cy", 1_003.0, grant=Budget(max_steps=2)),
                TurnCommitted(2, answer, (), 0, 1.0, 1_004.0),
                InvocationEnded(Reason.CANNOT_CONTINUE, 1.0, 1_005.0, cause="no_data"),
            )
        )
    )
    ends = [
        (turn.number, pause.reason)
        for turn in told.turns
        for pause in turn.pauses
        if isinstance(pause, InvocationEnded)
    ]
    assert ends == [(1, Reason.MAX_STEPS), (2, Reason.CANNOT_CONTINUE)]


def test_what_was_known_of_a_call_before_its_result_is_told(told: Explanation) -> None:
    """That its outcome was unknown, and why, is no less a fact because it was settled later."""
    paid = told.turns[0].calls[A]
    assert [result.status for result in paid.results] == ["outcome_unknown", "ok"]
    assert paid.call.call_id == A
    assert paid.ran == {"order": 7}


def test_a_call_tells_what_ran_and_not_only_what_was_proposed() -> None:
    """A read is not dispatched: what a human has made of its arguments is in its result, or the yes."""
    told = explain(entries((STARTED, *FIRST_TURN[:7])))
    call = told.turns[0].calls[A]
    assert isinstance(call.call, ToolCall)
    assert call.call.arguments == {"order": 7, "amount": 500}
    assert (call.dispatched, call.ran) == ((), {"order": 7})


# ---------------------------------------------------------------- shown
@pytest.fixture
def kept(folder: Path) -> Path:
    keep(folder / "loopwright.db", RECORDS, Reason.CANCELLED)
    return folder


def test_explain_shows_everything_to_people(cli: Cli, kept: Path) -> None:
    said = cli("explain", "feed")
    assert (said.code, said.err) == (0, "")
    shown = " ".join(said.out.split())
    for part in (
        *("triage 3", "policy 7", "refund order 7", "ana; tenant acme; roles clerk"),
        *("steps 6, tool calls 5, cost 1.50", "big: $3 in, $15 out per million tokens"),
        "soft_stop: 2 steps are left.",
        "attempt 1 of big: rate_limited, 429: slow down",
        "tool_calls by big-2026 at attempt 2; 120 tokens (estimated), $0.25",
        "Let me pay.",
        "over(100) says ask to call a: more than 100",
        "no_wiping says deny to call b: nothing may be wiped",
        "for a yes to a (over(100)), until 1970-01-01 00:31:40 UTC",
        "call a, by bo: half, with order=7",
        "b: → denied: nothing may be wiped",
        "c: order=7 → ok, 3 attempts",
        "reconcilable effect pay:7, attempt 1, with order=7",
        "pay:7 unknown, says reconciler: the bank is closed",
        "pay:7 applied, says cy",
        "call: wipe is denied",
        "a summary stands for the turns up to 1",
        "used steps 1 of 6, tool calls 2 of 5, cost 0.25 of 1.50",
        "handoff by dee, in the model's place",
        "to billing: not mine (done: found the order; open: pay it)",
        "clarification_required: Which account?",
        "ana answers: the second",
        "facts failed: nothing was paid out",
        "cy grants steps 2 more",
        *("cy: sent twice", "reason cancelled", "Nothing more will start"),
    ):
        assert part in shown, part
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_explain_gives_everything_to_machines(cli: Cli, kept: Path) -> None:
    told = cli("explain", "feed", "--json").json
    assert (told["invocation_id"], told["reason"], told["steps"]) == (INVOCATION, "cancelled", 4)
    assert told["pinned"]["prices"][0]["model"] == "big"
    first = told["turns"][0]
    assert first["decided"]["verdicts"][0]["rule"] == "over(100)"
    assert [call["call"]["call_id"] for call in first["calls"]] == ["a", "b", "c"]
    assert first["calls"][0]["found"][1]["by"] == "cy"
    assert first["limits"][0] == {"name": "steps", "used": 1, "limit": 6}
    assert told["turns"][3]["verified"][0]["verifier"] == "facts"


def test_explain_shows_a_turn_in_the_order_in_which_it_happened(cli: Cli, kept: Path) -> None:
    shown = " ".join(cli("explain", "feed").out.split())
    parts = (
        "a: pay order=7, amount=500",
        "over(100) says ask",
        "suspended approval_required",
        "approved call a, by bo",
        "goes on by bo",
        "dispatched a: reconcilable effect pay:7",
        "a: order=7 → outcome_unknown",
        "says reconciler: the bank is closed",
        "suspended reconciliation_required",
        "says cy",
        "a: order=7 → ok",
        "b: → denied",
        "used steps 1 of 6",
        "ended cancelled: cy: sent twice",
    )
    where = [shown.find(part) for part in parts]
    assert -1 not in where, parts[where.index(-1)]
    assert where == sorted(where)


def test_explain_says_why_an_outcome_was_unknown(cli: Cli, folder: Path) -> None:
    gone = ToolResult(
        A,
        "pay",
        ResultStatus.OUTCOME_UNKNOWN,
        error=ToolError(ErrorCategory.INTERNAL, "OutcomeUnknown", "the worker w is gone"),
        attempts=1,
        effect_key=KEY,
    )
    records = (
        *(STARTED, *FIRST_TURN[:8], CallCompleted(1, gone, 1_102.0)),
        Suspended(Reason.RECONCILIATION_REQUIRED, 2.0, 1_104.0),
    )
    keep(folder / "loopwright.db", records, Reason.RECONCILIATION_REQUIRED)
    shown = " ".join(cli("explain", "feed").out.split())
    assert "a: order=7 → outcome_unknown: the worker w is gone" in shown


def test_what_waits_to_be_settled_does_not_look_like_an_open_proposal(
    cli: Cli, folder: Path
) -> None:
    """Its proposal has all its answers: there is nothing to say yes to any more."""
    keep(folder / "loopwright.db", (STARTED, *FIRST_TURN), Reason.RECONCILIATION_REQUIRED)
    for words in (("show", "feed"), ("explain", "feed"), ("inbox",)):
        shown = cli(*words).out
        assert "waits for a yes" not in shown, words
        assert "loopwright approve" not in shown, words
    assert cli("show", "feed", "--json").json["proposal"] is None


def test_show_has_a_line_for_each_of_these_records(cli: Cli, kept: Path) -> None:
    shown = " ".join(cli("show", "feed").out.split())
    for part in (
        "no reply big: rate_limited, 429: slow down",
        "by hand dee decides in the model's place",
        "handed over from triage to billing: not mine",
        "compacted a summary stands for the turns up to 1",
        "verified facts → failed: nothing was paid out",
    ):
        assert part in shown, part


def test_explain_leads_to_what_can_be_decided(cli: Cli, folder: Path) -> None:
    asked = FIRST_TURN[3]
    assert isinstance(asked, ApprovalRequested)
    later = replace(asked, expires_at=4_102_444_800.0)
    records = (STARTED, *FIRST_TURN[:3], later, FIRST_TURN[4])
    keep(folder / "loopwright.db", records, Reason.APPROVAL_REQUIRED)
    shown = cli("explain", "feed").out
    assert "loopwright approve 0000feed dddddddddddd --by YOUR-NAME" in shown
    assert "until 2100-01-01 00:00:00 UTC" in shown


@pytest.mark.parametrize("words", [("explain", "feed"), ("show", "feed"), ("inbox",)])
def test_a_proposal_that_has_expired_does_not_look_open(
    cli: Cli, folder: Path, words: tuple[str, ...]
) -> None:
    keep(folder / "loopwright.db", (STARTED, *FIRST_TURN[:5]), Reason.APPROVAL_REQUIRED)
    shown = cli(*words).out
    for part in ("expired, nothing of it runs", "expired at 1970-01-01 00:31:40 UTC"):
        assert part in shown
    assert "loopwright approve" not in shown
    assert "loopwright recover" in shown


def test_other_decisions_have_words_too(cli: Cli, folder: Path) -> None:
    decisions: tuple[Proposed, ...] = (
        RequestApproval((ToolCall(A, "pay", {}),), "it is much"),
        Malformed("no kind", "{"),
        CannotContinue("no_data", "the order is gone"),
    )
    turns = [
        TurnCommitted(number, Proposal(decision, Usage()), (), 0, 1.0, 1_000.0 + number)
        for number, decision in enumerate(decisions, 1)
    ]
    ended = InvocationEnded(Reason.CANNOT_CONTINUE, 1.0, 1_010.0, cause="no_data")
    keep(folder / "loopwright.db", (STARTED, *turns, ended), Reason.CANNOT_CONTINUE)
    shown = cli("explain", "feed").out
    for part in ("wants a yes: it is much", "a: has no result", "no kind", "no_data: the order"):
        assert part in shown, part


def test_an_invocation_that_runs_is_explained_as_far_as_it_is(cli: Cli) -> None:
    done = cli("run", "refund-desk", "Settle refund request REQ-05", "--json").json
    told = cli("explain", done["invocation_id"], "--json").json
    assert told["reason"] == "approval_required"
    assert told["proposal"]["digest"] == done["proposal"]["digest"]
    rules = [r for turn in told["turns"] for call in turn["calls"] for r in call["rules"]]
    assert "over(100)" in {rule["rule"] for rule in rules}
