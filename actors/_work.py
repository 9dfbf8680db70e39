"""Other people's code, running: started, interrupted, and given up if it does not obey.

Models and tools are not ours. They run in tasks of their own, in the context of whoever is
worked for; a task that swallows its cancellation is abandoned, never waited for without end.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any, Final, cast

from loopwright.protocol import bounded

ABANDON_AFTER: Final = 1.0
"""Seconds a cancelled task gets to end when everything is closed."""


TEXT_LIMIT: Final = 2_000
"""Characters kept of what an exception of theirs says."""


class Work:
    """A set of tasks running foreign code."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return how many still run."""
        return len(self._tasks)

    def start(
        self, coro: Coroutine[Any, Any, None], context: contextvars.Context | None
    ) -> asyncio.Task[None]:
        """Run it in a copy of the context, so that nobody sees what it sets.

        The coroutine says `ended` when it is done: a callback would cost a turn of the loop.
        """
        loop = asyncio.get_running_loop()
        task = loop.create_task(coro, context=None if context is None else context.copy())
        self._tasks.add(task)
        return task

    def ended(self, task: asyncio.Task[None]) -> None:
        """Forget a task that is about to return."""
        self._tasks.discard(task)

    def interrupt(self, task: asyncio.Task[None]) -> None:
        """Cancel a task, but not before it has begun: its coroutine must get to answer."""
        asyncio.get_running_loop().call_soon(task.cancel)

    async def close(self) -> int:
        """Cancel all, wait a moment, and return how many did not obey."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if not tasks:
            return 0
        _, abandoned = await asyncio.wait(tasks, timeout=ABANDON_AFTER)
        return len(abandoned)


def passes_through(error: BaseException, task: asyncio.Task[None] | None) -> bool:
    """Whether an exception in foreign code is not its own business: it must not be answered.

    An interrupt is the process's. `GeneratorExit` is, unless the task is being stepped: then the
    code raised it itself; otherwise its coroutine is being closed from outside.
    """
    if isinstance(error, GeneratorExit):
        try:
            return task is None or asyncio.current_task() is not task
        except RuntimeError:  # no loop runs any more
            return True
    return isinstance(error, KeyboardInterrupt)


def first_cause(error: BaseException) -> BaseException:
    """Unwrap exception groups to their first meaningful cause."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        error = group.exceptions[0]
    return error


def text_of(error: BaseException) -> str:
    """Read what an exception says; its own `__str__` is foreign code too, and may fail."""
    try:
        return bounded(str(error), TEXT_LIMIT)
    except Exception:  # noqa: BLE001 - see above
        return "<its text cannot be read>"


def described(error: BaseException) -> str:
    """Name an exception and what it says."""
    return f"{type(error).__name__}: {text_of(error)}"
