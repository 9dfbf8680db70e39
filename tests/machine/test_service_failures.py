"""A service actor crashes over a request: a bug of ours, which ends the invocation in order."""

from __future__ import annotations

import pytest

from loopwright.protocol import Execute, Late, Reason, RunState, ServiceFailed
from machine.driver import Driver

FAILED = ServiceFailed("Validator", "KeyError: 'x'")


def test_nobody_waits_for_a_model_that_will_not_answer() -> None:
    """It ends at once, with who failed and how as the cause."""
    run = Driver().start()
    run.tell(FAILED)
    assert run.reason is Reason.INTERNAL_ERROR
    assert run.outcome.cause == "Validator failed: KeyError: 'x'"


@pytest.mark.parametrize(("tool", "status"), [("pay", "outcome_unknown"), ("read", "cancelled")])
def test_what_runs_is_interrupted_and_given_up(tool: str, status: str) -> None:
    """A write may have happened, a read has not returned; neither is waited for."""
    run = Driver().start().propose(tool, "mail")
    run.tell(FAILED)
    assert run.interrupted() == [f"{tool}#1"]
    assert run.later(0).reason is Reason.INTERNAL_ERROR
    assert run.statuses() == [status, "not_started"]
    assert len(run.all(Execute)) == 1


def test_it_goes_on_from_the_last_commit() -> None:
    """Once the bug is mended, a resume asks the model anew."""
    run = Driver().start().turn("read")
    run.tell(FAILED)
    assert run.grant().finish().reason is Reason.COMPLETED
    assert [turn.turn for turn in run.turns] == [1, 2]


def test_a_crash_masks_no_other_reason() -> None:
    """While it is being cancelled, and once the end is on its way, it changes nothing."""
    run = Driver().start().propose("pay").cancel()
    run.tell(FAILED)
    assert run.state is RunState.CANCELLING
    assert run.done("pay").reason is Reason.CANCELLED

    run = Driver().start()
    run.hold = True
    run.finish().tell(FAILED)
    assert run.ack().reason is Reason.COMPLETED


def test_at_rest_it_is_late() -> None:
    """There is no request any more that it could be about."""
    assert Driver().start().finish().tell(FAILED) == (Late("ServiceFailed"),)


def test_a_crashed_committer_is_not_waited_for() -> None:
    """What became of a commit under way nobody will say: it ends without one more."""
    run = Driver(hold=True).start().ack()
    run.propose("pay")
    assert len(run.pending) == 1
    run.tell(ServiceFailed("Committer", "RuntimeError: boom"))
    assert run.reason is Reason.INTERNAL_ERROR
    assert run.all(Execute) == []
    assert len(run.pending) == 1
