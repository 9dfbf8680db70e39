"""One actor's life: it is built, started, served, rebuilt after a crash, ended.

The cell stays while the actor object in it may be replaced, so a ref and its queued messages
outlive a crash. Everything here runs in the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar

from ._children import Children, forget
from ._errors import ActorDeadError, RequestCancelledError, ends_process
from ._mailbox import Mailbox
from ._messages import ActorFailed, ActorTerminated, ChildSpec, Ending
from ._phase import Phase
from ._restarts import Restarts

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Coroutine, Generator

    from ._actor import Actor
    from ._dispatcher import Dispatcher
    from ._ref import ActorRef
    from ._reply import Reply
    from ._system import ActorSystem

T = TypeVar("T")

logger = logging.getLogger("loopwright.kernel")


# Messages an actor handles before the others that are ready have their turn.
ACTOR_BATCH = 32

# An attribute of an enum class costs as much as a small call, and these are read per message.
_NEW, _RUNNING, _ENDED = Phase.NEW, Phase.RUNNING, Phase.ENDED
_OVER = (Phase.ENDED, Phase.ENDING, Phase.FINISHED)


class Cell:
    """What the kernel knows of one actor."""

    __slots__ = (
        "_arguments",
        "_children",
        "_ending",
        "_error",
        "_patient",
        "_phase",
        "_restarts",
        "_spec",
        "_unwinding",
        "_watchers",
        "actor",
        "actor_class",
        "closed",
        "dispatcher",
        "mailbox",
        "queued",
        "ref",
        "system",
        "urn",
    )

    ref: ActorRef[Any]
    """Set by whoever makes the two. Deleted in the end: they hold each other until then."""

    def __init__(
        self,
        system: ActorSystem,
        dispatcher: Dispatcher,
        actor_class: type[Actor],
        urn: str,
        spec: ChildSpec,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
    ) -> None:
        self.system = system
        self.dispatcher = dispatcher
        self.actor_class = actor_class
        self.urn = urn
        self.mailbox = Mailbox(system.mailbox_capacity)
        self._spec = spec
        self._arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = arguments
        self.actor: Actor | None = None
        self.closed = False  # stopping or dead: takes no messages
        self._phase = _NEW
        self.queued = False  # in the ready queue
        self._patient = True  # a stop waits for messages that coroutines are handling
        self._children: Children | None = None
        self._unwinding: list[asyncio.Task[Any]] | None = None
        self._watchers: list[Reply[bool]] | None = None
        self._restarts: Restarts | None = None
        self._ending: Ending = "stopped"
        self._error: BaseException | None = None

    def __str__(self) -> str:
        return f"{self.actor_class.__name__} ({self.urn})"

    def wake(self) -> None:
        """Have the actor served."""
        if not self.queued:
            self.queued = True
            self.dispatcher.activate(self)

    # Serving

    def serve(self) -> int:
        """Do what is due, at most `ACTOR_BATCH` messages of it.

        Returns:
            How many messages were handed to the actor.

        Raises:
            BaseException: What a handler or a hook raised, if it is meant to end the process.
        """
        if self._phase is _NEW:
            self._begin()

        handled = 0
        mailbox = self.mailbox
        actor = self.actor
        if actor is not None and self._phase is _RUNNING:
            system_context = self.dispatcher.context
            receive = actor.on_receive
            while handled < ACTOR_BATCH and self._phase is _RUNNING:
                queue = mailbox.control or mailbox.work
                if not queue:
                    break

                message, reply = queue.popleft()
                handled += 1
                context = system_context.copy()
                try:
                    result = context.run(receive, message)
                except BaseException as error:
                    self.handling_failed(error, reply)
                    # The traceback leads to this frame: it must not hold what holds the error.
                    del message, reply
                    if ends_process(error):
                        raise
                else:
                    if type(result) is CoroutineType:
                        self._handle_in_task(result, reply, context)  # pyright: ignore[reportUnknownArgumentType]  # a handler may return anything
                    elif reply is not None:
                        reply.settle(result)

            if self.closed and self._phase is _RUNNING and self._drained():
                self._end("stopped")

        if self._phase is _ENDED:
            self._retire()
        if self._phase is _NEW or (self._phase is _RUNNING and (mailbox.control or mailbox.work)):
            self.dispatcher.ready.append(self)
        else:
            self.queued = False
        return handled

    def _drained(self) -> bool:
        children = self._children
        waits = self._patient and children is not None and children.handling()
        return self.mailbox.empty() and not waits

    def _handle_in_task(
        self, coro: Coroutine[Any, Any, Any], reply: Reply[Any] | None, context: contextvars.Context
    ) -> None:
        if self._phase is _RUNNING:
            self._own_children().handle(coro, reply, context)
            return

        coro.close()  # the handler killed its own actor
        if reply is not None:
            reply.settle(None, self.dead())

    def handling_failed(self, error: BaseException, reply: Reply[Any] | None) -> None:
        """What pykka means by it: an error is the answer to an ask, and a crash after a tell.

        What is meant to end the process is a crash too, and the asker hears of it as of a death:
        raised again in the asker, it would end more than it was meant for.
        """
        if isinstance(error, Exception) and reply is not None:
            logger.debug("%s answers with an error", self, exc_info=error)
            reply.settle(None, error)
        elif isinstance(error, asyncio.CancelledError) and reply is not None:
            msg = f"What {self} did for this request was cancelled: ask again if it is needed."
            reply.settle(None, RequestCancelledError(msg))
        else:
            self.fail(error)
            if reply is not None:
                reply.settle(None, self.dead(error))

    # Child tasks

    def spawn(
        self,
        owner: Actor,
        coro: Coroutine[Any, Any, T],
        context: contextvars.Context | None,
        name: str | None,
    ) -> asyncio.Task[T]:
        """Start a task that ends with its owner at the latest.

        Raises:
            ActorDeadError: If the owner has ended, or has been replaced after a crash.
        """
        if owner is not self.actor or self.ref.actor_stopped.is_set():
            coro.close()
            raise self.dead()

        return self._own_children().spawn(coro, context=context, name=name)

    def _own_children(self) -> Children:
        if self._children is None:
            self._children = Children(self)
        return self._children

    # Start and restart

    def build(self) -> Actor:
        """Make the actor object; its constructor may already use `actor_ref` and `system`.

        Raises:
            Exception: Whatever the constructor raises.
        """
        args, kwargs = self._arguments or ((), {})
        if self._spec.restart == "temporary":
            self._arguments = None  # needed once: they may be large
        actor = self.actor_class.__new__(self.actor_class)
        actor.bind(self.ref)
        actor.__init__(*args, **kwargs)  # type: ignore[misc]  # bound first, so that it has its ref
        self.actor = actor
        return actor

    def begin(self) -> None:
        """Start the actor that was built; in its turn, if it has hooks for it."""
        if self.actor_class.starts_late:
            self.wake()
        else:
            self._phase = _RUNNING

    def _begin(self) -> None:
        with self._crashes():
            actor = self.actor or self.build()
            if actor.prepares:
                self._phase = Phase.STARTING
                self._own_children().spawn(actor.pre_start(), then=self._run_on_start)
            else:
                self._run_on_start()

    def _run_on_start(self) -> None:
        actor = self.actor
        if actor is not None:
            self._phase = _RUNNING
            self.wake()
            with self._crashes():
                self._call(actor.on_start)

    @contextmanager
    def _crashes(self) -> Generator[None]:
        try:
            yield
        except BaseException as error:
            self.fail(error)
            if ends_process(error):
                raise

    def fail(self, error: BaseException) -> None:
        """A crash: rebuild the actor, or end it if it must not be."""
        if self._phase is _ENDED:  # it killed its own actor before
            logger.error("Unhandled exception in %s, which was killed:", self, exc_info=error)
            return

        logger.error("Unhandled exception in %s:", self, exc_info=error)
        self.dispatcher.failures += 1
        restarted = self._may_restart(error)
        actor, self.actor = self.actor, None
        if restarted:
            self.dispatcher.restarts += 1
            self._phase = _NEW
            self._abandon_children(error)
            self.wake()
        else:
            self._end("failed", error)
        if actor is not None:
            with self._reported("on_failure()"):
                self._call(actor.on_failure, type(error), error, error.__traceback__)
        self._announce(ActorFailed(self.ref, error, restarted))

    def _may_restart(self, error: BaseException) -> bool:
        if self._spec.restart == "temporary" or self.closed or ends_process(error):
            return False

        if self._restarts is None:
            self._restarts = Restarts(self._spec)
        return self._restarts.allow(self.system.clock())

    # Stop, kill, end

    def stop(self, reply: Reply[bool] | None = None, *, patient: bool = True) -> None:
        """Take no more messages, and end when those already taken are handled.

        Args:
            reply: Answered when the actor is finished: False if it was so before.
            patient: Whether to wait for messages that coroutines are handling.
        """
        if reply is not None:
            self.watch(reply, already=False)
        if self._phase not in _OVER:
            self.closed = True
            self._patient = self._patient and patient
            self.wake()

    def kill(self) -> None:
        """End now: the queue is dropped and every open request answered before this returns."""
        if self._phase not in _OVER:
            self._end("killed")

    def watch(self, reply: Reply[bool], *, already: bool = True) -> None:
        """Answer True when the actor is finished, or `already` if it was so before."""
        if self._phase is Phase.FINISHED:
            reply.settle(already)
        elif self._watchers is None:
            self._watchers = [reply]
        else:
            self._watchers.append(reply)

    def _end(self, ending: Ending, error: BaseException | None = None) -> None:
        """Dead to everybody from here on; hooks wait for its turn, it may be inside a handler."""
        self._phase = _ENDED
        self._ending = ending
        self._error = error
        self.closed = True
        self.ref.actor_stopped.set()
        self.system.remove(self.ref)
        self._abandon_children(error)
        for _, reply in self.mailbox.clear():
            if reply is not None:
                reply.settle(None, self.dead(error))
        self.queued = True
        self.dispatcher.activate_first(self)

    def _abandon_children(self, cause: BaseException | None) -> None:
        children, self._children = self._children, None
        if children is not None:
            before = [task for task in self._unwinding or () if not task.done()]
            self._unwinding = before + children.abandon(lambda: self.dead(cause))

    def _retire(self) -> None:
        self._phase = Phase.ENDING
        actor, tasks = self.actor, self._unwinding or []
        self.actor = self._unwinding = None
        try:
            if actor is not None:
                with self._reported("on_stop()"):
                    self._call(actor.on_stop)
        finally:
            if tasks or (actor is not None and actor.cleans_up):
                last = self.dispatcher.loop.create_task(
                    self._wind_up(tasks, actor), context=self.dispatcher.context.copy()
                )
                self.dispatcher.endings.add(last)
                last.add_done_callback(self._finish, context=self.dispatcher.context)
            else:
                self._finish(None)

    async def _wind_up(self, tasks: list[asyncio.Task[Any]], actor: Actor | None) -> None:
        if tasks:
            await asyncio.wait(tasks)
        if actor is not None:
            with self._reported("post_stop()"):
                await actor.post_stop()

    def _finish(self, last: asyncio.Task[None] | None) -> None:
        if last is not None:
            self.dispatcher.endings.discard(last)
            forget(last)
        self._phase = Phase.FINISHED
        for reply in self._watchers or ():
            reply.settle(True)
        self._announce(ActorTerminated(self.ref, self._ending, self._error))
        self._watchers = self._arguments = self._error = None
        del self.ref

    # Telling of it

    def _call(self, hook: Callable[..., None], *args: object) -> None:
        self.dispatcher.context.copy().run(hook, *args)

    @contextmanager
    def _reported(self, what: str) -> Generator[None]:
        """Log what a hook raises: there is no one it could be raised to."""
        try:
            yield
        except Exception:
            logger.exception("%s of %s raised:", what, self)

    def _announce(self, event: ActorFailed | ActorTerminated) -> None:
        spec = self._spec
        if spec.on_failure is not None and isinstance(event, ActorFailed):
            with self._reported("ChildSpec.on_failure()"):
                spec.on_failure(event)
        if spec.supervisor is not None:
            with self._reported("Telling the supervisor"):
                spec.supervisor.notify(event)
        self.system.publish(event)

    def dead(self, cause: BaseException | None = None) -> ActorDeadError:
        """The error for whoever wants something of this actor now."""
        if self._phase in _OVER:
            state = f"is dead ({self._ending}): get another ref, or start another actor"
        elif self.closed:
            state = "is stopping and takes no more messages: start another actor"
        else:
            state = "has crashed and is rebuilt: send the request again"
        error = ActorDeadError(f"{self} {state}.")
        error.__cause__ = cause
        return error
