"""A store whose appends fail when a test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from loopwright.protocol import Append, InvocationId, Lease, Status, Stored, StoreError, Summary
from loopwright.stores import AppendResult, Store


class FailingStore:
    """Another store, whose next appends fail with given errors; all else is as there.

    Args:
        store: Where everything is kept.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._errors: deque[StoreError] = deque()

    def fail_next(self, error: StoreError) -> None:
        """Let one more append fail: a transient error is raised, any other refuses the batch."""
        self._errors.append(error)

    @property
    def failures_left(self) -> int:
        """How many arranged failures have not happened."""
        return len(self._errors)

    async def open(self) -> None:
        """Make the store ready; as there."""
        await self._store.open()

    async def close(self) -> None:
        """Let go of everything; as there."""
        await self._store.close()

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Store a batch, or fail as arranged.

        Raises:
            StoreError: If a transient failure was arranged, or as there.
        """
        if not self._errors:
            return await self._store.append(batch)
        error = self._errors.popleft()
        if error.transient:
            raise error
        return [error] * len(batch)

    async def load(self, invocation_id: InvocationId, *, after: int = 0) -> Stored:
        """Read a journal; as there."""
        return await self._store.load(invocation_id, after=after)

    async def find(self, agent: str, key: str) -> InvocationId | None:
        """Find an invocation by its key; as there."""
        return await self._store.find(agent, key)

    async def invocations(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        limit: int = 100,
        before: InvocationId | None = None,
    ) -> Sequence[Summary]:
        """List invocations; as there."""
        return await self._store.invocations(status=status, agent=agent, limit=limit, before=before)

    async def acquire(self, invocation_id: InvocationId, worker: str) -> Lease:
        """Take ownership; as there."""
        return await self._store.acquire(invocation_id, worker)

    async def release(self, lease: Lease) -> None:
        """Give ownership up; as there."""
        await self._store.release(lease)

    async def heartbeat(self, worker: str, ttl: float) -> None:
        """Say that a worker is alive; as there."""
        await self._store.heartbeat(worker, ttl)
