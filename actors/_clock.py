"""Time, injected: the real clock, and the Protocol that `loopwright.testing.VirtualClock` meets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Instant(NamedTuple):
    """One moment on both clocks."""

    monotonic: float
    """Seconds; what every limit and timer rests on."""
    wall: float
    """Seconds since the epoch; for people, and for comparing with a deadline once."""


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Forget it; once fired or cancelled this does nothing."""
        ...


class Clock(Protocol):
    """Where the runtime takes its time from."""

    def now(self) -> Instant:
        """Read both clocks."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back in the running event loop once `monotonic` has reached `when`."""
        ...


class RealClock:
    """The machine's clocks and the running loop's timers."""

    def now(self) -> Instant:
        """Read both clocks."""
        return Instant(time.monotonic(), time.time())

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back once `time.monotonic` has reached `when`."""
        loop = asyncio.get_running_loop()
        return loop.call_at(loop.time() + when - time.monotonic(), callback)


async def sleep(clock: Clock, seconds: float) -> None:
    """Wait on that clock."""
    done = asyncio.Event()
    timer = clock.call_at(clock.now().monotonic + seconds, done.set)
    try:
        await done.wait()
    finally:
        timer.cancel()
