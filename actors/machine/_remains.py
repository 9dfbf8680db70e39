"""What is left of a turn that will not go on: each call with its result, and nothing dispatched."""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.protocol import (
    BrokenCall,
    CallId,
    Effect,
    OpenTurn,
    Plan,
    PlannedCall,
    ToolCall,
    ToolResult,
)

from ._batch import Batch


def remains(
    calls: tuple[ToolCall | BrokenCall, ...],
    open_turn: OpenTurn,
    known: Mapping[CallId, ToolResult] | None = None,
    fault: str | None = None,
) -> Batch:
    """Wrap what is left of a turn that will not go on: nothing of it can be dispatched."""
    planned: list[PlannedCall] = []
    for call in calls:
        last = open_turn.dispatched.get(call.call_id)
        planned.append(
            PlannedCall(call.call_id, call.tool_name, Effect.READ, {})
            if last is None
            else PlannedCall(
                call.call_id,
                call.tool_name,
                last.effect,
                last.arguments,
                last.effect_key,
                child=None if last.reserved is None else last.tool_name,
            )
        )
    plan = Plan(tuple(planned), (tuple(range(len(planned))),), fault=fault)
    batch = Batch(plan, open_turn, known, max_attempts=0)
    batch.stop()
    return batch
