"""Digests that are equal where nothing has changed: of batches, of results, of a whole state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, cast

from loopwright.protocol import (
    AnyCall,
    EffectEntry,
    JsonValue,
    ProgressNote,
    ResultStatus,
    ToolCall,
    ToolResult,
    Turn,
    calls_of,
    canonical,
    digest,
)

from ._traits import NO_TRAITS, Traits

SIZE: Final = 8
"""Bytes of a short digest: a live invocation keeps a few for each of its last turns."""
_NOTHING: Final[Mapping[str, Traits]] = {}


class Marks(NamedTuple):
    """Short digests of one turn, by which it is compared with others."""

    plan: bytes
    """Of the batch: names and arguments, in any order."""
    outcome: bytes
    """Of what it came to: results in any order, and what its writes wrote."""
    pairs: bytes
    """For each call its own digest, blind to case and spaces, and behind it that of its result."""


def marks_of(
    calls: Sequence[AnyCall], results: Sequence[ToolResult], traits: Mapping[str, Traits]
) -> Marks:
    """Digest a turn that has run, without what its tools have declared volatile."""
    plans: list[bytes] = []
    found: list[bytes] = []
    pairs: list[bytes] = []
    for call, result in zip(calls, results, strict=True):
        volatile = traits.get(call.tool_name, NO_TRAITS).volatile
        text = _call_text(call, volatile)
        said = _short(_result_text(result, text, volatile))
        plans.append(text)
        found.append(said)
        pairs += (_short(text.lower().translate(None, b" ")), said)
    plans.sort()
    found.sort()
    return Marks(_short(b"\n".join(plans)), b"".join(found), b"".join(pairs))


def short_plan(calls: Iterable[AnyCall], traits: Mapping[str, Traits]) -> bytes:
    """Digest a batch as `Marks.plan` does."""
    return _short(plan_fingerprint(calls, traits))


def plan_fingerprint(calls: Iterable[AnyCall], traits: Mapping[str, Traits] = _NOTHING) -> bytes:
    """Make bytes that are equal for batches of the same names and arguments, in any order."""
    return b"\n".join(
        sorted([_call_text(call, traits.get(call.tool_name, NO_TRAITS).volatile) for call in calls])
    )


def state_fingerprint(
    turns: Sequence[Turn],
    effects: Iterable[EffectEntry],
    note: ProgressNote,
    k: int = 5,
    *,
    traits: Mapping[str, Traits] = _NOTHING,
) -> str:
    """Digest how far an invocation has come, so that two moments of it can be compared.

    It rests on what the note says is done and open, on what became of each write, and on what
    the last `k` turns with calls came to, in whatever order and however often.

    Args:
        turns: All committed turns.
        effects: The effect ledger.
        note: What whoever hands over says of it.
        k: How many turns to look back.
        traits: What the tools declare, by tool name.
    """
    came_to: set[str] = set()
    looked_at = 0
    for turn in reversed(turns):
        if looked_at == k:
            break
        record = turn.record
        calls = calls_of(record.proposal.decision)
        if calls:
            looked_at += 1
            came_to.add(marks_of(calls, record.results, traits).outcome.hex())
    ledger = sorted([entry.effect_key, entry.status] for entry in effects)
    state: list[JsonValue] = [
        cast("JsonValue", sorted(set(note.done))),
        cast("JsonValue", sorted(set(note.open))),
        cast("JsonValue", sorted(came_to)),
        cast("JsonValue", ledger),
    ]
    return digest(state)


def _call_text(call: AnyCall, volatile: tuple[str, ...]) -> bytes:
    if not isinstance(call, ToolCall):
        return call.tool_name.encode() + b"\0" + call.raw.encode()
    arguments = _without(call.arguments, volatile) if volatile else call.arguments
    return call.tool_name.encode() + b"\0" + canonical(arguments)


def _result_text(result: ToolResult, call: bytes, volatile: tuple[str, ...]) -> bytes:
    """Write what a result says; a write that worked has also changed what it was told to."""
    output = _without(result.output, volatile) if volatile else result.output
    error = result.error
    if error is not None:
        return canonical([result.tool_name, result.status, output, error.category, error.message])
    text = canonical([result.tool_name, result.status, output])
    if result.effect_key is not None and result.status is ResultStatus.OK:
        return text + call
    return text


def _without(value: JsonValue, volatile: tuple[str, ...]) -> JsonValue:
    """Leave out fields of these names, at any depth."""
    if isinstance(value, Mapping):
        return {k: _without(v, volatile) for k, v in value.items() if k not in volatile}
    if isinstance(value, list | tuple):
        return [_without(item, volatile) for item in value]
    return value


def _short(text: bytes) -> bytes:
    return blake2b(text, digest_size=SIZE).digest()
