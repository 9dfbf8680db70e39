"""The embedded store: one SQLite file, shared safely by the processes of one machine."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar, final

from loopwright.protocol import Append, InvocationId, Lease, Status, Stored, StoreError, Summary

from . import _sqlite_reads as reads
from ._protocol import AppendResult
from ._sqlite_group import GroupCommit
from ._sqlite_schema import open_reader, open_writer, translated
from ._sqlite_thread import ConnectionThread
from ._sqlite_writes import Ledger

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Opened:
    """What exists while the store is open."""

    writer: ConnectionThread
    reader: ConnectionThread
    ledger: Ledger
    group: GroupCommit


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
        wall: The clock that heartbeats are measured by, seconds since the epoch.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float = 5.0,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._path = Path(path)
        self._busy_timeout = busy_timeout
        self._wall = wall
        self._opened: _Opened | None = None
        self._closing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make the store ready: make the file, or bring its schema up to date.

        Raises:
            JournalCorruptError: If the file is damaged, foreign or of a newer version; it is
                left as it is.
            StoreError: If the store is open, or the file cannot be opened or written.
        """
        if self._opened is not None:
            raise StoreError(f"The store {self._path} is open; close it before opening it again.")

        timeout = self._busy_timeout
        writer = ConnectionThread("loopwright-write", partial(open_writer, self._path, timeout))
        reader = ConnectionThread("loopwright-read", partial(open_reader, self._path, timeout))
        try:
            await writer.start()
            await reader.start()
        except BaseException:
            writer.abandon()
            reader.abandon()
            raise

        ledger = Ledger(self._path, timeout)
        self._opened = _Opened(writer, reader, ledger, GroupCommit(ledger, writer))

    async def close(self) -> None:
        """Commit what is waiting, and let go of the file and both threads; twice is fine."""
        opened, self._opened = self._opened, None
        if opened is not None:
            self._closing = asyncio.create_task(_shut(opened))
        if self._closing is not None:
            await asyncio.shield(self._closing)
            self._closing = None

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
        return await self._read(
            partial(
                reads.load,
                invocation_id=invocation_id,
                after=after,
                now=self._wall(),
                path=self._path,
            )
        )

    async def find(self, agent: str, key: str) -> InvocationId | None:
        """Find the invocation that was started for this agent under this key.

        Raises:
            StoreError: If the file cannot be read, or the store is not open.
        """
        return await self._read(partial(reads.find, agent=agent, key=key))

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
        return await self._read(
            partial(
                reads.invocations,
                status=status,
                agent=agent,
                limit=limit,
                before=before,
                now=self._wall(),
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
        opened = self._ready()
        return await opened.writer.run(
            partial(
                opened.ledger.acquire,
                invocation_id=invocation_id,
                worker=worker,
                now=self._wall(),
            )
        )

    async def release(self, lease: Lease) -> None:
        """Give ownership up, if it is still this lease's.

        Raises:
            StoreError: If the transaction failed, or the store is not open.
        """
        opened = self._ready()
        await opened.writer.run(partial(opened.ledger.release, lease=lease))

    async def heartbeat(self, worker: str, ttl: float) -> None:
        """Say that this worker is alive for the next `ttl` seconds; 0 says it is gone.

        Raises:
            StoreError: If the transaction failed, or the store is not open.
        """
        opened = self._ready()
        expires = self._wall() + ttl if ttl > 0 else None
        await opened.writer.run(partial(opened.ledger.heartbeat, worker=worker, expires=expires))

    def _ready(self) -> _Opened:
        if self._opened is None:
            raise StoreError(f"The store {self._path} is not open; open it first.")

        return self._opened

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await self._ready().reader.run(work)
        except (sqlite3.Error, UnicodeEncodeError) as error:
            raise translated(error, self._path) from error


async def _shut(opened: _Opened) -> None:
    # Waits for every append before it; those callers learn themselves how they fared.
    with suppress(StoreError):
        await opened.group.append(())

    await opened.reader.stop()
    await opened.writer.stop()
