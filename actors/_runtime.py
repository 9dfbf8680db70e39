"""The runtime: where agents, a store and actors come together, and what a service embeds."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import anyio

from loopwright.policy import Redact
from loopwright.protocol import (
    Budget,
    Cancel,
    CancelNote,
    ConfigurationError,
    Grant,
    Input,
    InvocationId,
    InvocationStateError,
    LoopwrightError,
    Outcome,
    Overloaded,
    Principal,
    Reason,
    Recover,
    RuntimeClosedError,
    dumps,
    loads,
)
from loopwright.stores import MemoryStore, Store

from ._adopting import Adopter
from ._answering import Answering
from ._clock import Clock, RealClock, sleep
from ._engine import Engine
from ._names import new_invocation_id
from ._outcomes import Outcomes
from ._run import Run
from ._said import check_limits, check_said, check_start
from ._starting import Beginning
from .definitions._agent import Agent, checked_agents
from .roles._listeners import Listener
from .tracing._redacting import Redacting
from .tracing._trace import RunObserver

LEASE_TTL: Final = 15.0
MAX_LIVE: Final = 10_000
LOOK_EVERY: Final = 0.1
"""Seconds between two looks at an invocation that another worker is to cancel."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What came of a recovery."""

    runs: tuple[Run, ...]
    """Taken over, and going on here."""
    already_here: tuple[Run, ...]
    """Were running in this runtime all along, and are left alone."""

    def __iter__(self) -> Iterator[Run]:
        """Go through what was taken over."""
        return iter(self.runs)

    def __len__(self) -> int:
        """Count what was taken over."""
        return len(self.runs)


logger = logging.getLogger("loopwright.runtime")


class Runtime(Answering):
    """Runs invocations of its agents, and keeps them in its store.

    It may be built anywhere, also at import time; it runs while it is entered, and may be
    entered again after it was left, in any event loop.

    Args:
        agents: Whose invocations it can run; names are unique.
        store: Where they are kept; by default only in memory.
        clock: Where time comes from.
        observers: Called with every trace event, in the context of the invocation's caller.
        max_live: Invocations that may be in memory at once.
        lease_ttl: Seconds after which this worker may be replaced once it no longer reports.
        adopt: Whether to look, all the time, for invocations whose owner is gone, and go on with
            them: for a service. Otherwise `recover` does that once.
        new_id: Makes invocation ids.
        redact: What models, tools and people say passes through it before anything is journaled
            or traced; see `loopwright.policy.Redactor`.

    Raises:
        ConfigurationError: For two agents of one name, one that hands over to, or has a tool that
            stands for, an agent that is not there, or a limit that cannot be meant.
    """

    def __init__(
        self,
        agents: Sequence[Agent],
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        observers: Iterable[RunObserver] = (),
        max_live: int = MAX_LIVE,
        lease_ttl: float = LEASE_TTL,
        adopt: bool = False,
        new_id: Callable[[], InvocationId] = new_invocation_id,
        redact: Redact | None = None,
    ) -> None:
        checked = checked_agents(agents)
        check_limits(max_live, lease_ttl)
        if store is None:
            timed = clock
            store = MemoryStore() if timed is None else MemoryStore(clock=lambda: timed.now()[0])
        super().__init__(store)
        self._agents = checked
        self._clock = clock or RealClock()
        self._observers = tuple(observers)
        self._max_live = max_live
        self._lease_ttl = lease_ttl
        self._adopt = adopt
        self._new_id = new_id
        self._redact = redact
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        """Open the store and start the service actors.

        Raises:
            StoreError: If the store can't be opened.
            ConfigurationError: If the runtime is entered already.
        """
        if self._engine is not None:
            msg = "this runtime is entered already; leave it first, or make another one"
            raise ConfigurationError(msg)
        engine = Engine(
            self.store,
            self._agents,
            self._clock,
            self._observers,
            self._lease_ttl,
            self._new_id,
            None if self._redact is None else Redacting(self._redact),
        )
        # Before anything is waited for: whoever enters meanwhile must be refused.
        self._engine, self._loop = engine, asyncio.get_running_loop()
        try:
            await engine.open()
        except BaseException:
            self._engine = self._loop = None
            raise
        if self._adopt:
            engine.system.spawn(Adopter(engine, self._max_live).run(), name="adopter")
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End everything; invocations still running are left to be recovered."""
        engine, self._engine, self._loop = self._entered, None, None
        with anyio.CancelScope(shield=True):
            await engine.close()

    # ------------------------------------------------------------ starting
    async def run(
        self,
        agent: str,
        goal: str,
        *,
        principal: Principal | None = None,
        budget: Budget | None = None,
        metadata: object = None,
        key: str | None = None,
    ) -> Outcome:
        """Start an invocation and wait until it is at rest; parameters as for `start`.

        If the awaiting task is cancelled, so is the invocation: it ends, durably, and then the
        cancellation goes on.
        """
        run = await self.start(
            agent, goal, principal=principal, budget=budget, metadata=metadata, key=key
        )
        try:
            return await run.outcome()
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True), suppress(LoopwrightError):
                run.cancel("the awaiting task was cancelled", by="runtime")
                await run.outcome()
            raise

    async def start(
        self,
        agent: str,
        goal: str,
        *,
        principal: Principal | None = None,
        budget: Budget | None = None,
        metadata: object = None,
        key: str | None = None,
        wait: bool = False,
    ) -> Run:
        """Start an invocation; it is durable when this returns.

        Args:
            agent: Name of one of the runtime's agents.
            goal: What is to be done, for the model.
            principal: On whose behalf.
            budget: Limits instead of the agent's own.
            metadata: Any JSON value, kept with the invocation and handed to the model.
            key: Makes starting idempotent: the same agent and key is the same invocation.
            wait: Where `max_live` is reached, wait for room instead of raising.

        Raises:
            ConfigurationError: If there is no such agent, or the goal is blank.
            RemoteProtocolError: If something has another type than it is declared with, is not
                JSON, or has a lone surrogate; names the path.
            Overloaded: If `max_live` invocations are in memory and `wait` is false.
            StoreError: If it could not be made durable; then it does not exist.
        """
        engine = self._entered
        definition = engine.agent(agent)
        check_start(goal, principal, budget, metadata, key)
        if key is not None:
            known = await self.store.find(agent, key)
            if known is not None:
                return Run(self, known)
        while len(engine.live) >= self._max_live:
            if not wait:
                msg = f"{self._max_live} invocations are live, the limit of this runtime; try later"
                raise Overloaded(msg)
            engine.room.clear()
            await engine.room.wait()
            engine = self._entered
        identity = await engine.starter.start(
            Beginning(
                agent,
                goal,
                principal or Principal(),
                budget or definition.budget,
                # A copy: the caller may change its own later.
                None if metadata is None else loads(dumps(metadata)),
                key,
            )
        )
        return Run(self, identity)

    # ------------------------------------------------------------ going on
    async def resume(
        self, invocation_id: str, *, grant: Budget | None = None, by: str = "caller"
    ) -> Outcome:
        """Let an invocation go on and wait until it is at rest.

        One that a dead worker left running is recovered; one that failed with a resumable
        reason goes on, with more budget if given; one that waits for a reconciliation asks the
        reconcilers again; one that is over is only reported.

        Args:
            invocation_id: Which invocation.
            grant: Limits to add to those in force; a deadline replaces the old one. Every limit
                of it counts, its default of 20 steps too: ``max_steps=0`` grants the others alone.
                Its `max_handoffs`, `reserve_steps` and `soft_ratio` do not: they stay as they are.
            by: Who lets it go on.

        Raises:
            InvocationStateError: If it waits for an approval or an answer, of its own or of a
                child.
            RemoteProtocolError: If `grant` or `by` has another type.
            LeaseHeldError: If another live worker is at work on it.
        """
        identity = InvocationId(invocation_id)
        engine = self._entered
        if identity not in engine.live:
            head = (await self.store.summary(identity)).head
            if head.status == "running":
                await self._say(identity, Recover())
            elif head.reason is Reason.RECONCILIATION_REQUIRED:
                await self._say(identity, Grant(grant, by))
            elif head.status == "suspended":
                msg = f"invocation {identity} is suspended: {head.reason}; {_advice(head.reason)}"
                raise InvocationStateError(msg)
            elif head.reason is not None and (head.reason.resumable or grant is not None):
                await self._say(identity, Grant(grant, by))
        return await self.outcome(identity)

    async def recover(self) -> Recovery:
        """Take over every invocation of these agents that is running and whose owner is gone.

        Those whose owner is alive are left alone, here and elsewhere. One whose journal is
        damaged is logged, and does not keep the others from going on.

        Raises:
            StoreError: If the store fails.
        """
        found = await Adopter(self._entered, self._max_live).look()
        return Recovery(
            tuple(Run(self, identity) for identity in found.taken),
            tuple(Run(self, identity) for identity in found.here),
        )

    # ------------------------------------------------------------ looking
    def get(self, invocation_id: str) -> Run:
        """Return a handle; whether there is such an invocation shows when it is used."""
        return Run(self, InvocationId(invocation_id))

    async def outcome(self, invocation_id: str) -> Outcome:
        """Wait until an invocation is at rest; see `Run.outcome`.

        One that waits for what a child waits for shows the child's proposal or question; while
        its child is at work here, it is waited for too.
        """
        return await Outcomes(self._entered).wait(InvocationId(invocation_id))

    def statistics(self) -> tuple[int, int]:
        """Count invocations in memory, and actors."""
        engine = self._entered
        return len(engine.live), engine.system.statistics().actors

    # ------------------------------------------------------------ for handles
    def request_cancel(
        self, invocation_id: InvocationId, reason: str, *, by: str, hard: bool
    ) -> None:
        """Ask a live invocation to stop, from any thread; used by `Run.cancel`."""
        engine, loop, cancel = self._entered, self._loop, Cancel(reason, by, hard)
        check_said(cancel)
        assert loop is not None

        def ask() -> None:
            live = engine.live.get(invocation_id)
            if live is not None:
                engine.system.spawn(engine.cancel(live, cancel))

        loop.call_soon_threadsafe(ask)

    def watch(self, invocation_id: InvocationId) -> asyncio.Event | None:
        """Return what is set when a live invocation commits something next."""
        live = self._entered.live.get(invocation_id)
        if live is None:
            return None
        live.advanced = live.advanced or asyncio.Event()
        return live.advanced

    def listening(self, invocation_id: InvocationId) -> AbstractContextManager[Listener]:
        """Listen to what is said in an invocation before it is committed; see `Run.events`."""
        return self._entered.listeners.listening(invocation_id)

    # ------------------------------------------------------------ inside
    @property
    def _names_approvers(self) -> bool:
        return any(agent.policy.may_approve is not None for agent in self._agents)

    def _agent(self, name: str) -> Agent:
        return self._entered.agent(name)

    @property
    def _entered(self) -> Engine:
        if self._engine is None:
            raise RuntimeClosedError("the runtime is not entered; use `async with runtime:`")
        return self._engine

    async def _say(self, invocation_id: str, message: Input) -> Run:
        identity = InvocationId(invocation_id)
        check_said(message)
        await self._entered.command(identity, message, contextvars.copy_context())
        return Run(self, identity)

    @property
    def _redacting(self) -> Redacting | None:
        return self._entered.redacting

    async def _cancel_elsewhere(self, note: CancelNote) -> Outcome | None:
        if (redacting := self._entered.redacting) is not None:
            note = note._replace(reason=redacting.text(note.reason, "person"))
        await self.store.request_cancel(note)
        while True:
            # Asked each time: a closed runtime is to say so itself, not its store.
            summary = await self._entered.store.summary(note.invocation_id)
            if summary.head.status == "ended":
                return await self.outcome(note.invocation_id)
            if not summary.owner_alive:
                return None
            await sleep(self._clock, LOOK_EVERY)


def _advice(reason: object) -> str:
    return getattr(reason, "advice", "say what it waits for")
