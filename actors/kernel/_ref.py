"""The ref: all that others have of an actor. It takes messages to its mailbox, from any thread."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, overload

import pykka
from pykka import messages

from loopwright.protocol import Overloaded

from ._errors import ActorDeadError, UnsupportedError, WouldDeadlockError
from ._messages import ActorFailed, ActorTerminated, Lane
from ._reply import Reply

if TYPE_CHECKING:
    from ._actor import Actor
    from ._cell import Cell
    from ._mailbox import StoppedFlag

A = TypeVar("A", bound="Actor")

_WORK = Lane.WORK
_PROXY_MESSAGES = frozenset({messages.ProxyCall, messages.ProxyGetAttr, messages.ProxySetAttr})


class ActorRef(pykka.ActorRef[A]):
    """The address of an actor; it stays the same when the actor is rebuilt after a crash.

    `tell`, `ask`, `stop`, `kill` and `stopped` may be called from any thread. Refs come from
    `ActorSystem.start`, never from the constructor.
    """

    __slots__ = ("_cell", "actor_class", "actor_inbox", "actor_stopped", "actor_urn")

    def __init__(self, actor_class: type[A], cell: Cell, stopped: StoppedFlag) -> None:
        # Not calling pykka's: it wants the actor, which is built after its ref.
        self.actor_class = actor_class
        self.actor_urn = cell.urn
        self.actor_inbox = cell.mailbox
        self.actor_stopped = stopped
        self._cell = cell

    @property
    def cell(self) -> Cell:
        """The kernel's own side of the actor."""
        return self._cell

    def tell(self, message: Any, *, lane: Lane = Lane.WORK) -> None:
        """Send a message, without an answer; if handling it raises, the actor crashes.

        Raises:
            ActorDeadError: If the actor is dead or stopping, or its system is closed.
            Overloaded: If the lane is full; the message was not taken.
            UnsupportedError: If it is one of pykka's proxy messages.
        """
        cell = self._cell
        mailbox = cell.mailbox
        queue = mailbox.work
        if (
            lane is _WORK
            and queue is not None
            and not cell.closed
            and get_ident() == cell.dispatcher.thread
            and len(queue) + mailbox.inbound + mailbox.running < mailbox.capacity
            and type(message) not in _PROXY_MESSAGES
        ):
            # The usual case, without the calls it would take otherwise.
            queue.append((message, None))
            if not cell.queued:
                cell.queued = True
                cell.dispatcher.activate(cell)
        else:
            self._send(message, None, lane)

    def tell_last(self, message: Any) -> None:
        """Tell something as the last act of a task: whoever that makes ready is served in it.

        It saves a tick of the loop, for whose length the answer of a task that is about to end
        would have waited. Elsewhere, and in other threads, it is `tell`.

        Raises:
            ActorDeadError: As `tell`.
            Overloaded: As `tell`.
            UnsupportedError: As `tell`.
        """
        dispatcher = self._cell.dispatcher
        if get_ident() == dispatcher.thread:
            dispatcher.serve_after(partial(self.tell, message))
        else:
            self.tell(message)

    @overload
    def ask(
        self,
        message: Any,
        *,
        block: Literal[False],
        timeout: float | None = None,
        lane: Lane = Lane.WORK,
    ) -> Reply[Any]: ...

    @overload
    def ask(
        self,
        message: Any,
        *,
        block: Literal[True] = True,
        timeout: float | None = None,
        lane: Lane = Lane.WORK,
    ) -> Any: ...

    @overload
    def ask(
        self,
        message: Any,
        *,
        block: bool = True,
        timeout: float | None = None,
        lane: Lane = Lane.WORK,
    ) -> Any | Reply[Any]: ...

    def ask(  # pyright: ignore[reportIncompatibleMethodOverride]  # only mypy sees that each fits
        self,
        message: Any,
        *,
        block: bool = True,
        timeout: float | None = None,
        lane: Lane = Lane.WORK,
    ) -> Any | Reply[Any]:
        """Send a message whose answer is wanted; if handling it raises, that is the answer.

        Args:
            message: What is asked.
            block: True waits, in a thread other than the loop's. False returns a `Reply` to
                await, or to `get()` in another thread.
            timeout: Seconds until the answer is `AskTimeoutError`.
            lane: Where the message queues.

        Returns:
            The answer, or the `Reply` that will have it.

        Raises:
            WouldDeadlockError: If it is to block in the loop's own thread.
            Overloaded: If the lane is full; the message was not taken.
            UnsupportedError: If it is one of pykka's proxy messages.
            AskTimeoutError: If blocking and no answer came in time.
            ActorDeadError: If blocking and the actor is dead, or dies before it answers.
            Exception: If blocking: what the handler raised.
        """
        if block:
            self._refuse_blocking("ask")
        reply: Reply[Any] = Reply(self._cell.dispatcher)
        try:
            self._send(message, reply, lane)
        except ActorDeadError as error:
            reply.settle(None, error)
        if block:
            return reply.get(timeout=timeout)

        if timeout is not None:
            reply.expire_after(timeout)
        return reply

    @overload
    def stop(self, *, block: Literal[True] = True, timeout: float | None = None) -> bool: ...

    @overload
    def stop(self, *, block: Literal[False], timeout: float | None = None) -> Reply[bool]: ...

    @overload
    def stop(self, *, block: bool = True, timeout: float | None = None) -> bool | Reply[bool]: ...

    def stop(self, *, block: bool = True, timeout: float | None = None) -> bool | Reply[bool]:
        """Let the actor handle the messages it has taken, and end it.

        From here on it takes no message: `tell` raises, `ask` answers `ActorDeadError`. What it
        spawned is cancelled when the messages are handled.

        Args:
            block: As for `ask`.
            timeout: As for `ask`; the actor goes on stopping.

        Returns:
            True when it has ended, False if it was dead before; or the `Reply` of that.

        Raises:
            WouldDeadlockError: If it is to block in the loop's own thread.
            AskTimeoutError: If blocking and the actor did not end in time.
        """
        if block:
            self._refuse_blocking("stop")
        reply: Reply[bool] = Reply(self._cell.dispatcher)
        try:
            self._cell.dispatcher.perform(self._cell.stop, reply)
        except ActorDeadError:
            reply.settle(False)
        if block:
            return reply.get(timeout=timeout)

        if timeout is not None:
            reply.expire_after(timeout)
        return reply

    def kill(self) -> None:
        """End the actor now: cancel its tasks, drop its queue, answer what is open.

        In the loop's thread it is dead when this returns. A handler that is running is not
        interrupted. Killing a dead actor does nothing.
        """
        with suppress(ActorDeadError):
            self._cell.dispatcher.perform(self._cell.kill)

    async def stopped(self) -> None:
        """Wait until the actor is gone: its hooks have run, and its tasks have ended."""
        reply: Reply[bool] = Reply(self._cell.dispatcher)
        try:
            self._cell.dispatcher.perform(self._cell.watch, reply)
        except ActorDeadError:
            return

        await reply

    def notify(self, event: ActorFailed | ActorTerminated) -> None:
        """Queue a supervision event on the control lane, whatever its bound; for the kernel.

        Raises:
            ActorDeadError: If the actor's system is closed.
        """
        cell = self._cell
        if not cell.dispatcher.in_loop():
            cell.dispatcher.post(self.notify, event)
        elif not cell.closed:
            cell.mailbox.push_anyway((event, None), Lane.CONTROL)
            cell.wake()

    def proxy(self) -> NoReturn:
        """Refuse: a proxy reaches any method and any attribute.

        Raises:
            UnsupportedError: Always.
        """
        msg = f"{self} has no proxy, it would reach any attribute: send messages to it."
        raise UnsupportedError(msg)

    def _send(self, message: object, reply: Reply[Any] | None, lane: Lane) -> None:
        if type(message) in _PROXY_MESSAGES:
            msg = (
                f"{type(message).__name__} to {self} is refused, it would reach any attribute: "
                "send a message that on_receive knows."
            )
            raise UnsupportedError(msg)

        cell = self._cell
        if cell.closed:
            raise cell.dead()

        if get_ident() != cell.dispatcher.thread:
            self._send_from_thread(message, reply, lane)
        elif not cell.mailbox.push((message, reply), lane):
            raise self._overloaded(lane)
        elif not cell.queued:
            cell.queued = True
            cell.dispatcher.activate(cell)

    def _send_from_thread(self, message: object, reply: Reply[Any] | None, lane: Lane) -> None:
        cell = self._cell
        # The room is reserved here, so that this thread hears at once of a full mailbox.
        with cell.dispatcher.lock:
            if cell.mailbox.full(lane):
                raise self._overloaded(lane)

            cell.dispatcher.post(self._arrive, message, reply, lane)
            cell.mailbox.inbound += 1

    def _arrive(self, message: object, reply: Reply[Any] | None, lane: Lane) -> None:
        cell = self._cell
        with cell.dispatcher.lock:
            cell.mailbox.inbound -= 1
        if not cell.closed:
            cell.mailbox.push_anyway((message, reply), lane)
            cell.wake()
        elif reply is not None:
            reply.settle(None, cell.dead())

    def _overloaded(self, lane: Lane) -> Overloaded:
        return Overloaded(
            f"The {lane.value} lane of {self} is full at {self._cell.mailbox.capacity} messages: "
            "send again when it has caught up."
        )

    def _refuse_blocking(self, method: str) -> None:
        if self._cell.dispatcher.in_loop():
            msg = (
                f"A blocking {method} to {self} in the loop's own thread would wait for itself: "
                f"await {method}(..., block=False) instead."
            )
            raise WouldDeadlockError(msg)
