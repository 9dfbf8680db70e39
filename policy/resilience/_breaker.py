"""The state of one breaker: whether something that kept failing is left alone just now.

closed → open, after so many countable failures in a row → one probe, once the cool-down is over →
closed, or open again. A probe that never reports loses its place after another cool-down.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ._retry import Breaker


class Circuit(NamedTuple):
    """One breaker; every step returns the next state.

    Whoever is let through reports under the `generation` that it was let through in. A report
    of an earlier one says nothing about now: of a call that began before it was opened, or of a
    probe that has lost its place.
    """

    generation: int = 0
    failures: int = 0
    """Countable ones in a row, while it is closed."""
    free_at: float | None = None
    """When the next probe is let through, seconds on the clock; `None` while it is closed."""

    def refuses(self, now: float) -> bool:
        """Whether nobody is let through."""
        return self.free_at is not None and now < self.free_at

    def enter(self, rule: Breaker, now: float) -> Circuit:
        """Let somebody through, who must not be refused: while it is open, as its probe."""
        if self.free_at is None:
            return self
        return Circuit(self.generation + 1, self.failures, now + rule.cool_down)

    def succeeded(self, generation: int) -> Circuit:
        """Take in that somebody was well served."""
        if generation != self.generation or not (self.failures or self.free_at is not None):
            return self
        return Circuit(self.generation)

    def failed(self, generation: int, rule: Breaker, now: float) -> Circuit:
        """Take in a countable failure; of a probe, one is enough."""
        if generation != self.generation or not rule.failures:
            return self
        failures = self.failures + 1
        if self.free_at is None and failures < rule.failures:
            return Circuit(self.generation, failures)
        return Circuit(self.generation + 1, failures, now + rule.cool_down)

    def left(self, generation: int) -> Circuit:
        """Take in what says nothing either way: a cancelled call, a refusal. A probe's place is free."""
        if generation != self.generation or self.free_at is None:
            return self
        return Circuit(self.generation, self.failures, -math.inf)
