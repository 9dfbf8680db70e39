"""A clock that all processes of one machine share, and that nobody can set.

Heartbeats and due times are measured by it: were it the wall clock, correcting the time of day
would make live workers look dead, or dead ones alive.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Instant(NamedTuple):
    """A moment on this machine; moments of different boots cannot be compared."""

    boot: str
    """Which run of the machine; empty where it has no id, and then the seconds are wall clock."""
    seconds: float

    def plus(self, seconds: float) -> Instant:
        """Give the moment that is so many seconds later."""
        return Instant(self.boot, self.seconds + seconds)

    def is_before(self, boot: str, seconds: float) -> bool:
        """Whether that moment is still to come; one of another boot never is."""
        return boot == self.boot and seconds > self.seconds


NEVER: Final = Instant("", 0.0)
"""A moment that has passed by every clock."""


@final
class MachineClock:
    """Tells the moment.

    Args:
        seconds: Replaces the seconds of the machine, for tests.
    """

    def __init__(self, seconds: Callable[[], float] | None = None) -> None:
        self._boot = boot_id()
        self._seconds = seconds or (time.monotonic if self._boot else time.time)
        self.monotonic: Callable[[], float] = seconds or time.monotonic
        """Tells seconds that nobody sets, for this process alone."""

    def now(self) -> Instant:
        """Tell the moment."""
        return Instant(self._boot, self._seconds())


@cache
def boot_id() -> str:
    """Name this run of the machine; empty where the machine gives it no name.

    Where there is none, the monotonic clock cannot be told from that of an earlier run.
    """
    try:
        return _BOOT_ID.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
