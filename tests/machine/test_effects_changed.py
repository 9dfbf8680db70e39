"""What is taken over of a turn: definitions that changed, results the store did not take, edits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright.policy import Policy
from loopwright.protocol import (
    Accepted,
    CallId,
    Effect,
    EffectKey,
    Execute,
    Plan,
    PlannedCall,
    Reason,
    Reconcile,
    Rested,
    ResultStatus,
    RunState,
    ToolCall,
    ToolCalls,
    Validate,
    applied,
    not_applied,
    unknown,
)
from machine.driver import Driver
from machine.samples import calls, ok, plan_of, refusal
from machine.ways import recovered

WRITES = ("pay", "wire", "mail")


# ---------------------------------------------------------------- definitions that changed
def changed(
    run: Driver, effect: Effect, *, gone: bool = False, status: ResultStatus | None = None
) -> Driver:
    """Take it over with a tool that is of this class today, is gone, or refuses the call."""
    again = run.reload().recover()
    decision = again.last(Validate).decision
    assert isinstance(decision, ToolCalls)
    call = decision.calls[0]
    refused = None
    if gone or status is not None:
        refused = refusal(call.call_id, call.tool_name, status or ResultStatus.UNKNOWN_TOOL)
    key = None if effect is Effect.READ else EffectKey("another")
    planned = PlannedCall(call.call_id, call.tool_name, effect, {"of": "today"}, key, refused)
    plan = Plan((planned,), () if refused else ((0,),), fault="gone" if refused else None)
    return again.judged(Accepted(plan))


@pytest.mark.parametrize(
    ("was", "today", "then"),
    [
        ("pay", Effect.IDEMPOTENT, "sent"),
        ("pay", Effect.RECONCILABLE, "asked"),
        ("pay", Effect.MANUAL, "suspended"),
        ("pay", Effect.READ, "sent"),
        ("wire", Effect.IDEMPOTENT, "asked"),
        ("wire", Effect.MANUAL, "suspended"),
        ("wire", Effect.READ, "asked"),
        ("mail", Effect.IDEMPOTENT, "suspended"),
        ("mail", Effect.RECONCILABLE, "suspended"),
        ("mail", Effect.READ, "suspended"),
    ],
)
def test_of_two_effect_classes_the_stricter_counts(was: str, today: Effect, then: str) -> None:
    """The one it was dispatched under, or today's; and the key it was dispatched under."""
    before = Driver().start().propose(was)
    key = before.last(Execute).effect_key
    run = changed(before, today)
    if then == "sent":
        assert (run.last(Execute).attempt, run.last(Execute).effect_key) == (2, key)
    elif then == "asked":
        assert (run.last(Reconcile).effect_key, run.all(Execute)) == (key, [])
    else:
        assert run.reason is Reason.RECONCILIATION_REQUIRED
        assert run.all(Execute) == []


@pytest.mark.parametrize("status", [ResultStatus.UNKNOWN_TOOL, ResultStatus.INVALID_ARGUMENTS])
def test_what_does_not_run_today_ends_as_that_once_it_was_not_applied(
    status: ResultStatus,
) -> None:
    """Its tool is gone or does not take its arguments: it is asked about, and never sent again."""
    run = changed(Driver().start().propose("wire"), Effect.RECONCILABLE, status=status)
    assert run.state is RunState.RECONCILE
    run.found("wire", not_applied())
    assert run.all(Execute) == []
    assert run.statuses() == [status]
    assert run.effects == {"wire": "not_applied"}


def test_what_does_not_run_today_may_have_run_then() -> None:
    """That its tool is gone says nothing about what it did."""
    run = changed(Driver().start().propose("wire"), Effect.READ, gone=True)
    run.found("wire", applied("r"))
    assert run.statuses() == ["ok"]
    assert run.effects == {"wire": "committed"}


def test_a_dispatched_write_is_never_not_started_also_where_its_batch_is_broken_today() -> None:
    """It was dispatched, and took no effect: that is what its result says."""
    status = ResultStatus.NOT_STARTED
    run = changed(Driver().start().propose("wire"), Effect.RECONCILABLE, status=status)
    run.found("wire", not_applied())
    assert run.statuses() == ["error"]
    assert run.effects == {"wire": "not_applied"}


# ---------------------------------------------------------------- results the store did not take
@pytest.mark.parametrize("tool", WRITES)
def test_b13_a_result_that_could_not_be_stored_is_not_lost(tool: str) -> None:
    """The same process goes on with what it has: nothing runs, or is asked about, again."""
    run = Driver().start().propose(tool)
    run.hold = True
    run.done(tool).lose()
    assert run.reason is Reason.CHECKPOINT_FAILED
    rested = run.last(Rested)
    assert not rested.durable
    assert [(r.call_id, r.status) for r in rested.unsaved] == [(tool, "ok")]

    run = run.reload(rested.unsaved)
    run.hold = False
    run.recover().judged()
    assert (run.all(Execute), run.all(Reconcile)) == ([], [])
    assert run.statuses() == ["ok"]
    assert run.observed().finish().reason is Reason.COMPLETED


def test_b13_also_where_the_next_write_could_not_be_announced() -> None:
    """The result was to be stored with the next dispatch."""
    run = Driver().start().propose("mail", "pay")
    run.hold = True
    run.done("mail").lose()
    run = run.reload(run.last(Rested).unsaved)
    run.hold = False
    run.recover().judged()
    assert run.executed() == ["pay#1"]
    assert run.commits[0] == ("call_completed", "call_dispatched")


def test_b13_also_where_it_is_cancelled_then() -> None:
    """The turn ends with the result that it has."""
    run = Driver().start().propose("mail")
    run.hold = True
    run.cancel().ack().done("mail").lose()
    run = run.reload(run.last(Rested).unsaved)
    run.hold = False
    assert run.recover().statuses() == ["ok"]


def test_what_is_known_is_given_back_until_it_is_stored() -> None:
    """It fails again before it has come to that: the process still must not lose it."""
    run = Driver().start().propose("mail")
    run.hold = True
    run.done("mail").lose()
    run = run.reload(run.last(Rested).unsaved)
    run.recover().lose_lease()
    assert run.reason is Reason.LEASE_LOST
    assert run.last(Rested).unsaved == ()  # another worker goes on

    run = Driver().start().propose("mail")
    run.hold = True
    run.done("mail").lose()
    run = run.reload(run.last(Rested).unsaved).recover()
    run.cancel().lose()
    assert [r.call_id for r in run.last(Rested).unsaved] == ["mail"]

    # It is judged again, and only a correction of an older turn is on its way.
    run = Driver().start().propose("mail").lost("mail").settle("mail", unknown()).judged()
    run.observed().propose("wire")
    run.hold = True
    run.done("wire").lose()
    run = run.reload(run.last(Rested).unsaved).recover().settle("mail", applied()).lose()
    assert [r.call_id for r in run.last(Rested).unsaved] == ["wire"]


def test_only_words_are_kept_of_what_could_not_be_stored() -> None:
    """Neither reads, nor unknown outcomes, nor what was only put into the outbox."""
    run = Driver().start().propose("read", "post", "mail").done("read")
    run.hold = True
    run.lost("mail").lose()
    assert run.last(Rested).unsaved == ()


@pytest.mark.parametrize("other", ["attempt", "key"])
def test_what_is_known_is_known_of_one_attempt(other: str) -> None:
    """A result of another attempt, or under another key, says nothing."""
    run = Driver().start().propose("mail")
    known = ok(run.running["mail"])
    if other == "attempt":
        known = replace(known, attempts=2)
    else:
        known = replace(known, effect_key=EffectKey("other"))
    run = run.reload([known]).recover().judged()
    assert run.reason is Reason.RECONCILIATION_REQUIRED


def test_what_is_known_is_known_of_one_turn() -> None:
    """A call of the same id, key and attempt in the next turn is another one."""
    run = Driver(policy=Policy(max_attempts=1)).start().propose("pay")
    known = ok(run.running["pay"])
    run = run.reload([known]).recover().judged().observed()
    assert run.statuses() == ["ok"]
    run.decide(calls("pay"))
    plan = plan_of(run.last(Validate), calls("pay"))
    call = plan.calls[0]._replace(effect_key=known.effect_key)
    again = Accepted(plan._replace(calls=(call,)))
    run.judged(again).assessed().lost("pay").grant().judged(again)
    assert (run.reason, run.state) == (Reason.RECONCILIATION_REQUIRED, RunState.SUSPENDED)


# ---------------------------------------------------------------- edited arguments
def test_b78_what_was_approved_with_edits_is_what_runs_and_what_is_kept() -> None:
    """Proposed, approved and executed are all on record, and the model sees which ran."""
    run = Driver().start().propose("transfer")
    run.approve(edits={CallId("transfer"): {"amount": 50}})
    assert run.last(Validate).edits == {"transfer": {"amount": 50}}
    run.judged()
    assert run.last(Execute).arguments == {"amount": 50}
    run.done("transfer")
    (result,) = run.turns[0].results
    assert result.arguments == {"amount": 50}
    decision = run.turns[0].proposal.decision
    assert isinstance(decision, ToolCalls)
    assert decision.calls[0] == ToolCall(CallId("transfer"), "transfer", {"of": "transfer"})
    key = run.last(Execute).effect_key
    assert key is not None
    assert run.ledger[key].arguments == {"amount": 50}


@pytest.mark.parametrize("how", ["crash", "unknown"])
def test_edits_hold_for_every_attempt(how: str) -> None:
    """After a crash, too, and they are in an unknown outcome."""
    run = Driver().start().propose("transfer")
    run.approve(edits={CallId("transfer"): {"amount": 50}}).judged()
    if how == "crash":
        run = recovered(run)
    else:
        run.lost("transfer").later(0.1)
    assert run.last(Execute).arguments == {"amount": 50}
    run.cancel().later(5)
    assert run.turns[0].results[0].arguments == {"amount": 50}


def test_a_second_attempt_has_the_arguments_of_the_first() -> None:
    """Defaults may have changed since: the same key must not stand for something else."""
    before = Driver().start().propose("pay").reload().recover()
    plan = plan_of(before.last(Validate), calls("pay"))
    call = plan.calls[0]._replace(arguments={"of": "pay", "currency": "EUR"})
    run = before.judged(Accepted(plan._replace(calls=(call,))))
    assert run.last(Execute).arguments == {"of": "pay"}
