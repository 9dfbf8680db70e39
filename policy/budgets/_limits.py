"""When a budget is used up, when the model is told to come to an end, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from loopwright.protocol import Allowance, Budget, Reason, Spent, bounded

_SHOWN = 10
"""Entries of what is done that a notice holds; what is older is only counted."""
_ENTRY_CHARS = 100


class Left(NamedTuple):
    """What is left of those limits that an invocation shares with its children.

    `None` is unlimited; never negative.
    """

    tool_calls: int | None = None
    tokens: int | None = None
    cost: Decimal | None = None

    @classmethod
    def of(cls, budget: Budget, spent: Spent) -> Left:
        """Subtract what was used, with what is kept aside for children that run."""
        return cls(
            _rest(budget.max_tool_calls, spent.tool_calls),
            _rest(budget.max_tokens, spent.usage.total),
            None if budget.max_cost is None else max(Decimal(0), budget.max_cost - spent.cost),
        )


def used_up(
    budget: Budget, spent: Spent, seconds_left: float | None, *, free: bool = False
) -> Reason | None:
    """Say why no further model call may be made, if so: the hard stop.

    Where several limits are reached the first one counts, in the order of the code below: the
    deadline first, since it cannot be granted away.

    Args:
        budget: The limits in force.
        spent: What was used, running time included up to now.
        seconds_left: Time until the deadline, `None` without one.
        free: Whether a model may be asked that costs nothing: a cost limit does not stop that one.
    """
    if seconds_left is not None and seconds_left <= 0:
        return Reason.DEADLINE_EXCEEDED
    if budget.max_steps is not None and spent.steps >= budget.max_steps:
        return Reason.MAX_STEPS
    if budget.max_tokens is not None and spent.usage.total >= budget.max_tokens:
        return Reason.TOKEN_BUDGET_EXHAUSTED
    if budget.max_cost is not None and not free and spent.cost >= budget.max_cost:
        return Reason.COST_BUDGET_EXHAUSTED
    if budget.max_active_seconds is not None and spent.active_seconds >= budget.max_active_seconds:
        return Reason.TIME_BUDGET_EXHAUSTED
    # The only limit on what goes wrong: 0 stands for the first failure, not for none at all.
    failures = budget.max_tool_failures
    if failures is not None and spent.tool_failures >= max(1, failures):
        return Reason.TOOL_FAILURES_EXHAUSTED
    return None


def fits_tool_calls(budget: Budget, used: int, calls: int) -> bool:
    """Whether this many more calls may be dispatched; a batch fits whole or not at all."""
    return budget.max_tool_calls is None or used + calls <= budget.max_tool_calls


def soft_stop_due(
    budget: Budget,
    spent: Spent,
    seconds_left: float | None = None,
    seconds_given: float | None = None,
) -> bool:
    """Whether any limit has reached its soft ratio, or one step with tools is left.

    Args:
        budget: The limits in force.
        spent: What was used, running time included up to now.
        seconds_left: Time until the deadline, `None` without one.
        seconds_given: Time from the start of the invocation to its deadline.
    """
    ratio, steps = budget.soft_ratio, budget.max_steps
    if steps is not None:
        # Those kept for summing up are no steps in which something is done.
        steps -= budget.reserve_steps
        if spent.steps > 0 and steps - spent.steps <= 1:
            return True
    if budget.max_cost and float(spent.cost / budget.max_cost) >= ratio:
        return True
    if seconds_left is not None and seconds_given and 1 - seconds_left / seconds_given >= ratio:
        return True
    return (
        _reached(spent.steps, steps, ratio)
        or _reached(spent.tool_calls, budget.max_tool_calls, ratio)
        or _reached(spent.usage.total, budget.max_tokens, ratio)
        or _reached(spent.active_seconds, budget.max_active_seconds, ratio)
        or _reached(spent.tool_failures, budget.max_tool_failures, ratio)
    )


def soft_stop_notice(
    budget: Budget, spent: Spent, done: Sequence[str] = (), *, seconds_left: float | None = None
) -> str:
    """Write what the model is told at the soft stop: what is left, what is done, what to do now.

    Args:
        budget: The limits in force.
        spent: What was used, running time included up to now.
        done: What has been achieved, oldest first, a few words each. It is cut and escaped, and
            must not hold what tools returned: a notice is the runtime's own word.
        seconds_left: Time until the deadline, `None` without one.
    """
    left: list[str] = []
    if budget.max_steps is not None:
        left.append(_steps(budget.max_steps - spent.steps, budget.reserve_steps))
    rest = Left.of(budget, spent)
    if rest.tool_calls is not None:
        left.append(f"{rest.tool_calls} tool calls")
    if rest.tokens is not None:
        left.append(f"{rest.tokens} tokens")
    if rest.cost is not None:
        left.append(f"{rest.cost:.4f} US dollars")
    if budget.max_active_seconds is not None:
        left.append(f"{max(0.0, budget.max_active_seconds - spent.active_seconds):.0f} seconds")
    if budget.max_tool_failures is not None:
        left.append(f"{max(0, budget.max_tool_failures - spent.tool_failures)} failed calls")
    if seconds_left is not None:
        left.append(f"{max(0.0, seconds_left):.0f} seconds until the deadline")
    return (
        f"The budget is nearly used up: {', '.join(left)} left. {_done(done)}Stop exploring now: "
        "give your conclusion from what is known, then list what is still open."
    )


def allowance(
    budget: Budget,
    spent: Spent,
    *,
    until: float | None,
    soft_stop: Literal["notice", "restrict"],
    stopped: bool,
) -> Allowance:
    """Say what the next decision may use: nudge, then restrict, then finalise.

    Args:
        budget: The limits in force.
        spent: What was used, with what is kept aside for children that run.
        until: When the decision has to be there, on the monotonic clock.
        soft_stop: What the policy says of the time after the soft stop.
        stopped: Whether the soft stop is over, or is told with this decision.
    """
    steps, reserved = budget.max_steps, budget.reserve_steps
    tokens, cost = _rest(budget.max_tokens, spent.usage.total), budget.max_cost
    tools: Literal["all", "finishing", "none"] = "all"
    if steps is not None and reserved and steps - spent.steps <= reserved:
        tools = "none"
    elif stopped and soft_stop == "restrict":
        tools = "finishing"
    left = None if cost is None else max(Decimal(0), cost - spent.cost)
    return Allowance(until, tokens, left, tools, stopped)


def _rest(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(0, limit - used)


def _reached(used: float, limit: float | None, ratio: float) -> bool:
    # Divided and not multiplied: 55 of 100 is 0.55 to the last bit, 100 times 0.55 is above 55.
    return limit is not None and limit > 0 and used / limit >= ratio


def _steps(left: int, reserved: int) -> str:
    left = max(0, left)
    if not reserved:
        return f"{left} steps"
    return f"{left} steps (the last {min(left, reserved)} without tools)"


def _done(done: Sequence[str]) -> str:
    if not done:
        return ""
    shown = [bounded(entry, _ENTRY_CHARS) for entry in done[-_SHOWN:]]
    older = f"{len(done) - _SHOWN} earlier ones; " if len(done) > _SHOWN else ""
    return f"Done so far: {older}{'; '.join(shown)}. "
