"""What must hold of a case at any moment, whatever was killed: the invariants of the kit.

Evidence comes from three sides: the store, the kit's own log, and, where the test can count them,
the effects that have really taken place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

from loopwright.protocol import (
    AnswerVerified,
    CallDispatched,
    CancelRequested,
    Effect,
    EffectKey,
    EffectReconciled,
    InvocationEnded,
    InvocationState,
    JournalCorruptError,
    Reason,
    TurnCommitted,
    TurnProposed,
    calls_of,
    fold,
)

from ._family import check_family, keys_of_children
from ._kept import Kept, holds
from ._log import (
    Body,
    Durable,
    Event,
    LifeBegan,
    ModelAsked,
    StartReturned,
    VerifierAsked,
    digest_of,
)

ASKED: Final = (Effect.RECONCILABLE, Effect.MANUAL)
"""Classes whose writes are never dispatched again unless somebody says that nothing was applied."""


def check_case(
    kept: Sequence[Kept], events: Sequence[Event], downstream: Mapping[str, int] | None
) -> None:
    """Check every invariant.

    Args:
        kept: What the store has.
        events: The kit's log.
        downstream: How often each effect has really taken place, by effect key.

    Raises:
        AssertionError: Names the first that does not hold.
    """
    _check_started(kept, events)
    for one in kept:
        state = _folded(one)
        _check_promises(one, events)
        _check_end(one)
        _check_results(one)
        _check_dispatches(one)
        _check_bodies(one, events)
        _check_model(one, events)
        _check_verifiers(one, events)
        _check_cancel(one, events)
        _check_ledger(one, state)
    _check_once(kept, events)
    check_family(kept, events)
    if downstream is not None:
        _check_downstream(kept, downstream)


# ------------------------------------------------------------ nothing is lost
def _check_started(kept: Sequence[Kept], events: Sequence[Event]) -> None:
    known = {one.invocation_id for one in kept}
    for event in events:
        if isinstance(event, StartReturned | Durable):
            holds(
                event.invocation_id in known,
                f"lost: invocation {event.invocation_id} was durable in life {event.life}",
            )


def _folded(one: Kept) -> InvocationState:
    held = len(one.entries)
    holds(
        held == one.last_seq,
        f"gap: the journal of {one.invocation_id} has {held} records up to seq {one.last_seq}",
    )
    try:
        return fold([*one.entries])
    except JournalCorruptError as error:
        raise AssertionError(f"the journal does not fold: {error}") from error


def _check_promises(one: Kept, events: Sequence[Event]) -> None:
    for event in events:
        if isinstance(event, Durable) and event.invocation_id == one.invocation_id:
            lines = [entry.line for entry in one.entries[event.first_seq - 1 : event.last_seq]]
            holds(
                digest_of(lines) == event.digest,
                f"lost commit: seq {event.first_seq} to {event.last_seq} was durable in life "
                f"{event.life} and is not there as it was",
            )


# ------------------------------------------------------------ the journal by itself
def _check_end(one: Kept) -> None:
    after: str | None = None
    for seq, record in enumerate(one.records, 1):
        if after is not None and not isinstance(record, EffectReconciled):
            raise AssertionError(f"{record.kind} at seq {seq} comes after the end: {after}")
        if isinstance(record, InvocationEnded):
            after = f"it ended with {record.reason} at seq {seq}"


def _check_results(one: Kept) -> None:
    for record in one.records:
        if isinstance(record, TurnCommitted):
            decision = record.proposal.decision
            wanted = [call.call_id for call in calls_of(decision)]
            got = [result.call_id for result in record.results]
            holds(
                got == wanted,
                f"turn {record.turn} has results for {got}, and the calls {wanted}",
            )


def _check_dispatches(one: Kept) -> None:
    """One effect key per call, and no second attempt without a word where one is needed."""
    last: dict[tuple[int, str], CallDispatched] = {}
    unapplied: set[tuple[int, str]] = set()
    for record in one.records:
        match record:
            case EffectReconciled(found=found):
                if found.finding == "not_applied":
                    unapplied.add((record.turn, record.call_id))
            case CallDispatched(turn=turn, call_id=call_id):
                before, call = last.get((turn, call_id)), f"call {call_id!r} of turn {turn}"
                last[turn, call_id] = record
                if before is None:
                    continue
                holds(
                    before.effect_key == record.effect_key,
                    f"{call} was dispatched under two effect keys: {before.effect_key} and "
                    f"{record.effect_key}",
                )
                holds(
                    record.attempt == before.attempt + 1,
                    f"{call} was dispatched as attempt {record.attempt} after {before.attempt}",
                )
                holds(
                    before.effect not in ASKED or (turn, call_id) in unapplied,
                    f"{call}, {before.effect}, was dispatched again, and nobody has said that it "
                    "was not applied",
                )
                unapplied.discard((turn, call_id))
            case _:
                pass


# ------------------------------------------------------------ what lives did
def _check_bodies(one: Kept, events: Sequence[Event]) -> None:
    """No write without its own durable dispatch."""
    announced = {
        (record.turn, record.call_id, record.attempt): record
        for record in one.records
        if isinstance(record, CallDispatched)
    }
    begun: dict[tuple[int, str, int], Body] = {}
    for event in events:
        if not _is_write(event, "began") or event.invocation_id != one.invocation_id:
            continue
        if event.delivery:
            continue
        attempt = event.turn, event.call_id, event.attempt
        dispatch, shown = announced.get(attempt), _shown(event)
        holds(
            dispatch is not None and dispatch.effect_key == event.effect_key,
            f"{shown} began, and its dispatch is not in the journal",
        )
        before = begun.setdefault(attempt, event)
        holds(before is event, f"{shown} began, and had begun in life {before.life} already")


def _check_once(kept: Sequence[Kept], events: Sequence[Event]) -> None:
    """No effect twice, unless its downstream deduplicates."""
    said: dict[str, str] = {}
    for one in kept:
        for record in one.records:
            if isinstance(record, EffectReconciled) and record.found.finding == "not_applied":
                said[record.effect_key] = record.by
    done: dict[str, Body] = {}
    for event in events:
        if not _is_write(event, "returned") or event.effect not in ASKED:
            continue
        key = str(event.effect_key)
        before = done.setdefault(key, event)
        if before is not event:
            lied = f"; {said[key]} had said that it was not applied" if key in said else ""
            raise AssertionError(
                f"duplicate: the effect {key} of tool {event.tool_name!r} has taken place in "
                f"life {before.life} and again in life {event.life}{lied}"
            )


def _check_model(one: Kept, events: Sequence[Event]) -> None:
    """A turn that is proposed durably is not asked for again."""
    proposed: dict[int, int] = {}
    known: dict[int, set[int]] = {}
    for event in events:
        match event:
            case LifeBegan(life=life):
                known[life] = set(proposed)
            case Durable(invocation_id=one.invocation_id):
                for record in one.records[event.first_seq - 1 : event.last_seq]:
                    if isinstance(record, TurnProposed | TurnCommitted):
                        proposed.setdefault(record.turn, event.life)
            case ModelAsked(life=life, turn=turn) if event.invocation_id == one.invocation_id:
                holds(
                    turn not in known.get(life, ()) and proposed.get(turn) != life,
                    f"the model was asked for turn {turn} in life {life}, and its reply was "
                    f"durable since life {proposed.get(turn)}",
                )
            case _:
                pass


def _check_verifiers(one: Kept, events: Sequence[Event]) -> None:
    """A verdict that is durable, and still holds, is not asked for again by a later life."""
    passed: dict[tuple[int, str], int] = {}
    held: dict[tuple[int, str], int] = {}
    for event in events:
        match event:
            case LifeBegan():
                held = dict(passed)
            case Durable(invocation_id=one.invocation_id):
                for record in one.records[event.first_seq - 1 : event.last_seq]:
                    if isinstance(record, AnswerVerified) and record.passed:
                        passed[record.turn, record.verifier] = event.life
                    elif isinstance(record, EffectReconciled):
                        # The ledger is another since.
                        passed.clear()
                        held.clear()
            case VerifierAsked(invocation_id=one.invocation_id):
                asked = event.turn, event.verifier
                holds(
                    asked not in held,
                    f"verifier {event.verifier!r} was asked about turn {event.turn} in life "
                    f"{event.life}, and its verdict was durable since life {held.get(asked)}",
                )
            case _:
                pass


def _check_cancel(one: Kept, events: Sequence[Event]) -> None:
    """Nothing begins once a cancel is durable."""
    records = one.records
    stop = next((i for i, r in enumerate(records) if isinstance(r, CancelRequested)), None)
    if stop is None:
        return
    for record in records[stop:]:
        late = isinstance(record, CallDispatched)
        holds(not late, f"a call was dispatched after a cancel was durable: {record}")
    stopped, later = False, set[int]()
    for event in events:
        match event:
            case LifeBegan(life=life) if stopped:
                later.add(life)
            case Durable(invocation_id=one.invocation_id):
                stopped = stopped or event.last_seq > stop
            case Body(step="began", delivery=False, life=life, invocation_id=one.invocation_id) if (
                life in later
            ):
                raise AssertionError(f"{_shown(event)} began after a cancel was durable")
            case ModelAsked(life=life, invocation_id=one.invocation_id) if life in later:
                raise AssertionError(f"the model was asked in life {life}, after a cancel")
            case _:
                pass


# ------------------------------------------------------------ what is known of effects
def _check_ledger(one: Kept, state: InvocationState) -> None:
    """The store's ledger says what the journal says, and nothing rests while it is under way."""
    said = {effect.effect_key: effect for effect in one.effects}
    for key, effect in state.business.effects.items():
        if effect.status == "prepared" and key in said:
            # It went into the outbox: what became of it there is in the ledger only.
            continue
        holds(
            said.get(key) == effect,
            f"the ledger has {said.get(key)} for {key}, and the journal {effect}",
        )
    holds(
        said.keys() == state.business.effects.keys(),
        f"the ledger has {sorted(said)}, and the journal {sorted(state.business.effects)}",
    )
    reason = state.protocol.reason
    if reason is None or reason is Reason.APPROVAL_REQUIRED:
        return
    for effect in state.business.effects.values():
        holds(
            effect.status != "dispatched",
            f"it rests with {reason}, and the effect {effect.effect_key} is still under way",
        )


def _check_downstream(kept: Sequence[Kept], downstream: Mapping[str, int]) -> None:
    # What stands for a child takes no effect of its own.
    children = keys_of_children(kept)
    effects = [effect for one in kept for effect in one.effects]
    known = {e.effect_key: e for e in effects if e.effect_key not in children}
    for key, count in Counter(downstream).items():
        effect = known.get(EffectKey(key))
        holds(count <= 1, f"duplicate: the effect {key} has taken place {count} times")
        holds(
            effect is not None or not count,
            f"the effect {key} has taken place, and no dispatch has announced this key",
        )
        if effect is not None and effect.status in ("rejected", "not_applied"):
            holds(not count, f"the effect {key} has taken place, and counts as {effect.status}")
    for key, effect in known.items():
        if effect.status == "committed":
            holds(
                downstream.get(key, 0) > 0,
                f"the effect {key} counts as committed, and has not taken place",
            )


def _is_write(event: Event, step: str) -> TypeGuard[Body]:
    return isinstance(event, Body) and event.step == step and event.effect.is_write


def _shown(body: Body) -> str:
    return (
        f"attempt {body.attempt} of call {body.call_id!r} of turn {body.turn} "
        f"({body.tool_name}), in life {body.life},"
    )
