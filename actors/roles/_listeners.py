"""Who listens to replies while they come, and what they have not taken yet."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from loopwright.protocol import InvocationId, Live, LiveText


class Listener:
    """One who listens to one invocation.

    It holds up nobody: what it has not taken yet is kept, the text of one attempt as one. That is
    never more than the replies themselves.
    """

    def __init__(self) -> None:
        self.awake = asyncio.Event()
        """Set while there is something to take."""
        self._pending: list[Live] = []
        self._texts: list[str] = []
        """The pieces of the last one of these, where that is a text."""

    def hear(self, live: Live) -> None:
        """Keep it until it is taken."""
        self.awake.set()
        last = self._pending[-1] if self._pending else None
        text = live.text if isinstance(live, LiveText) else None
        if text is not None and isinstance(last, LiveText) and last[:3] == live[:3]:
            self._texts.append(text)
            return
        self._join()
        self._pending.append(live)
        self._texts = [text or ""]

    def take(self) -> list[Live]:
        """Take everything there is."""
        self._join()
        taken, self._pending = self._pending, []
        self.awake.clear()
        return taken

    def _join(self) -> None:
        if self._pending and isinstance(last := self._pending[-1], LiveText):
            self._pending[-1] = last._replace(text="".join(self._texts))


class Listeners:
    """All who listen, by invocation."""

    def __init__(self) -> None:
        self._by_invocation: dict[InvocationId, list[Listener]] = {}

    def tell(self, invocation_id: InvocationId, live: Live) -> None:
        """Tell it to whoever listens to that invocation."""
        for listener in self._by_invocation.get(invocation_id, ()):
            listener.hear(live)

    @contextmanager
    def listening(self, invocation_id: InvocationId) -> Generator[Listener]:
        """Listen to an invocation for a while."""
        listener = Listener()
        self._by_invocation.setdefault(invocation_id, []).append(listener)
        try:
            yield listener
        finally:
            listeners = self._by_invocation[invocation_id]
            listeners.remove(listener)
            if not listeners:
                del self._by_invocation[invocation_id]
