"""People in the loop: one decides in the model's place; and what nobody answers in time."""

from __future__ import annotations

import pytest

from loopwright.actors._clock import Instant
from loopwright.policy import Policy
from loopwright.protocol import (
    AlreadyDecidedError,
    ApprovalDecided,
    ApprovalExpiredError,
    Budget,
    CallId,
    CannotContinue,
    Clarification,
    Commit,
    Decide,
    Decision,
    Execute,
    Faulty,
    Final,
    InvocationStateError,
    Reason,
    RunState,
    Stalled,
    Tick,
    Validate,
)
from machine.driver import Driver
from machine.places import PLACES
from machine.samples import calls
from machine.ways import ASKS, EXPIRES, Place, asked, child_waits, held, out_of_steps

SOON = Policy(approval_expires=30)


# ---------------------------------------------------------------- a person takes a step
def test_a_person_takes_one_step_and_then_the_model_is_asked_again() -> None:
    """It is judged, run, journaled and counted like any other, and costs no tokens."""
    run = Driver().start().decide(Clarification("which?")).judged()
    run.decide_instead(calls("read"))
    assert run.commits[-1] == ("resumed", "turn_proposed")
    assert run.last(Validate).tools == "all"
    run.judged().done("read")
    assert run.statuses() == ["ok"]
    proposal = run.turns[-1].proposal
    assert (proposal.by, proposal.usage.total, proposal.model) == ("ann", 0, "")
    assert run.observed().machine.folded.spent.steps == 2
    assert run.last(Decide).turn == 3
    assert run.finish().reason is Reason.COMPLETED


def test_it_is_durable_before_it_is_judged_and_survives_a_crash() -> None:
    """Somebody has decided: they are not asked a second time."""
    run = held(Driver().start().fail_model()).decide_instead(calls("pay"))
    run.store()
    run = run.reload()
    run.hold = False
    run.recover().judged().done("pay")
    assert run.statuses() == ["ok"]
    assert run.turns[0].proposal.by == "ann"


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (Final("I say so"), Reason.COMPLETED),
        (Clarification("which?"), Reason.CLARIFICATION_REQUIRED),
        (CannotContinue("stop", "enough"), Reason.CANNOT_CONTINUE),
        (calls("transfer"), Reason.APPROVAL_REQUIRED),
    ],
)
def test_any_decision_will_do(decision: Decision, reason: Reason) -> None:
    """Also one that has to be approved: by whom is a matter of policy."""
    run = Driver().start().fail_model().decide_instead(decision).judged()
    assert run.reason is reason


def test_it_is_judged_like_the_models() -> None:
    """What is unusable is a fault, and nothing of it runs."""
    run = Driver().start().fail_model().decide_instead(calls("read")).judged(Faulty("no such tool"))
    assert run.statuses() == ["not_started"]
    assert run.turns[0].fault is not None
    assert run.all(Execute) == []
    run = Driver().start().fail_model().decide_instead(Final("x")).judged(Faulty("no such field"))
    assert run.turns[0].fault is not None
    assert run.turns[0].proposal.by == "ann"


def test_out_of_budget_it_is_the_one_step_there_is() -> None:
    """No model call is made; afterwards it is out of budget as before."""
    run = out_of_steps().decide_instead(calls("read")).judged().done("read").observed()
    assert run.reason is Reason.MAX_STEPS
    assert (run.outcome.steps, len(run.all(Decide))) == (2, 1)
    run.decide_instead(Final("that is it")).judged()
    assert (run.reason, run.outcome.answer) == (Reason.COMPLETED, "that is it")


def test_its_calls_must_fit_the_budget() -> None:
    """Tool calls are limited whoever asks for them."""
    run = Driver(Budget(max_tool_calls=0)).start().fail_model()
    run.decide_instead(calls("read")).judged()
    assert run.reason is Reason.TOOL_BUDGET_EXHAUSTED
    assert run.all(Execute) == []


def test_a_stalled_invocation_is_taken_over() -> None:
    """Ended or suspended for it."""
    stalled = Stalled("cycle", "three rounds of the same")
    for policy in (None, ASKS):
        run = Driver(policy=policy).start().propose("read").done("read").observed(stalled)
        run.decide_instead(calls("read_b")).judged().done("read_b").observed()
        assert run.state is RunState.MODEL_THINKING


@pytest.mark.parametrize("run", [asked(), child_waits()], ids=["approval", "child"])
def test_nobody_decides_in_the_middle_of_a_turn(run: Driver) -> None:
    """It has to be finished first: by whoever is asked."""
    with pytest.raises(InvocationStateError, match="in the middle of turn 1"):
        run.decide_instead(Final("done"))
    assert run.state is RunState.SUSPENDED


TAKEN_OVER = (RunState.SUSPENDED, RunState.FAILED)


@pytest.mark.parametrize(
    "place", [p for p in PLACES if p.state not in TAKEN_OVER], ids=lambda place: place.name
)
def test_nobody_decides_while_it_works_or_once_it_is_over(place: Place) -> None:
    """A model, or a tool, may be at it; what is finished or cancelled stays so."""
    run = place.build()
    with pytest.raises(InvocationStateError):
        run.decide_instead(Final("done"))


# ---------------------------------------------------------------- nobody answers in time
def test_a_proposal_says_until_when_it_waits() -> None:
    """On the wall clock; it is suspended meanwhile, and nothing wakes it by itself."""
    run = asked(SOON)
    assert run.outcome.proposal is not None
    assert run.outcome.proposal.expires_at == 1_030.0
    assert run.machine.wake_at is None


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_has_expired_is_refused_and_the_invocation_goes_on(elsewhere: bool) -> None:
    """Nothing runs; that it was no human's no is in the journal, and the Validator is told."""
    run = asked(SOON)
    run = run.reload() if elsewhere else run
    run.time = 30
    run.expire()
    assert run.commits[-1] == ("approval_decided", "resumed")
    assert run.last(Validate).expired == {CallId("transfer_a"), CallId("transfer_b")}
    assert (run.last(Validate).approved, run.last(Validate).denied) == ((), ())
    run.judged()
    assert run.statuses() == ["denied", "denied"]
    assert run.all(Execute) == []
    decided = [e.record for e in run.journal if isinstance(e.record, ApprovalDecided)]
    assert [(d.by, d.expired) for d in decided] == [("runtime", True)]
    assert run.observed().finish().reason is Reason.COMPLETED


def test_before_its_time_nothing_expires() -> None:
    """Whoever says so is told; the proposal waits on."""
    run = asked(SOON)
    run.time = 29.9
    with pytest.raises(InvocationStateError, match="has not expired"):
        run.expire()
    run = asked()
    run.time = 900
    with pytest.raises(InvocationStateError, match="has not expired"):
        run.expire()
    assert run.approve().judged().done("transfer_a").done("transfer_b").statuses() == ["ok", "ok"]


@pytest.mark.parametrize("yes", [True, False])
def test_an_answer_that_comes_too_late_is_refused(yes: bool) -> None:
    """Also if nobody has said yet that the time is over: no yes counts after it."""
    run = asked(SOON)
    run.time = 30
    with pytest.raises(ApprovalExpiredError):
        run.approve(yes=yes)
    run.expire()
    with pytest.raises(AlreadyDecidedError):
        run.approve(yes=yes)


def test_an_answer_on_its_way_goes_before_the_end_of_the_time() -> None:
    """It came in time; the first word stands."""
    run = held(asked(SOON))
    run.time = 29
    run.approve()
    run.time = 31
    with pytest.raises(InvocationStateError, match="no proposal is waiting"):
        run.expire()
    run.ack().judged().ack()
    assert run.executed() == ["transfer_a#1"]


def test_calls_that_were_answered_keep_their_answer() -> None:
    """Only those nobody answered for are refused."""
    run = asked(SOON).approve("transfer_a")
    run.time = 30
    run.expire()
    request = run.last(Validate)
    assert request.approved == (CallId("transfer_a"),)
    assert request.expired == {CallId("transfer_b")}
    run.judged().done("transfer_a")
    assert run.statuses() == ["ok", "denied"]


def test_it_expires_by_itself_while_it_waits_in_memory() -> None:
    """The machine wakes up for it; nothing was suspended, so nothing is resumed."""
    run = asked(EXPIRES)
    assert (run.state, run.machine.wake_at) == (RunState.WAIT_APPROVAL, 30)
    run.later(30)
    assert run.commits[-1] == ("approval_decided",)
    assert run.judged().statuses() == ["denied", "denied"]


def test_a_wait_that_is_over_before_suspends_and_then_expires() -> None:
    """The shorter of the two times comes first."""
    run = asked(Policy(approval_grace=10, approval_expires=30)).later(10)
    assert run.reason is Reason.APPROVAL_REQUIRED
    run.time = 30
    assert run.expire().judged().statuses() == ["denied", "denied"]


def test_a_wall_clock_that_is_behind_refuses_nothing() -> None:
    """The wait is measured on another clock: it is suspended then, and expires when it says so."""
    run = held(asked(EXPIRES))
    (commit,) = run.machine.on(Tick(), Instant(30.0, 1_029.0))
    assert isinstance(commit, Commit)
    assert commit.append.head is not None
    assert commit.append.head.reason is Reason.APPROVAL_REQUIRED


def test_an_expired_proposal_that_is_made_again_asks_nobody() -> None:
    """It was denied: the model has to find another way."""
    run = asked(SOON)
    run.time = 30
    run.expire().judged().observed().propose("transfer_a")
    assert run.statuses() == ["denied"]
    assert run.reason is Reason.POLICY_DENIED
