"""The actor system: a registry of actors bound to one running loop, and all that runs in it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio

from loopwright.protocol import ConfigurationError

from ._cell import Cell
from ._dispatcher import Dispatcher
from ._errors import SystemClosedError, WrongThreadError
from ._mailbox import DEFAULT_CAPACITY, StoppedFlag
from ._messages import ChildSpec, Event, Statistics, TaskFailed
from ._ref import ActorRef

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from ._actor import Actor

T = TypeVar("T")
A = TypeVar("A", bound="Actor")

logger = logging.getLogger("loopwright.kernel")

_DEFAULT_SPEC = ChildSpec()


class ActorSystem:
    """Actors that live and end together: ``async with ActorSystem() as system: ...``.

    It belongs to the loop it is entered in. Left normally it stops its actors, the last started
    first; left by an exception or a cancellation it kills them. Either way it waits for all they
    run, and its registry is empty afterwards. It may be entered again then, in any loop.
    """

    def __init__(
        self,
        name: str = "actors",
        *,
        mailbox_capacity: int = DEFAULT_CAPACITY,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Make a system; it opens when entered.

        Args:
            name: Part of the URN of each actor.
            mailbox_capacity: The bound of each lane of each mailbox.
            clock: Seconds, for the intensity of restarts; by default the loop's time.

        Raises:
            ConfigurationError: If `mailbox_capacity` is less than one.
        """
        if mailbox_capacity < 1:
            msg = f"mailbox_capacity={mailbox_capacity} lets no message in: give at least 1."
            raise ConfigurationError(msg)

        self.name = name
        self.mailbox_capacity = mailbox_capacity
        self._clock = clock
        self._urn_prefix = f"urn:loopwright:{name}:{uuid.uuid4().hex}:"
        self._started = 0
        self._refs: dict[str, ActorRef[Any]] = {}
        self._listeners: list[Callable[[Event], None]] = []
        self._dispatcher: Dispatcher | None = None
        self._closing = False

    def __repr__(self) -> str:
        state = "closed" if self._dispatcher is None else f"{len(self._refs)} actors"
        return f"<ActorSystem {self.name!r}: {state}>"

    async def __aenter__(self) -> Self:
        """Open the system in the running loop.

        Raises:
            ConfigurationError: If it is open already.
        """
        if self._dispatcher is not None:
            msg = f"{self!r} is open already: leave it first, or make another system."
            raise ConfigurationError(msg)

        self._dispatcher = Dispatcher()
        self._closing = False
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop or kill all actors and wait for everything they run.

        Raises:
            CancelledError: If cancelled meanwhile; nothing runs any more by then.
        """
        dispatcher = self._open_dispatcher()
        self._closing = True
        if exc is not None:
            self._kill_actors()
        closer = dispatcher.loop.create_task(self._close(dispatcher))
        cancelled: asyncio.CancelledError | None = None
        with anyio.CancelScope(shield=True):
            while not closer.done():
                try:
                    await asyncio.wait({closer})
                except asyncio.CancelledError as error:
                    cancelled = error
                    self._kill_actors()
                    for task in dispatcher.tasks | dispatcher.endings:
                        task.cancel()
                if closer.cancelled():  # somebody cancels all tasks of the loop
                    closer = dispatcher.loop.create_task(self._close(dispatcher))
        self._dispatcher = None
        closer.result()
        if cancelled is not None:
            raise cancelled

    async def _close(self, dispatcher: Dispatcher) -> None:
        for ref in reversed(self.refs):
            ref.cell.stop(patient=False)
            await ref.stopped()
        await _all_done(dispatcher.endings)
        for task in dispatcher.tasks:
            task.cancel()
        await _all_done(dispatcher.tasks)
        dispatcher.close()
        await asyncio.sleep(0)  # what other threads have posted is answered in this tick

    def _kill_actors(self) -> None:
        for ref in reversed(self.refs):
            ref.cell.kill()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop the system is open in.

        Raises:
            SystemClosedError: If it is not open.
        """
        return self._open_dispatcher().loop

    @property
    def refs(self) -> tuple[ActorRef[Any], ...]:
        """The living actors, in the order they were started."""
        return tuple(self._refs.values())

    def get(self, urn: str) -> ActorRef[Any] | None:
        """The living actor with this URN, if there is one."""
        return self._refs.get(urn)

    def start(
        self,
        actor_class: type[A],
        *args: Any,
        spec: ChildSpec = _DEFAULT_SPEC,
        **kwargs: Any,
    ) -> ActorRef[A]:
        """Build an actor and start it; its `pre_start` and `on_start` run in a later tick.

        Args:
            actor_class: What to build.
            args: For its constructor.
            spec: What becomes of it when it crashes.
            kwargs: For its constructor.

        Raises:
            SystemClosedError: If the system is not open, or is closing.
            WrongThreadError: If this is not the loop's thread.
            Exception: Whatever the constructor raises; nothing is started then.
        """
        dispatcher = self._working_dispatcher("start an actor")
        self._started += 1
        urn = f"{self._urn_prefix}{self._started}"
        cell = Cell(self, dispatcher, actor_class, urn, spec, (args, kwargs))
        cell.ref = ref = ActorRef(actor_class, cell, StoppedFlag())
        cell.build()
        self._refs[urn] = ref
        cell.begin()
        return ref

    def spawn(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        context: contextvars.Context | None = None,
        name: str | None = None,
    ) -> asyncio.Task[T]:
        """Start a task of the system: cancelled when the system closes.

        If it raises, that is logged and published as `TaskFailed`, and nothing else ends.

        Args:
            coro: What the task does.
            context: The context variables it sees, by default those of the caller; it gets a
                copy, so nobody sees what it sets.
            name: The task's name.

        Raises:
            SystemClosedError: If the system is not open, or is closing.
            WrongThreadError: If this is not the loop's thread.
        """
        try:
            dispatcher = self._working_dispatcher("spawn a task")
        except BaseException:
            coro.close()
            raise

        task = dispatcher.create_task(coro, context=context, name=name)

        def done(task: asyncio.Task[Any]) -> None:
            dispatcher.tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("Unhandled exception in task %s:", task.get_name(), exc_info=error)
                self.publish(TaskFailed(task.get_name(), error))

        task.add_done_callback(done, context=dispatcher.context)
        return task

    def on_event(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Have a callback called, in the loop, with each supervision event of the system.

        Returns:
            A function that ends this.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def statistics(self) -> Statistics:
        """What the system holds now, and what it has done since it was opened."""
        dispatcher = self._open_dispatcher()
        return Statistics(
            actors=len(self._refs),
            queued=sum(len(ref.cell.mailbox) for ref in self._refs.values()),
            tasks=len(dispatcher.tasks),
            handled=dispatcher.handled,
            failures=dispatcher.failures,
            restarts=dispatcher.restarts,
        )

    # For the kernel

    def clock(self) -> float:
        """Seconds, by the clock the restarts are counted with."""
        return self.loop.time() if self._clock is None else self._clock()

    def remove(self, ref: ActorRef[Any]) -> None:
        """Take an actor that has ended out of the registry."""
        self._refs.pop(ref.actor_urn, None)

    def publish(self, event: Event) -> None:
        """Call the listeners; what one raises is logged and stops nobody else."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                logger.exception("A listener of %r raised on %r:", self, event)

    def _open_dispatcher(self) -> Dispatcher:
        if self._dispatcher is None:
            msg = f"{self!r} is not open: use it inside `async with`."
            raise SystemClosedError(msg)
        return self._dispatcher

    def _working_dispatcher(self, purpose: str) -> Dispatcher:
        dispatcher = self._open_dispatcher()
        if self._closing:
            msg = f"{self!r} is closing and cannot {purpose}: do it earlier."
            raise SystemClosedError(msg)

        if not dispatcher.in_loop():
            msg = (
                f"{self!r} cannot {purpose} in another thread than its loop's: "
                "use loop.call_soon_threadsafe()."
            )
            raise WrongThreadError(msg)
        return dispatcher


async def _all_done(tasks: set[asyncio.Task[Any]]) -> None:
    while running := {task for task in tasks if not task.done()}:
        await asyncio.wait(running)
