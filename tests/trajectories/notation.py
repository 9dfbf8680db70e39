"""How a trajectory is written down, and played.

One text is one turn, its calls side by side:

    read(path=a) -> some text ; *save(id=1) -> ok ; fetch(url=x) !transient it broke

`->` returns, `!category` fails, `?status` is refused before it runs, `*` marks a write. What looks like
JSON is JSON, everything else is text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from loopwright.policy import Assessment, Progress, Tracking, Traits
from loopwright.protocol import (
    NO_USAGE,
    CallId,
    EffectKey,
    ErrorCategory,
    JsonObject,
    JsonValue,
    Proposal,
    ResultStatus,
    Stalled,
    ToolCall,
    ToolCalls,
    ToolError,
    ToolResult,
    Turn,
    TurnCommitted,
    calls_of,
    encode_record,
    loads,
)

_CALL = re.compile(r"(\*?)(\w+)\((.*?)\) *(->|![a-z_]+|\?[a-z_]+) ?(.*)", re.DOTALL)


class Verdict(NamedTuple):
    """Which signal stalls it, and the turn by which it has to."""

    signal: str
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """What an agent did, turn by turn, and what is to be said of it."""

    name: str
    turns: Sequence[str]
    loop: bool
    """Whether it is one, as a person would judge."""
    stalled: Verdict | None = None
    """What `Progress` says of it."""
    rule: Progress = field(default_factory=Progress)
    traits: Mapping[str, Traits] = field(default_factory=dict[str, Traits])

    @property
    def known_limit(self) -> bool:
        """Whether the verdict is wrong, and known to be."""
        return self.loop != (self.stalled is not None)


class Played(NamedTuple):
    """What was said of it, by turn."""

    stalled: Verdict | None
    evidence: str
    nudges: tuple[int, ...]


def play(trajectory: Trajectory) -> Played:
    """Play it up to the turn that is stalled, and check at each that the journal says the same."""
    rule, traits = trajectory.rule, trajectory.traits
    tracking, turns = Tracking(rule, traits), list[Turn]()
    nudges: list[int] = []
    for number, text in enumerate(trajectory.turns, 1):
        committed = turn_of(number, text)
        calls = calls_of(committed.proposal.decision)
        rebuilt = Tracking.rebuilt(rule, traits, turns)
        refused = tracking.assess(calls)
        assert rebuilt.assess(calls) == refused
        if refused is not None:
            return Played(Verdict(refused.signal, number), refused.evidence, tuple(nudges))
        said = tracking.observe(committed)
        assert rebuilt.observe(committed) == said
        turns.append(Turn(number, encode_record(committed)))
        assert Tracking.rebuilt(rule, traits, turns).pending == tracking.pending == said.nudge
        if said.stalled is not None:
            verdict = Verdict(said.stalled.signal, number)
            return Played(verdict, said.stalled.evidence, tuple(nudges))
        if said.nudge is not None:
            nudges.append(number)
    return Played(None, "", tuple(nudges))


def track(
    *texts: str, rule: Progress | None = None, traits: Mapping[str, Traits] | None = None
) -> Tracking:
    """Let these turns be observed, one after the other."""
    tracking = Tracking(rule or Progress(), traits or {})
    for number, text in enumerate(texts, 1):
        tracking.observe(turn_of(number, text))
    return tracking


def proposed(tracking: Tracking, text: str) -> Stalled | None:
    """Say what is said of this turn before it runs."""
    return tracking.assess(calls_of(turn_of(1, text).proposal.decision))


def assessments(
    *texts: str, rule: Progress | None = None, traits: Mapping[str, Traits] | None = None
) -> list[Assessment]:
    """Observe these turns and list what was said after each."""
    tracking = Tracking(rule or Progress(), traits or {})
    return [tracking.observe(turn_of(number, text)) for number, text in enumerate(texts, 1)]


def turn_of(number: int, text: str, by: str = "") -> TurnCommitted:
    """Read one turn."""
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for index, part in enumerate(re.split(r"\s;\s", text)):
        call_id = CallId(f"t{number}c{index}")
        call, result = _parsed(call_id, part.strip())
        calls.append(call)
        results.append(result)
    proposal = Proposal(ToolCalls(tuple(calls)), NO_USAGE, by=by)
    return TurnCommitted(number, proposal, tuple(results), len(calls), 0.0, 0.0)


def _parsed(call_id: CallId, text: str) -> tuple[ToolCall, ToolResult]:
    match = _CALL.fullmatch(text)
    assert match is not None, text
    write, name, given, how, rest = match.groups()
    call = ToolCall(call_id, name, _arguments(given))
    key = EffectKey(f"call:{call_id}") if write else None
    if how == "->":
        output = _value(rest)
        result = ToolResult(call_id, name, ResultStatus.OK, output, attempts=1, effect_key=key)
        return call, result
    status, category, kind = ResultStatus.ERROR, ErrorCategory.INVALID_INPUT, "Refused"
    if how == "!timeout":
        status, category, kind = ResultStatus.TIMEOUT, ErrorCategory.TRANSIENT, "Timeout"
    elif how[0] == "!":
        category, kind = ErrorCategory(how[1:]), "Failed"
    else:
        status, key = ResultStatus(how[1:]), None
    error = ToolError(category, kind, rest)
    attempts = 0 if how[0] == "?" else 1
    return call, ToolResult(call_id, name, status, error=error, attempts=attempts, effect_key=key)


def _arguments(text: str) -> JsonObject:
    if text.startswith("{"):
        return cast("JsonObject", loads(text.encode()))
    pairs = (pair.partition("=") for pair in re.split(r",\s*", text) if pair)
    return {name.strip(): _value(value) for name, _, value in pairs}


def _value(text: str) -> JsonValue:
    try:
        return loads(text.encode())
    except ValueError:
        return text
