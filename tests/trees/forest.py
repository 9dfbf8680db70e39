"""Random trees of parents and children, in processes that die at random moments.

A `Planted` tree is decided by its seed: who may call whom, how greedy they are, what the root may
use, and at which moments a process dies. A moment is something that happens: a commit is about to
reach the store or has, a model is asked or replies, a body begins or returns. A dead process
reaches neither the store nor the world any more; the next one recovers what it has left.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final as Constant

from casebook.desk import Wire, batch, call, sleep

from loopwright import (
    Agent,
    Budget,
    Final,
    ModelReply,
    ModelRequest,
    Outcome,
    Policy,
    Runtime,
    tool,
)
from loopwright.actors import AnyTool, ToolContext
from loopwright.policy import tool_named
from loopwright.protocol import (
    Append,
    InvocationId,
    InvocationStateError,
    LoopwrightError,
    Price,
    Reason,
    Reconciled,
    Record,
    StoreError,
    Usage,
    applied,
    decode_record,
    not_applied,
)
from loopwright.stores import AppendResult, MemoryStore
from loopwright.testing import VirtualClock, WrappedStore

PRICE: Constant = (Decimal(1_000), Decimal(2_000))
"""US dollars a million tokens, of every model."""
LIMIT: Constant = 600
"""Looks at a tree until it counts as stuck; a quarter of a second, virtually, between two."""


@dataclass(frozen=True, slots=True)
class Planted:
    """What a seed decides before anything runs."""

    seed: int
    agents: tuple[tuple[int, ...], ...]
    """Of each agent, the numbers of those it may call: deeper ones, or itself."""
    budget: Budget
    own: Budget
    """Of each child, within what it is given."""
    deaths: tuple[int, ...]
    """How many moments each process lives, one after the other; the last one does not die."""
    cancel_at: int | None
    """The moment, over all processes, after which somebody cancels."""
    asks: bool
    """Whether a person has to say yes to some writes."""

    @classmethod
    def from_seed(cls, seed: int) -> Planted:
        """Decide all of it."""
        chance = random.Random(f"plant {seed}")
        depth, agents = chance.randint(2, 4), list[tuple[int, ...]]()
        levels: list[list[int]] = [[0]]
        for _ in range(depth - 1):
            first = levels[-1][-1] + 1
            levels.append([*range(first, first + chance.randint(1, 2))])
        for above, below in zip(levels, [*levels[1:], []], strict=True):
            for one in above:
                some = tuple(n for n in below if chance.random() < 0.8) or tuple(below[:1])
                agents.append((*some, one) if chance.random() < 0.1 else some)
        budget = Budget(
            max_steps=chance.choice((3, 6, 20)),
            max_tool_calls=chance.choice((0, 1, 4, 10, 20, 40, 80)),
            max_tokens=chance.choice((None, None, 50, 300, 1_500)),
            max_cost=chance.choice((None, None, Decimal("0.05"), Decimal("0.5"), Decimal(2))),
        )
        own = Budget(max_steps=chance.choice((2, 4, 20)), max_tool_calls=chance.choice((None, 4)))
        deaths = [chance.choice((chance.randint(1, 12), chance.randint(1, 60))) for _ in range(5)]
        cancel_at = chance.randint(1, 60) if chance.random() < 0.25 else None
        lives = tuple(deaths[: chance.randint(0, 5)])
        return cls(seed, tuple(agents), budget, own, lives, cancel_at, chance.random() < 0.4)


@dataclass
class World:
    """What no process takes with it when it dies: the downstream, and what has been counted."""

    chance: random.Random
    clock: VirtualClock
    asked: list[tuple[InvocationId, int]] = field(default_factory=list[tuple[InvocationId, int]])
    """Invocation and turn, each time a model is asked."""
    bodies: Counter[tuple[str, InvocationId, int, str]] = field(
        default_factory=Counter[tuple[str, InvocationId, int, str]]
    )
    """How often the body of each call has run: its tool, invocation, turn and call id."""
    effects: Counter[str] = field(default_factory=Counter[str])
    """How often each effect took place, by effect key."""
    voided: Counter[str] = field(default_factory=Counter[str])
    moments: int = 0
    calls: int = 0


class Life(WrappedStore):
    """One process' line to the store, and to the world: it ends at its last moment.

    Args:
        world: Outlives it.
        inner: The store.
        moments: How many it lives; `None` is as many as it takes.
    """

    def __init__(self, world: World, inner: MemoryStore, moments: int | None) -> None:
        super().__init__(inner)
        self.world = world
        self.dead = False
        self._memory = inner
        self._left = moments
        self._workers: set[str] = set()

    def happens(self) -> None:
        """Let a moment pass; after the last one there is nothing."""
        if self.dead:
            raise StoreError("this process is dead")
        self.world.moments += 1
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self.dead = True
                self.inner = MemoryStore()
                raise StoreError("this process has died")

    async def begins(self, ticks: int = 6) -> None:
        """Let a moment pass in a model or a tool, which then takes its time."""
        await self._pause(ticks)
        self._alive()

    async def ends(self) -> None:
        """Let the last moment of a model or a tool pass."""
        await self._pause(6)
        self._alive()

    async def _pause(self, ticks: int) -> None:
        chance = self.world.chance
        for _ in range(chance.randint(0, ticks)):
            await asyncio.sleep(0)
        if chance.random() < 0.3:
            await sleep(self.world.clock, chance.choice((0.001, 0.02, 0.3)))

    def _alive(self) -> None:
        try:
            self.happens()
        except StoreError:
            # Nothing is done, and nobody hears of it.
            raise asyncio.CancelledError from None

    async def open(self) -> None:
        """Do nothing: the store belongs to all processes."""

    async def close(self) -> None:
        """Do nothing, as above."""

    async def heartbeat(self, worker: str, ttl: float) -> None:
        """Say that it is alive, unless it is dead."""
        self._workers.add(worker)
        await super().heartbeat(worker, ttl)

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Store a batch, with a moment before and one after it."""
        self.happens()
        results = await super().append(batch)
        self.happens()
        return results

    async def bury(self) -> None:
        """Let its heartbeats count as run out, so that nobody has to wait."""
        for worker in self._workers:
            await self._memory.heartbeat(worker, 0)


class _Greedy:
    """A model that always wants more, and says something else when it is asked again."""

    def __init__(self, life: Life, children: tuple[str, ...]) -> None:
        self._life = life
        self._children = children
        self.name = "greedy"

    async def decide(self, request: ModelRequest) -> ModelReply:
        world = self._life.world
        await self._life.begins()
        world.asked.append((request.invocation_id, request.turn))
        await self._life.ends()
        chance = world.chance
        usage = Usage(chance.randint(1, 40), chance.randint(1, 10))
        if chance.random() < 0.08:
            return ModelReply(Final("enough"), usage, model=self.name)
        names = [*self._children] * 3 + ["look", "put", "sign"]
        calls: list[Wire] = []
        for _ in range(chance.randint(1, 4)):
            world.calls += 1
            name, identity = chance.choice(names), f"c{world.calls}"
            said = {"goal": identity} if name in self._children else {"of": world.calls}
            calls.append(call(identity, name, said))
        return ModelReply(batch(*calls), usage, model=self.name)


def _tools(life: Life) -> list[AnyTool]:
    world = life.world

    def count(name: str, context: ToolContext) -> None:
        world.bodies[name, context.invocation_id, context.turn, context.call_id] += 1

    async def write(name: str, context: ToolContext) -> str:
        key = str(context.effect_key)
        await life.begins()
        count(name, context)
        voided = world.voided[key]
        await life.begins()
        if world.voided[key] == voided:
            world.effects[key] += 1
        await life.ends()
        return key

    async def ask(effect_key: str) -> Reconciled:
        await life.begins()
        if world.effects[effect_key]:
            return applied(effect_key)
        world.voided[effect_key] += 1
        return not_applied()

    @tool(effect="read")
    async def look(of: int, context: ToolContext) -> str:
        await life.begins()
        count("look", context)
        await life.ends()
        return f"looked at {of}"

    @tool(effect="reconcilable")
    async def put(of: int, context: ToolContext) -> str:
        return await write("put", context)

    @tool(effect="reconcilable")
    async def sign(of: int, context: ToolContext) -> str:
        return await write("sign", context)

    put.reconcile(ask)
    sign.reconcile(ask)
    return [look, put, sign]


def _agents(planted: Planted, life: Life) -> list[Agent]:
    tools = _tools(life)
    policy = Policy(ask=[tool_named("sign")] if planted.asks else [], max_attempts=50)
    bare = [
        Agent(f"a{n}", model=_Greedy(life, ()), budget=planted.own)
        for n in range(len(planted.agents))
    ]
    agents: list[Agent] = []
    for number, below in enumerate(planted.agents):
        names = tuple(f"a{child}" for child in below)
        agents.append(
            Agent(
                f"a{number}",
                model=_Greedy(life, names),
                tools=[*tools, *(bare[child].as_tool() for child in below)],
                policy=policy,
                budget=planted.budget if number == 0 else planted.own,
                prices=[Price("greedy", *PRICE)],
            )
        )
    return agents


@dataclass
class Grown:
    """A tree at rest, and all there is to be known of it."""

    planted: Planted
    world: World
    root: InvocationId
    outcome: Outcome
    journals: dict[InvocationId, list[Record]]
    lines: dict[InvocationId, list[bytes]]
    deaths: int


async def grow(planted: Planted) -> Grown:
    """Run a tree through all its processes, until everything rests.

    Raises:
        AssertionError: If it does not come to rest.
    """
    clock = VirtualClock()
    world = World(random.Random(planted.seed), clock)
    memory = MemoryStore(clock=lambda: clock.now().monotonic)
    await memory.open()
    deaths = 0
    for moments in (*planted.deaths, None):
        life = Life(world, memory, moments)
        runtime = Runtime(_agents(planted, life), store=life, clock=clock)
        try:
            async with runtime:
                await _live(planted, life, runtime)
        except LoopwrightError:
            if not life.dead:
                raise
        await life.bury()
        if not life.dead:
            break
        deaths += 1
    else:
        raise AssertionError("the last process has died")
    root = await memory.find("a0", "root")
    assert root is not None
    lines = {
        s.invocation_id: [*(await memory.load(s.invocation_id)).lines]
        for s in await memory.invocations(limit=10_000)
    }
    journals = {name: [decode_record(line) for line in those] for name, those in lines.items()}
    await memory.close()
    async with Runtime([], store=memory) as runtime:
        outcome = await runtime.outcome(root)
    return Grown(planted, world, root, outcome, journals, lines, deaths)


async def _live(planted: Planted, life: Life, runtime: Runtime) -> None:
    """Let one process be at work, until everything rests or it dies."""
    person = asyncio.create_task(_person(runtime, planted))
    canceller: asyncio.Task[None] | None = None
    try:
        for _ in range(LIMIT):
            await life.world.clock.advance(0.25)
            if life.dead:
                return
            cancels = planted.cancel_at is not None and life.world.moments >= planted.cancel_at
            if cancels and canceller is None:
                canceller = asyncio.create_task(_cancel(runtime))
            if person.done() and not runtime.statistics()[0]:
                break
        else:
            raise AssertionError(f"it does not come to rest: {await _shown(runtime)}")
        await person
        left = await runtime.recover()
        assert not len(left), f"nobody was at work on {[run.id for run in left]}"
    finally:
        for task in (person, canceller):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()


async def _person(runtime: Runtime, planted: Planted) -> None:
    """Start it, or let it go on, and say yes to whatever somebody is asked."""
    run = await runtime.start("a0", "go", key="root")
    await runtime.recover()
    while (outcome := await runtime.outcome(run.id)).reason is Reason.APPROVAL_REQUIRED:
        assert outcome.proposal is not None
        try:
            await runtime.approve(run.id, outcome.proposal.digest, by="bo")
        except InvocationStateError:
            # The one who cancels may have been faster; then it has an end soon.
            if planted.cancel_at is None:
                raise
            await asyncio.sleep(0)


async def _cancel(runtime: Runtime) -> None:
    root = await runtime.store.find("a0", "root")
    if root is not None:
        with suppress(InvocationStateError):
            await runtime.cancel(root, "enough", by="ana")


async def _shown(runtime: Runtime) -> str:
    listed = await runtime.invocations()
    return ", ".join(
        f"{s.invocation_id} {s.head.status} {s.head.reason} {s.head.detail}" for s in listed
    )
