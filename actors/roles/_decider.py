"""The Decider: one per agent, shared by all its invocations. It alone calls the models.

Each model of a chain gets its retries before the next one is asked. An attempt is one task;
between two attempts there is only a timer. Every failed attempt is told before anything is waited
for, so that it is journaled and charged.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeAlias

from loopwright.policy import CHARS_PER_TOKEN, Failure, classify, seconds_after
from loopwright.protocol import (
    NO_USAGE,
    AttemptFailed,
    CancelDecide,
    Decide,
    Decided,
    DecideFailed,
    Discarded,
    Input,
    InvocationId,
    Live,
    LiveText,
    ModelError,
    ModelErrorKind,
    TextDelta,
    Usage,
)

from .._clock import Clock, Instant, Timer
from .._work import Work, described, first_cause, passes_through
from ..definitions._agent import Agent
from ..definitions._models import Endpoint, endpoints_of
from ..kernel import ActorRef, Request
from ._asking import Asking
from ._breakers import Breakers
from ._listeners import Listeners
from ._replies import checked, checked_replay, decision_of, estimated, heard_of, is_usage
from ._requests import Requests
from ._service import Service, answer, answer_last

_Key: TypeAlias = tuple[InvocationId, int]
_Say: TypeAlias = Callable[[ActorRef[Any], Input], None]

REPLY_TOKENS: Final = 1_000
"""What a reply is taken to need where it is asked whether a model can hold a request."""
CLOSE_TIMEOUT: Final = 2.0
"""Seconds a model gets to close what it holds open."""
_CANCELLED: Final = "the model call was cancelled"
_RETRIED: Final = (ModelErrorKind.TRANSIENT, ModelErrorKind.RATE_LIMITED)


logger = logging.getLogger("loopwright.runtime")


class Decider(Service[Decide | CancelDecide]):
    """Asks one agent's models, and parses what they say at the edge.

    Args:
        agent: Whose models, retries and breaker rule.
        clock: Time.
        breakers: Of all endpoints of the runtime.
        listeners: Who is told what a model says while it speaks; `None`: nobody may be.
        random: Where jitter comes from: from 0 up to, not including, 1.
    """

    def __init__(
        self,
        agent: Agent,
        clock: Clock,
        breakers: Breakers,
        listeners: Listeners | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        super().__init__()
        self._clock = clock
        self._breakers = breakers
        self._listeners = listeners
        self._random = random
        self._retry = agent.policy.retry
        self._breaker = agent.policy.breaker
        self._requests = Requests(agent)
        self._endpoints = endpoints_of(agent.model)
        self._finishing = (
            self._endpoints if agent.finish_model is None else endpoints_of(agent.finish_model)
        )
        self._asked: dict[_Key, Asking] = {}
        self._limited: dict[Asking, None] = {}
        """Those whose attempt has a limit, in the order in which they were begun."""
        self._sweep_at = 0.0
        self._sweeper: Timer | None = None
        self._work = Work()

    def serve(self, request: Request[Decide | CancelDecide]) -> None:
        """Begin to ask, or give it up."""
        order = request.message
        before = self._asked.get((order.invocation_id, order.turn))
        if before is not None:
            # Also where a rebuilt Supervisor asks again: nobody waits for the first one any more.
            self._cancel(before)
        if isinstance(order, CancelDecide):
            return
        endpoints = self._finishing if order.allowance.finish else self._endpoints
        asking = Asking(order, request.reply_to, request.context, endpoints)
        self._asked[order.invocation_id, order.turn] = asking
        self._next(asking)

    async def post_stop(self) -> None:
        """End what still runs; a model that does not obey is abandoned."""
        for asking in tuple(self._asked.values()):
            self._cancel(asking)
        await self._work.close()
        for asking in self._asked.values():
            self._let_go(asking)
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._close_models()

    async def _close_models(self) -> None:
        """Let models close what they hold open; one that fails at that, or hangs, is left."""
        # By identity: a model need not be hashable.
        each = {id(one.model): one for one in (*self._endpoints, *self._finishing)}
        for endpoint in each.values():
            if endpoint.aclose is None:
                continue
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await endpoint.aclose()
            except Exception as error:  # noqa: BLE001 - a model is foreign code
                logger.warning("Model %s could not be closed: %s", endpoint.name, described(error))

    # ------------------------------------------------------------ one attempt
    def _next(self, asking: Asking) -> None:
        """Ask whom it is up to, unless that one cannot be asked just now."""
        endpoint, asking.timer = asking.endpoint, None
        asking.attempts += 1
        asking.tries += 1
        if not asking.affordable:
            self._pass_over(asking, f"{endpoint.name} was not asked: the cost budget is used up")
            return
        entered = self._breakers.enter(endpoint.name, self._breaker)
        if entered is None:
            self._pass_over(asking, f"{endpoint.name} was not asked: its breaker is open")
            return
        asking.entered = entered
        asking.task = self._work.start(self._attempt(asking, endpoint), asking.context)
        self._bound(asking, endpoint)

    def _bound(self, asking: Asking, endpoint: Endpoint) -> None:
        """Limit an attempt: as the model says, and to the time there is."""
        until, limit = asking.order.allowance.until, endpoint.timeout
        if until is None and limit is None:
            return
        now = self._clock.now().monotonic
        if until is not None:
            left = max(0.0, until - now)
            limit = left if limit is None or left < limit else limit
        assert limit is not None
        asking.limit, asking.due = limit, now + limit
        self._limited[asking] = None
        self._sweep_by(asking.due)

    def _sweep_by(self, due: float) -> None:
        """Look for attempts whose time is over then: one timer is for all, and is left running."""
        if self._sweeper is not None:
            if self._sweep_at <= due:
                return
            self._sweeper.cancel()
        self._sweep_at, self._sweeper = due, self._clock.call_at(due, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._clock.now().monotonic
        for asking in sorted(self._limited, key=attrgetter("due")):
            if asking.due > now:
                self._sweep_by(asking.due)
                return
            if asking.task is not None:
                self._timed_out(asking, asking.task)

    async def _attempt(self, asking: Asking, endpoint: Endpoint) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            asking.request = request = self._requests.build(asking.order, endpoint)
            if endpoint.stream is None:
                reply = checked(await endpoint.model.decide(request))
            else:
                reply = checked(await self._hear(asking, endpoint, endpoint.stream(request)))
        except BaseException as error:  # noqa: BLE001 - a model is foreign code
            cause = first_cause(error)
            if passes_through(cause, task):
                # The loop hands on an interrupt, but not a group that holds one.
                raise cause from None
            if asking.task is task:
                self._fell(asking, cause, answer_last)
            return
        finally:
            self._work.ended(task)
        if asking.task is not task:
            return
        self._breakers.succeeded(endpoint.name, asking.entered)
        usage = reply.usage
        if not is_usage(usage):
            usage = estimated(self._requests.input_tokens(request), reply.decision)
        decided = Decided(
            asking.order.turn,
            decision_of(reply.decision),
            usage,
            reply.model,
            reply.response_id,
            asking.attempts,
            endpoint.name,
            reply.stop_reason,
            checked_replay(reply.replay),
        )
        self._end(asking, decided, answer_last)

    async def _hear(
        self, asking: Asking, endpoint: Endpoint, pieces: AsyncIterator[object]
    ) -> object:
        """Take a reply that comes in pieces, and tell of them as they come."""
        order, reply = asking.order, None
        task = asyncio.current_task()
        try:
            async for piece in pieces:
                if not isinstance(piece, TextDelta):
                    reply = piece
                    continue
                text = heard_of(piece.text)
                if text and asking.task is task and not asking.stopped:
                    asking.heard += len(text)
                    self._tell(asking, LiveText(order.turn, asking.attempts, endpoint.name, text))
        finally:
            if isinstance(pieces, AsyncGenerator):
                # Not left to the garbage collector: its connection ends here.
                await pieces.aclose()
        if reply is None:
            raise ModelError("the stream ended before the reply was complete")
        return reply

    def _tell(self, asking: Asking, live: Live) -> None:
        if self._listeners is not None:
            self._listeners.tell(asking.order.invocation_id, live)

    def _unsay(self, asking: Asking, why: str) -> None:
        """Tell who has heard some of an attempt that it counts for nothing."""
        if asking.heard:
            asking.heard = 0
            name = asking.endpoint.name
            self._tell(asking, Discarded(asking.order.turn, asking.attempts, name, why))

    def _timed_out(self, asking: Asking, task: asyncio.Task[None]) -> None:
        """Wait no longer for an attempt; it is told to end, and may not obey."""
        asking.task = None
        self._work.interrupt(task)
        self._fell(asking, TimeoutError(f"it gave no reply within {asking.limit:g} s"), answer)

    def _cancel(self, asking: Asking) -> None:
        asking.stopped = True
        self._unsay(asking, _CANCELLED)
        if asking.task is None:
            self._end(asking, DecideFailed(asking.order.turn, _CANCELLED), answer)
            return
        # A probe that does not obey must not keep its place.
        self._breakers.left(asking.endpoint.name, asking.entered)
        self._work.interrupt(asking.task)

    # ------------------------------------------------------------ and what comes after it
    def _fell(self, asking: Asking, cause: BaseException, say: _Say) -> None:
        """An attempt has given no reply."""
        failure, name = classify(cause), asking.endpoint.name
        if failure.counts:
            self._breakers.failed(name, self._breaker, asking.entered)
        else:
            self._breakers.left(name, asking.entered)
        text = _CANCELLED if isinstance(cause, asyncio.CancelledError) else described(cause)
        if asking.stopped:
            self._end(asking, DecideFailed(asking.order.turn, text), say)
        else:
            self._failed(asking, failure, text, self._used(asking, cause, failure), say)

    def _used(self, asking: Asking, cause: BaseException, failure: Failure) -> Usage:
        """Say what to charge for a failed attempt: what the provider says.

        One that has timed out or has said something was at work for us, and whoever says something
        unusable has charged.
        """
        if is_usage(failure.usage):
            return failure.usage
        worked = asking.heard or isinstance(cause, TimeoutError)
        if failure.usage is None and not worked:
            return NO_USAGE
        return Usage(self._sent(asking), asking.heard // CHARS_PER_TOKEN, estimated=True)

    def _sent(self, asking: Asking) -> int:
        return 0 if asking.request is None else self._requests.input_tokens(asking.request)

    def _pass_over(self, asking: Asking, text: str) -> None:
        self._failed(asking, Failure(ModelErrorKind.UNAVAILABLE), text, NO_USAGE, answer)

    def _failed(self, asking: Asking, failure: Failure, text: str, usage: Usage, say: _Say) -> None:
        """Tell of it, then try again, ask the next one, or give up."""
        endpoint, turn = asking.endpoint, asking.order.turn
        self._let_go(asking)
        asking.charge(usage)
        if failure.kind is ModelErrorKind.CONTEXT_TOO_LONG:
            needed = self._sent(asking) + REPLY_TOKENS
            asking.need = max(needed, (endpoint.context_window or 0) + 1)
        now = self._clock.now()
        over, after = asking.used_up(now.monotonic), seconds_after(failure.retry_after, now.wall)
        impatient = self._retry.impatient(after) if failure.kind in _RETRIED else ""
        text += impatient
        wait = None if impatient else self._wait(asking, failure.kind, after, now)
        goes_on = wait is not None or asking.move_on(failure.kind)
        retry_in = wait if wait is not None and over is None else 0.0
        self._unsay(asking, text)
        told = AttemptFailed(
            turn, asking.attempts, endpoint.name, failure.kind, text, usage, retry_in
        )
        answer(asking.reply_to, told)
        if not goes_on:
            self._end(asking, DecideFailed(turn, text, failure.kind), say)
        elif over is not None:
            unasked = f"{asking.endpoint.name} was not asked: {over}"
            self._end(asking, DecideFailed(turn, unasked, ModelErrorKind.UNAVAILABLE), say)
        elif retry_in:
            due = now.monotonic + retry_in
            asking.timer = self._clock.call_at(due, partial(self._next, asking))
        else:
            self._next(asking)

    def _wait(
        self, asking: Asking, kind: ModelErrorKind, after: float | None, now: Instant
    ) -> float | None:
        """Say how long to wait until the same model is asked again; `None`: it is not."""
        if kind not in _RETRIED or asking.tries >= self._retry.max_attempts:
            return None
        if not asking.affordable:
            return 0.0  # that it cannot be asked is no reason to wait
        until = asking.order.allowance.until
        wait = self._retry.wait(asking.tries, after, self._random())
        late = until is not None and now.monotonic + wait >= until
        shut = self._breakers.refuses(asking.endpoint.name, self._breaker, after=wait)
        return None if late or shut else wait

    def _end(self, asking: Asking, said: Decided | DecideFailed, say: _Say) -> None:
        self._let_go(asking)
        key = (asking.order.invocation_id, asking.order.turn)
        # One that outlived its cancellation may have been asked anew meanwhile.
        if self._asked.get(key) is asking:
            del self._asked[key]
        say(asking.reply_to, said)

    def _let_go(self, asking: Asking) -> None:
        asking.task = None
        self._limited.pop(asking, None)
        if asking.timer is not None:
            asking.timer.cancel()
            asking.timer = None
