"""The embedded store: one SQLite file, shared safely by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar, final

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
    StoreError,
    Summary,
)

from .._protocol import AppendResult
from .._refusals import check_prune
from . import _outbox as outbox
from . import _owners as owners
from . import _reads as reads
from ._clock import MachineClock
from ._effects import find_effects
from ._opened import OpenFile

T = TypeVar("T")


@final
class SQLiteStore:
    """Keeps invocations in an SQLite file, with WAL and `synchronous=FULL`.

    Writing and reading have a connection and a thread each, so that reading a long journal holds
    up no commit. Appends that wait at the same time are committed together. Where the disk syncs
    so fast that handing a small commit to the thread would cost more than the commit itself, it
    is made on the event loop. A caller that is cancelled during an append does not undo it.

    A store belongs to the event loop it was opened in; closed, it can be opened in another one.

    Args:
        path: The file; it is made if it is not there.
        busy_timeout: How long to wait for other processes that are writing, in seconds.
        clock: Replaces the machine's clock, which heartbeats and due times are measured by, in
            seconds; for tests. Every store of the file then needs the same.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float = 5.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._path = Path(path)
        self._busy_timeout = busy_timeout
        self._clock = MachineClock(clock)
        self._opened: OpenFile | None = None
        self._closing: OpenFile | None = None
        self._opening = False

    async def open(self) -> None:
        """Make the store ready: make the file, or bring its schema up to date.

        Raises:
            JournalCorruptError: If the file is damaged, foreign or of a newer version; it is
                left as it is.
            StoreError: If the store is open, or the file cannot be opened or written.
        """
        if self._opened is not None or self._opening:
            raise StoreError(f"The store {self._path} is open; close it before opening it again.")

        self._opening = True
        try:
            await self._finish_closing()
            file = OpenFile(self._path, self._busy_timeout)
            await file.open()
            self._opened = file
        finally:
            self._opening = False

    async def close(self) -> None:
        """Commit what is waiting, and let go of the file and both threads; twice is fine."""
        if self._opened is not None:
            self._closing, self._opened = self._opened, None
        await self._finish_closing()

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Store a batch as one transaction, perhaps together with those of other callers.

        Raises:
            StoreError: If the transaction failed; nothing of the batch is stored then. Or if the
                store is not open.
        """
        return await self._ready().group.append(batch)

    def append_nowait(self, batch: Sequence[Append]) -> Sequence[AppendResult] | None:
        """Store a small batch on the event loop, where that costs less than a thread hop.

        Raises:
            StoreError: If the transaction failed, or the store is not open.
        """
        return self._ready().group.append_nowait(batch)

    async def load(self, invocation_id: InvocationId, *, after: int = 0) -> Stored:
        """Read the journal from the seq behind `after`, with one consistent view.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
            JournalCorruptError: If the file is damaged.
            StoreError: If the file cannot be read, or the store is not open.
        """
        return await self._ready().read(
            partial(
                reads.load,
                invocation_id=invocation_id,
                after=after,
                now=self._clock.now(),
                path=self._path,
            )
        )

    async def summary(self, invocation_id: InvocationId) -> Summary:
        """Read what is listed of one invocation, without its journal.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
            JournalCorruptError: If its entry is damaged.
            StoreError: If the file cannot be read, or the store is not open.
        """
        return await self._ready().read(
            partial(
                reads.summary,
                invocation_id=invocation_id,
                now=self._clock.now(),
                path=self._path,
            )
        )

    async def find(self, agent: str, key: str) -> InvocationId | None:
        """Find the invocation that was started for this agent under this key.

        Raises:
            StoreError: If the file cannot be read, or the store is not open.
        """
        return await self._ready().read(partial(reads.find, agent=agent, key=key))

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
            StoreError: If the file cannot be read, or the store is not open.
        """
        return await self._ready().read(
            partial(
                reads.invocations,
                status=status,
                agent=agent,
                limit=limit,
                before=before,
                now=self._clock.now(),
                path=self._path,
            )
        )

    async def acquire(self, invocation_id: InvocationId, worker: str) -> Lease:
        """Take ownership, with a fence one higher than any before.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
            LeaseHeldError: If another worker owns it and its heartbeat is fresh.
            StoreError: If the transaction failed, or the store is not open.
        """
        file = self._ready()
        return await file.write(
            partial(
                file.ledger.acquire,
                invocation_id=invocation_id,
                worker=worker,
                now=self._clock.now(),
            )
        )

    async def release(self, lease: Lease) -> None:
        """Give ownership up, if it is still this lease's.

        Raises:
            StoreError: If the transaction failed, or the store is not open.
        """
        await self._write(partial(owners.release, lease=lease))

    async def heartbeat(self, worker: str, ttl: float) -> None:
        """Say that this worker is alive for the next `ttl` seconds; 0 says it is gone.

        Raises:
            StoreError: If the transaction failed, or the store is not open.
        """
        expires = self._clock.now().plus(ttl) if ttl > 0 else None
        await self._write(partial(owners.heartbeat, worker=worker, expires=expires))

    def now(self) -> float:
        """Tell the time by which this process can judge how old its own heartbeat is, seconds."""
        return self._clock.monotonic()

    async def orphans(
        self, agents: Sequence[str], *, limit: int = 100, after: InvocationId | None = None
    ) -> Sequence[Summary]:
        """List what somebody has to take up, oldest first; `after` continues a listing.

        Raises:
            InvocationNotFoundError: If there is no invocation `after`.
            StoreError: If the file cannot be read, or the store is not open.
        """
        return await self._ready().read(
            partial(
                reads.orphans,
                agents=agents,
                limit=limit,
                after=after,
                now=self._clock.now(),
                path=self._path,
            )
        )

    async def request_cancel(self, note: CancelNote) -> None:
        """Keep that somebody wants an invocation to stop.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
            StoreError: If the transaction failed, or the store is not open.
        """
        await self._write(partial(owners.request_cancel, note=note, path=self._path))

    async def cancel_requests(self, worker: str) -> Sequence[CancelNote]:
        """List the notes of all running invocations that this worker owns.

        Raises:
            StoreError: If the file cannot be read, or the store is not open.
        """
        return await self._ready().read(
            partial(owners.cancel_requests, worker=worker, path=self._path)
        )

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
            JournalCorruptError: If a line of it is damaged.
            StoreError: If the file cannot be read, or the store is not open.
        """
        return await self._ready().read(
            partial(
                find_effects,
                invocation_id=invocation_id,
                effect_key=effect_key,
                tool_name=tool_name,
                statuses=statuses,
                limit=limit,
                before=before,
                path=self._path,
            )
        )

    async def claim(
        self, worker: str, agents: Sequence[str], *, limit: int = 16
    ) -> Sequence[Claimed]:
        """Claim deliveries for this worker, durably; asking when there are none writes nothing.

        Raises:
            JournalCorruptError: If a delivery is damaged.
            StoreError: If the transaction failed, or the store is not open.
        """
        now = self._clock.now()
        found = await self._ready().read(
            partial(outbox.claimable, worker=worker, agents=agents, limit=min(limit, 1), now=now)
        )
        if not found:
            return []

        return await self._write(
            partial(
                outbox.claim,
                worker=worker,
                agents=agents,
                limit=limit,
                now=now,
                at=time.time(),
                path=self._path,
            )
        )

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
            StoreError: If the transaction failed, or the store is not open.
        """
        return await self._write(
            partial(
                outbox.conclude,
                number=number,
                worker=worker,
                status=status,
                receipt=receipt,
                due=self._clock.now().plus(retry_in or 0.0),
                at=time.time(),
            )
        )

    async def prune(self, *, ended_before: float, limit: int = 1_000) -> int:
        """Delete invocations that ended before a wall-clock time; return how many.

        Raises:
            StoreError: If the transaction failed, or the store is not open.
        """
        file = self._ready()
        check_prune(ended_before, limit)
        return await file.write(partial(file.ledger.prune, ended_before=ended_before, limit=limit))

    def _ready(self) -> OpenFile:
        if self._opened is None:
            raise StoreError(f"The store {self._path} is not open; open it first.")

        return self._opened

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        file = self._ready()
        return await file.write(partial(file.ledger.write, work=work))

    async def _finish_closing(self) -> None:
        file = self._closing
        if file is not None:
            await file.close()
            if self._closing is file:
                self._closing = None
