"""A snapshot holds everything of a state that the journal behind it does not say again."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from typing import Any

import orjson
import pytest

from loopwright.protocol import (
    Budget,
    CallId,
    CancelRequested,
    EffectEntry,
    EffectKey,
    Entry,
    HandedOff,
    Head,
    InvocationId,
    InvocationStarted,
    InvocationState,
    Principal,
    ProgressNote,
    Proposal,
    ProposalDigest,
    Snapshot,
    Stored,
    Summary,
    ToolCalls,
    TurnCommitted,
    Usage,
    encode_record,
    encode_snapshot,
    fold,
    state_of,
)
from loopwright.protocol._state import BusinessState, ProtocolState

STARTED = InvocationStarted(
    InvocationId("i1"), "desk", "1", "1", "goal", Principal(), Budget(max_steps=3), 0.0
)
TURN = TurnCommitted(1, Proposal(ToolCalls(()), Usage(10, 1)), (), 0, 0.5, 0.0)
PAID = EffectEntry(EffectKey("k"), "pay", 1, CallId("a"), "committed", {"n": 1}, 2, {"n": 7})
LINES = (encode_record(STARTED), encode_record(TURN))

ELSEWHERE = {
    "started": "the first record",
    "turn": "as many as there are seqs of turns",
    "open": "there is none between two turns",
    "status": "it is running",
    "reason": "it is running",
    "question": "it is running",
    "cause": "it is running",
}
"""Fields of the protocol state that no snapshot holds, each with where it is to be had from."""

KEPT: dict[str, Any] = {
    "budget": Budget(max_cost=Decimal("0.30"), max_handoffs=None, reserve_steps=2),
    "seq": 2,
    "agent": "refunds",
    "handoffs": (HandedOff(1, "desk", "refunds", "why", ProgressNote(("a",)), "f", 0.0, True),),
    "tool_calls": 7,
    "usage": Usage(30, 3, estimated=True, cached_tokens=5),
    "cost": Decimal("0.12345678901234567890"),
    "tool_failures": 4,
    "denials": 2,
    "denied": frozenset({"one", "two"}),
    "failed_answers": 3,
    "unavailable_turns": 1,
    "summary": "in short",
    "summarized": 1,
    "active_seconds": 0.1 + 0.2,
    "soft_stopped": True,
    "faulty_decisions": 1,
    "faulty_turns": 2,
    "cancelling": CancelRequested("enough", "ann", 0.0),
    "decided": frozenset({ProposalDigest("d1"), ProposalDigest("d2")}),
}
"""Every other field, with a value it does not have by itself."""


def saved(state: InvocationState) -> InvocationState:
    """Save a state, and restore it."""
    snapshot = Snapshot(state.protocol.seq, encode_snapshot(state))
    summary = Summary(
        STARTED.invocation_id, Head("desk", "running", None, 0.0), 2, 0.0, None, False
    )
    return state_of(Stored(summary, 1, LINES, snapshot))


def between_turns() -> InvocationState:
    """Stand behind the first turn."""
    return fold([Entry(STARTED, LINES[0]), Entry(TURN, LINES[1])])


def test_every_field_of_the_protocol_state_is_kept_or_had_from_elsewhere() -> None:
    """Whoever adds one has to say which, or what is resumed forgets it."""
    assert {field.name for field in fields(ProtocolState)} == set(KEPT) | set(ELSEWHERE)
    written = set(orjson.loads(encode_snapshot(between_turns())))
    assert written >= set(KEPT)
    assert written.isdisjoint(ELSEWHERE)


@pytest.mark.parametrize("name", KEPT)
def test_a_field_comes_back_as_it_was(name: str) -> None:
    """To the last digit; and no other one with it."""
    state = between_turns()
    if name != "seq":
        assert getattr(state.protocol, name) != KEPT[name]
    setattr(state.protocol, name, KEPT[name])
    restored = saved(state).protocol
    assert getattr(restored, name) == KEPT[name]
    assert restored == state.protocol


def test_what_the_task_knows_comes_back_as_well() -> None:
    """Turns from the journal, goal and metadata from its start, the rest from the snapshot."""
    state = between_turns()
    kept: dict[str, Any] = {
        "effects": {PAID.effect_key: PAID},
        "commentary": "let me see",
        "answer": "done",
        "output": {"n": 1},
    }
    elsewhere = {"goal", "metadata", "turns"}
    assert {field.name for field in fields(BusinessState)} == set(kept) | elsewhere
    for name, value in kept.items():
        setattr(state.business, name, value)
    restored = saved(state).business
    for name, value in kept.items():
        assert getattr(restored, name) == value
    assert [turn.body for turn in restored.turns] == [LINES[1]]
    assert (restored.goal, restored.metadata) == ("goal", None)
