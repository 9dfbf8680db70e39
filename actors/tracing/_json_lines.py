"""An observer that writes the trace down: one JSON object a line."""

from __future__ import annotations

import logging
from contextlib import suppress
from os import PathLike, fspath
from threading import Lock
from types import TracebackType
from typing import Protocol, Self

from loopwright.protocol import ConfigurationError, dumps

from ._trace import TraceEvent

logger = logging.getLogger("loopwright.trace")


class TextStream(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object:
        """Take a text."""
        ...

    def flush(self) -> object:
        """Pass on what was taken."""
        ...


class JsonLines:
    """Writes each event as a line of its own, at once; one object serves any number of invocations.

    A line that cannot be written is lost, counted in `lost`, and changes nothing else; the first
    one of a row is logged. Close it once the runtime is left.

    Args:
        target: A file, which is appended to, or a stream, which stays open.

    Raises:
        ConfigurationError: If the file cannot be opened.
    """

    def __init__(self, target: str | PathLike[str] | TextStream) -> None:
        self.lost = 0
        """Events that could not be written."""
        self._failing = False
        self._lock = Lock()
        self._own = None
        if isinstance(target, str | PathLike):
            path = fspath(target)
            try:
                self._own = open(path, "a", encoding="utf-8")  # noqa: SIM115 - until `close`
            except OSError as error:
                msg = f"the trace file {path!r} cannot be written: {error.strerror}; check the path"
                raise ConfigurationError(msg) from None
            self._stream: TextStream = self._own
        else:
            self._stream = target

    def __call__(self, event: TraceEvent, /) -> None:
        """Write one event."""
        try:
            line = f"{dumps(event.plain()).decode()}\n"
            # Runtimes in other threads may write to it as well.
            with self._lock:
                self._stream.write(line)
                self._stream.flush()
        except Exception:
            self.lost += 1
            if not self._failing:
                logger.exception("The trace cannot be written:")
            self._failing = True
        else:
            self._failing = False

    def close(self) -> None:
        """Close the file; a stream that was given stays open. Twice is fine."""
        if self._own is not None:
            with suppress(OSError):  # what it could not take is counted already
                self._own.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()
