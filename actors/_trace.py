"""What an invocation does, as it happens: bounded evidence for people, never hidden reasoning."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from loopwright.protocol import (
    Committed,
    Decide,
    Decided,
    DecideFailed,
    Execute,
    Executed,
    Found,
    Input,
    InvocationId,
    JsonObject,
    Late,
    LeaseLost,
    NotDispatched,
    Output,
    Reconcile,
    Rested,
    RunState,
    Validated,
)

EventName: TypeAlias = Literal[
    "state_transition",
    "llm_call_started",
    "llm_call_finished",
    "permission_evaluated",
    "tool_call_requested",
    "tool_call_finished",
    "checkpoint_saved",
    "reconcile",
    "run_finished",
    "lease",
    "late",
]

logger = logging.getLogger("loopwright.trace")


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One thing that happened, under the name the seed documents give it."""

    name: EventName
    invocation_id: InvocationId
    turn: int
    data: JsonObject


class RunObserver(Protocol):
    """Hears of everything; called in the loop, in the context of the invocation's caller.

    It must not block. What it raises is logged and changes nothing.
    """

    def __call__(self, event: TraceEvent, /) -> None:
        """Take one event."""
        ...


def notify(observers: Sequence[RunObserver], event: TraceEvent) -> None:
    """Tell every observer; one that fails disturbs nobody."""
    for observer in observers:
        try:
            observer(event)
        except Exception:
            logger.exception("An observer failed on %s:", event.name)


def transition(invocation_id: InvocationId, turn: int, old: RunState, new: RunState) -> TraceEvent:
    """Make the event of a change of state."""
    return TraceEvent("state_transition", invocation_id, turn, {"from": old, "to": new})


def of_input(invocation_id: InvocationId, turn: int, message: Input) -> TraceEvent | None:
    """Make the event of a message that came in, if it is worth one."""
    match message:
        case Decided(decision=decision, usage=usage, model=model):
            data: JsonObject = {
                "decision": decision.kind,
                "model": model,
                "tokens": usage.total,
                "estimated": usage.estimated,
            }
            return TraceEvent("llm_call_finished", invocation_id, turn, data)
        case DecideFailed(error=error):
            return TraceEvent("llm_call_finished", invocation_id, turn, {"error": error})
        case Validated(verdict=verdict):
            data = {"verdict": type(verdict).__name__}
            return TraceEvent("permission_evaluated", invocation_id, turn, data)
        case Executed(attempt_id=attempt, result=result):
            data = {
                "attempt": attempt,
                "tool": result.tool_name,
                "status": result.status,
                "error": result.error.message if result.error is not None else None,
            }
            return TraceEvent("tool_call_finished", invocation_id, turn, data)
        case Found(attempt_id=attempt, found=found):
            return TraceEvent(
                "reconcile", invocation_id, turn, {"attempt": attempt, "found": found.finding}
            )
        case NotDispatched(error=error) | LeaseLost(error=error):
            return TraceEvent("lease", invocation_id, turn, {"lost": error})
        case Committed(last_seq=seq):
            return TraceEvent("checkpoint_saved", invocation_id, turn, {"seq": seq})
        case _:
            return None


def of_output(invocation_id: InvocationId, turn: int, message: Output) -> TraceEvent | None:
    """Make the event of a message that went out, if it is worth one."""
    match message:
        case Decide(notice=notice):
            return TraceEvent("llm_call_started", invocation_id, turn, {"notice": notice})
        case Execute():
            data: JsonObject = {
                "attempt": message.attempt_id,
                "tool": message.tool_name,
                "effect": message.effect,
                "effect_key": message.effect_key,
            }
            return TraceEvent("tool_call_requested", invocation_id, turn, data)
        case Reconcile(attempt_id=attempt, effect_key=key):
            return TraceEvent(
                "reconcile", invocation_id, turn, {"attempt": attempt, "effect_key": key}
            )
        case Rested(outcome=outcome):
            data = {"reason": str(outcome.reason), "cause": outcome.cause}
            return TraceEvent("run_finished", invocation_id, turn, data)
        case Late(what=what):
            return TraceEvent("late", invocation_id, turn, {"message": what})
        case _:
            return None
