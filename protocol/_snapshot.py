"""Snapshots: the state between two turns, so that resuming need not decode every turn before it.

A snapshot is a cache. The turns stay in the journal and are taken from there as they are, undecoded;
the digest over them, which the snapshot holds, shows whether they are what it was made of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache

from pydantic import TypeAdapter, ValidationError

from ._budget import Budget, Usage
from ._canonical import dumps
from ._effects import EffectEntry, Reconciled
from ._history import Turn
from ._ids import CallId, ProposalDigest
from ._journal import Stored
from ._json import JsonValue
from ._records import CancelRequested, HandedOff, InvocationStarted, decode_record
from ._state import InvocationState, fold

VERSION = 2


@dataclass(frozen=True, slots=True)
class _Turn:
    """What is said of a turn beside its event."""

    number: int
    notice: str | None
    answer: str | None
    found: tuple[tuple[CallId, Reconciled], ...]


@dataclass(frozen=True, slots=True)
class _Saved:
    """An invocation between two turns, without its turns."""

    seq: int
    turn_seqs: tuple[int, ...]
    """The seqs of the committed turns."""
    found_seqs: tuple[int, ...]
    """The seqs of what was said beside the turns."""
    digest: str
    """Of the goal and all turns, as `InvocationState.context_digest`."""
    context_chars: int
    budget: Budget
    tool_calls: int
    usage: Usage
    active_seconds: float
    soft_stopped: bool
    faulty_decisions: int
    faulty_turns: int
    cancelling: CancelRequested | None
    decided: tuple[ProposalDigest, ...]
    agent: str
    handoffs: tuple[HandedOff, ...]
    cost: Decimal
    tool_failures: int
    denials: int
    denied: tuple[str, ...]
    failed_answers: int
    unavailable_turns: int
    summary: str
    summarized: int
    effects: tuple[EffectEntry, ...]
    commentary: str
    answer: str
    output: JsonValue
    turns: tuple[_Turn, ...] = field(default=())
    v: int = VERSION


@cache
def _reader() -> TypeAdapter[_Saved]:
    """Make what reads a snapshot; only who resumes something long needs it."""
    return TypeAdapter(_Saved)


def encode_snapshot(state: InvocationState) -> bytes:
    """Write the state of a running invocation between two turns."""
    p, business = state.protocol, state.business
    return dumps(
        _Saved(
            seq=p.seq,
            turn_seqs=tuple(state.turn_seqs),
            found_seqs=tuple(state.found_seqs),
            digest=state.context_digest,
            context_chars=state.context_chars,
            budget=p.budget,
            tool_calls=p.tool_calls,
            usage=p.usage,
            active_seconds=p.active_seconds,
            soft_stopped=p.soft_stopped,
            faulty_decisions=p.faulty_decisions,
            faulty_turns=p.faulty_turns,
            cancelling=p.cancelling,
            decided=tuple(sorted(p.decided)),
            agent=p.agent,
            handoffs=p.handoffs,
            cost=p.cost,
            tool_failures=p.tool_failures,
            denials=p.denials,
            denied=tuple(sorted(p.denied)),
            failed_answers=p.failed_answers,
            unavailable_turns=p.unavailable_turns,
            summary=p.summary,
            summarized=p.summarized,
            effects=tuple(business.effects.values()),
            commentary=business.commentary,
            answer=business.answer,
            output=business.output,
            turns=tuple(
                _Turn(turn.number, turn.notice, turn.answer, turn.found)
                for turn in business.turns
                if turn.notice is not None or turn.answer is not None or turn.found
            ),
        )
    )


def state_of(stored: Stored) -> InvocationState:
    """Rebuild an invocation from what a store has of it, from its snapshot where that fits.

    Raises:
        JournalCorruptError: If its journal cannot be read, or does not fit together.
    """
    state = _restored(stored)
    if state is None:
        return fold(stored.entries())
    for entry in stored.entries(after=state.protocol.seq):
        state.apply(entry)
    return state


def _restored(stored: Stored) -> InvocationState | None:
    """Take up a snapshot; `None` if there is none that fits its journal and this code."""
    if stored.snapshot is None or stored.first_seq != 1 or not stored.lines:
        return None
    try:
        saved = _reader().validate_json(stored.snapshot.body)
    except ValidationError:
        return None
    if saved.v != VERSION or saved.seq > len(stored.lines):
        return None
    started = decode_record(stored.lines[0])
    if not isinstance(started, InvocationStarted):
        return None
    seqs: list[int] = sorted((*saved.turn_seqs, *saved.found_seqs))
    if seqs and not 1 < seqs[0] <= seqs[-1] <= saved.seq:
        return None
    if not all(0 < turn.number <= len(saved.turn_seqs) for turn in saved.turns):
        return None
    state = _rebuilt(started, saved, stored)
    # It covers every turn: what is damaged is found before anything rests on it.
    digest = state.digest_anew([stored.lines[seq - 1] for seq in seqs])
    return state if digest == saved.digest else None


def _rebuilt(started: InvocationStarted, saved: _Saved, stored: Stored) -> InvocationState:
    state = InvocationState(started)
    p, business = state.protocol, state.business
    p.seq, p.turn = saved.seq, len(saved.turn_seqs)
    p.budget, p.tool_calls, p.usage = saved.budget, saved.tool_calls, saved.usage
    p.active_seconds, p.soft_stopped = saved.active_seconds, saved.soft_stopped
    p.faulty_decisions, p.faulty_turns = saved.faulty_decisions, saved.faulty_turns
    p.cancelling, p.decided = saved.cancelling, frozenset(saved.decided)
    p.agent, p.handoffs, p.cost = saved.agent, saved.handoffs, saved.cost
    p.tool_failures, p.failed_answers = saved.tool_failures, saved.failed_answers
    p.denials, p.denied = saved.denials, frozenset(saved.denied)
    p.unavailable_turns = saved.unavailable_turns
    p.summary, p.summarized = saved.summary, saved.summarized
    business.effects = {effect.effect_key: effect for effect in saved.effects}
    business.commentary = saved.commentary
    business.answer, business.output = saved.answer, saved.output
    state.turn_seqs.extend(saved.turn_seqs)
    state.found_seqs.extend(saved.found_seqs)
    business.turns.extend(
        Turn(number, stored.lines[seq - 1]) for number, seq in enumerate(saved.turn_seqs, 1)
    )
    for turn in saved.turns:
        held = business.turns[turn.number - 1]
        held.notice, held.answer, held.found = turn.notice, turn.answer, turn.found
    state.context_chars = saved.context_chars
    return state
