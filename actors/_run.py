"""The handle of an invocation: what a caller holds, while it runs and long after."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, overload

from loopwright.protocol import InvocationId, Live, Outcome, Record, decode_record

if TYPE_CHECKING:
    from ._runtime import Runtime


class Run:
    """One invocation of a runtime; made by `Runtime.start`, `Runtime.get` and the like."""

    __slots__ = ("_runtime", "id")

    def __init__(self, runtime: Runtime, invocation_id: InvocationId) -> None:
        self._runtime = runtime
        self.id = invocation_id
        """Names the invocation, in every process that opens the store."""

    def __repr__(self) -> str:
        """Name the invocation."""
        return f"<Run {self.id}>"

    async def outcome(self) -> Outcome:
        """Wait until the invocation is at rest, and return how it stands.

        Raises:
            InvocationStateError: If it is running, but not in this runtime.
            RuntimeClosedError: If the runtime is closed before it comes to rest.
        """
        return await self._runtime.outcome(self.id)

    def cancel(self, reason: str = "", *, by: str = "caller", hard: bool = False) -> None:
        """Ask it to stop, from any thread; `outcome()` tells when it has.

        An invocation at rest in the store is not affected: see `Runtime.cancel`.

        Args:
            reason: Kept in the journal.
            by: Who wants it.
            hard: Don't wait for writes in flight to report.
        """
        self._runtime.request_cancel(self.id, reason, by=by, hard=hard)

    @overload
    def events(self, *, after: int = 0) -> AsyncIterator[Record]: ...
    @overload
    def events(self, *, after: int = 0, live: bool) -> AsyncIterator[Record | Live]: ...
    async def events(self, *, after: int = 0, live: bool = False) -> AsyncIterator[Record | Live]:
        """Yield committed records from the seq behind `after`, until it is at rest.

        It reads the store, so a slow reader holds up nobody and misses nothing.

        Args:
            after: The seq of the last record that is known already.
            live: Whether to yield as well what models say in this runtime while they say it:
                `LiveText`, before the record of its turn, and `Discarded` for an attempt that
                has failed. Nothing is told so where the runtime redacts.
        """
        runtime, seq = self._runtime, after
        with runtime.listening(self.id) if live else nullcontext() as listener:
            while True:
                advanced = runtime.watch(self.id)
                # Taken first: by then, every turn before those it is of is in the store.
                heard = deque(() if listener is None else listener.take())
                stored = await runtime.store.load(self.id, after=seq)
                for line in stored.lines:
                    seq += 1
                    record = decode_record(line)
                    turn: int = getattr(record, "turn", 0)
                    while heard and heard[0].turn <= turn:
                        yield heard.popleft()
                    yield record
                told = bool(stored.lines or heard)
                while heard:
                    yield heard.popleft()
                if not told:
                    if advanced is None:
                        return
                    if listener is None:
                        await advanced.wait()
                    else:
                        await _either(advanced, listener.awake)


async def _either(one: asyncio.Event, other: asyncio.Event) -> None:
    """Wait until one of two is set."""
    waiting = {asyncio.ensure_future(event.wait()) for event in (one, other)}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in waiting:
            future.cancel()
