"""Every reason has a way to it: the shortest one for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from loopwright.policy import Policy, ToolSeen
from loopwright.protocol import (
    Budget,
    CannotContinue,
    Clarification,
    ErrorCategory,
    Malformed,
    ModelErrorKind,
    Price,
    Reason,
    ServiceFailed,
    Stalled,
)
from machine.driver import Driver
from machine.samples import calls, failed
from machine.ways import handing_over


def _held() -> Driver:
    return Driver(hold=True).start()


def _crashed() -> Driver:
    run = Driver().start()
    run.tell(ServiceFailed("Decider", "KeyError: 'x'"))
    return run


def _failing(
    budget: Budget | None = None,
    policy: Policy | None = None,
    category: ErrorCategory = ErrorCategory.INTERNAL,
) -> Driver:
    run = Driver(budget, policy).start().propose("read")
    return run.done("read", failed(run.running["read"], category=category))


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
    Reason.COST_BUDGET_EXHAUSTED: lambda: Driver(
        Budget(max_cost=Decimal(0)), prices=(Price("m1", Decimal(1), Decimal(1)),)
    ).start(),
    Reason.TOOL_FAILURES_EXHAUSTED: lambda: _failing(Budget(max_tool_failures=0)).observed(),
    Reason.TOOL_UNAVAILABLE: lambda: _failing(
        policy=Policy(max_unavailable_turns=1), category=ErrorCategory.UNAVAILABLE
    ),
    Reason.POLICY_DENIED: lambda: Driver(policy=Policy(max_denials=1)).start().propose("ban"),
    Reason.VERIFICATION_FAILED: lambda: (
        Driver(policy=Policy(max_verifications=1), verifiers=("sums",))
        .start()
        .finish()
        .verified("wrong")
    ),
    Reason.HANDOFF_LIMIT: lambda: (
        Driver(Budget(max_handoffs=0)).start().decide(handing_over()).judged()
    ),
    Reason.TERMINATED: lambda: Driver(policy=Policy(stop=ToolSeen("read"))).start().turn("read"),
    Reason.MODEL_REFUSED: lambda: Driver().start().fail_model("not that", ModelErrorKind.REFUSED),
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
    """A cause for whatever did not end as wanted, and a `partial` for everything but an answer."""
    run = PATHS[reason]()
    for _ in range(2):
        # What was interrupted reports, or its time is over.
        if not run.state.at_rest:
            run.later(0)
    assert run.reason is reason
    outcome = run.outcome
    assert (outcome.partial is None) == (reason is Reason.COMPLETED)
    if reason.outcome == "failed" or reason is Reason.TERMINATED:
        assert outcome.cause
