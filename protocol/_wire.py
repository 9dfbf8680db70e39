"""The lean form of the one record that is written every turn and kept as history.

Fields that have their default value are left out: half the bytes on disk and in memory, and
half the time, of letting the encoder walk the dataclasses. Reading needs nothing special.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._budget import Usage
from ._decisions import AnyCall, Decision, Malformed, ToolCall, ToolCalls
from ._results import ToolResult

if TYPE_CHECKING:
    from ._evidence import Proposal
    from ._records import TurnCommitted


def lean_turn(record: TurnCommitted) -> dict[str, object]:
    """Write a turn as a mapping for the encoder."""
    wire: dict[str, object] = {
        "kind": record.kind,
        "v": record.v,
        "turn": record.turn,
        "proposal": _proposal(record.proposal),
        "results": [_result(result) for result in record.results],
        "tool_calls": record.tool_calls,
        "active_seconds": record.active_seconds,
        "at": record.at,
    }
    if record.fault is not None:
        wire["fault"] = record.fault
    return wire


def _proposal(proposal: Proposal) -> dict[str, object]:
    wire: dict[str, object] = {
        "decision": _decision(proposal.decision),
        "usage": _usage(proposal.usage),
        "context_digest": proposal.context_digest,
    }
    if proposal.model:
        wire["model"] = proposal.model
    if proposal.response_id:
        wire["response_id"] = proposal.response_id
    if proposal.attempts != 1:
        wire["attempts"] = proposal.attempts
    if proposal.verdicts:
        wire["verdicts"] = proposal.verdicts
    if proposal.cost:
        wire["cost"] = proposal.cost
    if proposal.by:
        wire["by"] = proposal.by
    if proposal.stop_reason:
        wire["stop_reason"] = proposal.stop_reason
    if proposal.replay is not None:
        wire["replay"] = proposal.replay
    return wire


def _decision(decision: Decision | Malformed) -> object:
    if type(decision) is not ToolCalls:
        return decision
    wire: dict[str, object] = {
        "kind": decision.kind,
        "calls": [_call(call) for call in decision.calls],
    }
    if decision.commentary:
        wire["commentary"] = decision.commentary
    return wire


def _call(call: AnyCall) -> object:
    if type(call) is not ToolCall or call.normalized:
        return call
    return {
        "call_id": call.call_id,
        "tool_name": call.tool_name,
        "arguments": call.arguments,
    }


def _usage(usage: Usage) -> object:
    if usage.estimated or usage.cached_tokens or usage.cache_written_tokens:
        return usage
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


def _result(result: ToolResult) -> dict[str, object]:
    wire: dict[str, object] = {
        "call_id": result.call_id,
        "tool_name": result.tool_name,
        "status": result.status,
        "attempts": result.attempts,
    }
    if result.output is not None:
        wire["output"] = result.output
    if result.error is not None:
        wire["error"] = result.error
    if result.effect_key is not None:
        wire["effect_key"] = result.effect_key
        if result.effect is not None:
            wire["effect"] = result.effect
    if result.arguments is not None:
        wire["arguments"] = result.arguments
    if result.child is not None:
        wire["child"] = result.child
    return wire
