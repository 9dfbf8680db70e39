"""A store in memory: for tests, and for invocations that need not outlive the process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from loopwright.protocol import (
    Append,
    CancelNote,
    Claimed,
    EffectFact,
    EffectKey,
    EffectStatus,
    Head,
    InvocationId,
    JsonValue,
    Lease,
    Snapshot,
    Status,
    Stored,
    StoreError,
    Summary,
)

from .._protocol import AppendResult
from .._refusals import check_prune, key_taken, lease_held, misplaced, not_found, unfit
from ._effects import EffectLedger
from ._outbox import Outbox


@dataclass(slots=True)
class _Invocation:
    id: InvocationId
    head: Head
    created_at: float
    owner: str | None
    fence: int = 1
    lines: list[bytes] = field(default_factory=list[bytes])
    snapshot: Snapshot | None = None
    cancel: CancelNote | None = None


@final
class MemoryStore:
    """Keeps everything in this object, also while it is closed and opened again.

    No method ever suspends.

    Args:
        clock: What heartbeats and due times are measured by, in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open = False
        self._invocations: dict[InvocationId, _Invocation] = {}
        self._keys: dict[tuple[str, str], InvocationId] = {}
        self._expires: dict[str, float] = {}
        self._effects = EffectLedger()
        self._outbox = Outbox(self._effects)

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
        snapshot = None if after else found.snapshot
        return Stored(self._summary(found), after + 1, tuple(found.lines[after:]), snapshot)

    async def summary(self, invocation_id: InvocationId) -> Summary:
        """Read what is listed of one invocation.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
            StoreError: If the store is not open.
        """
        return self._summary(self._get(invocation_id))

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
            self._expires[worker] = self._clock() + ttl
        else:
            self._expires.pop(worker, None)

    def now(self) -> float:
        """Tell the time by which this process can judge how old its own heartbeat is, seconds."""
        return self._clock()

    async def orphans(
        self, agents: Sequence[str], *, limit: int = 100, after: InvocationId | None = None
    ) -> Sequence[Summary]:
        """List what somebody has to take up, oldest first; `after` continues a listing.

        Raises:
            InvocationNotFoundError: If there is no invocation `after`.
            StoreError: If the store is not open.
        """
        self._check_open()
        listed: list[Summary] = []
        started = after is None
        if after is not None:
            self._get(after)

        for one in self._invocations.values():
            if len(listed) == limit:
                break
            if started and one.head.agent in agents and self._waits_for_somebody(one):
                listed.append(self._summary(one))
            started = started or one.id == after

        return listed

    async def request_cancel(self, note: CancelNote) -> None:
        """Keep that somebody wants an invocation to stop.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
            StoreError: If the store is not open.
        """
        found = self._get(note.invocation_id)
        if found.head.status != "ended" and found.cancel is None:
            found.cancel = note

    async def cancel_requests(self, worker: str) -> Sequence[CancelNote]:
        """List the notes of all running invocations that this worker owns.

        Raises:
            StoreError: If the store is not open.
        """
        self._check_open()
        return [
            one.cancel
            for one in self._invocations.values()
            if one.cancel is not None and one.owner == worker and one.head.status == "running"
        ]

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
        """Query the effect ledger over all invocations, last announced first.

        Raises:
            StoreError: If the store is not open.
        """
        self._check_open()
        return self._effects.find(
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
        """Claim deliveries for this worker.

        Raises:
            StoreError: If the store is not open.
        """
        self._check_open()
        return self._outbox.claim(worker, agents, limit, now=self._clock(), alive=self._alive)

    async def conclude(
        self,
        number: int,
        worker: str,
        status: EffectStatus,
        *,
        receipt: JsonValue = None,
        retry_in: float | None = None,
    ) -> bool:
        """Say how an attempt of a delivery went; false if this worker has no such claim.

        Raises:
            StoreError: If the store is not open.
        """
        self._check_open()
        due = self._clock() + (retry_in or 0.0)
        return self._outbox.conclude(number, worker, status, receipt, due)

    async def prune(self, *, ended_before: float, limit: int = 1_000) -> int:
        """Delete invocations that ended before a wall-clock time; return how many.

        Raises:
            StoreError: If the store is not open.
        """
        self._check_open()
        check_prune(ended_before, limit)
        kept = self._effects.unsettled() | self._outbox.unconcluded()
        gone: list[_Invocation] = []
        for one in self._invocations.values():
            if len(gone) == limit:
                break
            if one.head.status == "ended" and one.head.at < ended_before and one.id not in kept:
                gone.append(one)

        for one in gone:
            del self._invocations[one.id]
            if one.head.key is not None:
                del self._keys[one.head.agent, one.head.key]
        ids = {one.id for one in gone}
        self._effects.forget(ids)
        self._outbox.forget(ids)
        return len(gone)

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

        self._keep(found, append)
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
            if head.status == "ended":
                found.cancel = None

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
        self._invocations[append.invocation_id] = created
        self._keep(created, append)
        return None

    def _keep(self, one: _Invocation, append: Append) -> None:
        one.lines.extend(append.lines)
        for entry in append.effects:
            self._effects.put(one.id, one.head.agent, entry)
        for delivery in append.outbox:
            self._outbox.put(one.id, delivery)
        self._outbox.drop(one.id, append.concluded)
        snapshot = append.snapshot
        if snapshot is not None and (one.snapshot is None or snapshot.seq > one.snapshot.seq):
            one.snapshot = snapshot

    def _check_open(self) -> None:
        if not self._open:
            raise StoreError("This MemoryStore is not open; open it first.")

    def _get(self, invocation_id: InvocationId) -> _Invocation:
        self._check_open()
        found = self._invocations.get(invocation_id)
        if found is None:
            raise not_found(invocation_id, "this MemoryStore")

        return found

    def _waits_for_somebody(self, one: _Invocation) -> bool:
        if one.head.status == "running":
            return one.owner is None or not self._alive(one.owner)
        return one.head.status == "suspended" and one.cancel is not None

    def _alive(self, worker: str) -> bool:
        expires = self._expires.get(worker)
        return expires is not None and expires > self._clock()

    def _summary(self, one: _Invocation) -> Summary:
        return Summary(
            invocation_id=one.id,
            head=one.head,
            seq=len(one.lines),
            created_at=one.created_at,
            owner=one.owner,
            owner_alive=one.owner is not None and self._alive(one.owner),
            cancel=one.cancel,
        )
