"""The Supervisor: the shell of one invocation's machine.

It carries messages between mailboxes and the machine, and keeps the one timer. It never waits
in a handler, so a cancel is always the next thing it hears.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from loopwright.protocol import (
    Answer,
    AnswerApproval,
    Assess,
    Cancel,
    CancelDecide,
    CancelVerify,
    Commit,
    CommitFailed,
    Committed,
    Compact,
    Decide,
    DecideInstead,
    Execute,
    Expire,
    Found,
    Grant,
    HandOver,
    Input,
    Interrupt,
    Late,
    Observe,
    Output,
    ProtocolError,
    Reconcile,
    Recover,
    Rested,
    Settle,
    StoreError,
    Tick,
    Validate,
    Verify,
    Wake,
    unknown,
)

from .._clock import Clock, Instant, Timer
from ..kernel import Actor, ActorDeadError, ActorRef, Request, SystemClosedError
from ..machine._core import LINGER
from ..machine._machine import Machine
from ..tracing._trace import RunObserver, Tracer
from ._service import answer

_COMMANDS = frozenset(
    {Recover, Cancel, AnswerApproval, Answer, Settle, Grant, DecideInstead, Expire, Wake}
)
"""Messages whose sender waits until what they made happen is durable."""


@dataclass(frozen=True, slots=True)
class Routes:
    """Where a Supervisor's messages go: the service actors of its agent and of the runtime."""

    decider: ActorRef[Any]
    validator: ActorRef[Any]
    committer: ActorRef[Any]
    executors: Mapping[str, ActorRef[Any]]
    """By name of their tool."""
    verifier: ActorRef[Any]
    summarizer: ActorRef[Any]
    children: ActorRef[Any]
    """Who follows a child that is known, whatever its tool is called today."""


class _Crash(NamedTuple):
    """What it tells itself when the machine has failed over a message that somebody asked."""

    error: Exception


class Supervisor(Actor):
    """One per live invocation.

    Args:
        machine: The state machine, with what is durable already folded in.
        routes: The service actors.
        tracker: The invocation's own ProgressTracker.
        clock: Time.
        context: The caller's context variables; its model, tools and observers see them.
        progressed: Called after each commit.
        rested: Called once; the invocation leaves memory.
        observers: Who hears of everything.
        handed_over: Called when another agent takes over; says where messages go from then on,
            and who judges progress.
        redact: What is said passes through it first: nothing else is journaled or traced.
    """

    def __init__(
        self,
        machine: Machine,
        routes: Routes,
        tracker: ActorRef[Any],
        clock: Clock,
        context: contextvars.Context,
        progressed: Callable[[], None],
        rested: Callable[[Rested], None],
        observers: tuple[RunObserver, ...],
        handed_over: Callable[[str], tuple[Routes, ActorRef[Any]]],
        redact: Callable[[Input], Input] | None = None,
    ) -> None:
        super().__init__()
        self._me = self.actor_ref
        self._machine = machine
        self._routes = routes
        self._tracker = tracker
        self._clock = clock
        self._context = context
        self._progressed = progressed
        self._rested = rested
        self._tracer = Tracer(machine.invocation_id, observers) if observers else None
        self._handed_over = handed_over
        self._redact = redact
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._unsettled: list[tuple[int, asyncio.Future[None]]] = []
        """Commands whose records are not durable yet: the seq to reach, and who waits."""
        self._sent = machine.folded.protocol.seq
        self._left = False
        """Whether it has come to rest, and another one may already be at work on it."""

    def on_receive(self, message: Input | _Crash) -> object:
        """Hand a message to the machine and carry out what it says.

        A command is answered once everything it made the machine write is durable.
        """
        if isinstance(message, _Crash):
            raise message.error
        if self._left:
            self._too_late(message)
            return None
        machine, sent, now = self._machine, self._sent, self._clock.now()
        try:
            if self._redact is not None:
                message = self._redact(message)
            outputs = (
                machine.on(message, now) if self._tracer is None else self._observed(message, now)
            )
        except ProtocolError:
            if (rested := machine.resting) is not None:
                # Woken for something it can't grant, it rests as before.
                self._leave(rested)
            raise
        except Exception as error:
            if type(message) in _COMMANDS:
                # Whoever asked is told; and then it is a crash, as over any other message.
                self._me.tell(_Crash(error))
            raise
        for output in outputs:
            to = self._addressee(output)
            if to is not None:
                to.tell(Request(output, self._me, self._context))
            elif isinstance(output, Rested):
                self._leave(output)
            elif isinstance(output, HandOver):
                try:
                    self._routes, self._tracker = self._handed_over(output.agent)
                except SystemClosedError:
                    # The handoff is durable; whoever recovers it goes on from there.
                    return None
            elif isinstance(output, Reconcile):
                # Its tool is gone.
                gone = unknown(f"there is no tool {output.tool_name!r} any more")
                self._me.tell(Found(output.turn, output.attempt_id, gone))
        if self._timer is None or self._timer_at > now.monotonic + LINGER:
            self._keep_timer(machine.wake_at)
        if isinstance(message, Committed):
            self._settle(message.last_seq)
            self._progressed()
        elif isinstance(message, CommitFailed):
            self._fail(message.error)
        elif type(message) in _COMMANDS and self._sent > sent:
            return self._durable(self._sent)
        if self._left:
            # What is still on its way to the store nobody here will hear of.
            self._fail("it came to rest, and whether this was stored is not known")
        return None

    def on_stop(self) -> None:
        """Leave no timer and no waiter behind."""
        if self._timer is not None:
            self._timer.cancel()
        self._fail("the runtime was closed before it was durable")

    def _leave(self, rested: Rested) -> None:
        self._left = True
        self._rested(rested)

    def _too_late(self, message: Input) -> None:
        """Take nothing any more: what has left memory goes on only from the store."""
        if type(message) in _COMMANDS:
            invocation_id = self._machine.invocation_id
            msg = f"invocation {invocation_id} has come to rest: it is to be spoken to in the store"
            raise ActorDeadError(msg)

    def _addressee(self, output: Output) -> ActorRef[Any] | None:
        """Who an output is for; nobody, if it only says what has happened."""
        routes = self._routes
        match output:
            case Execute() | Interrupt():
                return routes.executors[output.tool_name]
            case Reconcile(child=None):
                return routes.executors.get(output.tool_name)
            case Reconcile():
                return routes.children
            case Commit():
                self._sent = output.append.last_seq
                return routes.committer
            case Assess() | Observe():
                return self._tracker
            case Validate():
                return routes.validator
            case Decide() | CancelDecide():
                return routes.decider
            case Verify() | CancelVerify():
                return routes.verifier
            case Compact():
                return routes.summarizer
            case HandOver() | Rested() | Late():
                return None

    # ------------------------------------------------------------ time
    def _keep_timer(self, wake_at: float | None) -> None:
        """Set the timer, if it is to fire sooner than it would.

        It is never moved back, and not looked at where it is due within a moment anyway: firing
        early costs a tick that finds nothing due, moving it would cost something every message.
        """
        if wake_at is None or (self._timer is not None and wake_at >= self._timer_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = wake_at
        self._timer = self._clock.call_at(wake_at, self._wake)

    def _wake(self) -> None:
        self._timer = None
        answer(self.actor_ref, Tick())

    # ------------------------------------------------------------ durability of commands
    def _durable(self, seq: int) -> Coroutine[Any, Any, None]:
        """Wait until `seq` is durable; it counts from now, a fast store may be done at once."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unsettled.append((seq, done))
        return _until(done)

    def _settle(self, seq: int) -> None:
        if not self._unsettled:
            return
        for reached, done in self._unsettled:
            if reached <= seq and not done.done():
                done.set_result(None)
        self._unsettled = [(r, d) for r, d in self._unsettled if not d.done()]

    def _fail(self, why: str) -> None:
        for _, done in self._unsettled:
            if not done.done():
                done.set_exception(StoreError(why))
        self._unsettled.clear()

    # ------------------------------------------------------------ trace
    def _observed(self, message: Input, now: Instant) -> tuple[Output, ...]:
        """Handle a message under the eyes of the observers, in the caller's context."""
        machine, tracer = self._machine, self._tracer
        assert tracer is not None
        before, turn = machine.state, machine.turn
        outputs = machine.on(message, now)
        states = (before, *machine.trail)
        self._context.copy().run(tracer.observe, now, message, outputs, states, turn, machine.turn)
        return outputs


async def _until(done: asyncio.Future[None]) -> None:
    await done
