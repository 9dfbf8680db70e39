"""A call that stands for a child: how it ends, what its parent waits for, and who is told to stop."""

from __future__ import annotations

from decimal import Decimal

import pytest

from loopwright.protocol import (
    Budget,
    CallId,
    ChildRested,
    Commit,
    Execute,
    Interrupt,
    InvocationStateError,
    Reason,
    Reconcile,
    Reserved,
    ResultStatus,
    RunState,
    Validate,
    applied,
    not_applied,
    unknown,
)
from machine.driver import Driver
from machine.samples import at_once, calls, child_of, judge, refusal, stand_of
from machine.ways import LIMITS, child_waits, given_up, held, hired, two_hired


# ---------------------------------------------------------------- how a child ends
@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (Reason.COMPLETED, "ok"),
        (Reason.MAX_STEPS, "error"),
        (Reason.POLICY_DENIED, "error"),
        (Reason.CANCELLED, "cancelled"),
    ],
)
def test_its_reason_comes_back_typed(reason: Reason, status: str) -> None:
    """The turn goes on with the call's one result, and has what the child used."""
    run = hired().child_rested("hire", reason)
    (result,) = run.turns[0].results
    assert (result.status.value, result.attempts) == (status, 1)
    assert result.child is not None
    assert (result.child.reason, result.child.invocation_id) == (reason, "child-hire")
    assert run.machine.folded.spent.tool_calls == 2
    assert run.machine.folded.spent.tool_failures == (status == "error")
    assert run.effects == {}, "what a child has written is in its own ledger"
    assert run.observed().finish().reason is Reason.COMPLETED


def test_a_child_that_never_began_costs_nothing() -> None:
    """Its agent is gone, say: the call was not started, and what was kept aside is free."""
    run = hired()
    never = refusal(CallId("hire"), "hire", ResultStatus.NOT_STARTED)
    run.child_rested("hire", result=never)
    assert run.statuses() == ["not_started"]
    assert (run.turns[0].tool_calls, run.machine.folded.spent.tool_calls) == (0, 0)


def test_a_start_in_doubt_is_looked_into_once() -> None:
    """The store failed while it was started: it is there, or it is not and is started again."""
    run = hired().lost("hire")
    assert run.state is RunState.RECONCILE
    run.found("hire", not_applied())
    assert run.executed() == ["hire#1", "hire#2"]

    run = hired().lost("hire").child_rested("hire", None)
    assert run.reason is Reason.RECONCILIATION_REQUIRED
    assert len(run.all(Reconcile)) == 1


# ---------------------------------------------------------------- a child that waits
def test_its_parent_waits_with_it_for_the_same_reason() -> None:
    """What stands in the head is the child, by which the runtime finds its parent again."""
    run = child_waits()
    assert (run.state, run.reason) == (RunState.SUSPENDED, Reason.APPROVAL_REQUIRED)
    assert run.outcome.waits_for == (child_of("hire"),)
    assert run.outcome.proposal is None
    head = run.last(Commit).append.head
    assert head is not None
    assert (head.reason, head.detail) == (Reason.APPROVAL_REQUIRED, "child child-hire")
    assert run.all(Reconcile) == []
    assert run.machine.folded.spent.tool_calls == 4
    assert run.commits[-1] == ("call_completed", "suspended")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_once_it_has_ended_its_parent_goes_on(elsewhere: bool) -> None:
    """It is asked after, and never started a second time."""
    run = child_waits()
    run = run.reload() if elsewhere else run
    before = len(run.all(Execute))
    run.wake("child-hire").judged()
    assert (len(run.all(Execute)), run.last(Reconcile).stop) == (before, False)
    run.child_rested("hire", tool_calls=2)
    assert run.statuses() == ["ok"]
    assert run.machine.folded.spent.tool_calls == 3
    assert run.observed().finish().reason is Reason.COMPLETED
    assert run.outcome.waits_for == ()


def test_it_may_wait_again_for_something_else() -> None:
    """Then so does its parent; the last word on it is the one that counts."""
    run = child_waits().wake("child-hire").judged()
    run.child_rested("hire", Reason.CLARIFICATION_REQUIRED)
    assert (run.reason, run.outcome.waits_for) == (
        Reason.CLARIFICATION_REQUIRED,
        (child_of("hire"),),
    )
    run = run.reload().wake("child-hire").judged().child_rested("hire", Reason.MAX_STEPS)
    assert run.statuses() == ["error"]


@pytest.mark.parametrize("child", ["child-ghost", "hire", ""])
def test_nobody_else_wakes_it(child: str) -> None:
    """Only a child it waits for does; nothing has changed."""
    run = child_waits()
    with pytest.raises(InvocationStateError, match="does not wait for child"):
        run.wake(child)
    with pytest.raises(InvocationStateError):
        Driver().start().wake("child-hire")


def test_a_text_is_not_for_the_parent_of_the_one_that_asks() -> None:
    """The child has the question; its parent has none."""
    run = Driver().start().turn("read").propose("hire")
    run.child_rested("hire", Reason.CLARIFICATION_REQUIRED)
    with pytest.raises(InvocationStateError, match="child-hire"):
        run.reply("the blue one")
    assert run.machine.folded.business.turns[0].answer is None


def test_two_that_wait_are_waited_for_together() -> None:
    """Whichever ends first wakes it; then both are asked after."""
    run = two_hired().child_rested("hire", Reason.APPROVAL_REQUIRED)
    assert run.state is RunState.EXECUTE_TOOL
    run.child_rested("hire_too", Reason.CLARIFICATION_REQUIRED)
    assert list(run.outcome.waits_for) == [child_of("hire"), child_of("hire_too")]
    run.wake("child-hire_too").judged()
    assert sorted(run.asking) == ["hire", "hire_too"]
    run.child_rested("hire_too").child_rested("hire", Reason.APPROVAL_REQUIRED)
    assert run.outcome.waits_for == (child_of("hire"),)


@pytest.mark.parametrize("reason", [Reason.APPROVAL_REQUIRED, Reason.RECONCILIATION_REQUIRED])
def test_its_parent_is_found_by_it_also_after_the_ledger_was_corrected(reason: Reason) -> None:
    """The head names the child for as long as it rests, whatever the child waits for."""
    run = given_up().propose("hire").child_rested("hire", reason)
    before = run.last(Commit).append.head
    run.settle("mail", applied())
    for head in (before, run.last(Commit).append.head):
        assert head is not None
        assert (head.reason, head.detail) == (reason, "child child-hire")


def test_a_write_only_a_person_can_settle_goes_before_a_child() -> None:
    """The reason is the one somebody has to act on here."""
    run = Driver().start().decide(calls("hire", "mail"))
    run.judged(at_once(judge(run.last(Validate)))).assessed().lost("mail")
    run.child_rested("hire", Reason.APPROVAL_REQUIRED)
    assert run.reason is Reason.RECONCILIATION_REQUIRED
    assert run.outcome.waits_for == (child_of("hire"),)
    head = run.last(Commit).append.head
    assert head is not None
    assert head.detail == "mail (mail)"


# ---------------------------------------------------------------- crashes
@pytest.mark.parametrize("durable", [False, True], ids=["before", "after"])
def test_a_crash_around_the_dispatch(durable: bool) -> None:
    """Before it is durable nothing began; after it, the child is asked after, and not started."""
    run = held(Driver(LIMITS).start()).propose("hire")
    if durable:
        run.store()
    run = run.reload()
    run.hold = False
    assert run.machine.folded.spent.tool_calls == (8 if durable else 0)
    run.recover()
    if not durable:
        assert run.machine.folded.protocol.open is None
        return
    run.judged()
    assert (run.all(Execute), [r.call_id for r in run.all(Reconcile)]) == ([], ["hire"])
    run.child_rested("hire", tool_calls=5)
    assert run.machine.folded.spent.tool_calls == 6
    assert run.reservations() == [Reserved(8, 890, Decimal(1))]


def test_one_that_never_began_is_started_again_with_what_was_kept_for_it() -> None:
    """Its parent died between the dispatch and the start; the reservation is not made twice."""
    run = hired().reload().recover().judged().found("hire", not_applied())
    execute = run.last(Execute)
    assert (execute.attempt, execute.effect_key) == (2, run.last(Reconcile).effect_key)
    assert run.reservations() == [Reserved(8, 890, Decimal("0.9"))] * 2
    assert run.machine.folded.spent.tool_calls == 8
    run.child_rested("hire", tool_calls=1)
    assert run.statuses() == ["ok"]
    assert run.machine.folded.spent.tool_calls == 2


def test_a_result_that_was_not_durable_is_asked_for_again() -> None:
    """The child has it; nothing of it is charged twice."""
    run = held(hired()).child_rested("hire", tool_calls=3).reload()
    run.hold = False
    assert run.machine.folded.spent.tool_calls == 8
    run.recover().judged().child_rested("hire", tool_calls=3)
    assert run.machine.folded.spent.tool_calls == 4


def test_one_of_which_nobody_knows_has_used_what_it_might() -> None:
    """A person's last word is that nobody knows: charged is all that was kept aside, for good."""
    run = hired().reload().recover().judged().found("hire", unknown("no trace"))
    assert run.reason is Reason.RECONCILIATION_REQUIRED
    run.settle("hire", unknown("nobody knows")).judged()
    assert run.statuses() == ["outcome_unknown"]
    spent = run.machine.folded.spent
    assert (spent.tool_calls, spent.usage.total, spent.cost) == (9, 1_000, Decimal(1))
    assert spent.usage.estimated
    assert run.reload().machine.folded.spent == spent


# ---------------------------------------------------------------- stopping
def test_a_cancel_goes_on_to_the_child_and_waits_for_its_end() -> None:
    """It is told to stop though it has begun; what it had used until then is charged."""
    run = hired().cancel()
    (told,) = run.all(Interrupt)
    assert (told.begun, told.detach) == (True, False)
    assert run.state is RunState.CANCELLING
    run.child_rested("hire", Reason.CANCELLED, tool_calls=2)
    assert run.reason is Reason.CANCELLED
    assert run.statuses() == ["cancelled"]
    assert run.outcome.spent.tool_calls == 3


def test_one_that_does_not_stop_in_time_is_asked_after() -> None:
    """Then it gets as long again; after that it has used what it might."""
    run = hired().cancel().later(5)
    assert run.last(Reconcile).stop
    run.later(5)
    assert run.reason is Reason.CANCELLED
    assert run.statuses() == ["outcome_unknown"]
    assert run.outcome.spent.tool_calls == 9


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_cancel_of_a_parent_that_waits_stops_the_child(elsewhere: bool) -> None:
    """It is asked after with the word to stop, as there is nobody left to interrupt."""
    run = child_waits()
    run = run.reload() if elsewhere else run
    run.cancel()
    assert run.last(Reconcile).stop
    run.child_rested("hire", Reason.CANCELLED)
    assert (run.reason, run.statuses()) == (Reason.CANCELLED, ["cancelled"])
    assert run.machine.folded.spent.tool_calls == 2


def test_a_cancel_that_crosses_the_suspension_stops_the_child_as_well() -> None:
    """It has said how it stands, and is asked after once more, with the word to stop."""
    run = held(Driver(LIMITS).start().propose("hire"))
    run.child_rested("hire", Reason.APPROVAL_REQUIRED).cancel()
    run.hold = False
    run.ack()
    assert [asked.stop for asked in run.all(Reconcile)] == [True]
    run.child_rested("hire", Reason.CANCELLED)
    assert (run.reason, run.statuses()) == (Reason.CANCELLED, ["cancelled"])


@pytest.mark.parametrize("crossing", [False, True], ids=["suspended", "suspending"])
def test_a_hard_cancel_tells_a_child_that_waits_and_does_not_wait_for_it(crossing: bool) -> None:
    """Nobody would tell it later: its parent is over by then. What it may use is charged."""
    run = held(hired()) if crossing else child_waits()
    if crossing:
        run.child_rested("hire", Reason.APPROVAL_REQUIRED)
    run.cancel(hard=True)
    run.hold = False
    run.ack()
    if not run.state.at_rest:
        run.later(0)
    assert [asked.stop for asked in run.all(Reconcile)] == [True]
    assert (run.reason, run.statuses()) == (Reason.CANCELLED, ["outcome_unknown"])


def test_what_a_child_came_to_is_durable_though_another_one_still_works() -> None:
    """After a moment, so that a crash does not have it asked after again."""
    run = two_hired().child_rested("hire")
    assert run.machine.wake_at is not None
    run.later(1).reload().recover().judged()
    assert run.commits[-1] == ("call_completed",)
    again = run.reload().recover().judged()
    assert sorted(again.asking) == ["hire_too"]


@pytest.mark.parametrize("how", ["cancel", "lease"])
def test_one_that_is_asked_after_is_told_as_well(how: str) -> None:
    """To stop with its parent; or to be left alone, as its parent goes on elsewhere."""
    run = child_waits().wake("child-hire").judged()
    if how == "cancel":
        run.cancel()
    else:
        run.lose_lease()
    (told,) = run.all(Interrupt)
    assert (told.begun, told.detach) == (True, how == "lease")


@pytest.mark.parametrize("how", ["lease", "store"])
def test_it_is_left_alone_when_its_parent_goes_on_elsewhere(how: str) -> None:
    """The new owner will ask after it: only the waiting ends here."""
    run = hired()
    if how == "lease":
        run.lose_lease()
    else:
        run = held(Driver().start()).decide(calls("hire", "hire_too"))
        run.judged(at_once(judge(run.last(Validate)))).assessed().ack(1).lose()
    assert [told.detach for told in run.all(Interrupt)] == [True]
    again = run.reload()
    again.hold = False
    again.recover().judged()
    assert "hire" in again.asking


def test_a_deadline_stops_it_like_a_cancel() -> None:
    """Whatever ends its parent ends it."""
    run = hired(Budget(max_active_seconds=10))
    execute = run.last(Execute)
    assert execute.budget is not None
    assert (execute.until, execute.budget.max_active_seconds) == (10, 10)
    run.later(10)
    assert [told.detach for told in run.all(Interrupt)] == [False]
    run.child_rested("hire", Reason.CANCELLED)
    assert run.reason is Reason.TIME_BUDGET_EXHAUSTED


def test_a_word_of_a_child_that_was_given_up_is_late() -> None:
    """It changes nothing any more."""
    run = hired()
    execute = run.last(Execute)
    run.cancel(hard=True).later(0)
    before = run.machine.folded.spent
    run.tell(ChildRested(1, execute.attempt_id, stand_of(execute)))
    assert run.machine.folded.spent == before
