"""Limits: when the hard stop is due, when the soft one, and what the model is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.policy import fits_tool_calls, soft_stop_due, soft_stop_notice, used_up
from loopwright.protocol import Budget, ConfigurationError, Reason, Spent, Usage

LIMITS = st.none() | st.integers(0, 50)
BUDGETS = st.builds(
    Budget,
    max_steps=LIMITS,
    max_tool_calls=LIMITS,
    max_tokens=LIMITS,
    max_active_seconds=LIMITS,
    soft_ratio=st.floats(0, 1),
)
SPENT = st.builds(
    Spent,
    steps=st.integers(0, 60),
    tool_calls=st.integers(0, 60),
    usage=st.builds(Usage, input_tokens=st.integers(0, 30), output_tokens=st.integers(0, 30)),
    active_seconds=st.floats(0, 60),
)


@given(BUDGETS, SPENT)
def test_the_hard_stop_is_due_exactly_when_a_limit_is_reached(budget: Budget, spent: Spent) -> None:
    """A limit is reached at its number, not beyond it; tool calls are judged per batch."""
    reached = [
        limit is not None and used >= limit
        for used, limit in (
            (spent.steps, budget.max_steps),
            (spent.usage.total, budget.max_tokens),
            (spent.active_seconds, budget.max_active_seconds),
        )
    ]
    assert (used_up(budget, spent, None) is not None) == any(reached)


@pytest.mark.parametrize(
    ("budget", "spent", "left", "reason"),
    [
        (Budget(max_steps=3), Spent(steps=2), None, None),
        (Budget(max_steps=3), Spent(steps=3), None, Reason.MAX_STEPS),
        (Budget(max_tokens=10), Spent(usage=Usage(9, 1)), None, Reason.TOKEN_BUDGET_EXHAUSTED),
        (Budget(max_active_seconds=1), Spent(active_seconds=1), 9, Reason.TIME_BUDGET_EXHAUSTED),
        (Budget(max_steps=0), Spent(), 0, Reason.DEADLINE_EXCEEDED),
        (Budget(max_steps=None), Spent(steps=10**6), 0.1, None),
    ],
)
def test_the_reason_names_the_limit(
    budget: Budget, spent: Spent, left: float | None, reason: Reason | None
) -> None:
    """Where several hold, the deadline comes first: it can't be granted away."""
    assert used_up(budget, spent, left) is reason


@given(BUDGETS, SPENT, st.integers(0, 60))
def test_a_batch_fits_whole_or_not_at_all(budget: Budget, spent: Spent, calls: int) -> None:
    """What fits never takes the invocation over its limit."""
    fits = fits_tool_calls(budget, spent, calls)
    limit = budget.max_tool_calls
    assert fits == (limit is None or spent.tool_calls + calls <= limit)


@given(BUDGETS, SPENT)
def test_a_soft_stop_never_comes_after_the_hard_one(budget: Budget, spent: Spent) -> None:
    """Where a positive limit is used up, the soft stop was due already."""
    reason = used_up(budget, spent, None)
    limits = (budget.max_steps, budget.max_tokens, budget.max_active_seconds)
    if reason is not None and 0 not in limits:
        assert soft_stop_due(budget, spent)


def test_the_soft_stop_is_due_at_the_ratio_or_one_step_before_the_end() -> None:
    """80 % by default, of any limit; with few steps the last but one counts."""
    assert not soft_stop_due(Budget(max_steps=10), Spent(steps=7))
    assert soft_stop_due(Budget(max_steps=10), Spent(steps=8))
    assert soft_stop_due(Budget(max_steps=2), Spent(steps=1))
    assert not soft_stop_due(Budget(max_steps=1), Spent())
    assert soft_stop_due(Budget(max_tool_calls=5), Spent(tool_calls=4))
    assert soft_stop_due(Budget(max_tokens=100), Spent(usage=Usage(80)))
    assert soft_stop_due(Budget(max_active_seconds=10), Spent(active_seconds=8.0))
    assert not soft_stop_due(Budget(max_steps=None), Spent(steps=10**6))


def test_a_zero_limit_is_no_reason_for_a_notice() -> None:
    """An agent that may call no tool is not at the end of its budget from the start."""
    assert not soft_stop_due(Budget(max_tool_calls=0), Spent())


@given(BUDGETS, SPENT)
def test_the_notice_names_every_limit_and_nothing_negative(budget: Budget, spent: Spent) -> None:
    """It says what is left of each limit that is set."""
    notice = soft_stop_notice(budget, spent)
    for limit, unit in (
        (budget.max_steps, "steps"),
        (budget.max_tool_calls, "tool calls"),
        (budget.max_tokens, "tokens"),
        (budget.max_active_seconds, "seconds"),
    ):
        assert (f" {unit}" in notice) == (limit is not None)
    assert "-" not in notice


def test_impossible_budgets_are_refused() -> None:
    """A negative limit or a ratio outside 0..1 is an error of whoever wrote it."""
    for name in ("max_steps", "max_tool_calls", "max_tokens", "max_active_seconds"):
        with pytest.raises(ConfigurationError, match=name):
            Budget(**{name: -1})  # type: ignore[arg-type]  # one limit after the other, by name
    for ratio in (-0.1, 1.1):
        with pytest.raises(ConfigurationError, match="soft_ratio"):
            Budget(soft_ratio=ratio)


@given(BUDGETS, BUDGETS)
def test_a_grant_never_takes_anything_away(budget: Budget, more: Budget) -> None:
    """Limits grow by what is granted; what was unlimited stays so."""
    granted = budget.grant(more)
    assert (granted.max_steps is None) == (budget.max_steps is None)
    if granted.max_steps is not None and budget.max_steps is not None:
        assert granted.max_steps == budget.max_steps + (more.max_steps or 0)
