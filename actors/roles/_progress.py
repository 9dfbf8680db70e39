"""What a body says of its progress, on its way to whoever watches: bounded, and never late."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import suppress
from math import isfinite
from threading import get_ident
from typing import Final

from loopwright.protocol import Execute, bounded

from .._clock import Clock
from ..tracing._tool_progress import Progressed, Watch

AT_ONCE: Final = 20.0
"""Reports of one try that may come in a burst; whatever is more has to come more slowly."""
PER_SECOND: Final = 5.0
TEXT_LIMIT: Final = 300
"""Characters kept of its text."""


class ProgressReports:
    """Takes the reports of one try, from any thread; made in the loop.

    Args:
        order: Whose try.
        clock: Time.
        context: The caller's context variables.
        is_live: Whether the try still counts; asked in the loop, as a report is passed on.
        watch: Where a report goes.
    """

    __slots__ = ("_at", "_clock", "_context", "_is_live", "_left", "_loop", "_order", "_thread", "_watch")  # fmt: skip

    def __init__(
        self,
        order: Execute,
        clock: Clock,
        context: contextvars.Context | None,
        is_live: Callable[[], bool],
        watch: Watch,
    ) -> None:
        self._order = order
        self._clock = clock
        self._context = context
        self._is_live = is_live
        self._watch = watch
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._left = AT_ONCE
        self._at = clock.now().monotonic

    def __call__(self, message: str, done: float | None, total: float | None) -> None:
        """Pass a report on, unless there were too many just now."""
        now = self._clock.now().monotonic
        # Threads of one body may overtake one another here: one report more, or less, is told.
        self._left = min(AT_ONCE, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        if self._left < 1:
            return
        self._left -= 1
        text = bounded(str(message), TEXT_LIMIT)
        progressed = Progressed(self._order, text, _number(done), _number(total))
        if get_ident() == self._thread:
            # At once: the body may return without letting the loop go on.
            self._tell(progressed)
            return
        # A loop that is closed leaves nobody to be told.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, progressed)

    def _tell(self, progressed: Progressed) -> None:
        if self._is_live():
            context = self._context or contextvars.copy_context()
            context.copy().run(self._watch, progressed)


def _number(given: float | None) -> float | None:
    """Take a number only if it is one that JSON has."""
    try:
        return given if isinstance(given, int | float) and isfinite(given) else None
    except OverflowError:
        return None
