"""Group commit: appends that are waiting at the same time share a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias, final

from loopwright.protocol import Append, StoreError

from .._protocol import AppendResult
from ._thread import ConnectionThread
from ._writes import Ledger

INLINE_SECONDS = 0.0005
"""A commit that is expected to take less runs on the event loop: a thread hop costs as much."""

INLINE_BYTES = 16_384
"""More than this is worth the hop: the loop can do other things meanwhile."""

_Waiting: TypeAlias = tuple[Sequence[Append], asyncio.Future[Sequence[AppendResult]]]


@final
class GroupCommit:
    """Takes appends on the event loop and commits all that have come in together.

    One group is under way at a time; what comes in meanwhile is the next one.

    Args:
        ledger: Does the writing.
        thread: Owns the connection it is done on.
    """

    def __init__(self, ledger: Ledger, thread: ConnectionThread) -> None:
        self._ledger = ledger
        self._thread = thread
        self._waiting: list[_Waiting] = []
        self._under_way = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Store a batch; an empty one waits for all that came before it.

        Raises:
            StoreError: If the transaction failed; nothing of the batch is stored then.
        """
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Sequence[AppendResult]] = loop.create_future()
        self._waiting.append((batch, future))
        if not self._under_way:
            self._under_way = True
            # At the end of this tick, so that others who are ready now come along.
            loop.call_soon(self._commit)

        return await future

    async def finish(self) -> None:
        """Wait for all that came before; those callers learn themselves how they fared.

        Where their event loop is gone nobody can go on committing what waits, nor is there
        anybody to learn of it.
        """
        if self._under_way and self._loop is asyncio.get_running_loop():
            with suppress(Exception):
                await self.append(())

    def append_nowait(self, batch: Sequence[Append]) -> Sequence[AppendResult] | None:
        """Store a batch on the event loop; None, and nothing done, where that might hold it up.

        Raises:
            StoreError: If the transaction failed; nothing of the batch is stored then.
        """
        return None if self._under_way else self._commit_here(batch)

    def _commit(self) -> None:
        group, self._waiting = self._waiting, []
        appends = [append for batch, _ in group for append in batch]
        try:
            results = self._commit_here(appends)
        except BaseException as error:
            self._settle(group, error)
            if not isinstance(error, Exception):
                raise

            return

        if results is None:
            job = self._thread.run(partial(self._ledger.append, batch=appends))
            job.add_done_callback(partial(self._committed, group))
        else:
            self._settle(group, results)

    def _commit_here(self, appends: Sequence[Append]) -> list[AppendResult] | None:
        """Commit on the event loop; None, and nothing done, where that might hold it up."""
        if not appends:
            return []

        if self._ledger.commit_seconds >= INLINE_SECONDS:
            return None

        if sum(map(_size, appends)) > INLINE_BYTES:
            return None

        try:
            return self._thread.run_here(partial(self._ledger.append, batch=appends, wait=False))
        except StoreError as error:
            if error.transient:  # another process is writing: wait for it on the thread
                return None

            raise

    def _committed(self, group: list[_Waiting], job: asyncio.Future[list[AppendResult]]) -> None:
        self._settle(group, job.exception() or job.result())

    def _settle(self, group: list[_Waiting], outcome: list[AppendResult] | BaseException) -> None:
        start = 0
        for batch, future in group:
            end = start + len(batch)
            # A caller may have been cancelled; its appends stand like all others.
            if not future.done():
                if isinstance(outcome, BaseException):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome[start:end])
            start = end

        if self._waiting:
            asyncio.get_running_loop().call_soon(self._commit)
        else:
            self._under_way = False


def _size(append: Append) -> int:
    size = 0 if append.snapshot is None else len(append.snapshot.body)
    for line in append.lines:
        size += len(line)
    return size
