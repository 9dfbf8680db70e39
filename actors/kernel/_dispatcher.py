"""One binding of an actor system to a running loop: its ready queue, its tasks, its threads' door.

A mailbox that becomes non-empty puts its actor into the ready queue; one callback drains that
queue, including what the drained actors activate. A chain of messages between idle actors
therefore takes one tick of the loop, however long it is, up to the limits below.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from ._errors import ActorDeadError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ._cell import Cell

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# A tick of the loop costs about as much as two messages: these cost two percent of throughput,
# and let timers, sockets and other tasks in at least once in so many messages.
TICK_BATCH = 128


class Dispatcher:
    """Lives as long as its system is open; everything in it belongs to the loop's thread."""

    __slots__ = (
        "_open",
        "_scheduled",
        "context",
        "endings",
        "failures",
        "handled",
        "lock",
        "loop",
        "ready",
        "restarts",
        "tasks",
        "thread",
    )

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.context = contextvars.copy_context()
        self.ready: deque[Cell] = deque()
        # What actors and the system spawned, cancelled at the end; and what ends actors, which is not.
        self.tasks: set[asyncio.Task[Any]] = set()
        self.endings: set[asyncio.Task[Any]] = set()
        self.handled = 0
        self.failures = 0
        self.restarts = 0
        # Guards _open and the mailboxes' inbound counts, which other threads touch.
        self.lock = threading.RLock()
        self._open = True
        self._scheduled = False

    def in_loop(self) -> bool:
        """Whether the caller is in the loop's thread."""
        return threading.get_ident() == self.thread

    def activate(self, cell: Cell) -> None:
        """Have an actor served, after those already waiting."""
        self.ready.append(cell)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._drain, context=self.context)

    def activate_first(self, cell: Cell) -> None:
        """Have an actor served before all others: the kill lane."""
        self.activate(cell)
        self.ready.rotate(1)

    def serve_after(self, act: Callable[[], None]) -> None:
        """Do something, and serve what it makes ready at once, not in the loop's next tick."""
        if self._scheduled:
            act()
            return

        self._scheduled = True
        try:
            act()
        finally:
            self._drain()

    def _drain(self) -> None:
        ready = self.ready
        left = TICK_BATCH
        try:
            while ready and left > 0:
                handled = ready.popleft().serve()
                self.handled += handled
                left -= handled or 1
        finally:
            self._scheduled = bool(ready)
            if ready:
                self.loop.call_soon(self._drain, context=self.context)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        context: contextvars.Context | None,
        name: str | None,
    ) -> asyncio.Task[T]:
        """Start a task and keep it; whoever adds its done callback discards it from `tasks`.

        It runs in a copy of the context, so that what it sets is seen by no one else.
        """
        task = self.loop.create_task(
            coro, name=name, context=None if context is None else context.copy()
        )
        self.tasks.add(task)
        return task

    def perform(self, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Call in the loop's thread; from another one, as `post`, and raise what that raises."""
        if self.in_loop():
            callback(*args)
        else:
            self.post(callback, *args)

    def post(self, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Have a callback run in the loop; safe from any thread.

        Raises:
            ActorDeadError: If the system or its loop is closed.
        """
        with self.lock:
            try:
                if self._open:
                    self.loop.call_soon_threadsafe(callback, *args, context=self.context)
                    return
            except RuntimeError:  # the loop was closed without leaving the system
                pass

        raise self.closed_error()

    @staticmethod
    def closed_error() -> ActorDeadError:
        """The error for whoever comes too late."""
        return ActorDeadError(
            "The actor system of this ref is closed: get a ref from a system that is open."
        )

    def close(self) -> None:
        """Take no more posts; those already taken run in the next tick."""
        with self.lock:
            self._open = False
