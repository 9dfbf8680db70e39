"""Writes in flight when it ends before its time: cancelled, out of time, or without its lease."""

from __future__ import annotations

import pytest

from loopwright.protocol import (
    Budget,
    Execute,
    Reason,
    Reconcile,
    Reconciled,
    Rested,
    ResultStatus,
    RunState,
    Validate,
    applied,
    not_applied,
    rejected,
    unknown,
)
from machine.driver import Driver
from machine.samples import calls, failed
from machine.ways import recovered, two_unknown

WRITES = ("pay", "wire", "mail")


# ---------------------------------------------------------------- cancelling
@pytest.mark.parametrize("tool", ["pay", "mail"])
def test_cancel_gives_grace_and_then_the_outcome_is_unknown(tool: str) -> None:
    """Rows 2 and 4: nothing is sent again, and nobody is asked."""
    run = Driver().start().propose(tool).cancel().later(4.9)
    assert run.interrupted() == []
    run.later(0.1)
    assert run.interrupted() == [f"{tool}#1"]
    assert run.reason is Reason.CANCELLED
    assert run.effects == {tool: "outcome_unknown"}
    assert (len(run.executed()), run.all(Reconcile)) == (1, [])


@pytest.mark.parametrize(
    ("found", "effect"),
    [
        (applied("r"), "committed"),
        (rejected("no"), "rejected"),
        (not_applied(), "not_applied"),
        (unknown(), "outcome_unknown"),
    ],
)
def test_cancel_gives_grace_and_then_asks(found: Reconciled, effect: str) -> None:
    """Row 3: what was found is the result; `not_applied` sends nothing any more."""
    run = Driver().start().propose("wire", "read").cancel()
    assert run.all(Reconcile) == []
    run.later(5)
    assert run.last(Reconcile).attempt_id == "wire#1"
    assert run.state is RunState.CANCELLING
    run.found("wire", found)
    assert run.reason is Reason.CANCELLED
    assert run.effects == {"wire": effect}
    assert run.executed() == ["wire#1"]
    assert run.commits[-1] == ("effect_reconciled", "turn_committed", "invocation_ended")


def test_a_write_that_reports_an_unknown_outcome_in_the_grace_is_asked_about() -> None:
    """It need not wait until its grace is over."""
    run = Driver().start().propose("wire").cancel().later(1).lost("wire")
    assert [r.attempt_id for r in run.all(Reconcile)] == ["wire#1"]
    run.found("wire", applied())
    assert (run.reason, run.effects) == (Reason.CANCELLED, {"wire": "committed"})


def test_who_is_asked_gets_as_long_as_the_write_did() -> None:
    """Then the outcome stays unknown, for a person to settle."""
    run = Driver().start().propose("wire").cancel().later(5).later(4.9)
    assert run.state is RunState.CANCELLING
    run.later(0.1)
    assert (run.reason, run.effects) == (Reason.CANCELLED, {"wire": "outcome_unknown"})
    error = run.turns[0].results[0].error
    assert error is not None
    assert "did not answer in time" in error.message


def test_cancel_while_an_owner_is_asked_waits_for_the_answer() -> None:
    """It is the same question; it is not asked a second time, and nothing is sent."""
    run = Driver().start().propose("wire").lost("wire").cancel()
    assert run.state is RunState.CANCELLING
    run.found("wire", not_applied())
    assert (run.reason, run.effects) == (Reason.CANCELLED, {"wire": "not_applied"})
    assert (run.executed(), len(run.all(Reconcile))) == (["wire#1"], 1)


def test_who_could_not_tell_is_not_asked_again_on_the_way_out() -> None:
    """One question an attempt, until a person lets it go on."""
    run = two_unknown("wire", "mail")
    run.hold = True
    run.found("wire", unknown()).cancel().ack()
    assert (run.reason, len(run.all(Reconcile))) == (Reason.CANCELLED, 1)


@pytest.mark.parametrize("soft_first", [False, True])
def test_a_hard_cancel_asks_nobody(soft_first: bool) -> None:
    """Whoever cancels so does not want to wait; the write is unknown."""
    run = Driver().start().propose("wire")
    if soft_first:
        run.cancel()
    run.cancel(hard=True).later(0)
    assert run.all(Reconcile) == []
    assert (run.reason, run.effects) == (Reason.CANCELLED, {"wire": "outcome_unknown"})


def test_a_hard_cancel_ends_the_asking() -> None:
    """What it was asked for is not waited for any longer."""
    run = Driver().start().propose("wire").cancel().later(5).cancel(hard=True)
    assert (run.reason, run.effects) == (Reason.CANCELLED, {"wire": "outcome_unknown"})


def test_k12_a_cancelled_invocation_asks_and_dispatches_nothing() -> None:
    """The worker died in the drain: the next one asks what can be asked, and ends it."""
    run = Driver().start().propose("wire", "pay").cancel().reload().recover()
    assert [r.attempt_id for r in run.all(Reconcile)] == ["wire#1"]
    assert (run.all(Execute), run.all(Validate)) == ([], [])
    run.found("wire", applied("r"))
    assert run.reason is Reason.CANCELLED
    assert run.statuses() == ["ok", "not_started"]
    assert run.all(Execute) == []


def test_a_deadline_that_has_passed_meanwhile_asks_too() -> None:
    """Taken over too late: nothing runs, and what can be asked is, before it ends."""
    budget = Budget(max_active_seconds=10)
    run = Driver(budget).start().propose("wire", "read").reload().recover()
    run.time = 11
    run.judged()
    assert [r.attempt_id for r in run.all(Reconcile)] == ["wire#1"]
    run.found("wire", applied())
    assert run.reason is Reason.TIME_BUDGET_EXHAUSTED
    assert run.statuses() == ["ok", "not_started"]


@pytest.mark.parametrize("tool", WRITES)
def test_a_write_that_had_not_begun_is_not_started(tool: str) -> None:
    """It waited for its turn in the executor: it is taken out, and nobody is asked about it."""
    run = Driver().start().propose(tool).cancel()
    run.done(tool, failed(run.running[tool], ResultStatus.NOT_STARTED))
    assert (run.reason, run.all(Reconcile)) == (Reason.CANCELLED, [])
    assert (run.statuses(), run.effects) == (["not_started"], {tool: "not_applied"})


# ---------------------------------------------------------------- a lease that is not held
def test_a_dispatch_that_was_refused_stops_everything() -> None:
    """Another worker may own it: nothing more is dispatched, and nothing is written."""
    run = Driver().start().propose("mail", "pay")
    journal = len(run.journal)
    run.refuse_dispatch("mail")
    assert (run.reason, run.outcome.cause) == (Reason.LEASE_LOST, "the lease is stale")
    assert not run.last(Rested).durable
    assert (len(run.journal), run.pending) == (journal, [])
    assert run.executed() == ["mail#1"]


def test_whoever_goes_on_does_not_know_that_it_was_refused() -> None:
    """Its dispatch is durable: the new owner asks, or leaves it to a person."""
    run = recovered(Driver().start().propose("mail").refuse_dispatch("mail"))
    assert run.reason is Reason.RECONCILIATION_REQUIRED


def test_a_lost_lease_waits_for_what_runs_and_says_nothing() -> None:
    """Reads are interrupted, writes get their grace; their results are nobody's business here."""
    run = Driver().start().propose("mail").lose_lease()
    assert run.state is RunState.CANCELLING
    journal = len(run.journal)
    run.done("mail")
    assert run.reason is Reason.LEASE_LOST
    assert len(run.journal) == journal
    assert run.last(Rested).unsaved == ()


def test_a_lease_lost_while_the_model_thinks() -> None:
    """Its reply comes to nothing."""
    run = Driver().start().lose_lease().decide(calls("read"))
    assert (run.reason, run.state) == (Reason.LEASE_LOST, RunState.FAILED)


def test_a_lease_lost_on_the_way_out_does_not_mask_the_reason() -> None:
    """It is attached to the cause."""
    run = Driver().start().propose("mail").cancel().lose_lease().done("mail")
    assert run.reason is Reason.CANCELLED
    assert run.outcome.cause == "not wanted any more; then the lease: no heartbeat in time"
    assert not run.last(Rested).durable


def test_a_lost_lease_asks_nobody() -> None:
    """Whoever owns it now does; what is asked already is waited for no longer than it takes."""
    run = Driver().start().propose("wire").lose_lease().lost("wire")
    assert (run.reason, run.all(Reconcile)) == (Reason.LEASE_LOST, [])
