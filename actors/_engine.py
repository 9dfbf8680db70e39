"""The engine room of an entered runtime: service actors, and the invocations in memory."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from loopwright.policy import Tracking
from loopwright.protocol import (
    Cancel,
    ConfigurationError,
    Execute,
    Input,
    InvocationId,
    InvocationState,
    JsonValue,
    Lease,
    LeaseLost,
    LoopwrightError,
    Outcome,
    ProtocolError,
    Recover,
    Rested,
    RuntimeClosedError,
    Settle,
    Stalled,
    StoreError,
    ToolResult,
    applied,
    state_of,
)
from loopwright.stores import Store

from ._children import Children, is_over
from ._clock import Clock, sleep
from ._live import Live
from ._rebuilding import rebuild
from ._services import Services
from ._starting import Starter
from ._tenure import Tenure
from .definitions._agent import Agent
from .kernel import (
    ActorDeadError,
    ActorFailed,
    ActorRef,
    ActorSystem,
    ChildSpec,
    Lane,
    SystemClosedError,
)
from .machine._machine import Machine
from .machine._results import LATE_RESULT
from .roles._deliveries import NO_FENCE
from .roles._listeners import Listeners
from .roles._service import answer
from .roles._supervisor import Routes, Supervisor
from .roles._tracker import ProgressTracker
from .tracing._redacting import Redacting
from .tracing._redacting_logs import redact_logs
from .tracing._tool_progress import tool_progress
from .tracing._trace import RunObserver

CANCELS_EVERY: Final = 1.0
"""Seconds between two looks for cancels that were said elsewhere."""
MAILBOX: Final = 100_000
"""Messages a service actor may have waiting; live invocations are bounded far below."""

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
        lease_ttl: float,
        new_id: Callable[[], InvocationId],
        redacting: Redacting | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.live: dict[InvocationId, Live] = {}
        self.room = asyncio.Event()
        """Set whenever an invocation leaves memory."""
        self.system = ActorSystem("loopwright", mailbox_capacity=MAILBOX)
        self._agents = {agent.name: agent for agent in agents}
        self._observers = observers
        self.redacting = redacting
        self._logs: Callable[[], None] | None = None
        """Lets the logs be as they were."""
        self.tenure = Tenure(store, clock, lease_ttl)
        self.listeners = Listeners()
        self._services = Services(
            self.system, store, clock, self.tenure, self._agents, self.listeners, redacting
        )
        self.starter = Starter(self, new_id)
        self.children = Children(self, self.starter)
        self.stranded: dict[InvocationId, Outcome | None] = {}
        """What has left memory without an end in the store, and how it came to rest here."""
        self._unsaved: dict[InvocationId, tuple[ToolResult, ...]] = {}
        """Results of writes that could not be stored, until the invocation goes on."""
        self._reviving: dict[InvocationId, asyncio.Task[Live | Exception]] = {}
        self._waking: dict[InvocationId, asyncio.Task[None]] = {}
        """Parents whose child has ended, and who is telling them."""

    # ------------------------------------------------------------ opening and closing
    async def open(self) -> None:
        """Open the store, start the service actors, and report as alive."""
        await self.store.open()
        try:
            await self.tenure.begin()
            await self.system.__aenter__()
        except BaseException:
            await self.store.close()
            raise
        if self.redacting is not None:
            self._logs = redact_logs(self.redacting.redact)
        watch = tool_progress(self._observers, self.clock, self.redacting)
        self._services.start(self._late, self.children, watch)
        self.system.spawn(self.tenure.keep(self._lapsed), name="heartbeat")
        self.system.spawn(self._listen(), name="cancels")

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
        self.room.set()
        try:
            await self.system.__aexit__(None, None, None)
            await self.tenure.end()
        finally:
            if self._logs is not None:
                self._logs()
            await self.store.close()

    # ------------------------------------------------------------ ownership
    def _lapsed(self, former: str) -> None:
        """This worker was away for too long: whatever it owned may be somebody else's by now."""
        for live in tuple(self.live.values()):
            if live.lease.worker == former:
                error = LeaseLost(f"worker {former} had no heartbeat in time")
                live.once_begun(partial(answer, live.supervisor, error))

    async def _listen(self) -> None:
        """Hear of cancels that were said elsewhere."""
        while True:
            await sleep(self.clock, CANCELS_EVERY)
            if not self.live:
                continue
            try:
                notes = await self.store.cancel_requests(self.tenure.worker)
            except LoopwrightError as error:
                logger.warning("Cancels from elsewhere could not be read: %s", error)
                continue
            except Exception:
                logger.exception("Cancels from elsewhere could not be read:")
                continue
            for note in notes:
                live = self.live.get(note.invocation_id)
                if live is not None:
                    await self.cancel(live, Cancel(note.reason, note.by))

    def _late(self, order: Execute, output: JsonValue) -> None:
        """A write whose outcome was called unknown has worked after all."""
        if order.lease.fence == NO_FENCE:
            # A delivery: it was given back, and will be made again or asked about.
            return
        # Where it is closed, whoever goes on with the invocation finds out.
        with contextlib.suppress(SystemClosedError):
            self.system.spawn(self._settle_late(order, output), name="late result")

    async def _settle_late(self, order: Execute, output: JsonValue) -> None:
        settle = Settle(order.call_id, applied(output), LATE_RESULT, order.turn)
        try:
            await self.command(order.invocation_id, settle, contextvars.copy_context())
        except LoopwrightError as error:
            # It was settled meanwhile, or is another worker's; the downstream knows the rest.
            logger.info("A late result of %s is not taken: %s", order.attempt_id, error)

    # ------------------------------------------------------------ invocations in memory
    @property
    def has_children(self) -> bool:
        """Whether invocations of any of these agents may start children."""
        return any(terms.children for terms in self._services.terms.values())

    @property
    def expiring(self) -> bool:
        """Whether proposals of any of these agents expire."""
        return any(agent.policy.approval_expires is not None for agent in self._agents.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Whose invocations can go on here."""
        return tuple(self._agents)

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
        live = Live(lease, agent, context, state.protocol.started)
        try:
            self.start_actors(live, state)
        except SystemClosedError:
            msg = f"the runtime was closed before invocation {lease.invocation_id} was begun"
            raise RuntimeClosedError(msg) from None
        self.live[lease.invocation_id] = live
        self.stranded.pop(lease.invocation_id, None)
        return live

    def start_actors(self, live: Live, state: InvocationState) -> None:
        """Start its Supervisor and its ProgressTracker."""
        nudge = self._track(live, state)
        lease, known = live.lease, self._unsaved.pop(live.invocation_id, ())
        machine = Machine(
            state,
            self._services.terms,
            worker=lease.worker,
            fence=lease.fence,
            known=known,
            nudge=nudge,
        )
        live.supervisor = self.system.start(
            Supervisor,
            machine,
            self._services.routes[live.agent.name],
            live.tracker,
            self.clock,
            live.context,
            live.progressed,
            partial(self._rested, live),
            self._observers,
            partial(self._handed_over, live, state),
            None if self.redacting is None else self.redacting.message,
            spec=ChildSpec(on_failure=partial(self._crashed, live)),
        )

    def _track(self, live: Live, state: InvocationState) -> Stalled | None:
        """Start who judges progress, and say what the last turn has called for."""
        agent = live.agent
        traits = {name: tool.traits for name, tool in agent.tools.items()}
        handoffs = state.protocol.handoffs
        # Whoever takes over has repeated nothing yet.
        own = state.business.turns[handoffs[-1].turn if handoffs else 0 :]
        tracking = Tracking.rebuilt(agent.policy.progress, traits, own)
        live.tracker = self.system.start(ProgressTracker, tracking)
        return tracking.pending

    def _handed_over(
        self, live: Live, state: InvocationState, agent: str
    ) -> tuple[Routes, ActorRef[Any]]:
        """Give an invocation to another agent: its actors work for it from here on."""
        live.tracker.stop(block=False)
        live.agent = self.agent(agent)
        self._track(live, state)
        return self._services.routes[agent], live.tracker

    async def state(self, invocation_id: InvocationId) -> InvocationState:
        """Read an invocation back from its journal."""
        return state_of(await self.store.load(invocation_id))

    async def _revive_once(self, invocation_id: InvocationId, context: contextvars.Context) -> Live:
        """Bring an invocation into memory if it is not; several callers at once do it once."""
        live = self.live.get(invocation_id)
        if live is not None:
            return live
        task = self._reviving.get(invocation_id)
        if task is None:
            task = self.system.spawn(_caught(partial(self._revive, invocation_id, context)))
            self._reviving[invocation_id] = task
            task.add_done_callback(lambda _: self._reviving.pop(invocation_id, None))
        return _value(await asyncio.shield(task))

    async def _revive(self, invocation_id: InvocationId, context: contextvars.Context) -> Live:
        lease = await self.store.acquire(invocation_id, self.tenure.worker)
        try:
            stored = await self.store.load(invocation_id)
            state = state_of(stored)
            agent = self.agent(state.protocol.agent)
            live = self.bring_up(agent, state, lease, context)
            if state.protocol.status != "ended":
                live.note = stored.summary.cancel or await self.children.not_wanted(live.started)
            return live
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
        closed = f"the runtime was closed before invocation {invocation_id} had answered"
        command = partial(self._command, invocation_id, message, context)
        task: asyncio.Task[Live | Exception] | None = None
        try:
            task = self.system.spawn(_caught(command))
            return _value(await asyncio.shield(task))
        except SystemClosedError:
            raise RuntimeClosedError(closed) from None
        except asyncio.CancelledError:
            if task is None or not task.cancelled():
                raise
            raise RuntimeClosedError(closed) from None

    async def _command(
        self, invocation_id: InvocationId, message: Input, context: contextvars.Context
    ) -> Live:
        while True:
            live = await self._revive_once(invocation_id, context)
            said, note = message, live.note
            if note is not None and not isinstance(message, Cancel):
                # Somebody wanted it to stop while nobody was there to hear it: that comes first.
                live.note, said = None, Cancel(note.reason, note.by)
            try:
                await live.supervisor.ask(said, block=False, lane=Lane.CONTROL)
                if said is not message and not isinstance(message, Recover):
                    continue
            except ActorDeadError:
                # It came to rest in this very moment: it can be spoken to in the store. Or it
                # has crashed: then others must get their turn for it to be rebuilt.
                await asyncio.sleep(0)
                continue
            except (ProtocolError, StoreError):
                if self.live.get(invocation_id) is not live and invocation_id not in self._unsaved:
                    # Woken for nothing, it rests again, and anybody may wake it.
                    with contextlib.suppress(LoopwrightError):
                        await self.store.release(live.lease)
                raise
            return live

    async def cancel(self, live: Live, message: Cancel) -> None:
        """Ask an invocation in memory to stop; if it is over meanwhile, that is fine too."""
        with contextlib.suppress(ActorDeadError, LoopwrightError):
            await live.supervisor.ask(message, block=False, lane=Lane.CONTROL)

    def forget(self, live: Live) -> None:
        """Let it leave memory; by then another one may stand in its place."""
        if self.live.get(live.invocation_id) is live:
            del self.live[live.invocation_id]
        self.room.set()

    def _rested(self, live: Live, rested: Rested) -> None:
        self.forget(live)
        live.durable = rested.durable
        if not rested.durable:
            self.stranded[live.invocation_id] = rested.outcome
            if rested.unsaved:
                self._unsaved[live.invocation_id] = rested.unsaved
        live.supervisor.stop(block=False)
        live.tracker.stop(block=False)
        self.tell(live, rested.outcome)

    def tell(self, live: Live, outcome: Outcome) -> None:
        """Tell everybody who waits how it came to rest, its parent among them."""
        live.finish(outcome)
        parent = live.started.parent
        if parent is not None and live.durable and is_over(outcome):
            self._wake(live.invocation_id, parent.invocation_id)

    def _wake(self, child: InvocationId, parent: InvocationId) -> None:
        """Have a parent look after a child that is over, should it sleep because of it."""
        if self.children.follows(child):
            return
        try:
            task = self.system.spawn(self.children.wake_parent(child, parent), name="wake")
        except SystemClosedError:
            # Another runtime looks after what sleeps.
            return
        self._waking[parent] = task
        task.add_done_callback(lambda done: self._woken(parent, done))

    def _woken(self, parent: InvocationId, task: asyncio.Task[None]) -> None:
        if self._waking.get(parent) is task:
            del self._waking[parent]

    async def woken(self, invocation_id: InvocationId) -> None:
        """Wait until nobody is telling it that a child is over."""
        while (task := self._waking.get(invocation_id)) is not None:
            await asyncio.wait({task})

    def drop(self, invocation_id: InvocationId) -> None:
        """Know nothing of it any more: it has gone on elsewhere, without what is known here."""
        self.stranded.pop(invocation_id, None)
        self._unsaved.pop(invocation_id, None)

    # ------------------------------------------------------------ crashes of a Supervisor
    def _crashed(self, live: Live, failure: ActorFailed) -> None:
        """A bug of ours: rebuild the invocation from its journal once, then end it."""
        if self.live.get(live.invocation_id) is not live:
            return
        live.crashes += 1
        self.system.spawn(rebuild(self, live, failure.error), name="rebuild")


async def _caught(work: Callable[[], Coroutine[Any, Any, T]]) -> T | Exception:
    """Hand an error back instead of raising it: it belongs to the caller, not to the system."""
    try:
        return await work()
    except Exception as error:  # noqa: BLE001 - it is raised again where it belongs
        return error


def _value(done: T | Exception) -> T:
    if isinstance(done, Exception):
        raise done
    return done
