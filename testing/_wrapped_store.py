"""A store that hands everything on to another one: the base of stores that misbehave."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.protocol import Append, InvocationId, Lease, Status, Stored, Summary
from loopwright.stores import AppendResult, Store


class WrappedStore:
    """Another store, unchanged; a subclass overrides what a test wants to see or to break.

    Args:
        inner: Where everything is kept.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def open(self) -> None:
        """Make the store ready; as there."""
        await self.inner.open()

    async def close(self) -> None:
        """Let go of everything; as there."""
        await self.inner.close()

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Store a batch; as there."""
        return await self.inner.append(batch)

    async def load(self, invocation_id: InvocationId, *, after: int = 0) -> Stored:
        """Read a journal; as there."""
        return await self.inner.load(invocation_id, after=after)

    async def find(self, agent: str, key: str) -> InvocationId | None:
        """Find an invocation by its key; as there."""
        return await self.inner.find(agent, key)

    async def invocations(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        limit: int = 100,
        before: InvocationId | None = None,
    ) -> Sequence[Summary]:
        """List invocations; as there."""
        return await self.inner.invocations(status=status, agent=agent, limit=limit, before=before)

    async def acquire(self, invocation_id: InvocationId, worker: str) -> Lease:
        """Take ownership; as there."""
        return await self.inner.acquire(invocation_id, worker)

    async def release(self, lease: Lease) -> None:
        """Give ownership up; as there."""
        await self.inner.release(lease)

    async def heartbeat(self, worker: str, ttl: float) -> None:
        """Say that a worker is alive; as there."""
        await self.inner.heartbeat(worker, ttl)
