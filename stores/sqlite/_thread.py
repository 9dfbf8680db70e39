"""A thread that owns an SQLite connection, and runs jobs on it one after the other."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, final

T = TypeVar("T")


class _Job(Generic[T]):
    """A piece of work, and the future its outcome is told to."""

    __slots__ = ("_future", "_loop", "_work")

    def __init__(self, work: Callable[[sqlite3.Connection], T], future: asyncio.Future[T]) -> None:
        self._work = work
        self._future = future
        self._loop = future.get_loop()

    def run(self, connection: sqlite3.Connection) -> None:
        try:
            value = self._work(connection)
        except BaseException as error:  # noqa: BLE001 - it belongs to the one who waits
            self.fail(error)
        else:
            self._tell(self._resolve, value)

    def fail(self, error: BaseException) -> None:
        self._tell(self._reject, error)

    def _tell(self, settle: Callable[[Any], None], outcome: object) -> None:
        try:
            self._loop.call_soon_threadsafe(settle, outcome)
        except RuntimeError:
            # The loop is closed: nobody waits any more, and what was done stays done.
            return

    def _resolve(self, value: T) -> None:
        if not self._future.done():
            self._future.set_result(value)

    def _reject(self, error: BaseException) -> None:
        if not self._future.done():
            self._future.set_exception(error)


@final
class ConnectionThread:
    """Runs jobs on a connection of its own, off the event loop.

    A job that has begun is finished, whether or not somebody still waits for it.

    Args:
        name: The thread's name.
        connect: Opens the connection; called on the thread.
    """

    def __init__(self, name: str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._free = threading.Lock()
        self._jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._ended: Future[None] = Future()
        # As one that runs, it cannot be cancelled by somebody who no longer waits for it.
        self._ended.set_running_or_notify_cancel()

    async def start(self) -> None:
        """Start the thread and wait until it is connected.

        Raises:
            StoreError: If the connection cannot be opened; the thread has ended then.
        """
        self._thread.start()
        await self.run(lambda _: None)

    async def stop(self) -> None:
        """Finish the jobs that are there, close the connection, and wait for the thread to end.

        May be called again, also from another event loop.
        """
        self.abandon()
        await asyncio.wrap_future(self._ended)
        # All it has left to do is to return.
        self._thread.join()

    def abandon(self) -> None:
        """Let the thread end after the jobs that are there, without waiting for it."""
        self._jobs.put(None)

    def run(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Queue a job; the future has its outcome."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(work, future))
        return future

    def run_here(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run a job at once on the calling thread; None, and not run, if the connection is busy."""
        connection = self._connection
        if connection is None or not self._free.acquire(blocking=False):
            return None

        try:
            return work(connection)
        finally:
            self._free.release()

    def _serve(self) -> None:
        try:
            self._serve_jobs()
        finally:
            self._ended.set_result(None)

    def _serve_jobs(self) -> None:
        try:
            connection = self._connect()
        except BaseException as error:  # noqa: BLE001 - it belongs to `start`, the first job
            job = self._jobs.get()
            if job is not None:
                job.fail(error)
            return

        self._connection = connection
        while (job := self._jobs.get()) is not None:
            with self._free:
                job.run(connection)

        connection.close()
