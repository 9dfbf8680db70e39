"""A store in memory: for tests, and for invocations that need not outlive the process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from loopwright.protocol import (
    Append,
    Head,
    InvocationId,
    Lease,
    Status,
    Stored,
    StoreError,
    Summary,
)

from ._protocol import AppendResult
from ._refusals import key_taken, lease_held, misplaced, not_found, unfit


@dataclass(slots=True)
class _Invocation:
    id: InvocationId
    head: Head
    created_at: float
    owner: str | None
    fence: int = 1
    lines: list[bytes] = field(default_factory=list[bytes])


@final
class MemoryStore:
    """Keeps everything in this object, also while it is closed and opened again.

    No method ever suspends.

    Args:
        wall: The clock that heartbeats are measured by, seconds since the epoch.
    """

    def __init__(self, *, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._open = False
        self._invocations: dict[InvocationId, _Invocation] = {}
        self._keys: dict[tuple[str, str], InvocationId] = {}
        self._expires: dict[str, float] = {}

    async def open(self) -> None:
        """Make the store ready.

        Raises:
            StoreError: If it is open.
        """
        if self._open:
            raise StoreError("This MemoryStore is open; close it before opening it again.")

        self._open = True

    async def close(self) -> None:
        """Refuse further use until the store is opened again; twice is fine."""
        self._open = False

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Store a batch.

        Raises:
            StoreError: If the store is not open.
        """
        return self.append_nowait(batch)

    def append_nowait(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Store a batch.

        Raises:
            StoreError: If the store is not open.
        """
        self._check_open()
        return [self._append(append) for append in batch]

    async def load(self, invocation_id: InvocationId, *, after: int = 0) -> Stored:
        """Read the journal from the seq behind `after`.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
            StoreError: If the store is not open.
        """
        found = self._get(invocation_id)
        return Stored(self._summary(found), after + 1, tuple(found.lines[after:]))

    async def find(self, agent: str, key: str) -> InvocationId | None:
        """Find the invocation that was started for this agent under this key.

        Raises:
            StoreError: If the store is not open.
        """
        self._check_open()
        return self._keys.get((agent, key))

    async def invocations(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        limit: int = 100,
        before: InvocationId | None = None,
    ) -> Sequence[Summary]:
        """List invocations, newest first; `before` continues a listing.

        Raises:
            InvocationNotFoundError: If there is no invocation `before`.
            StoreError: If the store is not open.
        """
        self._check_open()
        listed: list[Summary] = []
        started = before is None
        if before is not None:
            self._get(before)

        for one in reversed(self._invocations.values()):
            if len(listed) == limit:
                break
            if started and status in (None, one.head.status) and agent in (None, one.head.agent):
                listed.append(self._summary(one))
            started = started or one.id == before

        return listed

    async def acquire(self, invocation_id: InvocationId, worker: str) -> Lease:
        """Take ownership, with a fence one higher than any before.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
            LeaseHeldError: If another worker owns it and its heartbeat is fresh.
            StoreError: If the store is not open.
        """
        found = self._get(invocation_id)
        owner = found.owner
        if owner is not None and owner != worker and self._alive(owner):
            raise lease_held(invocation_id, owner)

        found.owner = worker
        found.fence += 1
        return Lease(invocation_id, worker, found.fence)

    async def release(self, lease: Lease) -> None:
        """Give ownership up, if it is still this lease's.

        Raises:
            StoreError: If the store is not open.
        """
        self._check_open()
        found = self._invocations.get(lease.invocation_id)
        if found is not None and (found.owner, found.fence) == (lease.worker, lease.fence):
            found.owner = None

    async def heartbeat(self, worker: str, ttl: float) -> None:
        """Say that this worker is alive for the next `ttl` seconds; 0 says it is gone.

        Raises:
            StoreError: If the store is not open.
        """
        self._check_open()
        if ttl > 0:
            self._expires[worker] = self._wall() + ttl
        else:
            self._expires.pop(worker, None)

    def _append(self, append: Append) -> AppendResult:
        refusal = unfit(append)
        if refusal is not None:
            return refusal

        found = self._invocations.get(append.invocation_id)
        if found is None:
            return self._create(append)

        seq = len(found.lines)
        if append.first_seq != seq + 1 or append.fence != found.fence:
            stored = found.lines[append.first_seq - 1 : append.last_seq]
            if stored == list(append.lines):
                return None
            return misplaced(append, fence=found.fence, seq=seq)

        found.lines.extend(append.lines)
        head = append.head
        if head is not None:
            first = found.head
            found.head = Head(
                agent=first.agent,
                status=head.status,
                reason=head.reason,
                at=head.at,
                goal=first.goal,
                key=first.key,
                detail=head.detail,
            )
            if head.status != "running":
                found.owner = None

        return None

    def _create(self, append: Append) -> AppendResult:
        head = append.head
        if append.first_seq != 1 or append.fence != 1 or head is None:
            return misplaced(append, fence=1, seq=0)

        if head.key is not None:
            holder = self._keys.setdefault((head.agent, head.key), append.invocation_id)
            if holder != append.invocation_id:
                return key_taken(append)

        owner = append.worker if head.status == "running" else None
        created = _Invocation(append.invocation_id, head, head.at, owner)
        created.lines.extend(append.lines)
        self._invocations[append.invocation_id] = created
        return None

    def _check_open(self) -> None:
        if not self._open:
            raise StoreError("This MemoryStore is not open; open it first.")

    def _get(self, invocation_id: InvocationId) -> _Invocation:
        self._check_open()
        found = self._invocations.get(invocation_id)
        if found is None:
            raise not_found(invocation_id, "this MemoryStore")

        return found

    def _alive(self, worker: str) -> bool:
        return self._expires.get(worker, 0.0) > self._wall()

    def _summary(self, one: _Invocation) -> Summary:
        return Summary(
            invocation_id=one.id,
            head=one.head,
            seq=len(one.lines),
            created_at=one.created_at,
            owner=one.owner,
            owner_alive=one.owner is not None and self._alive(one.owner),
        )
