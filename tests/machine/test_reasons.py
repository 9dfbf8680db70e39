"""Every reason has a way to it: the shortest one for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pytest

from loopwright.policy import Policy
from loopwright.protocol import (
    Budget,
    CannotContinue,
    Clarification,
    Malformed,
    Reason,
    ServiceFailed,
    Stalled,
)
from machine.driver import Driver
from machine.samples import calls


def _held() -> Driver:
    return Driver(hold=True).start()


def _crashed() -> Driver:
    run = Driver().start()
    run.tell(ServiceFailed("Decider", "KeyError: 'x'"))
    return run


PATHS: Mapping[Reason, Callable[[], Driver]] = {
    Reason.COMPLETED: lambda: Driver().start().finish(),
    Reason.APPROVAL_REQUIRED: lambda: Driver().start().propose("transfer"),
    Reason.CLARIFICATION_REQUIRED: lambda: (
        Driver().start().decide(Clarification("which?")).judged()
    ),
    Reason.RECONCILIATION_REQUIRED: lambda: Driver().start().propose("mail").lost("mail"),
    Reason.CANCELLED: lambda: Driver().start().cancel().fail_model(),
    Reason.DEADLINE_EXCEEDED: lambda: Driver(
        Budget(deadline=datetime.fromtimestamp(1_000, UTC))
    ).start(),
    Reason.MAX_STEPS: lambda: Driver(Budget(max_steps=0)).start(),
    Reason.TOOL_BUDGET_EXHAUSTED: lambda: (
        Driver(Budget(max_tool_calls=0)).start().decide(calls("read")).judged()
    ),
    Reason.TOKEN_BUDGET_EXHAUSTED: lambda: Driver(Budget(max_tokens=0)).start(),
    Reason.TIME_BUDGET_EXHAUSTED: lambda: Driver(Budget(max_active_seconds=0)).start(),
    Reason.NO_PROGRESS: lambda: (
        Driver().start().propose("read").done("read").observed(Stalled("repeated_plan", "again"))
    ),
    Reason.INVALID_DECISION: lambda: (
        Driver(policy=Policy.strict()).start().decide(Malformed("no JSON", "{"))
    ),
    Reason.CANNOT_CONTINUE: lambda: (
        Driver().start().decide(CannotContinue("no_data", "gone")).judged()
    ),
    Reason.MODEL_ERROR: lambda: Driver().start().fail_model(),
    Reason.CHECKPOINT_FAILED: lambda: _held().lose(),
    Reason.LEASE_LOST: lambda: _held().lose(fenced=True),
    Reason.INTERNAL_ERROR: _crashed,
}


@pytest.mark.parametrize("reason", Reason, ids=str)
def test_every_reason_is_produced_and_tells_what_is_there(reason: Reason) -> None:
    """A cause for every failure, and a typed `partial` for everything but an answer."""
    run = PATHS[reason]()
    for _ in range(2):
        # What was interrupted reports, or its time is over.
        if not run.state.at_rest:
            run.later(0)
    assert run.reason is reason
    outcome = run.outcome
    assert (outcome.partial is None) == (reason is Reason.COMPLETED)
    if reason.outcome == "failed":
        assert outcome.cause
