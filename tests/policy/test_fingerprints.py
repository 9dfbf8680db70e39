"""Digests that are equal where nothing has changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from trajectories.notation import turn_of

from loopwright.policy import Traits, plan_fingerprint, state_fingerprint
from loopwright.protocol import (
    NO_USAGE,
    CallId,
    EffectEntry,
    EffectKey,
    EffectStatus,
    Final,
    ProgressNote,
    Proposal,
    ToolCall,
    Turn,
    TurnCommitted,
    encode_record,
    parse_call,
)

NOTE = ProgressNote(("a", "b"), ("c",), (CallId("t1c0"),))


@given(st.permutations(["read", "pay", "pay"]))
def test_a_plan_does_not_depend_on_order_or_ids(tools: list[str]) -> None:
    """The same batch again is the same, whatever the provider called it."""
    again = [parse_call(f"x{i}", tool, {"b": 1, "a": 2}) for i, tool in enumerate(tools)]
    first = [ToolCall(CallId(f"c{i}"), t, {"a": 2, "b": 1}) for i, t in enumerate(sorted(tools))]
    assert plan_fingerprint(again) == plan_fingerprint(first)
    assert plan_fingerprint(again[:2]) != plan_fingerprint(first)
    assert plan_fingerprint([parse_call("c", "read", "{broken")]) != plan_fingerprint(
        [parse_call("c", "read", "{other")]
    )


def test_a_plan_leaves_out_what_is_volatile_of_its_tool_only() -> None:
    """What one tool has declared says nothing of the same field of another."""
    first, other = ({"id": 1, "in": [{"at": at}]} for at in (1, 2))
    traits = {"get": Traits(volatile=("at",))}

    def plan(tool: str, arguments: object) -> bytes:
        return plan_fingerprint([parse_call("c", tool, arguments)], traits)

    assert plan("get", first) == plan("get", other)
    assert plan("put", first) != plan("put", other)


def turns(*texts: str) -> list[Turn]:
    """Commit these turns."""
    return [Turn(n, encode_record(turn_of(n, text))) for n, text in enumerate(texts, 1)]


def entry(status: EffectStatus) -> EffectEntry:
    """Make a line of the effect ledger."""
    return EffectEntry(EffectKey("k"), "pay", 1, CallId("c"), status)


def test_a_state_is_the_same_if_nothing_was_found_out_or_done() -> None:
    """Agents that only look again at what they know hand over the same state."""
    first = state_fingerprint(turns("a() -> 1", "b() -> 2"), (), NOTE)
    again = turns("a() -> 1", "b() -> 2", "a() -> 1", "b() -> 2")
    swapped = ProgressNote(("b", "a", "a"), ("c",))
    assert state_fingerprint(again, (), swapped) == first


def test_a_turn_without_calls_is_no_part_of_the_state() -> None:
    """Neither is a handoff, nor an answer that was turned down."""
    committed = TurnCommitted(2, Proposal(Final("done"), NO_USAGE), (), 0, 0.0, 0.0)
    looked = turns("a() -> 1")
    answered = [*looked, Turn(2, encode_record(committed))]
    assert state_fingerprint(answered, (), NOTE, k=1) == state_fingerprint(looked, (), NOTE, k=1)


def test_a_state_changes_with_each_of_its_parts() -> None:
    """What is done, what is open, what was found lately, and what became of each write."""
    looked = turns("a() -> 1")
    states = [
        state_fingerprint(looked, (), NOTE),
        state_fingerprint(looked, (), ProgressNote(("a",), ("c",))),
        state_fingerprint(looked, (), ProgressNote(("a", "b"), ())),
        state_fingerprint(turns("a() -> 2"), (), NOTE),
        state_fingerprint(looked, [entry("outcome_unknown")], NOTE),
        state_fingerprint(looked, [entry("committed")], NOTE),
    ]
    assert len(set(states)) == len(states)


def test_a_state_rests_on_the_latest_turns_only() -> None:
    """What was found long ago is no part of it, and what is volatile never."""
    old = turns("z() -> old", *(f'a() -> {{"v": {n}, "at": {n}}}' for n in (1, 1)))
    new = turns(*(f'a() -> {{"v": 1, "at": {n}}}' for n in (7, 8)))
    traits = {"a": Traits(volatile=("at",))}
    fingerprints = [state_fingerprint(t, (), NOTE, k=2, traits=traits) for t in (old, new)]
    assert fingerprints[0] == fingerprints[1]
    assert state_fingerprint(old, (), NOTE, k=2) != state_fingerprint(new, (), NOTE, k=2)
