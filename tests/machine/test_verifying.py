"""A final answer is a claim: it counts once every verifier has passed it, as the ledger stands."""

from __future__ import annotations

import pytest

from loopwright.policy import Policy
from loopwright.protocol import (
    AnswerVerified,
    Budget,
    CancelVerify,
    Decide,
    Final,
    Late,
    Reason,
    RunState,
    Verify,
    applied,
    unknown,
)
from machine.driver import Driver
from machine.ways import VERIFIERS, given_up, held, verified_before, verifying


def verdicts(run: Driver) -> list[tuple[str, bool]]:
    """List the journaled verdicts."""
    records = [entry.record for entry in run.journal]
    return [(r.verifier, r.passed) for r in records if isinstance(r, AnswerVerified)]


def test_verifiers_look_one_after_the_other_and_then_it_is_done() -> None:
    """Nothing is completed before the last; its verdict is durable in the commit of the end."""
    run = verifying()
    assert run.state is RunState.VERIFY_ANSWER
    assert [ask.number for ask in run.all(Verify)] == [0]
    run.verified()
    assert [ask.number for ask in run.all(Verify)] == [0, 1]
    assert run.turns == []

    run.verified()
    assert run.reason is Reason.COMPLETED
    assert run.commits[1:] == [
        ("turn_proposed",),
        ("answer_verified",),
        ("answer_verified", "turn_committed", "invocation_ended"),
    ]
    assert verdicts(run) == [("sums", True), ("style", True)]


def test_a_verifier_is_shown_the_claim_and_what_is_known_of_the_world() -> None:
    """The answer is only words: the ledger beside it says what has happened."""
    run = Driver(verifiers=("sums",)).start().turn("pay").finish("it is paid")
    claim = run.last(Verify).claim
    assert (claim.answer, claim.goal, claim.agent) == ("it is paid", "refund order 7", "desk")
    assert [(effect.call_id, effect.status) for effect in claim.effects] == [("pay", "committed")]
    assert [turn.number for turn in claim.history] == [1]


def test_a_failed_answer_is_a_turn_and_its_model_is_told_why() -> None:
    """The verifiers behind it are not asked; the turn is no fault of the protocol."""
    run = verifying().verified("7 is not 8")
    assert len(run.all(Verify)) == 1
    fault = run.turns[0].fault
    assert fault is not None
    assert (fault.level, fault.problem) == (
        "answer",
        "the answer does not stand up to sums: 7 is not 8",
    )
    p = run.machine.folded.protocol
    assert (p.failed_answers, p.faulty_decisions, p.faulty_turns) == (1, 0, 0)

    run.finish("8").verified().verified()
    assert (run.reason, run.outcome.answer, run.outcome.steps) == (Reason.COMPLETED, "8", 2)


@pytest.mark.parametrize("between", [False, True], ids=["in a row", "with work between"])
def test_too_many_failed_answers_end_it(between: bool) -> None:
    """They are counted over the whole invocation, also over a crash."""
    run = Driver(policy=Policy(max_verifications=2), verifiers=("sums",)).start()
    run.finish().verified("wrong")
    if between:
        run.turn("read")
    run = run.reload().recover().finish().verified("still wrong")
    assert run.reason is Reason.VERIFICATION_FAILED
    assert run.outcome.cause == "the answer does not stand up to sums: still wrong"
    assert run.outcome.partial is not None


def test_after_a_crash_only_those_who_have_not_passed_it_are_asked() -> None:
    """A verdict is durable before the next verifier looks; the model is not asked again."""
    run = verifying().verified().reload().recover().judged()
    assert run.all(Decide) == []
    assert [ask.number for ask in run.all(Verify)] == [1]
    run.verified()
    assert run.reason is Reason.COMPLETED
    assert verdicts(run) == [("sums", True), ("style", True)]


def test_what_every_verifier_of_today_has_passed_is_done() -> None:
    """The one that had not looked yet is none any more."""
    run = verified_before().judged()
    assert run.reason is Reason.COMPLETED
    assert run.all(Verify) == []


def test_a_verdict_that_is_not_durable_is_lost_with_its_process() -> None:
    """The verifier is asked again."""
    run = held(verifying()).verified()
    assert [ask.number for ask in run.all(Verify)] == [0, 1]
    run = run.reload()
    run.hold = False
    run.recover().judged()
    assert [ask.number for ask in run.all(Verify)] == [0]


def test_a_failed_verdict_without_its_turn_is_asked_again() -> None:
    """Between the two commits a process may die; the answer is not passed for that."""
    run = held(verifying()).verified("wrong").ack(1).reload()
    run.hold = False
    assert verdicts(run) == [("sums", False)]
    run.recover().judged()
    assert [ask.number for ask in run.all(Verify)] == [0]


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "on its way"])
@pytest.mark.parametrize("passed", [0, 1], ids=["first", "last"])
def test_k11_a_verdict_is_void_when_an_effect_changes_meanwhile(passed: int, durable: bool) -> None:
    """All look again, at the ledger as it is by then; also while the change is being stored."""
    run = given_up(verifiers=VERIFIERS).finish()
    for _ in range(passed):
        run.verified()
    run.hold = not durable
    run.settle("mail", applied("sent")).verified()
    assert run.state is RunState.VERIFY_ANSWER
    run.hold = False
    run.ack()
    while run.state is RunState.VERIFY_ANSWER:
        run.verified()

    assert run.reason is Reason.COMPLETED
    bounds = [e.record.bound for e in run.journal if isinstance(e.record, AnswerVerified)]
    assert verdicts(run)[-2:] == [("sums", True), ("style", True)]
    assert bounds[-1] == bounds[-2]
    assert set(bounds[:-2]).isdisjoint(bounds[-2:])
    assert [effect.status for effect in run.last(Verify).claim.effects] == ["committed"]


def test_k11_a_verdict_of_before_the_crash_is_void_when_an_effect_has_changed_since() -> None:
    """It is compared by what it is bound to, not by whose turn it was."""
    run = given_up(verifiers=VERIFIERS).finish().verified().settle("mail", applied("sent"))
    run = run.reload().recover().judged()
    assert [ask.number for ask in run.all(Verify)] == [0]


@pytest.mark.parametrize("hard", [False, True])
def test_a_cancel_stops_the_verifier_and_waits_for_nobody(hard: bool) -> None:
    """Its word comes too late then, and the answer is not given."""
    run = verifying().cancel(hard=hard)
    assert [cancel.turn for cancel in run.all(CancelVerify)] == [1]
    assert run.reason is Reason.CANCELLED
    assert run.outcome.answer == ""
    run.verified()
    assert run.said[-1] == Late("Verified")


def test_an_answer_that_ran_out_of_time_is_judged_once_more_is_granted() -> None:
    """The reply was paid for and is durable: the model is not asked a second time."""
    budget = Budget(max_active_seconds=10)
    run = Driver(budget, verifiers=VERIFIERS).start().finish().verified().later(10)
    assert run.reason is Reason.TIME_BUDGET_EXHAUSTED
    assert run.outcome.usage.total == 110

    run = run.reload().grant(budget).judged().verified()
    assert run.reason is Reason.COMPLETED
    assert run.all(Decide) == []
    assert (run.outcome.usage.total, run.outcome.steps) == (110, 1)


def test_a_persons_answer_is_verified_like_any_other() -> None:
    """Whoever decides instead of the model claims no more than it does."""
    run = Driver(verifiers=("sums",)).start().fail_model()
    run.decide_instead(Final("I say so")).judged()
    assert run.state is RunState.VERIFY_ANSWER
    run.verified()
    assert (run.reason, run.outcome.answer) == (Reason.COMPLETED, "I say so")


def test_a_word_that_says_nothing_new_still_voids_a_verdict() -> None:
    """The model was not shown it, and the verifier neither."""
    run = given_up(verifiers=("sums",)).finish().settle("mail", unknown("still")).verified()
    assert run.state is RunState.VERIFY_ANSWER
    assert run.verified().reason is Reason.COMPLETED
