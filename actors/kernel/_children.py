"""The tasks of one actor, from when it is built until it crashes or ends."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Coroutine

    from ._cell import Cell
    from ._reply import Reply

T = TypeVar("T")

logger = logging.getLogger("loopwright.kernel")


class Children:
    """What an actor handles in coroutines, and what it spawned."""

    __slots__ = ("_abandoned", "_cell", "_handling", "_spawned")

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._handling: dict[asyncio.Task[Any], Reply[Any] | None] = {}
        self._spawned: set[asyncio.Task[Any]] = set()
        self._abandoned = False

    def handling(self) -> bool:
        """Whether a message is still being handled."""
        return bool(self._handling)

    def handle(
        self,
        coro: Coroutine[Any, Any, Any],
        reply: Reply[Any] | None,
        context: contextvars.Context,
    ) -> None:
        """Go on handling a message in a task."""
        dispatcher = self._cell.dispatcher
        task = dispatcher.create_task(coro, context=context, name=None)
        self._handling[task] = reply
        self._cell.mailbox.running += 1
        task.add_done_callback(self._handled, context=dispatcher.context)

    def spawn(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        context: contextvars.Context | None = None,
        name: str | None = None,
        then: Callable[[], None] | None = None,
    ) -> asyncio.Task[T]:
        """Start a task whose failure is the actor's; `then` runs if it succeeds."""
        dispatcher = self._cell.dispatcher
        task = dispatcher.create_task(coro, context=context, name=name)
        self._spawned.add(task)

        def done(task: asyncio.Task[Any]) -> None:
            self._spawned_done(task, then)

        task.add_done_callback(done, context=dispatcher.context)
        return task

    def abandon(self, why: Callable[[], Exception]) -> list[asyncio.Task[Any]]:
        """Cancel all, and answer at once what is still open; returns the tasks that unwind."""
        self._abandoned = True
        tasks = [*self._handling, *self._spawned]
        self._cell.mailbox.running -= len(self._handling)
        for reply in self._handling.values():
            if reply is not None:
                reply.settle(None, why())
        for task in tasks:
            task.cancel()
        return tasks

    def _handled(self, task: asyncio.Task[Any]) -> None:
        cell = self._cell
        cell.dispatcher.tasks.discard(task)
        reply = self._handling.pop(task)
        if self._abandoned:
            forget(task)
            return

        cell.mailbox.running -= 1
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            cell.handling_failed(error, reply)
        elif reply is not None:
            reply.settle(task.result())
        if cell.closed:  # a stop may be waiting for this
            cell.wake()

    def _spawned_done(self, task: asyncio.Task[Any], then: Callable[[], None] | None) -> None:
        cell = self._cell
        cell.dispatcher.tasks.discard(task)
        self._spawned.remove(task)
        if self._abandoned:
            forget(task)
            return

        error = None if task.cancelled() else task.exception()
        if error is not None:
            cell.fail(error)
        elif then is not None:
            if task.cancelled():
                cell.fail(asyncio.CancelledError())
            else:
                then()


def forget(task: asyncio.Task[Any]) -> None:
    """Look at what a task left whose owner is gone: asyncio complains about errors nobody saw."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("A cancelled task raised while it unwound:", exc_info=error)
