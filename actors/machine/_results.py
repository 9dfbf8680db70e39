"""The results the runtime makes itself: for calls that did not run, or of which nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from loopwright.protocol import (
    UNSETTLED,
    CallId,
    Delivery,
    Effect,
    EffectEntry,
    EffectKey,
    ErrorCategory,
    InvocationStarted,
    OpenTurn,
    Plan,
    PlannedCall,
    ResultStatus,
    ToolError,
    ToolResult,
)

LATE_RESULT: Final = "late result"
"""Who said what became of a write, where it did itself, after nobody waited for it any more."""
WORKER_GONE: Final = "the worker that dispatched it is gone"
ABANDONED: Final = "it did not report in time and was abandoned"
ABANDONED_ASKING: Final = "its downstream was asked, and did not answer in time"


def outcome_unknown(call: PlannedCall, attempts: int, why: str) -> ToolResult:
    """Make the result of a dispatched write about which nothing is known."""
    text = f"{why}; it may or may not have taken effect"
    return ToolResult(
        call.call_id,
        call.tool_name,
        ResultStatus.OUTCOME_UNKNOWN,
        error=ToolError(ErrorCategory.INTERNAL, "OutcomeUnknown", text),
        attempts=attempts,
        effect_key=None if call.child else call.effect_key,
        arguments=call.arguments if call.edited else None,
    )


def unknown_calls(calls: Iterable[tuple[CallId, str]]) -> str:
    """Name the calls, each with its tool, that somebody has to settle."""
    return ", ".join(f"{call_id} ({tool_name})" for call_id, tool_name in calls)


def cancelled(call: PlannedCall, attempts: int) -> ToolResult:
    """Make the result of a read that was interrupted and did not end."""
    text = "it was interrupted, did not end in time, and was abandoned"
    error = ToolError(ErrorCategory.TRANSIENT, "Cancelled", text)
    return ToolResult(
        call.call_id, call.tool_name, ResultStatus.CANCELLED, error=error, attempts=attempts
    )


def not_started(call: PlannedCall, *, prepared: bool = False) -> ToolResult:
    """Make the result of a call that was never handed to its tool.

    Args:
        call: The call.
        prepared: Whether its dispatch is journaled; the result then takes that back.
    """
    error = ToolError(ErrorCategory.TRANSIENT, "NotStarted", "the batch ended before it was run")
    return ToolResult(
        call.call_id,
        call.tool_name,
        ResultStatus.NOT_STARTED,
        error=error,
        effect_key=call.effect_key if prepared and not call.child else None,
    )


def queued(call: PlannedCall, *, again: bool = False) -> ToolResult:
    """Make the result of a write that goes into the outbox.

    Args:
        call: The write.
        again: Whether the same mutation is there already; it is not put there a second time.
    """
    return ToolResult(
        call.call_id,
        call.tool_name,
        ResultStatus.OK,
        {"queued": call.effect_key},
        effect_key=None if again else call.effect_key,
        effect=None if again else "prepared",
        arguments=call.arguments,
    )


def out_of_the_outbox(call: PlannedCall, entry: EffectEntry) -> ToolResult:
    """Make the result of a write that a person has taken out of the outbox: it stays out."""
    text = f"{_named(entry)} was {entry.status}, and is not delivered again"
    return _refusal(call, ErrorCategory.PERMANENT, "AlreadyDecided", text)


def in_doubt(call: PlannedCall, failed: ToolResult) -> ToolResult:
    """Make the result of a write whose last attempt may have failed, and an earlier one worked.

    Unless the tool itself says that it won't do: that holds for every attempt.
    """
    error = failed.error
    if failed.status is not ResultStatus.ERROR or error is None or error.category.definite:
        return failed
    why = f"its attempt {failed.attempts} failed with {error.type}: {error.message}"
    return outcome_unknown(call, failed.attempts, why)


def withheld(
    call: PlannedCall,
    turn: int,
    ledger: Iterable[EffectEntry],
    batch: Iterable[PlannedCall],
    results: Mapping[CallId, ToolResult],
) -> ToolResult | None:
    """Say why a write must not be dispatched now, if so: it may be, or is, in effect already.

    Args:
        call: The write.
        turn: Its turn.
        ledger: What is known of the invocation's writes.
        batch: The calls of its batch.
        results: Of its batch, which the ledger may not hold yet.
    """
    if call.effect is Effect.IDEMPOTENT:
        return None
    fresh: dict[EffectKey, EffectEntry] = {}
    for other in batch:
        result = results.get(other.call_id)
        if result is not None and (key := result.effect_key) is not None:
            fresh[key] = EffectEntry(
                key,
                other.tool_name,
                turn,
                other.call_id,
                result.effect_status,
                arguments=other.arguments,
            )
    older = (entry for entry in ledger if entry.effect_key not in fresh)
    for entry in (*fresh.values(), *older):
        same = entry.effect_key == call.effect_key
        if (entry.turn, entry.call_id) == (turn, call.call_id) or not (
            entry.status in UNSETTLED or (same and entry.status == "committed")
        ):
            continue
        if entry.status == "committed":
            text = f"{_named(entry)} has taken effect already; its receipt is there"
            return _refusal(call, ErrorCategory.PERMANENT, "AlreadyApplied", text)
        alike = entry.tool_name == call.tool_name and entry.arguments == call.arguments
        if same or alike:
            text = f"{_named(entry)} may have taken effect; it has to be settled first"
            return _refusal(call, ErrorCategory.TRANSIENT, "Unsettled", text)
    return None


def _named(entry: EffectEntry) -> str:
    return f"call {entry.call_id!r} of turn {entry.turn} ({entry.effect_key})"


def _refusal(call: PlannedCall, category: ErrorCategory, kind: str, text: str) -> ToolResult:
    error = ToolError(category, kind, text)
    return ToolResult(call.call_id, call.tool_name, ResultStatus.NOT_STARTED, error=error)


def as_dispatched(plan: Plan, before: OpenTurn) -> Plan:
    """Keep what a write was dispatched as: key and arguments, and the class if it allows less."""
    return plan._replace(
        calls=tuple(
            call
            if (last := before.dispatched.get(call.call_id)) is None
            else call._replace(
                effect=call.effect.stricter(last.effect),
                arguments=last.arguments,
                effect_key=last.effect_key,
                outbox=None,
                child=call.child if last.reserved is None else call.child or last.tool_name,
            )
            for call in plan.calls
        )
    )


def edited(call: PlannedCall, result: ToolResult) -> ToolResult:
    """Say what it ran with, where that is not what was proposed."""
    return replace(result, arguments=call.arguments) if call.edited else result


def with_effect(refused: ToolResult, call: PlannedCall, attempts: int) -> ToolResult:
    """Say of a write that may not run again that it has not taken effect."""
    if call.child:
        return replace(refused, attempts=attempts)
    return replace(refused, effect_key=call.effect_key, effect="not_applied", attempts=attempts)


def deliveries(
    plan: Plan,
    results: Mapping[CallId, ToolResult],
    started: InvocationStarted,
    agent: str,
    turn: int,
) -> tuple[Delivery, ...]:
    """List what goes into the outbox with the commit of this turn."""
    return tuple(
        Delivery(
            started.invocation_id,
            agent,
            turn,
            call.call_id,
            call.tool_name,
            call.effect,
            call.effect_key,
            call.arguments,
            started.principal,
            call.outbox,
        )
        for call in plan.calls
        if call.outbox is not None
        and call.effect_key is not None
        and results[call.call_id].effect == "prepared"
    )
