"""What happens at the worst moment leaves nobody waiting, and nothing owned that nobody is at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from casebook.desk import batch, call

from loopwright import (
    Agent,
    Budget,
    Final,
    ModelReply,
    ModelRequest,
    Reason,
    Runtime,
    applied,
    tool,
)
from loopwright.actors import AnyTool
from loopwright.protocol import (
    Append,
    CancelNote,
    InvocationStateError,
    RuntimeClosedError,
    Stored,
    StoreError,
)
from loopwright.stores import AppendResult, MemoryStore
from loopwright.testing import FailingStore, ScriptedModel, Step, VirtualClock, WrappedStore

pytestmark = pytest.mark.anyio

PAY: Step = batch(call("p", "pay"))
TTL = 15.0


class Shared(WrappedStore):
    """A store of several runtimes: closing it closes nothing."""

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return


class Silent:
    """A model that never answers."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        await asyncio.Event().wait()
        raise AssertionError


@tool(effect="manual", timeout=None)
async def pay() -> str:
    """Pay, and never return."""
    await asyncio.Event().wait()
    raise AssertionError


@tool(effect="manual")
async def torn() -> str:
    """Pay, but nobody knows whether."""
    raise ConnectionError("the line is dead")


def desk(*steps: Step, tools: Sequence[AnyTool] = (pay, torn)) -> Agent:
    return Agent("desk", model=ScriptedModel(steps), tools=tools)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def memory(clock: VirtualClock) -> MemoryStore:
    store = MemoryStore(clock=lambda: clock.now().monotonic)
    await store.open()
    return store


async def test_what_is_told_an_orphan_too_early_leaves_it_to_be_recovered(
    memory: MemoryStore,
) -> None:
    """It was woken for what can't be granted yet: it is neither kept in memory nor owned."""
    async with Runtime([desk(PAY)], store=Shared(memory)) as dying:
        run = await dying.start("desk", "go")
        while not (await memory.effects()):  # noqa: ASYNC110 - it is in the store
            await asyncio.sleep(0)

    async with Runtime([desk(Final("done"))], store=Shared(memory)) as runtime:
        with pytest.raises(InvocationStateError, match="to be recovered"):
            await runtime.settle(run.id, "p", applied("r-1"), by="bo")
        assert runtime.statistics()[0] == 0
        assert (await memory.summary(run.id)).owner is None
        (again,) = await runtime.recover()
        assert (await again.outcome()).reason is Reason.RECONCILIATION_REQUIRED


async def test_what_could_not_be_settled_here_can_be_elsewhere(memory: MemoryStore) -> None:
    """A store that fails here must not leave it to a worker that lives, and is not at it."""
    failing = FailingStore(Shared(memory))
    steps = (batch(call("p", "torn")), Final("done"))
    async with (
        Runtime([desk(*steps)], store=failing) as here,
        Runtime([desk(Final("done"))], store=Shared(memory)) as elsewhere,
    ):
        outcome = await here.run("desk", "go")
        failing.fail_next(StoreError("the disk is full"))
        with pytest.raises(StoreError, match="the disk is full"):
            await here.settle(outcome.invocation_id, "p", applied("r-1"), by="bo")
        run = await elsewhere.settle(outcome.invocation_id, "p", applied("r-1"), by="bo")
        assert (await run.outcome()).completed


class SlowStart(Shared):
    """A store that takes its time to store a start, and fails to take heartbeats meanwhile."""

    def __init__(self, memory: MemoryStore) -> None:
        super().__init__(memory)
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        if batch[0].first_seq == 1:
            self.asked.set()
            await self.go_on.wait()
        return await super().append(batch)

    async def heartbeat(self, worker: str, ttl: float) -> None:
        if self.asked.is_set() and not self.go_on.is_set():
            raise StoreError("busy")
        await super().heartbeat(worker, ttl)


async def test_a_start_that_outlives_its_worker_is_not_called_undone(
    memory: MemoryStore, clock: VirtualClock
) -> None:
    """Whether it exists, only the store can say; whoever starts it waits for that."""
    store = SlowStart(memory)
    agent = Agent("desk", model=Silent())
    async with Runtime([agent], store=store, clock=clock, lease_ttl=TTL) as runtime:
        starting = asyncio.create_task(runtime.start("desk", "go"))
        await store.asked.wait()
        for _ in range(6):
            await clock.advance(TTL / 3)
        store.go_on.set()
        run = await starting
        assert (await memory.summary(run.id)).seq == 1


async def test_who_waits_for_room_is_told_that_it_is_closed() -> None:
    runtime = Runtime([Agent("desk", model=Silent())], max_live=1)
    async with runtime:
        await runtime.start("desk", "go")
        waiting = asyncio.create_task(runtime.start("desk", "go", wait=True))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(RuntimeClosedError):
        await asyncio.wait_for(waiting, 5)


async def test_a_run_cancelled_as_its_runtime_closes_stays_cancelled() -> None:
    runtime = Runtime([Agent("desk", model=Silent())])
    async with runtime:
        running = asyncio.create_task(runtime.run("desk", "go"))
        while not runtime.statistics()[0]:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        leaving = asyncio.create_task(runtime.__aexit__(None, None, None))
        await asyncio.sleep(0)
        running.cancel()
        await leaving
        with pytest.raises(asyncio.CancelledError):
            await running
        await runtime.__aenter__()


class LateStore(Shared):
    """A store where one reader reads slowly."""

    def __init__(self, memory: MemoryStore) -> None:
        super().__init__(memory)
        self.reading, self.go_on = asyncio.Event(), asyncio.Event()

    async def load(self, *args: Any, **wanted: Any) -> Stored:
        stored = await super().load(*args, **wanted)
        task = asyncio.current_task()
        if task is not None and task.get_name() == "slow" and wanted.get("after") == 1:
            self.reading.set()
            await self.go_on.wait()
        return stored


async def test_no_reader_of_events_takes_the_news_from_another(memory: MemoryStore) -> None:
    """What was committed while one was reading is news to it, also once others have heard it."""
    may_end = asyncio.Event()

    @tool(effect="read", timeout=None)
    async def look() -> str:
        await may_end.wait()
        return "seen"

    store = LateStore(memory)
    agent = Agent("desk", model=ScriptedModel([batch(call("l", "look"))]), tools=[look])
    async with Runtime([agent], store=store) as runtime:
        run = await runtime.start("desk", "go")
        seen: dict[str, list[str]] = {"slow": [], "fast": []}

        async def follow(name: str) -> None:
            async for record in run.events():
                seen[name].append(record.kind)

        readers = [asyncio.create_task(follow(name), name=name) for name in seen]
        await store.reading.wait()
        while "turn_proposed" not in seen["fast"]:  # noqa: ASYNC110 - it is a list
            await asyncio.sleep(0.001)
        store.go_on.set()
        async with asyncio.timeout(5):
            while "turn_proposed" not in seen["slow"]:  # noqa: ASYNC110 - it is a list
                await asyncio.sleep(0.001)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


async def test_a_write_that_reports_after_the_end_of_its_runtime_troubles_nobody() -> None:
    began, may_end = threading.Event(), threading.Event()

    @tool(effect="manual", timeout=None, name="pay")
    def pay_in_a_thread() -> str:
        began.set()
        may_end.wait(10)
        return "paid"

    failures: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, failure: failures.append(failure))
    try:
        async with Runtime([desk(PAY, tools=[pay_in_a_thread])]) as runtime:
            await runtime.start("desk", "go")
            await asyncio.to_thread(began.wait, 10)
        may_end.set()
        await asyncio.sleep(0.1)
    finally:
        loop.set_exception_handler(before)
    assert failures == []


async def test_a_cancel_that_came_too_late_is_not_meant_for_what_is_resumed(
    memory: MemoryStore, clock: VirtualClock
) -> None:
    """It was said elsewhere, and the invocation had failed before it was heard."""

    @tool(effect="read", timeout=None)
    async def look() -> str:
        await clock.advance(0)
        return "seen"

    steps = (batch(call("l", "look")), Final("done"))
    agent = desk(*steps, tools=[look])
    async with Runtime([agent], store=Shared(memory), clock=clock) as runtime:
        run = await runtime.start("desk", "go", budget=Budget(max_steps=1))
        await memory.request_cancel(CancelNote(run.id, "too dear", "bo"))
        assert (await run.outcome()).reason is Reason.MAX_STEPS
        assert (await runtime.resume(run.id, grant=Budget(max_steps=5))).completed
        assert (await memory.summary(run.id)).cancel is None


class Odd(Shared):
    """A store that fails once in a way no store should, at the first heartbeat after the start."""

    def __init__(self, memory: MemoryStore) -> None:
        super().__init__(memory)
        self.beats = 0

    async def heartbeat(self, worker: str, ttl: float) -> None:
        self.beats += 1
        if self.beats == 2:
            raise OSError("the socket is gone")
        await super().heartbeat(worker, ttl)


async def test_whatever_a_heartbeat_fails_with_there_is_another_one(
    memory: MemoryStore, clock: VirtualClock
) -> None:
    store = Odd(memory)
    async with Runtime([desk(Final("done"))], store=store, clock=clock, lease_ttl=TTL) as runtime:
        await clock.advance(TTL)
        assert store.beats > 2
        assert (await runtime.run("desk", "go")).completed


class SlowWord(Shared):
    """A store that takes its time to store what a person says, without a heartbeat meanwhile."""

    def __init__(self, memory: MemoryStore) -> None:
        super().__init__(memory)
        self.slow = False
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        if self.slow:
            self.asked.set()
            await self.go_on.wait()
        return await super().append(batch)

    async def heartbeat(self, worker: str, ttl: float) -> None:
        if self.slow:
            raise StoreError("busy")
        await super().heartbeat(worker, ttl)


async def test_who_settles_is_answered_also_where_the_lease_is_lost_over_it(
    memory: MemoryStore, clock: VirtualClock
) -> None:
    """Nobody here hears any more whether it was stored; the store knows."""
    store = SlowWord(memory)
    steps = (batch(call("p", "torn")), Final("done"))
    async with Runtime([desk(*steps)], store=store, clock=clock, lease_ttl=TTL) as runtime:
        outcome = await runtime.run("desk", "go")
        store.slow = True
        settling = asyncio.create_task(
            runtime.settle(outcome.invocation_id, "p", applied("r-1"), by="bo")
        )
        await store.asked.wait()
        for _ in range(6):
            await clock.advance(TTL / 3)
        with pytest.raises(StoreError, match="not known"):
            async with asyncio.timeout(5):
                await settling
        store.slow = False
        store.go_on.set()
        await clock.advance(TTL)
        assert runtime.statistics()[0] == 0
        await runtime.recover()
        assert (await runtime.outcome(outcome.invocation_id)).completed
