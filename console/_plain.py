"""What commands print with `--json`: plain objects, stable names, nothing shortened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from loopwright.actors import Waiting
from loopwright.protocol import (
    ApprovalProposal,
    Ask,
    EffectEntry,
    EffectFact,
    JsonObject,
    JsonValue,
    Outcome,
    Proposal,
    Reason,
    Record,
    Spent,
    Summary,
    dumps,
    encode_record,
    loads,
    to_json,
)

from ._approving import Approving
from ._tree import Caller, Tree, open_proposal


def of_outcome(outcome: Outcome) -> JsonObject:
    """Say how an invocation came to rest."""
    return {
        "invocation_id": outcome.invocation_id,
        **of_reason(outcome.reason),
        "answer": outcome.answer,
        "output": outcome.output,
        "question": outcome.question,
        "cause": outcome.cause,
        "proposal": of_proposal(outcome.proposal),
        "effects": of_effects(outcome.effects),
        "unresolved_effects": of_effects(outcome.unresolved_effects),
        **of_spent(outcome.spent),
    }


def of_reason(reason: Reason | None) -> JsonObject:
    """Say why it is at rest, and what that means for the caller."""
    if reason is None:
        return {"reason": None, "outcome": None, "resumable": None, "advice": None}
    return {
        "reason": str(reason),
        "outcome": reason.outcome.value,
        "resumable": reason.resumable,
        "advice": reason.advice,
    }


def of_spent(spent: Spent) -> JsonObject:
    """Say what was used."""
    return {
        "steps": spent.steps,
        "tool_calls": spent.tool_calls,
        "tokens": spent.usage.total,
        "active_seconds": round(spent.active_seconds, 6),
        "cost": str(spent.cost),
        "tool_failures": spent.tool_failures,
        "handoffs": spent.handoffs,
    }


def of_proposal(proposal: ApprovalProposal | None) -> JsonValue:
    """Say exactly what would run after a human's yes."""
    return to_json(proposal).value


def of_effects(effects: Iterable[EffectEntry]) -> JsonValue:
    """List the writes that were dispatched, and what is known of each."""
    return to_json(tuple(effects)).value


def of_fact(fact: EffectFact) -> JsonObject:
    """Say what the effect ledger says of one write."""
    return {
        "invocation_id": fact.invocation_id,
        "agent": fact.agent,
        "changed_at": fact.at,
        **cast("JsonObject", to_json(fact.entry).value),
    }


def of_approved(what: Approving | None, asks: Iterable[Ask]) -> JsonValue:
    """Say what a yes was said to: calls exactly as they run, and under what."""
    if what is None:
        return None
    return {
        "invocation_id": what.invocation_id,
        "digest": what.digest,
        "agent": what.agent,
        "principal": to_json(what.principal).value,
        "expires_at": what.expires_at,
        "calls": [
            {
                "call_id": ask.call_id,
                "tool_name": ask.tool_name,
                "effect": what.effects.get(ask.tool_name),
                "arguments": ask.arguments,
                "reason": ask.reason,
                "edited": ask.call_id in what.edited,
            }
            for ask in asks
        ],
    }


def of_waiting(one: Waiting) -> JsonObject:
    """Say what an invocation waits for."""
    return {
        "invocation_id": one.invocation_id,
        "agent": one.agent,
        **of_reason(one.reason),
        "goal": one.goal,
        "question": one.question,
        "proposal": of_proposal(one.proposal),
        "since": one.since,
        "principal": to_json(one.principal).value,
        "unresolved_effects": of_effects(one.unresolved),
    }


def of_caller(caller: Caller) -> JsonObject:
    """Say how one stands that has called another one; without a reason it is at work elsewhere."""
    return {
        "invocation_id": caller.invocation_id,
        "agent": caller.agent,
        **of_reason(None if caller.outcome is None else caller.outcome.reason),
        "unaware": caller.unaware,
    }


def of_summary(summary: Summary) -> JsonObject:
    """Say what a listing says of an invocation."""
    head = summary.head
    return {
        "invocation_id": summary.invocation_id,
        "agent": head.agent,
        "status": head.status,
        "reason": None if head.reason is None else str(head.reason),
        "goal": head.goal,
        "key": head.key,
        "waits_for": head.detail,
        "created_at": summary.created_at,
        "changed_at": head.at,
        "records": summary.seq,
        "owner": summary.owner,
        "owner_alive": summary.owner_alive,
    }


def of_state(summary: Summary, tree: Tree, records: list[Record]) -> JsonObject:
    """Say everything the journal says of an invocation, and what its children wait for."""
    state = tree.root.state
    p, business = state.protocol, state.business
    return {
        **of_summary(summary),
        **of_reason(p.reason),
        "answer": business.answer,
        "output": business.output,
        "question": p.question,
        "cause": p.cause,
        "principal": to_json(p.started.principal).value,
        "metadata": business.metadata,
        "budget": to_json(p.budget).value,
        **of_spent(state.spent),
        "proposal": of_proposal(open_proposal(state)),
        "effects": of_effects(business.effects.values()),
        "unresolved_effects": of_effects(e for e in business.effects.values() if not e.settled),
        "parent": to_json(p.started.parent).value,
        "waiting_children": [of_waiting(one) for one in tree.waiting],
        "timeline": [of_record(record) for record in records],
    }


def of_proposed(proposal: Proposal) -> JsonValue:
    """Give what a model replied, but for what is kept for it alone."""
    return to_json(replace(proposal, replay=None)).value


def of_record(record: Record) -> JsonObject:
    """Give a record as it is stored, but for what is kept for the model alone."""
    fields = cast("JsonObject", loads(encode_record(record)))
    if isinstance(proposed := fields.get("proposal"), dict):
        proposed.pop("replay", None)
    return fields


def of_records(records: Iterable[Record]) -> JsonValue:
    """Give records as they are stored; see `of_record`."""
    return [of_record(record) for record in records]


def line(value: JsonValue) -> str:
    """Write a value as one line of JSON."""
    return dumps(value).decode()
