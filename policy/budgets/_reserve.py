"""What a child invocation may use of its parent's budget: reserve, spend, release.

Before children start, each gets its share of what is left, and that is kept aside until the
child has ended; then what it has really used is charged, and the rest is free again. So a tree
never uses more than its root's budget, whatever happens in what order.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import TypeVar

from loopwright.protocol import Budget, Reserved

from ._limits import Left

_N = TypeVar("_N", int, float, Decimal, datetime)


def reserve(own: Budget, left: Left, siblings: int = 1) -> Reserved:
    """Say what to keep aside for one of several children that start at once.

    Args:
        own: The budget the child's agent would have alone.
        left: What is left of the parent's, without what its other calls of the batch will use.
        siblings: How many children share it, this one included.
    """
    calls, tokens, cost = left
    if cost is not None:
        # An even share is rounded down, or all of them together might be above what is left.
        with localcontext(rounding=ROUND_FLOOR):
            cost = cost / siblings
    return Reserved(
        _least(own.max_tool_calls, None if calls is None else calls // siblings),
        _least(own.max_tokens, None if tokens is None else tokens // siblings),
        _least(own.max_cost, cost),
    )


def child_budget(
    own: Budget, reserved: Reserved, until: datetime | None, active_left: float | None
) -> Budget:
    """Make the budget a child is started with: its own, within what its parent has for it.

    Args:
        own: The budget the child's agent would have alone.
        reserved: What is kept aside for it.
        until: The parent's deadline.
        active_left: What is left of the parent's running time, which goes on meanwhile.
    """
    return replace(
        own,
        max_tool_calls=reserved.tool_calls,
        max_tokens=reserved.tokens,
        max_cost=reserved.cost,
        deadline=_least(own.deadline, until),
        max_active_seconds=_least(
            own.max_active_seconds, None if active_left is None else max(0.0, active_left)
        ),
    )


def _least(one: _N | None, other: _N | None) -> _N | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
