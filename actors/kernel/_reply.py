"""The answer to an ask: awaited in any loop, or waited for in a thread that runs none."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
from threading import get_ident
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pykka

from ._errors import AskTimeoutError, UnsupportedError, WouldDeadlockError

T = TypeVar("T")

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    from ._dispatcher import Dispatcher

    Waiter = asyncio.Future[T] | concurrent.futures.Future[T]


# How often a waiting thread looks whether the loop was closed under it.
_LOOP_CHECK_SECONDS = 1.0


class Reply(pykka.Future[T]):
    """A value or an error that comes once. Set by the kernel, in the loop's thread.

    An error nobody looks at is dropped silently, as in pykka.
    """

    # Class attributes, not set in __init__: most of them stay as they are in most replies.
    _done = False
    _value: T | None = None
    _error: BaseException | None = None
    _waiter: Waiter[T] | None = None
    _more_waiters: tuple[Waiter[T], ...] = ()
    _timer: asyncio.TimerHandle | None = None

    def __init__(self, dispatcher: Dispatcher | None = None) -> None:
        # Not calling pykka's: it prepares get hooks, which are refused below.
        self._dispatcher = dispatcher

    def __repr__(self) -> str:
        return f"<Reply {'done' if self._done else 'pending'}>"

    def done(self) -> bool:
        """Whether the answer is there."""
        return self._done

    def __await__(self) -> Generator[Any, None, T]:
        """Wait in the running loop, whichever it is.

        Raises:
            ActorDeadError: If the system is closed and cannot answer any more.
        """
        if self._done:
            return self._finished()

        # A future per waiting task: cancelling one leaves the others waiting.
        dispatcher = self._dispatcher
        if dispatcher is None or get_ident() == dispatcher.thread:
            loop = asyncio.get_running_loop() if dispatcher is None else dispatcher.loop
            waiter: asyncio.Future[T] = loop.create_future()
            if self._waiter is None:
                self._waiter = waiter
            else:
                self._add_waiter(waiter)
            return waiter.__await__()

        return asyncio.wrap_future(self._subscribe(dispatcher)).__await__()

    def _finished(self) -> Generator[Any, None, T]:
        return self._result()
        yield

    __iter__ = __await__

    def get(self, *, timeout: float | None = None) -> T:
        """Wait in a thread other than the loop's.

        Args:
            timeout: Seconds to wait; None waits until the actor answers or dies.

        Raises:
            WouldDeadlockError: If the answer is not there and this is the loop's own thread.
            AskTimeoutError: If the answer did not come in time.
            ActorDeadError: If the system is closed and cannot answer any more.
            Exception: The answer, if it is an error.
        """
        if not self._done:
            dispatcher = self._dispatcher
            if dispatcher is None or dispatcher.in_loop():
                msg = (
                    "A blocking get() in the loop's own thread would wait for itself: "
                    "await the reply instead."
                )
                raise WouldDeadlockError(msg)

            return self._wait_in_thread(dispatcher, timeout)

        return self._result()

    def _wait_in_thread(self, dispatcher: Dispatcher, timeout: float | None) -> T:
        waiter = self._subscribe(dispatcher)
        left = timeout
        while True:
            pause = _LOOP_CHECK_SECONDS if left is None else min(left, _LOOP_CHECK_SECONDS)
            done, _ = concurrent.futures.wait((waiter,), pause)
            if done:
                return waiter.result()

            if dispatcher.loop.is_closed():
                raise dispatcher.closed_error()

            if left is not None:
                left -= pause
                if left <= 0:
                    raise _timed_out(timeout)

    def _subscribe(self, dispatcher: Dispatcher) -> concurrent.futures.Future[T]:
        waiter = concurrent.futures.Future[T]()
        waiter.set_running_or_notify_cancel()  # so that nobody cancels it under the loop's hands
        dispatcher.post(self._add_waiter, waiter)
        return waiter

    def _add_waiter(self, waiter: Waiter[T]) -> None:
        if self._done:
            self._tell(waiter)
        elif self._waiter is None:
            self._waiter = waiter
        else:
            self._more_waiters = (*self._more_waiters, waiter)

    def _tell(self, waiter: Waiter[T]) -> None:
        if waiter.done():  # whoever waited was cancelled
            return

        if self._error is None:
            waiter.set_result(self._value)  # type: ignore[arg-type]  # a T, once done without error
        else:
            waiter.set_exception(self._error)
            waiter.exception()  # seen: a task cancelled in this very tick will not look

    def _result(self) -> T:
        error = self._error
        if error is not None:
            try:
                raise error
            finally:
                # The traceback holds this frame: without this, error and reply would hold
                # each other, and whatever the error's frames hold, until a collection.
                del self, error

        return self._value  # type: ignore[return-value]  # a T, once done without error

    def settle(self, value: T | None, error: BaseException | None = None) -> None:
        """Answer, unless it was answered before (by a timeout, or when its actor died)."""
        if self._done:
            return

        self._done = True
        self._value = value
        if error is not None:
            self._error = _raisable(error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if error is None and not waiter.done():
                waiter.set_result(value)  # type: ignore[arg-type]  # a T, without an error
            else:
                self._tell(waiter)
            if self._more_waiters:
                for waiter in self._more_waiters:
                    self._tell(waiter)
                self._more_waiters = ()

    def expire_after(self, seconds: float) -> None:
        """Answer with `AskTimeoutError` if nothing else did by then.

        Raises:
            ActorDeadError: If this is another thread than the loop's and the system is closed.
        """
        dispatcher = self._dispatcher
        if dispatcher is None or self._done:
            return

        dispatcher.perform(self._start_timer, dispatcher, seconds)

    def _start_timer(self, dispatcher: Dispatcher, seconds: float) -> None:
        if not self._done:
            self._timer = dispatcher.loop.call_later(seconds, self._expire, seconds)

    def _expire(self, seconds: float) -> None:
        self.settle(None, _timed_out(seconds))

    # What follows is the rest of pykka's future.

    def set(self, value: T | None = None) -> None:
        """Answer with a value.

        Raises:
            UnsupportedError: If it was answered before.
        """
        self._refuse_second()
        self.settle(value)

    def set_exception(
        self,
        exc_info: tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
        | None = None,
    ) -> None:
        """Answer with an error, by default the one being handled.

        Raises:
            UnsupportedError: If it was answered before, or there is no error.
        """
        self._refuse_second()
        error = (exc_info or sys.exc_info())[1]
        if error is None:
            msg = "set_exception() found no error: call it in an except block, or pass exc_info."
            raise UnsupportedError(msg)
        self.settle(None, error)

    def _refuse_second(self) -> None:
        if self._done:
            msg = f"{self!r} has its answer already: a reply is set once."
            raise UnsupportedError(msg)

    def set_get_hook(self, func: Callable[[float | None], T]) -> NoReturn:
        """Refuse, see `map`.

        Raises:
            UnsupportedError: Always.
        """
        _refuse_hook("set_get_hook", func)

    def map(self, func: Callable[..., object]) -> NoReturn:
        """Refuse: pykka's derived futures rest on a blocking get.

        Raises:
            UnsupportedError: Always.
        """
        _refuse_hook("map", func)

    def filter(self, func: Callable[..., object]) -> NoReturn:
        """Refuse, see `map`.

        Raises:
            UnsupportedError: Always.
        """
        _refuse_hook("filter", func)

    def reduce(self, func: Callable[..., object], *args: object) -> NoReturn:
        """Refuse, see `map`.

        Raises:
            UnsupportedError: Always.
        """
        _refuse_hook("reduce", func, *args)

    def join(self, *futures: pykka.Future[Any]) -> NoReturn:
        """Refuse, see `map`; `asyncio.gather` joins replies.

        Raises:
            UnsupportedError: Always.
        """
        _refuse_hook("join", *futures)


def _refuse_hook(method: str, *args: object) -> NoReturn:
    given = ", ".join(map(repr, args))
    msg = f"{method}({given}) rests on a blocking get: await the reply, then compute."
    raise UnsupportedError(msg)


def _timed_out(seconds: float | None) -> AskTimeoutError:
    return AskTimeoutError(
        f"No answer within {seconds} s: the actor is slow or waits itself; "
        "the request may still be handled."
    )


def _raisable(error: BaseException) -> BaseException:
    """Coroutines cannot raise StopIteration: it would mean that they return."""
    if isinstance(error, StopIteration):
        replacement = RuntimeError("The handler raised StopIteration: raise another error there.")
        replacement.__cause__ = error
        return replacement
    return error
