"""What the store has of a case, and how it is said that something does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.protocol import EffectEntry, Entry, InvocationId, Record


@dataclass(frozen=True, slots=True)
class Kept:
    """One invocation, as the store has it."""

    invocation_id: InvocationId
    last_seq: int
    """As it is listed."""
    entries: Sequence[Entry]
    effects: Sequence[EffectEntry]

    @property
    def records(self) -> list[Record]:
        """The journal, without its lines."""
        return [entry.record for entry in self.entries]


def holds(it: bool, problem: str) -> None:
    """See that something holds.

    Raises:
        AssertionError: If not: with the problem.
    """
    if not it:
        raise AssertionError(problem)
