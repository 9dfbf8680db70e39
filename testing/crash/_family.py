"""What must hold between parents and children, whatever was killed."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.protocol import (
    CallDispatched,
    CancelRequested,
    EffectKey,
    InvocationId,
    InvocationStarted,
    Parent,
)

from ._kept import Kept, holds
from ._log import Body, Durable, Event, LifeBegan, ModelAsked


def check_family(kept: Sequence[Kept], events: Sequence[Event]) -> None:
    """One child per call, and only of one that was dispatched; a cancel holds for all below it."""
    everybody = {one.invocation_id: one for one in kept}
    born: dict[tuple[str, int, str], InvocationId] = {}
    for one in kept:
        above = _parent(one)
        if above is None or above.invocation_id not in everybody:
            continue
        call = above.invocation_id, above.turn, above.call_id
        holds(
            born.setdefault(call, one.invocation_id) == one.invocation_id,
            f"call {above.call_id!r} of turn {above.turn} has two children: {born[call]} and "
            f"{one.invocation_id}",
        )
        announced = [
            (record.turn, record.call_id)
            for record in everybody[above.invocation_id].records
            if isinstance(record, CallDispatched) and record.reserved is not None
        ]
        holds(
            (above.turn, above.call_id) in announced,
            f"{one.invocation_id} was started by call {above.call_id!r} of turn {above.turn}, and "
            "its dispatch is not in the journal",
        )
        while above is not None and (parent := everybody.get(above.invocation_id)) is not None:
            _check_stopped_below(parent, one.invocation_id, events)
            above = _parent(parent)


def _check_stopped_below(parent: Kept, child: InvocationId, events: Sequence[Event]) -> None:
    """In lives that begin after a parent was cancelled durably, nobody works for it."""
    records, stopped, later = parent.records, False, set[int]()
    for event in events:
        match event:
            case LifeBegan(life=life) if stopped:
                later.add(life)
            case Durable(invocation_id=parent.invocation_id):
                new = records[event.first_seq - 1 : event.last_seq]
                stopped = stopped or any(isinstance(r, CancelRequested) for r in new)
            case Body(step="began", life=life) | ModelAsked(life=life) if life in later:
                holds(
                    event.invocation_id != child,
                    f"{child} was at work in life {life}, after a cancel of its parent "
                    f"{parent.invocation_id}",
                )
            case _:
                pass


def _parent(one: Kept) -> Parent | None:
    first = one.records[0]
    return first.parent if isinstance(first, InvocationStarted) else None


def keys_of_children(kept: Sequence[Kept]) -> set[EffectKey]:
    """List the effect keys of calls that stand for children."""
    return {
        record.effect_key
        for one in kept
        for record in one.records
        if isinstance(record, CallDispatched) and record.reserved is not None
    }
