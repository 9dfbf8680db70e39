"""The engine room of an entered runtime: service actors, and the invocations in memory."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from loopwright.protocol import (
    Append,
    Cancel,
    ConfigurationError,
    Entry,
    Head,
    Input,
    InvocationEnded,
    InvocationId,
    InvocationState,
    Lease,
    LoopwrightError,
    Outcome,
    ProtocolError,
    Reason,
    Recover,
    RuntimeClosedError,
    encode_record,
)
from loopwright.stores import Store

from ._agent import Agent
from ._clock import Clock, sleep
from ._committer import Committer
from ._core import outcome_of
from ._decider import Decider
from ._executor import ToolExecutor
from ._live import Live, state_of, streak_of
from ._machine import Machine
from ._supervisor import Routes, Supervisor
from ._tool import AnyTool
from ._trace import RunObserver
from ._tracker import ProgressTracker
from ._validator import Validator
from .kernel import ActorDeadError, ActorFailed, ActorRef, ActorSystem, ChildSpec, Lane

MAILBOX: Final = 100_000
"""Messages a service actor may have waiting; live invocations are bounded far below."""
_SERVICE: Final = ChildSpec(restart="permanent")

T = TypeVar("T")

logger = logging.getLogger("loopwright.runtime")


class Engine:
    """Everything that runs while a runtime is entered."""

    def __init__(
        self,
        store: Store,
        agents: Sequence[Agent],
        clock: Clock,
        observers: tuple[RunObserver, ...],
        worker: str,
        lease_ttl: float,
    ) -> None:
        self.store = store
        self.clock = clock
        self.live: dict[InvocationId, Live] = {}
        self.room = asyncio.Event()
        """Set whenever an invocation leaves memory."""
        self.system = ActorSystem("loopwright", mailbox_capacity=MAILBOX)
        self._agents = {agent.name: agent for agent in agents}
        self._routes: dict[str, Routes] = {}
        self._observers = observers
        self.worker = worker
        self._lease_ttl = lease_ttl
        self._reviving: dict[InvocationId, asyncio.Task[Live | Exception]] = {}

    # ------------------------------------------------------------ opening and closing
    async def open(self) -> None:
        """Open the store, start the service actors, and report as alive."""
        await self.store.open()
        try:
            await self.store.heartbeat(self.worker, self._lease_ttl)
            await self.system.__aenter__()
        except BaseException:
            await self.store.close()
            raise
        committer = self.system.start(Committer, self.store, self.clock, spec=_SERVICE)
        executors: dict[int, ActorRef[ToolExecutor]] = {}
        for agent in self._agents.values():
            self._routes[agent.name] = Routes(
                self.system.start(Decider, agent, spec=_SERVICE),
                self.system.start(Validator, agent, spec=_SERVICE),
                committer,
                {name: self._executor(tool, executors) for name, tool in agent.tools.items()},
            )
        self.system.spawn(self._report(), name="heartbeat")

    def _executor(
        self, tool: AnyTool, known: dict[int, ActorRef[ToolExecutor]]
    ) -> ActorRef[ToolExecutor]:
        """One executor per tool, also where several agents share it."""
        if id(tool) not in known:
            known[id(tool)] = self.system.start(ToolExecutor, tool, self.clock, spec=_SERVICE)
        return known[id(tool)]

    async def close(self) -> None:
        """Leave what still runs to be recovered, end everything, and let go of the store."""
        for live in tuple(self.live.values()):
            live.fail(
                RuntimeClosedError(
                    f"the runtime was closed while invocation {live.invocation_id} was running; "
                    "recover() in another runtime goes on with it"
                )
            )
        self.live.clear()
        try:
            await self.system.__aexit__(None, None, None)
            await self._say_goodbye()
        finally:
            await self.store.close()

    async def _say_goodbye(self) -> None:
        """Let others take over at once; if they can't be told, they can once the lease ends."""
        try:
            await self.store.heartbeat(self.worker, 0)
        except LoopwrightError as error:
            logger.warning("This worker could not say that it is gone: %s", error)

    async def _report(self) -> None:
        while True:
            await sleep(self.clock, self._lease_ttl / 3)
            try:
                await self.store.heartbeat(self.worker, self._lease_ttl)
            except LoopwrightError as error:
                logger.warning("This worker could not report as alive: %s", error)

    # ------------------------------------------------------------ invocations in memory
    def agent(self, name: str) -> Agent:
        """Find an agent.

        Raises:
            ConfigurationError: If this runtime has no agent of that name.
        """
        found = self._agents.get(name)
        if found is None:
            known = ", ".join(self._agents) or "none"
            msg = f"this runtime has no agent named {name!r}; it has: {known}"
            raise ConfigurationError(msg)
        return found

    def bring_up(
        self, agent: Agent, state: InvocationState, lease: Lease, context: contextvars.Context
    ) -> Live:
        """Give an invocation its two actors."""
        live = Live(lease, agent, context)
        self._start_actors(live, state)
        self.live[lease.invocation_id] = live
        return live

    def _start_actors(self, live: Live, state: InvocationState) -> None:
        progress = live.agent.policy.progress
        streak = streak_of(state.business.turns, progress)
        live.tracker = self.system.start(ProgressTracker, progress, streak)
        machine = Machine(state, live.agent.policy, worker=self.worker, fence=live.lease.fence)
        live.supervisor = self.system.start(
            Supervisor,
            machine,
            self._routes[live.agent.name],
            live.tracker,
            self.clock,
            live.context,
            live.progressed,
            partial(self._rested, live),
            self._observers,
            spec=ChildSpec(on_failure=partial(self._crashed, live)),
        )

    async def _revive_once(self, invocation_id: InvocationId, context: contextvars.Context) -> Live:
        """Bring an invocation into memory if it is not; several callers at once do it once."""
        live = self.live.get(invocation_id)
        if live is not None:
            return live
        task = self._reviving.get(invocation_id)
        if task is None:
            task = self.system.spawn(_caught(self._revive(invocation_id, context)))
            self._reviving[invocation_id] = task
            task.add_done_callback(lambda _: self._reviving.pop(invocation_id, None))
        return _value(await asyncio.shield(task))

    async def _revive(self, invocation_id: InvocationId, context: contextvars.Context) -> Live:
        lease = await self.store.acquire(invocation_id, self.worker)
        try:
            state = state_of(await self.store.load(invocation_id))
            agent = self.agent(state.protocol.started.agent)
            return self.bring_up(agent, state, lease, context)
        except BaseException:
            await self.store.release(lease)
            raise

    async def command(
        self, invocation_id: InvocationId, message: Input, context: contextvars.Context
    ) -> Live:
        """Say something to an invocation, wherever it is; returns once it is durable.

        What has begun is finished, also where the caller is cancelled meanwhile: an invocation
        that was woken must not lie in memory, owned and unanswered.

        Raises:
            ProtocolError: If it can't be granted; nothing has changed.
            RuntimeClosedError: If the runtime is closed before it is durable.
        """
        task = self.system.spawn(_caught(self._command(invocation_id, message, context)))
        try:
            return _value(await asyncio.shield(task))
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            msg = f"the runtime was closed before invocation {invocation_id} had answered"
            raise RuntimeClosedError(msg) from None

    async def _command(
        self, invocation_id: InvocationId, message: Input, context: contextvars.Context
    ) -> Live:
        while True:
            live = await self._revive_once(invocation_id, context)
            try:
                await live.supervisor.ask(message, block=False, lane=Lane.CONTROL)
            except ActorDeadError:
                # It came to rest in this very moment: it can be spoken to in the store. Or it
                # has crashed: then others must get their turn for it to be rebuilt.
                await asyncio.sleep(0)
                continue
            except ProtocolError:
                if self.live.get(invocation_id) is not live:
                    # Woken for nothing, it rests again.
                    await self.store.release(live.lease)
                raise
            return live

    async def cancel(self, live: Live, message: Cancel) -> None:
        """Ask an invocation in memory to stop; if it is over meanwhile, that is fine too."""
        with contextlib.suppress(ActorDeadError, LoopwrightError):
            await live.supervisor.ask(message, block=False, lane=Lane.CONTROL)

    def _forget(self, live: Live) -> None:
        """Let it leave memory; by then another one may stand in its place."""
        if self.live.get(live.invocation_id) is live:
            del self.live[live.invocation_id]
        self.room.set()

    def _rested(self, live: Live, outcome: Outcome) -> None:
        self._forget(live)
        live.supervisor.stop(block=False)
        live.tracker.stop(block=False)
        live.finish(outcome)

    # ------------------------------------------------------------ crashes of a Supervisor
    def _crashed(self, live: Live, failure: ActorFailed) -> None:
        """A bug of ours: rebuild the invocation from its journal once, then end it."""
        if self.live.get(live.invocation_id) is not live:
            return
        live.crashes += 1
        self.system.spawn(self._rebuild(live, failure.error), name="rebuild")

    async def _rebuild(self, live: Live, error: BaseException) -> None:
        live.tracker.stop(block=False)
        cause = f"{type(error).__name__}: {error}"
        try:
            # A new fence: what the crashed one still has on its way must not arrive any more.
            live.lease = await self.store.acquire(live.invocation_id, self.worker)
            state = state_of(await self.store.load(live.invocation_id))
            reason = state.protocol.reason
            if reason is not None:
                # It had come to rest, and only did not get to say so.
                await self.store.release(live.lease)
                self._forget(live)
                live.finish(outcome_of(state, reason, state.protocol.cause))
            elif live.crashes > 1:
                await self._give_up(live, state, cause)
            else:
                self._start_actors(live, state)
                live.supervisor.tell(Recover())
        except Exception as second:
            logger.exception("Invocation %s could not be rebuilt:", live.invocation_id)
            self._forget(live)
            live.fail(second)

    async def _give_up(self, live: Live, state: InvocationState, cause: str) -> None:
        """End it with `internal_error`; its last commit stands, and a resume goes on from there."""
        at, p = self.clock.now().wall, state.protocol
        ended = InvocationEnded(Reason.INTERNAL_ERROR, p.active_seconds, at, cause=cause)
        line = encode_record(ended)
        head = Head(p.started.agent, "ended", Reason.INTERNAL_ERROR, at)
        lease = live.lease
        append = Append(live.invocation_id, lease.fence, p.seq + 1, (line,), lease.worker, head)
        (refused,) = await self.store.append([append])
        if refused is not None:
            raise refused
        state.apply(Entry(ended, line))
        self._forget(live)
        live.finish(outcome_of(state, Reason.INTERNAL_ERROR, cause))


async def _caught(work: Coroutine[Any, Any, T]) -> T | Exception:
    """Hand an error back instead of raising it: it belongs to the caller, not to the system."""
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - it is raised again where it belongs
        return error


def _value(done: T | Exception) -> T:
    if isinstance(done, Exception):
        raise done
    return done
