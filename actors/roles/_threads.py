"""A bounded pool of daemon threads for blocking tools.

A thread cannot be killed: a call that exceeds its limit is abandoned, its late result is
dropped, and neither the loop, nor another tool, nor the exit of the process waits for it.
That is why these are neither asyncio's nor anyio's worker threads, which are joined at exit.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

MAX_THREADS: Final = 32
"""Threads of one pool; each tool with a sync body has its own pool."""
IDLE_SECONDS: Final = 10.0


class NeverRanError(Exception):
    """Raised when a call was given up before a thread had taken it: its body never ran."""


class _Job:
    __slots__ = ("call", "ended", "error", "late", "loop", "result", "started")

    def __init__(self, call: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        self.call = call
        self.loop = loop
        # It carries no exception: the loop would take a GeneratorExit in it for its own.
        self.ended: asyncio.Future[None] = loop.create_future()
        self.result: object = None
        self.error: BaseException | None = None
        self.started = False
        self.late: Callable[[object], None] | None = None
        """Who is told what it returns after nobody waited for it any more."""

    def run(self) -> None:
        """Run in the worker thread; nobody may be listening any more."""
        try:
            self.result = self.call()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the waiter is told
            self.error = error
        try:
            self.loop.call_soon_threadsafe(self._end)
        except RuntimeError:
            # The loop is closed: the late result of an abandoned call belongs to nobody.
            return

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
        elif self.late is not None and self.error is None:
            self.late(self.result)

    def outcome(self) -> object:
        """Return or raise, in the waiter, what the call returned or raised."""
        error = self.error
        if error is None:
            return self.result
        # A coroutine cannot raise a StopIteration.
        raise RuntimeError(repr(error)) if isinstance(error, StopIteration) else error


class ThreadPool:
    """Runs blocking calls; `limit` bounds how many run at once, the rest wait their turn."""

    def __init__(self, name: str, limit: int = MAX_THREADS) -> None:
        self._name = name
        self._limit = limit
        self._wakeup = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._threads = 0
        self._idle = 0
        self._closed = False

    async def run(
        self, call: Callable[[], object], late: Callable[[object], None] | None = None
    ) -> object:
        """Run a call in a thread, with the caller's context variables.

        Args:
            call: What to run.
            late: Called in the loop with what it returns if it was cancelled while it ran: the
                thread goes on to its end.

        Raises:
            NeverRanError: If cancelled before a thread had taken it.
            CancelledError: If cancelled while it ran.
        """
        context = contextvars.copy_context()
        job = _Job(lambda: context.run(call), asyncio.get_running_loop())
        job.late = late
        self._submit(job)
        try:
            await job.ended
        except asyncio.CancelledError:
            if self._withdraw(job):
                raise NeverRanError from None
            raise
        return job.outcome()

    async def ask(self, function: Callable[[Any], object], argument: object) -> object:
        """Ask foreign code, whether it is async, blocks, or returns something to be awaited.

        Raises:
            BaseException: Whatever it raises; and as `run`.
        """
        if _is_async(function):
            return await cast("Awaitable[object]", function(argument))
        said = await self.run(partial(function, argument))
        return await cast("Awaitable[object]", said) if inspect.isawaitable(said) else said

    def close(self) -> None:
        """Let idle threads end; busy ones end after their call."""
        with self._wakeup:
            self._closed = True
            self._wakeup.notify_all()

    def _submit(self, job: _Job) -> None:
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

    def _withdraw(self, job: _Job) -> bool:
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


def _is_async(function: Callable[..., object]) -> bool:
    """Whether calling it blocks nobody: it is a coroutine function, or its `__call__` is one."""
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
