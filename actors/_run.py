"""The handle of an invocation: what a caller holds, while it runs and long after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from loopwright.protocol import InvocationId, Outcome, Record, decode_record

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

    async def events(self, *, after: int = 0) -> AsyncIterator[Record]:
        """Yield committed records from the seq behind `after`, until it is at rest.

        It reads the store, so a slow reader holds up nobody and misses nothing.
        """
        runtime, seq = self._runtime, after
        while True:
            advanced = runtime.watch(self.id)
            stored = await runtime.store.load(self.id, after=seq)
            for line in stored.lines:
                seq += 1
                yield decode_record(line)
            if not stored.lines:
                if advanced is None:
                    return
                await advanced.wait()
