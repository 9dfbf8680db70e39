"""A clock that moves only when a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

from loopwright.actors import Instant


class _Timer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Forget it."""
        self.callback = None


class VirtualClock:
    """Time for tests: nothing passes by itself, and nobody ever sleeps.

    Args:
        monotonic: Where the monotonic clock starts, seconds.
        wall: Where the wall clock starts, seconds since the epoch.
    """

    def __init__(self, *, monotonic: float = 1_000.0, wall: float = 1_800_000_000.0) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = itertools.count()

    def now(self) -> Instant:
        """Read both clocks."""
        return Instant(self._monotonic, self._wall)

    def call_at(self, when: float, callback: Callable[[], None]) -> _Timer:
        """Call back once time has been moved to `when`."""
        timer = _Timer(callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Let time pass: due callbacks run in order, each at its own time.

        Before and after each, everything that can run without time passing does.
        """
        until = self._monotonic + seconds
        await settle()
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heapq.heappop(self._timers)
            self._move(max(0.0, when - self._monotonic))
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
                await settle()
        self._move(until - self._monotonic)
        await settle()

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator might."""
        self._wall += seconds

    def _move(self, seconds: float) -> None:
        self._monotonic += seconds
        self._wall += seconds


async def settle(ticks: int = 50) -> None:
    """Give the loop turns enough for everything that waits only for other tasks."""
    for _ in range(ticks):
        await asyncio.sleep(0)
