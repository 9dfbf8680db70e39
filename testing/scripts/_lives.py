"""The processes an invocation of a script lives in, one after the other: each dies or is closed.

They share a clock and a store, as workers do. A crash leaves what is durable, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loopwright.actors import Agent, Runtime
from loopwright.protocol import ConfigurationError, InvocationId, InvocationState, state_of
from loopwright.stores import MemoryStore, Store

from .._clock import VirtualClock
from .._failing_store import FailingStore
from .._wrapped_store import WrappedStore
from ._stand_ins import World, crew_of
from ._steps import Script

_NEVER_OPENED: Final = MemoryStore()
"""What a dead process has instead of its store: it refuses everything."""


class _MortalStore(WrappedStore):
    """One process' connection to the store, which ends when the process dies."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._workers: set[str] = set()
        """The names under which it has said that it is alive."""

    async def open(self) -> None:
        """Do nothing: the store belongs to all processes."""

    async def close(self) -> None:
        """Do nothing, as above."""

    async def heartbeat(self, worker: str, ttl: float) -> None:
        """Say that a worker is alive, unless it is dead."""
        if self.inner is not _NEVER_OPENED:
            self._workers.add(worker)
            await super().heartbeat(worker, ttl)

    async def die(self) -> None:
        """Refuse everything from now on; its heartbeats count as run out, so nobody has to wait."""
        inner, self.inner = self.inner, _NEVER_OPENED
        for worker in self._workers:
            await inner.heartbeat(worker, 0)


class Lives:
    """Clock and store of a script, and the process that is alive, if any.

    Args:
        script: What is played.
        agents: Who may be run; not looked at where the script declares its own tools.

    Raises:
        ConfigurationError: If the script's agent cannot be made.
    """

    def __init__(self, script: Script, agents: Sequence[Agent]) -> None:
        self.clock = VirtualClock()
        self._memory = MemoryStore(clock=lambda: self.clock.now().monotonic)
        self.store = FailingStore(self._memory)
        """Where appends of all processes go through."""
        self._script = script
        self._agents = agents
        self._writes: dict[str, str] = {}
        self._open: _MortalStore | None = None
        self._be_born()

    def _be_born(self) -> None:
        self.world = World(self._writes)
        """What the present process, or the last one, has asked of the outside."""
        try:
            crew = crew_of(self._script, self._agents, self.world)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self._script.name}: {error}") from None
        self.agent = crew[0]
        self._mortal = _MortalStore(self.store)
        self.runtime = Runtime(crew, store=self._mortal, clock=self.clock)

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self._open is not None

    async def begin(self) -> None:
        """Let the first process open the store."""
        await self._memory.open()
        await self._enter()

    async def crash(self) -> None:
        """Let the process die: nothing of it reaches the store any more."""
        if self._open is not None:
            await self._open.die()
            await self._leave()

    async def follow(self) -> None:
        """Let another process open the store."""
        self._be_born()
        await self._enter()

    async def close(self) -> None:
        """Close the process, if one is alive, and the store."""
        if self._open is not None:
            await self._leave()
        await self._memory.close()

    async def durable(self, invocation_id: InvocationId) -> InvocationState:
        """Read what is durable, whoever is alive."""
        return state_of(await self._memory.load(invocation_id))

    async def _enter(self) -> None:
        await self.runtime.__aenter__()
        self._open = self._mortal

    async def _leave(self) -> None:
        self._open = None
        await self.runtime.__aexit__(None, None, None)
