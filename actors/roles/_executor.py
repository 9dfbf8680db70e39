"""The ToolExecutor: one per tool, shared by all invocations of the runtime.

It alone runs a tool's body. Every attempt is answered exactly once: with what the body
returned or raised, or with what the runtime knows when it stops waiting.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias, cast

from loopwright.policy import (
    DEFAULT_BREAKER,
    DEFAULT_RETRY,
    Breaker,
    Retry,
    RetryAfter,
    seconds_after,
)
from loopwright.protocol import (
    AttemptId,
    ErrorCategory,
    Execute,
    Executed,
    Input,
    Interrupt,
    InvocationId,
    JsonValue,
    Lease,
    NotDispatched,
    Reconcile,
    ResultStatus,
    ToolError,
    ToolResult,
    to_json,
)

from .._clock import Clock, Timer
from .._work import Work, first_cause, passes_through
from ..definitions._tool import AnyTool, ToolContext, ToolFailure
from ..kernel import ActorRef, Request
from ..tracing._tool_progress import Watch
from ._breakers import NOT_COUNTED, Breakers
from ._deliveries import NO_FENCE
from ._progress import ProgressReports
from ._reconciler import Reconciler
from ._service import Service, answer, answer_last
from ._threads import MAX_THREADS, NeverRanError, ThreadPool
from ._tool_results import Stopped, never_ran, raised, result_of, shut_out, stopped

_Key: TypeAlias = tuple[InvocationId, int, AttemptId]
_Say: TypeAlias = Callable[[ActorRef[Any], Input], None]

_RETRIED: Final = (ErrorCategory.TRANSIENT, ErrorCategory.RATE_LIMITED)
_COUNTED: Final = (ErrorCategory.TRANSIENT, ErrorCategory.UNAVAILABLE)
"""What says that a tool is not well. A bug of its own says nothing of the next call, and whoever
is told to come more slowly was served."""


class _NotHeldError(Exception):
    """Raised in the place of a body that may not begin: the lease is not safely held any more."""


@dataclass(slots=True, eq=False)
class _Attempt:
    """One attempt that has not been answered; of a read, one of its tries."""

    key: _Key
    """What it is found by."""
    order: Execute
    """As it was given, but for the number of the attempt: each further try counts."""
    reply_to: ActorRef[Any]
    context: contextvars.Context | None
    tries: int = 1
    failed: ToolResult | None = None
    """What the try before came to."""
    retry_after: RetryAfter = None
    """What the body asks for before the next one."""
    timer: Timer | asyncio.Handle | None = None
    """When this try is made; `None` once it is, or waits only for its turn."""
    entered: int = NOT_COUNTED
    """How it reports to the breaker, once."""
    task: asyncio.Task[None] | None = None
    until: float | None = None
    """When its time is over; `None` while it waits for its turn, or without a limit."""
    stopped: Stopped | None = None
    withdrawn: bool = False
    """Whether it must not begin any more; read by the thread that would begin it."""


class ToolExecutor(Service[Execute | Interrupt | Reconcile]):
    """Runs one tool, and asks its reconciler.

    A read that fails with what may pass is tried again, and its answer is that of its last try.
    A blocking body that exceeded its limit is not: it would stand in a second thread as well. A
    write is never tried again here. A tool that keeps failing is left alone for a while.

    Args:
        tool: The tool.
        clock: Time.
        holds: Whether a lease is safely held at this moment; nothing is dispatched without.
        late: Told what a write has returned after its outcome was called unknown.
        retry: How often a read is tried.
        breaker: When the tool is left alone, by all invocations.
        random: Where jitter comes from: from 0 up to, not including, 1.
        watch: Told what a body says of its progress, in the context of its caller; `None` where
            nobody watches.
    """

    def __init__(
        self,
        tool: AnyTool,
        clock: Clock,
        holds: Callable[[Lease], bool],
        late: Callable[[Execute, JsonValue], None],
        retry: Retry = DEFAULT_RETRY,
        breaker: Breaker = DEFAULT_BREAKER,
        random: Callable[[], float] = random.random,
        watch: Watch | None = None,
    ) -> None:
        super().__init__()
        self._tool = tool
        self._clock = clock
        self._holds = holds
        self._late = late
        self._retry = retry
        self._breaker = breaker
        self._breakers = Breakers(clock)
        self._random = random
        self._watch = watch
        self._closed = False
        self._attempts: dict[_Key, _Attempt] = {}
        self._waiting: deque[_Attempt] = deque()
        self._running = 0
        self._limit = tool.max_concurrency
        self._work = Work()
        self._reconciler = Reconciler(tool, clock, self._work)
        self._timer: Timer | None = None
        self._threads = (
            None if tool.is_async else ThreadPool(tool.name, tool.max_concurrency or MAX_THREADS)
        )

    def serve(self, request: Request[Execute | Interrupt | Reconcile]) -> None:
        """Start an attempt, stop waiting for one, or ask what became of one."""
        order = request.message
        if isinstance(order, Reconcile):
            self._reconciler.ask(cast("Request[Reconcile]", request))
            return
        key = (order.invocation_id, order.turn, order.attempt_id)
        if isinstance(order, Interrupt):
            self._interrupt(key, begun=order.begun)
            return
        attempt = _Attempt(key, order, request.reply_to, request.context)
        if key in self._attempts:
            # A rebuilt Supervisor asks again: nobody waits for the first one any more.
            self._interrupt(key, begun=True)
        self._attempts[key] = attempt
        self._admit(attempt)

    async def post_stop(self) -> None:
        """End what still runs; a body that does not obey is abandoned."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for attempt in self._attempts.values():
            if attempt.timer is not None:
                attempt.timer.cancel()
        # What waits never begins: its turn would come as what runs is ended.
        self._waiting.clear()
        await self._work.close()
        self._reconciler.close()
        if self._threads is not None:
            self._threads.close()

    def _admit(self, attempt: _Attempt) -> None:
        """Start an attempt, or let it wait for its turn."""
        attempt.timer = None
        if self._limit is None or self._running < self._limit:
            self._start(attempt)
        elif self._breakers.refuses(self._tool.name, self._breaker):
            self._shut_out(attempt)
        else:
            self._waiting.append(attempt)

    def _start(self, attempt: _Attempt) -> None:
        if not self._holds(attempt.order.lease):
            self._refuse(attempt)
            return
        entered = self._breakers.enter(self._tool.name, self._breaker)
        if entered is None:
            self._shut_out(attempt)
            return
        attempt.entered = entered
        self._running += 1
        attempt.task = self._work.start(self._run(attempt), attempt.context)
        if self._tool.timeout is not None:
            if attempt.failed is not None:
                # It is due after all that have begun before it.
                self._attempts[attempt.key] = self._attempts.pop(attempt.key)
            attempt.until = self._clock.now().monotonic + self._tool.timeout
            if self._timer is None:
                self._timer = self._clock.call_at(attempt.until, self._sweep)

    def _shut_out(self, attempt: _Attempt) -> None:
        """Answer at once that it was not run; a read that was tried before has failed with that."""
        self._answer(attempt, attempt.failed or shut_out(attempt.order))

    def _refuse(self, attempt: _Attempt) -> None:
        """Not dispatch it: another worker may own the invocation by now, and have dispatched it."""
        if self._settles(attempt):
            order = attempt.order
            text = f"the lease of worker {order.lease.worker} is no longer safely held"
            answer(attempt.reply_to, NotDispatched(order.turn, order.attempt_id, text))

    async def _run(self, attempt: _Attempt) -> None:
        result: ToolResult | None = None
        try:
            result = await self._body(attempt.order, attempt)
            # Before whoever waits for its turn is let through.
            self._report(attempt, result)
        except _NotHeldError:
            self._leave(attempt)
            self._refuse(attempt)
        finally:
            self._running -= 1
            if attempt.task is not None:
                self._work.ended(attempt.task)
            while self._waiting and (self._limit is None or self._running < self._limit):
                self._start(self._waiting.popleft())
        if result is not None:
            self._ended(attempt, result, answer_last)

    async def _body(self, order: Execute, attempt: _Attempt) -> ToolResult:
        """Run the body; whatever happens in it becomes a result."""
        try:
            arguments = self._tool.bind(order.arguments, partial(self._context, attempt))
            if self._threads is None:
                output = await self._tool.function(**arguments)
            else:
                late = partial(self._returned_late, order) if order.effect.is_write else None
                call = partial(self._begin, attempt, partial(self._tool.function, **arguments))
                output = await self._threads.run(call, late)
                if inspect.isawaitable(output):
                    output = await output
        except NeverRanError:
            self._leave(attempt)
            return never_ran(order, attempt.stopped)
        except _NotHeldError:
            raise
        except asyncio.CancelledError as error:
            if attempt.stopped is None:
                # The body cancelled itself, or its task was cancelled from outside us.
                return raised(order, error)
            return stopped(order, attempt.stopped, self._tool.timeout)
        except BaseException as error:  # noqa: BLE001 - a body is foreign code
            cause = first_cause(error)
            if passes_through(cause, attempt.task):
                # The loop hands on an interrupt, but not a group that holds one.
                raise cause from None
            if attempt.stopped is not None:
                return stopped(order, attempt.stopped, self._tool.timeout)
            if isinstance(cause, ToolFailure):
                attempt.retry_after = getattr(cause, "retry_after", None)
            return raised(order, cause)
        if attempt.stopped is not None:
            # It swallowed its cancellation; nobody waits for what it returns any more.
            return stopped(order, attempt.stopped, self._tool.timeout)
        return result_of(order, ResultStatus.OK, output=to_json(output).value)

    def _context(self, attempt: _Attempt) -> ToolContext:
        order, report = attempt.order, None
        # Attempts of a delivery are not traced: its invocation may be long over.
        if self._watch is not None and order.lease.fence != NO_FENCE:
            is_live = partial(self._is_live, attempt)
            report = ProgressReports(order, self._clock, attempt.context, is_live, self._watch)
        return ToolContext(
            order.invocation_id,
            order.turn,
            order.call_id,
            order.attempt_id,
            order.attempt,
            order.effect_key,
            order.principal,
            report,
        )

    def _is_live(self, attempt: _Attempt) -> bool:
        """Whether somebody waits for what this try comes to."""
        return self._attempts.get(attempt.key) is attempt and attempt.stopped is None

    def _begin(self, attempt: _Attempt, body: Callable[[], object]) -> object:
        """Begin a body, in its thread, which it may have waited for all too long."""
        if attempt.withdrawn:
            raise NeverRanError
        if not self._holds(attempt.order.lease):
            raise _NotHeldError
        return body()

    def _returned_late(self, order: Execute, output: object) -> None:
        """Tell that a write has worked after all: its thread went on when nobody waited any more."""
        if inspect.iscoroutine(output):
            output.close()
        elif not inspect.isawaitable(output):
            self._late(order, to_json(output).value)

    def _sweep(self) -> None:
        """Time out what is due. All attempts have the same limit, so they are due in order."""
        self._timer = None
        now = self._clock.now().monotonic
        for attempt in tuple(self._attempts.values()):
            if attempt.until is None or attempt.task is None or attempt.stopped is not None:
                continue
            if attempt.until > now:
                self._timer = self._clock.call_at(attempt.until, self._sweep)
                return
            self._timed_out(attempt, attempt.task)

    def _timed_out(self, attempt: _Attempt, task: asyncio.Task[None]) -> None:
        """Answer now; the body is told to end, and may not obey."""
        attempt.stopped = "timeout"
        self._work.interrupt(task)
        if self._tool.is_async:
            result = stopped(attempt.order, "timeout", self._tool.timeout)
            self._report(attempt, result)
            self._ended(attempt, result, answer)

    def _interrupt(self, key: _Key, *, begun: bool) -> None:
        attempt = self._attempts.get(key)
        if attempt is None:
            return
        if attempt.task is None:
            if attempt.timer is not None:
                attempt.timer.cancel()
            else:
                self._waiting.remove(attempt)
            self._answer(attempt, attempt.failed or never_ran(attempt.order, "interrupted"))
            return
        attempt.withdrawn = True
        if begun:
            attempt.stopped = attempt.stopped or "interrupted"
            # A probe that does not obey must not keep its place.
            self._leave(attempt)
            self._work.interrupt(attempt.task)

    # ------------------------------------------------------------ what comes after a try
    def _ended(self, attempt: _Attempt, result: ToolResult, say: _Say) -> None:
        """A try is over: answer, unless it is tried again."""
        wait = result if result.error is None else self._wait(attempt, result, result.error)
        if isinstance(wait, ToolResult):
            self._answer(attempt, wait, say)
            return
        if self._attempts.get(attempt.key) is not attempt:
            return
        # A new object: the body before may still run, and whatever it says is not of this try.
        order = attempt.order._replace(attempt=attempt.order.attempt + 1)
        again = _Attempt(attempt.key, order, attempt.reply_to, attempt.context)
        again.tries, again.failed = attempt.tries + 1, result
        self._attempts[attempt.key] = again
        admit = partial(self._admit, again)
        if wait:
            again.timer = self._clock.call_at(self._clock.now().monotonic + wait, admit)
        else:
            again.timer = asyncio.get_running_loop().call_soon(admit)

    def _wait(self, attempt: _Attempt, result: ToolResult, error: ToolError) -> float | ToolResult:
        """Say how long to wait until it is tried again; or, if it is not, what it has come to."""
        order = attempt.order
        if not error.retryable or error.category not in _RETRIED:
            return result
        in_a_thread = attempt.stopped == "timeout" and self._threads is not None
        last = self._closed or attempt.tries >= self._retry.max_attempts
        if order.effect.is_write or attempt.withdrawn or in_a_thread or last:
            return result
        now = self._clock.now()
        after = seconds_after(attempt.retry_after, now.wall)
        if impatient := self._retry.impatient(after):
            return replace(result, error=replace(error, message=error.message + impatient))
        wait = self._retry.wait(attempt.tries, after, self._random())
        late = order.until is not None and now.monotonic + wait >= order.until
        shut = self._breakers.refuses(self._tool.name, self._breaker, after=wait)
        return result if late or shut else wait

    def _report(self, attempt: _Attempt, result: ToolResult) -> None:
        """Tell the breaker what a try came to."""
        name, error, entered = self._tool.name, result.error, attempt.entered
        attempt.entered = NOT_COUNTED
        if result.status is ResultStatus.OK:
            self._breakers.succeeded(name, entered)
        elif attempt.stopped == "timeout" or (error is not None and error.category in _COUNTED):
            self._breakers.failed(name, self._breaker, entered)
        else:
            self._breakers.left(name, entered)

    def _leave(self, attempt: _Attempt) -> None:
        """Tell the breaker that nothing will be heard of a try."""
        self._breakers.left(self._tool.name, attempt.entered)
        attempt.entered = NOT_COUNTED

    def _answer(self, attempt: _Attempt, result: ToolResult, say: _Say = answer) -> None:
        if self._settles(attempt):
            order = attempt.order
            say(attempt.reply_to, Executed(order.turn, order.attempt_id, result))

    def _settles(self, attempt: _Attempt) -> bool:
        """Whether this is its one answer; a late result, and one of an attempt made anew, is not."""
        if self._attempts.get(attempt.key) is not attempt:
            return False
        del self._attempts[attempt.key]
        return True
