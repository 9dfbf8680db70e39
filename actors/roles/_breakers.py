"""The breakers of a runtime, by name: who shares a name shares the breaker."""

from __future__ import annotations

from typing import Final

from loopwright.policy import Breaker, Circuit

from .._clock import Clock

_CLOSED: Final = Circuit()
NOT_COUNTED: Final = -1
"""What is let through without a breaker: no report of it is of any generation."""


class Breakers:
    """Who may be asked just now; shared by all who ask, each with a rule of its own.

    Args:
        clock: Time; it is read only where something has failed before.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._circuits: dict[str, Circuit] = {}

    def refuses(self, name: str, rule: Breaker, after: float = 0.0) -> bool:
        """Whether nobody is let through, now or so many seconds from now."""
        circuit = self._circuits.get(name)
        if circuit is None or circuit.free_at is None or not rule.failures:
            return False
        return circuit.refuses(self._clock.now().monotonic + after)

    def enter(self, name: str, rule: Breaker) -> int | None:
        """Let somebody through, who then reports with what is returned; `None`: it is open."""
        circuit = self._circuits.get(name, _CLOSED)
        if not rule.failures:
            return NOT_COUNTED
        if circuit.free_at is None:
            return circuit.generation
        now = self._clock.now().monotonic
        if circuit.refuses(now):
            return None
        circuit = self._circuits[name] = circuit.enter(rule, now)
        return circuit.generation

    def succeeded(self, name: str, entered: int) -> None:
        """Take in that somebody was well served."""
        circuit = self._circuits.get(name)
        if circuit is not None:
            self._circuits[name] = circuit.succeeded(entered)

    def failed(self, name: str, rule: Breaker, entered: int) -> None:
        """Take in a countable failure."""
        circuit, now = self._circuits.get(name, _CLOSED), self._clock.now().monotonic
        self._circuits[name] = circuit.failed(entered, rule, now)

    def left(self, name: str, entered: int) -> None:
        """Take in what says nothing either way."""
        circuit = self._circuits.get(name)
        if circuit is not None:
            self._circuits[name] = circuit.left(entered)
