"""A final answer is a claim: what a verifier is shown of it, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ._budget import Principal
from ._canonical import digest
from ._effects import EffectEntry
from ._history import History
from ._ids import InvocationId
from ._json import JsonValue


class Claim(NamedTuple):
    """The model claims to be done: everything a verifier may rest on."""

    invocation_id: InvocationId
    agent: str
    goal: str
    answer: str
    output: JsonValue
    """Of the agent's output type, where it has one."""
    history: History
    effects: tuple[EffectEntry, ...]
    """The effect ledger: what is known to have happened, whatever the answer says."""
    principal: Principal
    metadata: JsonValue


@dataclass(frozen=True, slots=True)
class Verification:
    """What a verifier says of a claim. Made by `passed` and `failed`."""

    passed: bool
    reason: str = ""
    """Where it failed: what the model has to do better."""


def passed() -> Verification:
    """Say that the claim stands."""
    return Verification(passed=True)


def failed(reason: str) -> Verification:
    """Say that the claim does not stand, and why; the model is told."""
    return Verification(passed=False, reason=reason)


def bound_to(
    answer: str, output: JsonValue, effects: tuple[EffectEntry, ...], context_digest: str
) -> str:
    """Digest what a verdict rests on: it is void as soon as any of it is another.

    Args:
        answer: The claim.
        output: The claim.
        effects: The effect ledger.
        context_digest: Of everything committed before it.
    """
    known: list[JsonValue] = [
        [e.effect_key, e.tool_name, e.status, e.receipt, e.attempts, e.arguments] for e in effects
    ]
    return digest([answer, output, known, context_digest])
