"""Effects: what writes do to the world outside, and what is known of each one.

`prepared → dispatched → committed | rejected | outcome_unknown → (reconcile) → committed |
rejected | not_applied`. A write that was dispatched and has not reported is never called "not
run": whether it took effect is for the owner of the data, or a person, to say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from ._budget import Principal
from ._encode import to_json
from ._ids import CallId, EffectKey, InvocationId
from ._json import JsonObject, JsonValue
from ._words import Word


class Effect(Word):
    """What running a tool does to the world: drives parallelism, retry, recovery and cancel.

    See 30-durability, "One effect class per tool".
    """

    READ = "read"
    """Changes nothing: runs in parallel, may run again, may be interrupted."""
    IDEMPOTENT = "idempotent"
    """The downstream deduplicates by effect key: may be dispatched again with the same key."""
    RECONCILABLE = "reconcilable"
    """The downstream can be asked by effect key: it is, before anything is dispatched again."""
    MANUAL = "manual"
    """Nothing can be asked about it: only a person lets it be dispatched again."""

    @property
    def is_write(self) -> bool:
        """Whether running it may change something outside."""
        return self is not Effect.READ

    def stricter(self, other: Effect) -> Effect:
        """Return the one of the two that allows less: a class may have changed meanwhile."""
        return max(self, other, key=_STRICTNESS.index)


_STRICTNESS: Final = (Effect.READ, Effect.IDEMPOTENT, Effect.RECONCILABLE, Effect.MANUAL)

EffectStatus: TypeAlias = Literal[
    "prepared", "dispatched", "committed", "rejected", "not_applied", "outcome_unknown"
]
UNSETTLED: Final[tuple[EffectStatus, ...]] = ("prepared", "dispatched", "outcome_unknown")
"""What is not known to have taken effect, nor known not to have."""


@dataclass(frozen=True, slots=True)
class EffectEntry:
    """One line of the effect ledger: a write that was announced, and what is known of it."""

    effect_key: EffectKey
    tool_name: str
    turn: int
    call_id: CallId
    status: EffectStatus
    receipt: JsonValue = None
    """What the tool, its reconciler or a person gave as evidence that the write happened."""
    attempts: int = 0
    """How often it was dispatched."""
    arguments: JsonObject | None = None
    """What the tool was given."""

    def over(self, earlier: EffectEntry | None) -> EffectEntry:
        """Keep what only an earlier line of the same effect key knows.

        What has taken effect has: another call of the same key that fails takes nothing back.
        """
        if earlier is None:
            return self
        ours, theirs = (self.turn, self.call_id), (earlier.turn, earlier.call_id)
        if earlier.status == "committed" and self.status != "committed" and ours != theirs:
            return earlier
        if self.attempts and self.arguments is not None:
            return self
        return replace(
            self,
            attempts=self.attempts or earlier.attempts,
            arguments=earlier.arguments if self.arguments is None else self.arguments,
        )

    @property
    def settled(self) -> bool:
        """Whether it is known what became of it."""
        return self.status not in UNSETTLED


@dataclass(frozen=True, slots=True)
class EffectFact:
    """A line of the effect ledger as a store finds it, over all invocations."""

    invocation_id: InvocationId
    agent: str
    at: float
    """Wall clock of its last change, seconds since the epoch."""
    entry: EffectEntry


Finding: TypeAlias = Literal["applied", "rejected", "not_applied", "unknown"]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What became of a write, as its downstream or a person says.

    Made by `applied`, `rejected`, `not_applied` and `unknown`.
    """

    finding: Finding
    receipt: JsonValue = None
    """For `applied`: the evidence, which becomes the output of the call."""
    reason: str = ""
    """For `rejected` and `unknown`: why."""


def applied(receipt: object = None) -> Reconciled:
    """Say that it took effect; the receipt becomes the output of the call."""
    return Reconciled("applied", to_json(receipt).value)


def rejected(reason: str) -> Reconciled:
    """Say that the downstream has refused it for good."""
    return Reconciled("rejected", reason=reason)


def not_applied() -> Reconciled:
    """Say that it took no effect, and that no earlier attempt can still do so: it may be sent again."""
    return Reconciled("not_applied")


def unknown(reason: str = "") -> Reconciled:
    """Say that it cannot be told; a person has to settle it."""
    return Reconciled("unknown", reason=reason)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A write that was put into the outbox, to be delivered by a relay after its turn is durable."""

    invocation_id: InvocationId
    agent: str
    turn: int
    call_id: CallId
    tool_name: str
    effect: Effect
    effect_key: EffectKey
    arguments: JsonObject
    principal: Principal
    resources: tuple[str, ...]
    """Deliveries that share one are made one after the other, in the order of their commits."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that a worker has claimed, to make one attempt of."""

    number: int
    """Its place in the outbox."""
    attempt: int
    """Counts from 1; above 1, an earlier attempt may have taken effect."""
    delivery: Delivery
