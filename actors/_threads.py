"""A bounded pool of daemon threads for blocking tools.

A thread cannot be killed: a call that exceeds its limit is abandoned, its late result is
dropped, and neither the loop, nor another tool, nor the exit of the process waits for it.
That is why these are neither asyncio's nor anyio's worker threads, which are joined at exit.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MAX_THREADS: Final = 32
"""Threads of one pool; each tool with a sync body has its own pool."""
IDLE_SECONDS: Final = 10.0


class NeverRanError(Exception):
    """Raised when a call was given up before a thread had taken it: its body never ran."""


class _Job(Generic[T]):
    __slots__ = ("call", "done", "loop", "started")

    def __init__(self, call: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self.call = call
        self.loop = loop
        self.done: asyncio.Future[T] = loop.create_future()
        self.started = False

    def run(self) -> None:
        """Run in the worker thread; nobody may be listening any more."""
        try:
            result = self.call()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the waiter is told
            self._report(self._fail, error)
        else:
            self._report(self._succeed, result)

    def _report(self, how: Callable[..., None], what: object) -> None:
        try:
            self.loop.call_soon_threadsafe(how, what)
        except RuntimeError:
            # The loop is closed: the late result of an abandoned call belongs to nobody.
            return

    def _succeed(self, result: T) -> None:
        if not self.done.done():
            self.done.set_result(result)

    def _fail(self, error: BaseException) -> None:
        if not self.done.done():
            # asyncio forbids StopIteration in a future.
            wrapped = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
            self.done.set_exception(wrapped)


class ThreadPool:
    """Runs blocking calls; `limit` bounds how many run at once, the rest wait their turn."""

    def __init__(self, name: str, limit: int = MAX_THREADS) -> None:
        self._name = name
        self._limit = limit
        self._wakeup = threading.Condition()
        self._jobs: deque[_Job[object]] = deque()
        self._threads = 0
        self._idle = 0
        self._closed = False

    async def run(self, call: Callable[[], object]) -> object:
        """Run a call in a thread, with the caller's context variables.

        Raises:
            NeverRanError: If cancelled before a thread had taken it.
            CancelledError: If cancelled while it ran; the thread goes on, its result is dropped.
        """
        context = contextvars.copy_context()
        job: _Job[object] = _Job(lambda: context.run(call), asyncio.get_running_loop())
        self._submit(job)
        try:
            return await job.done
        except asyncio.CancelledError:
            if self._withdraw(job):
                raise NeverRanError from None
            raise

    def close(self) -> None:
        """Let idle threads end; busy ones end after their call."""
        with self._wakeup:
            self._closed = True
            self._wakeup.notify_all()

    def _submit(self, job: _Job[object]) -> None:
        with self._wakeup:
            self._closed = False
            self._jobs.append(job)
            # An idle thread counts until it has taken its job: it must not be promised to two.
            if self._idle >= len(self._jobs):
                self._wakeup.notify()
                return
            if self._threads >= self._limit:
                return
            self._threads += 1
        threading.Thread(target=self._work, name=f"loopwright-{self._name}", daemon=True).start()

    def _withdraw(self, job: _Job[object]) -> bool:
        with self._wakeup:
            if job.started:
                return False
            self._jobs.remove(job)
            return True

    def _work(self) -> None:
        while True:
            with self._wakeup:
                while not self._jobs:
                    self._idle += 1
                    awake = not self._closed and self._wakeup.wait(IDLE_SECONDS)
                    self._idle -= 1
                    if not awake and not self._jobs:
                        self._threads -= 1
                        return
                job = self._jobs.popleft()
                job.started = True
            job.run()
            del job
