"""Cancelling: nothing new starts, what runs gets its chance, and no call is left without a result."""

from __future__ import annotations

import pytest

from loopwright.policy import Policy
from loopwright.protocol import (
    AnswerApproval,
    Budget,
    CancelDecide,
    Clarification,
    Decide,
    Execute,
    InvocationStateError,
    Reason,
    ResultStatus,
    RunState,
    calls_of,
    unknown,
)
from machine.driver import Driver
from machine.places import PLACES
from machine.samples import failed
from machine.ways import Place

ON_ITS_WAY = (
    "nothing",
    "finishing",
    "failing",
    "failing_refused",
    "finishing_corrected",
    "finishing_verified",
)
"""There is nothing to cancel yet, or the end is on its way to the store."""
CANCELLABLE = [
    place
    for place in PLACES
    if (not place.state.at_rest or place.state is RunState.SUSPENDED)
    and place.name not in ON_ITS_WAY
    and place.state is not RunState.CANCELLING
]


def drain(run: Driver) -> Driver:
    """Let everything in flight report, until nothing is."""
    run.hold = False
    for _ in range(3):
        run.ack()
        for call_id in list(run.asking):
            run.found(call_id, unknown("no trace"))
        for call_id in list(run.running):
            run.done(call_id, failed(run.running[call_id], ResultStatus.CANCELLED))
        if not run.state.at_rest and run.all(Decide):
            run.fail_model("cancelled")
    return run


@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
@pytest.mark.parametrize("place", CANCELLABLE, ids=lambda place: place.name)
def test_a_cancel_ends_it_from_every_place(place: Place, hard: bool) -> None:
    """Nothing is dispatched any more, and every call of every committed turn has its result."""
    run = place.build()
    before = len(run.all(Execute)), len(run.all(Decide))
    ended = [entry.record.kind for entry in run.journal].count("invocation_ended")
    run.cancel(hard=hard)
    drain(run)

    assert run.reason is Reason.CANCELLED
    assert (len(run.all(Execute)), len(run.all(Decide))) == before
    left = run.machine.folded.protocol.open
    assert left is None or not calls_of(left.proposal.decision)
    for turn in run.turns:
        decision = turn.proposal.decision
        declared = [call.call_id for call in getattr(decision, "calls", ())]
        assert [result.call_id for result in turn.results] == declared
    kinds = [entry.record.kind for entry in run.journal]
    assert "cancel_requested" in kinds
    assert kinds[-1] == "invocation_ended"
    assert kinds.count("invocation_ended") == ended + 1


def test_b08_every_call_of_a_cancelled_batch_has_a_result() -> None:
    """Done is ok, interrupted is cancelled, what never began is not started."""
    run = Driver().start().propose("read_1", "read_2", "pay").done("read_1")
    run.cancel()
    assert run.interrupted() == ["read_2#1"]
    run.done("read_2", failed(run.running["read_2"], ResultStatus.CANCELLED))

    assert run.reason is Reason.CANCELLED
    assert run.statuses() == ["ok", "cancelled", "not_started"]
    assert run.turns[0].tool_calls == 2
    assert run.outcome.partial is not None
    assert run.outcome.partial.effects == ()


def test_a_cancel_while_something_runs_is_durable_at_once() -> None:
    """Should this process die in the drain, the next one knows."""
    run = Driver().start().cancel()
    assert [c.turn for c in run.all(CancelDecide)] == [1]
    assert run.commits[1:] == [("cancel_requested",)]

    run = run.reload().recover()
    assert run.reason is Reason.CANCELLED
    assert run.outcome.cause == "not wanted any more"
    assert run.all(Decide) == []


def test_a_cancel_at_rest_is_one_commit() -> None:
    """With nothing in flight the request and the end are stored together."""
    run = Driver().start().decide(Clarification("which?")).judged().cancel()
    assert run.commits[2:] == [("cancel_requested", "invocation_ended")]


def test_b82_cancelling_while_an_approval_is_pending() -> None:
    """The call is not started, and a later yes finds nothing to approve."""
    run = Driver().start().propose("transfer")
    proposal = run.machine.folded.proposal()
    assert proposal is not None
    run.cancel()

    assert run.reason is Reason.CANCELLED
    assert run.statuses() == ["not_started"]
    assert run.outcome.proposal is None
    with pytest.raises(InvocationStateError):
        run.tell(AnswerApproval(proposal.digest, True, "ann"))
    assert run.all(Execute) == []


def test_a_write_in_flight_gets_the_grace_period() -> None:
    """It is not interrupted, and what it reports in time is its result."""
    run = Driver().start().propose("pay", "mail").cancel()
    assert (run.interrupted(), run.interrupted(begun=False)) == ([], ["pay#1"])
    assert run.machine.wake_at == 5.0
    run.later(4).done("pay")
    assert run.statuses() == ["ok", "not_started"]
    assert run.machine.folded.partial().effects[0].status == "committed"


def test_a_write_that_does_not_report_has_an_unknown_outcome() -> None:
    """After the grace period it is given up, and never called not run."""
    run = Driver().start().propose("pay", "read").cancel().later(5)
    assert run.interrupted() == ["pay#1"]
    assert run.statuses() == ["outcome_unknown", "not_started"]
    assert run.outcome.partial is not None
    assert [e.status for e in run.outcome.partial.effects] == ["outcome_unknown"]
    assert run.turns[0].tool_calls == 1


def test_a_late_result_changes_nothing() -> None:
    """What was given up is over; its report is traced and dropped."""
    run = Driver().start().propose("pay").cancel().later(5)
    run.done("pay")
    assert run.statuses() == ["outcome_unknown"]


def test_a_hard_cancel_does_not_wait_for_writes() -> None:
    """They are interrupted at once, and given up with the next tick."""
    run = Driver().start().propose("pay").cancel(hard=True)
    assert run.interrupted() == ["pay#1"]
    assert run.later(0).statuses() == ["outcome_unknown"]


@pytest.mark.parametrize("hard", [False, True])
def test_cancelling_twice(hard: bool) -> None:
    """A second soft cancel adds nothing, a hard one ends the waiting."""
    run = Driver().start().propose("pay").cancel().cancel(hard=hard)
    if not hard:
        assert run.state is RunState.CANCELLING
        run.later(5)
    assert run.statuses() == ["outcome_unknown"]
    kinds = [entry.record.kind for entry in run.journal]
    assert kinds.count("cancel_requested") == kinds.count("invocation_ended") == 1


def test_a_prepared_write_is_not_started_and_leaves_no_effect() -> None:
    """Its dispatch became durable, its tool never saw it: the ledger says `not_applied`."""
    run = Driver().start()
    run.hold = True
    run.propose("pay").cancel().ack(1)
    assert run.effects == {"pay": "dispatched"}

    run.ack()
    assert run.all(Execute) == []
    assert run.statuses() == ["not_started"]
    assert run.effects == {"pay": "not_applied"}
    assert run.outcome.unresolved_effects == ()
    assert run.turns[0].tool_calls == 0


def test_a_turn_whose_commit_is_under_way_is_committed_once() -> None:
    """A cancel between the last result and the next model call adds no second turn."""
    for acknowledged in (True, False):
        run = Driver().start().propose("read")
        run.hold = not acknowledged
        run.done("read").cancel().ack()
        assert [turn.turn for turn in run.turns] == [1]
        assert run.outcome.steps == 1


def test_a_cancel_takes_back_a_suspension_that_is_on_its_way() -> None:
    """The request is durable after the suspension, and a crash in between does not lose it."""
    run = Driver().start()
    run.hold = True
    run.decide(Clarification("which?")).judged().cancel().ack(2)
    run = run.reload().recover()
    run.ack()
    assert run.reason is Reason.CANCELLED


def test_a_cancel_comes_too_late_once_the_end_is_on_its_way() -> None:
    """It ends as it would have ended."""
    run = Driver().start()
    run.hold = True
    run.finish().cancel().ack()
    assert run.reason is Reason.COMPLETED


def test_a_cancel_goes_before_the_reason_it_is_already_stopping_for() -> None:
    """Precedence: cancelled before deadlines and budgets; it is durable like any other cancel."""
    budget, policy = Budget(max_active_seconds=10), Policy(cancel_grace=2)
    run = Driver(budget, policy).start().propose("pay").later(10)
    assert run.machine.wake_at == 12
    run.cancel().later(2)
    assert run.reason is Reason.CANCELLED
    assert run.statuses() == ["outcome_unknown"]
    assert [kind for commit in run.commits for kind in commit].count("cancel_requested") == 1


def test_a_turn_cut_short_keeps_the_notice_its_model_was_shown() -> None:
    """What the model was told is journaled with the turn, also where that turn is interrupted."""
    run = Driver(Budget(max_steps=2)).start().turn("read").propose("read").cancel().done("read")
    assert run.reason is Reason.CANCELLED
    assert [kind for commit in run.commits for kind in commit].count("notice_injected") == 1
    assert run.machine.folded.business.turns[-1].notice is not None


def test_what_was_only_interrupted_gets_a_second_not_the_grace_of_writes() -> None:
    """The long grace is for writes in flight; a read or a model that does not obey is abandoned."""
    run = Driver(policy=Policy(cancel_grace=60)).start().propose("read").cancel()
    assert run.machine.wake_at == run.time + 1
    assert run.later(1).reason is Reason.CANCELLED
    assert run.statuses() == ["cancelled"]

    run = Driver(policy=Policy(cancel_grace=60)).start().cancel()
    assert run.later(1).reason is Reason.CANCELLED

    run = Driver(policy=Policy(cancel_grace=60)).start().propose("pay").cancel()
    assert run.machine.wake_at == run.time + 60
