"""The ToolExecutor: one per tool, shared by all invocations of the runtime.

It alone runs a tool's body. Every attempt is answered exactly once: with what the body
returned or raised, or with what the runtime knows when it stops waiting.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias, cast

from loopwright.protocol import (
    AttemptId,
    ErrorCategory,
    Execute,
    Executed,
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
from .._tool import AnyTool, InvalidArgumentsError, ToolContext, ToolFailure
from .._work import Work, first_cause, passes_through, text_of
from ..kernel import ActorRef, Request
from ._reconciler import Reconciler
from ._service import Service, answer, answer_last
from ._threads import MAX_THREADS, NeverRanError, ThreadPool

_Key: TypeAlias = tuple[InvocationId, int, AttemptId]
_Stopped: TypeAlias = Literal["timeout", "interrupted"]


_TELLS_NOTHING: Final = (
    SystemExit,
    GeneratorExit,
    asyncio.CancelledError,
    TimeoutError,
    ConnectionError,
)
"""What does not say whether a write took effect: it was torn off, or the line went dead."""


class _NotHeldError(Exception):
    """Raised in the place of a body that may not begin: the lease is not safely held any more."""


@dataclass(slots=True, eq=False)
class _Attempt:
    """One attempt that has not been answered."""

    order: Execute
    reply_to: ActorRef[Any]
    context: contextvars.Context | None
    task: asyncio.Task[None] | None = None
    until: float | None = None
    """When its time is over; `None` while it waits for its turn, or without a limit."""
    stopped: _Stopped | None = None
    withdrawn: bool = False
    """Whether it must not begin any more; read by the thread that would begin it."""

    @property
    def key(self) -> _Key:
        """What it is found by."""
        return self.order.invocation_id, self.order.turn, self.order.attempt_id


class ToolExecutor(Service[Execute | Interrupt | Reconcile]):
    """Runs one tool, and asks its reconciler.

    Args:
        tool: The tool.
        clock: Time.
        holds: Whether a lease is safely held at this moment; nothing is dispatched without.
        late: Told what a write has returned after its outcome was called unknown.
    """

    def __init__(
        self,
        tool: AnyTool,
        clock: Clock,
        holds: Callable[[Lease], bool],
        late: Callable[[Execute, JsonValue], None],
    ) -> None:
        super().__init__()
        self._tool = tool
        self._clock = clock
        self._holds = holds
        self._late = late
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
        if isinstance(order, Interrupt):
            key = (order.invocation_id, order.turn, order.attempt_id)
            self._interrupt(key, begun=order.begun)
            return
        attempt = _Attempt(order, request.reply_to, request.context)
        key = attempt.key
        if key in self._attempts:
            # A rebuilt Supervisor asks again: nobody waits for the first one any more.
            self._interrupt(key, begun=True)
        self._attempts[key] = attempt
        if self._limit is not None and self._running >= self._limit:
            self._waiting.append(attempt)
        else:
            self._start(attempt)

    async def post_stop(self) -> None:
        """End what still runs; a body that does not obey is abandoned."""
        if self._timer is not None:
            self._timer.cancel()
        # What waits never begins: its turn would come as what runs is ended.
        self._waiting.clear()
        await self._work.close()
        self._reconciler.close()
        if self._threads is not None:
            self._threads.close()

    def _start(self, attempt: _Attempt) -> None:
        if not self._holds(attempt.order.lease):
            self._refuse(attempt)
            return
        self._running += 1
        attempt.task = self._work.start(self._run(attempt), attempt.context)
        if self._tool.timeout is not None:
            attempt.until = self._clock.now().monotonic + self._tool.timeout
            if self._timer is None:
                self._timer = self._clock.call_at(attempt.until, self._sweep)

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
        except _NotHeldError:
            self._refuse(attempt)
        finally:
            self._running -= 1
            if attempt.task is not None:
                self._work.ended(attempt.task)
            while self._waiting and (self._limit is None or self._running < self._limit):
                self._start(self._waiting.popleft())
        if result is not None and self._settles(attempt):
            order = attempt.order
            answer_last(attempt.reply_to, Executed(order.turn, order.attempt_id, result))

    async def _body(self, order: Execute, attempt: _Attempt) -> ToolResult:
        """Run the body; whatever happens in it becomes a result."""
        try:
            arguments = self._tool.bind(order.arguments, partial(_context, order))
            if self._threads is None:
                output = await self._tool.function(**arguments)
            else:
                late = partial(self._returned_late, order) if order.effect.is_write else None
                call = partial(self._begin, attempt, partial(self._tool.function, **arguments))
                output = await self._threads.run(call, late)
                if inspect.isawaitable(output):
                    output = await output
        except NeverRanError:
            return self._never_ran(order, attempt.stopped)
        except _NotHeldError:
            raise
        except asyncio.CancelledError as error:
            if attempt.stopped is None:
                # The body cancelled itself, or its task was cancelled from outside us.
                return self._failed(order, error)
            return self._stopped(order, attempt.stopped)
        except BaseException as error:  # noqa: BLE001 - a body is foreign code
            cause = first_cause(error)
            if passes_through(cause, attempt.task):
                # The loop hands on an interrupt, but not a group that holds one.
                raise cause from None
            if attempt.stopped is not None:
                return self._stopped(order, attempt.stopped)
            return self._failed(order, cause)
        if attempt.stopped is not None:
            # It swallowed its cancellation; nobody waits for what it returns any more.
            return self._stopped(order, attempt.stopped)
        return _result(order, ResultStatus.OK, output=to_json(output).value)

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
            self._answer(attempt, self._stopped(attempt.order, "timeout"))

    def _interrupt(self, key: _Key, *, begun: bool) -> None:
        attempt = self._attempts.get(key)
        if attempt is None:
            return
        if attempt.task is None:
            self._waiting.remove(attempt)
            self._answer(attempt, self._never_ran(attempt.order, "interrupted"))
            return
        attempt.withdrawn = True
        if begun:
            attempt.stopped = attempt.stopped or "interrupted"
            self._work.interrupt(attempt.task)

    def _answer(self, attempt: _Attempt, result: ToolResult) -> None:
        if self._settles(attempt):
            order = attempt.order
            answer(attempt.reply_to, Executed(order.turn, order.attempt_id, result))

    def _settles(self, attempt: _Attempt) -> bool:
        """Whether this is its one answer; a late result, and one of an attempt made anew, is not."""
        if self._attempts.get(attempt.key) is not attempt:
            return False
        del self._attempts[attempt.key]
        return True

    # ------------------------------------------------------------ results
    def _never_ran(self, order: Execute, why: _Stopped | None) -> ToolResult:
        late = why == "timeout"
        text = "no thread was free before its time was over" if late else "it was interrupted"
        error = _error(ErrorCategory.TRANSIENT, "NeverRan", f"{text}; the body never ran")
        if order.effect.is_write:
            return _result(order, ResultStatus.NOT_STARTED, error)
        return _result(order, ResultStatus.TIMEOUT if late else ResultStatus.CANCELLED, error)

    def _stopped(self, order: Execute, why: _Stopped) -> ToolResult:
        late = why == "timeout"
        limit = f"it exceeded its limit of {self._tool.timeout} s" if late else "it was interrupted"
        if order.effect.is_write:
            text = f"{limit}; it may or may not have taken effect"
            error = _error(ErrorCategory.INTERNAL, "OutcomeUnknown", text)
            return _result(order, ResultStatus.OUTCOME_UNKNOWN, error)
        status = ResultStatus.TIMEOUT if late else ResultStatus.CANCELLED
        kind = "Timeout" if late else "Cancelled"
        return _result(order, status, _error(ErrorCategory.TRANSIENT, kind, limit, retry=True))

    def _failed(self, order: Execute, error: BaseException) -> ToolResult:
        category, retryable = _classify(error)
        failure = _error(category, type(error).__name__, text_of(error), retry=retryable)
        if isinstance(error, _TELLS_NOTHING) and order.effect.is_write:
            return _result(order, ResultStatus.OUTCOME_UNKNOWN, failure)
        return _result(order, ResultStatus.ERROR, failure)


def _context(order: Execute) -> ToolContext:
    return ToolContext(
        order.invocation_id,
        order.turn,
        order.call_id,
        order.attempt_id,
        order.attempt,
        order.effect_key,
        order.principal,
    )


def _classify(error: BaseException) -> tuple[ErrorCategory, bool]:
    match error:
        case ToolFailure(category=category, retryable=retryable):
            return category, retryable
        case TimeoutError() | ConnectionError():
            return ErrorCategory.TRANSIENT, True
        case PermissionError():
            return ErrorCategory.PERMISSION, False
        case InvalidArgumentsError():
            # The tool has changed since they were checked.
            return ErrorCategory.INVALID_INPUT, False
        case _:
            return ErrorCategory.INTERNAL, False


def _error(category: ErrorCategory, kind: str, text: str, *, retry: bool = False) -> ToolError:
    return ToolError(category, kind, text, retry)


def _result(
    order: Execute,
    status: ResultStatus,
    error: ToolError | None = None,
    output: JsonValue = None,
) -> ToolResult:
    return ToolResult(
        order.call_id, order.tool_name, status, output, error, order.attempt, order.effect_key
    )
