"""What exists while an SQLite store is open: two connections, each with a thread of its own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar, final

from ._group import GroupCommit
from ._schema import open_reader, open_writer, translated
from ._thread import ConnectionThread
from ._writes import Ledger

T = TypeVar("T")


@final
class OpenFile:
    """An open file: appends, other writes, and reads, which hold up no write.

    Args:
        path: The file.
        busy_timeout: How long to wait for other processes that are writing, in seconds.
    """

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self._path = path
        self._writer = ConnectionThread(
            "loopwright-write", partial(open_writer, path, busy_timeout)
        )
        self._reader = ConnectionThread("loopwright-read", partial(open_reader, path, busy_timeout))
        self._closing: asyncio.Task[None] | None = None
        self.ledger = Ledger(path, busy_timeout)
        self.group = GroupCommit(self.ledger, self._writer)

    async def open(self) -> None:
        """Start both threads; if one cannot be connected, both end.

        Raises:
            JournalCorruptError: If the file is damaged, foreign or of a newer version.
            StoreError: If the file cannot be opened or written.
        """
        try:
            await self._writer.start()
            await self._reader.start()
        except BaseException:
            self._abandon()
            raise

    async def close(self) -> None:
        """Commit what is waiting, and wait for both threads to end.

        It goes on if the caller is cancelled; called again, also from another event loop, it
        waits for what is left to do.
        """
        self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do work on the writing connection; transactions are its own concern.

        Raises:
            StoreError: If SQLite fails.
        """
        return await self._run(self._writer, work)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do work on the reading connection.

        Raises:
            StoreError: If SQLite fails.
        """
        return await self._run(self._reader, work)

    async def _run(self, thread: ConnectionThread, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await thread.run(work)
        except (sqlite3.Error, UnicodeEncodeError) as error:
            raise translated(error, self._path) from error

    async def _close(self) -> None:
        try:
            await self.group.finish()
            # The writer last: it takes the write-ahead log along.
            await self._reader.stop()
            await self._writer.stop()
        finally:
            # An event loop that ends cancels this as well.
            self._abandon()

    def _abandon(self) -> None:
        self._reader.abandon()
        self._writer.abandon()
