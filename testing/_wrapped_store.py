"""A store that hands everything on to another one: the base of stores that misbehave."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.protocol import (
    Append,
    CancelNote,
    Claimed,
    EffectFact,
    EffectKey,
    EffectStatus,
    InvocationId,
    JsonValue,
    Lease,
    Status,
    Stored,
    Summary,
)
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

    async def summary(self, invocation_id: InvocationId) -> Summary:
        """Read what is listed of one invocation; as there."""
        return await self.inner.summary(invocation_id)

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

    def now(self) -> float:
        """Tell the time by which heartbeats are judged; as there."""
        return self.inner.now()

    async def orphans(
        self, agents: Sequence[str], *, limit: int = 100, after: InvocationId | None = None
    ) -> Sequence[Summary]:
        """List what somebody has to take up; as there."""
        return await self.inner.orphans(agents, limit=limit, after=after)

    async def request_cancel(self, note: CancelNote) -> None:
        """Keep that somebody wants an invocation to stop; as there."""
        await self.inner.request_cancel(note)

    async def cancel_requests(self, worker: str) -> Sequence[CancelNote]:
        """List what a worker shall stop; as there."""
        return await self.inner.cancel_requests(worker)

    async def effects(
        self,
        *,
        invocation_id: InvocationId | None = None,
        effect_key: EffectKey | None = None,
        tool_name: str | None = None,
        statuses: Sequence[EffectStatus] | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> Sequence[tuple[int, EffectFact]]:
        """Query the effect ledger; as there."""
        return await self.inner.effects(
            invocation_id=invocation_id,
            effect_key=effect_key,
            tool_name=tool_name,
            statuses=statuses,
            limit=limit,
            before=before,
        )

    async def claim(
        self, worker: str, agents: Sequence[str], *, limit: int = 16
    ) -> Sequence[Claimed]:
        """Claim deliveries; as there."""
        return await self.inner.claim(worker, agents, limit=limit)

    async def conclude(
        self,
        number: int,
        worker: str,
        status: EffectStatus,
        *,
        receipt: JsonValue = None,
        retry_in: float | None = None,
    ) -> bool:
        """Say how an attempt of a delivery went; as there."""
        return await self.inner.conclude(number, worker, status, receipt=receipt, retry_in=retry_in)

    async def prune(self, *, ended_before: float, limit: int = 1_000) -> int:
        """Delete what ended long ago; as there."""
        return await self.inner.prune(ended_before=ended_before, limit=limit)
