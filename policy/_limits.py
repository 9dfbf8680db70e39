"""When a budget is used up, when the model is told to come to an end, and what it is told."""

from __future__ import annotations

from loopwright.protocol import Budget, Reason, Spent


def used_up(budget: Budget, spent: Spent, seconds_left: float | None) -> Reason | None:
    """Say why no further model call may be made, if so: the hard stop.

    Args:
        budget: The limits in force.
        spent: What was used, running time included up to now.
        seconds_left: Time until the deadline, `None` without one.
    """
    if seconds_left is not None and seconds_left <= 0:
        return Reason.DEADLINE_EXCEEDED
    if budget.max_steps is not None and spent.steps >= budget.max_steps:
        return Reason.MAX_STEPS
    if budget.max_tokens is not None and spent.usage.total >= budget.max_tokens:
        return Reason.TOKEN_BUDGET_EXHAUSTED
    if budget.max_active_seconds is not None and spent.active_seconds >= budget.max_active_seconds:
        return Reason.TIME_BUDGET_EXHAUSTED
    return None


def fits_tool_calls(budget: Budget, spent: Spent, calls: int) -> bool:
    """Whether this many more calls may be dispatched; a batch fits whole or not at all."""
    return budget.max_tool_calls is None or spent.tool_calls + calls <= budget.max_tool_calls


def soft_stop_due(budget: Budget, spent: Spent) -> bool:
    """Whether any budget has reached its soft ratio, or one step is left."""
    ratio, steps = budget.soft_ratio, budget.max_steps
    return (
        (steps is not None and spent.steps > 0 and steps - spent.steps <= 1)
        or _reached(spent.steps, steps, ratio)
        or _reached(spent.tool_calls, budget.max_tool_calls, ratio)
        or _reached(spent.usage.total, budget.max_tokens, ratio)
        or _reached(spent.active_seconds, budget.max_active_seconds, ratio)
    )


def soft_stop_notice(budget: Budget, spent: Spent) -> str:
    """Write what the model is told at the soft stop: what is left, and what to do now."""
    left: list[str] = []
    if budget.max_steps is not None:
        left.append(f"{max(0, budget.max_steps - spent.steps)} steps")
    if budget.max_tool_calls is not None:
        left.append(f"{max(0, budget.max_tool_calls - spent.tool_calls)} tool calls")
    if budget.max_tokens is not None:
        left.append(f"{max(0, budget.max_tokens - spent.usage.total)} tokens")
    if budget.max_active_seconds is not None:
        left.append(f"{max(0.0, budget.max_active_seconds - spent.active_seconds):.0f} seconds")
    return (
        f"The budget is nearly used up: {', '.join(left)} left. Stop exploring now: give your "
        "conclusion from what is known, then list what is still open."
    )


def _reached(used: float, limit: float | None, ratio: float) -> bool:
    return limit is not None and limit > 0 and used >= limit * ratio
