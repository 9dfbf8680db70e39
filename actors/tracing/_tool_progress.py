"""What tools say of their progress, told to observers: it never meets a machine or a journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from loopwright.protocol import Execute, JsonObject, bounded

from .._clock import Clock
from ._redacting import Redacting
from ._trace import RunObserver, TraceEvent, notify


class Progressed(NamedTuple):
    """One report."""

    order: Execute
    message: str
    done: float | None
    total: float | None


Watch: TypeAlias = Callable[[Progressed], None]
"""Takes a report, in the loop and in the context of the invocation's caller."""


def tool_progress(
    observers: tuple[RunObserver, ...], clock: Clock, redacting: Redacting | None
) -> Watch | None:
    """Make what tells observers; `None` where there are none, so that nobody has to be told.

    Args:
        observers: Who hears of it.
        clock: Time.
        redacting: What is said passes through it first.
    """

    def watch(progressed: Progressed) -> None:
        order, message = progressed.order, progressed.message
        data: JsonObject = {
            "attempt": bounded(order.attempt_id),
            "tool": order.tool_name,
            "message": message if redacting is None else redacting.text(message, "text"),
            "done": progressed.done,
            "total": progressed.total,
        }
        at = clock.now().wall
        event = TraceEvent("tool_progress", order.invocation_id, order.turn, data, at)
        notify(observers, event)

    return watch if observers else None
