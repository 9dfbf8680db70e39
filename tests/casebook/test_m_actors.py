"""Casebook M: context variables, actors that wait for themselves, and what finished runs leave."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import threading
import weakref
from collections.abc import Sequence
from itertools import repeat
from typing import Any, Literal

import pytest

from casebook.desk import ForgetfulStore, agent, batch, call, tasks
from loopwright import (
    Agent,
    Final,
    ModelRequest,
    Outcome,
    Policy,
    Reason,
    Runtime,
    ToolContext,
    tool,
)
from loopwright.actors import ProgressTracker, Supervisor, TraceEvent
from loopwright.actors.kernel import (
    Actor,
    ActorRef,
    ActorSystem,
    AskTimeoutError,
    WouldDeadlockError,
)
from loopwright.policy import over
from loopwright.testing import ScriptedModel, Step, settle

pytestmark = pytest.mark.anyio

cv = contextvars.ContextVar("cv", default="nobody's")


async def test_b112_each_run_sees_its_callers_context() -> None:
    """B112: model, tools and hooks see the caller's variables; what a tool sets stays its own."""
    seen: dict[tuple[str, str], set[str]] = {}

    def note(invocation_id: str, where: str) -> None:
        seen.setdefault((invocation_id, where), set()).add(cv.get())

    @tool(effect="read")
    async def look(ctx: ToolContext) -> None:
        note(ctx.invocation_id, "async tool")
        cv.set("x")

    @tool(effect="read")
    def look_in_thread(ctx: ToolContext) -> None:
        note(ctx.invocation_id, "sync tool")
        cv.set("x")

    def observe(event: TraceEvent) -> None:
        note(event.invocation_id, "hook")

    def decide(request: ModelRequest) -> Step:
        note(request.invocation_id, "model")
        cv.set("x")
        if request.turn > 2:
            return Final("done")
        return batch(call("1", "look"), call("2", "look_in_thread"))

    desk = agent(ScriptedModel(repeat(decide)), look, look_in_thread)
    async with Runtime([desk], observers=[observe]) as runtime:

        async def request(value: str) -> Outcome:
            cv.set(value)
            outcome = await runtime.run("desk", "the goal")
            assert cv.get() == value
            return outcome

        one, two = await asyncio.gather(request("req-1"), request("req-2"))

    assert one.completed
    assert two.completed
    places = ("model", "async tool", "sync tool", "hook")
    assert seen == {
        (outcome.invocation_id, where): {value}
        for outcome, value in ((one, "req-1"), (two, "req-2"))
        for where in places
    }
    assert cv.get() == "nobody's"


@pytest.mark.parametrize("way", ["blocking", "awaited"])
@pytest.mark.parametrize("hops", [1, 2])
async def test_b115_an_actor_that_asks_itself_never_hangs(
    way: Literal["blocking", "awaited"], hops: int
) -> None:
    """B115: A asks A, or A asks B which asks A: a typed error, at its limit at the latest."""

    class Asker(Actor):
        next: ActorRef[Any]

        def on_receive(self, message: object) -> object:
            if isinstance(message, ActorRef):
                self.next = message
                return None
            return self.next.ask(message) if way == "blocking" else self.wait(message)

        async def wait(self, message: object) -> object:
            return await self.next.ask(message, block=False, timeout=0.02)

    async with ActorSystem() as system:
        refs = [system.start(Asker) for _ in range(hops)]
        for i, ref in enumerate(refs):
            ref.tell(refs[(i + 1) % hops])
        expected = WouldDeadlockError if way == "blocking" else AskTimeoutError
        async with asyncio.timeout(2):
            with pytest.raises(expected):
                await refs[0].ask("start", block=False)


async def test_b115_a_tool_that_waits_for_its_own_run_ends_at_its_limit() -> None:
    """B115: the run it waits for goes on without it."""

    @tool(effect="read", timeout=0.02)
    async def wait_for_myself(ctx: ToolContext) -> str:
        return (await runtime.outcome(ctx.invocation_id)).answer

    model = ScriptedModel([batch(call("1", "wait_for_myself")), Final("done")])
    runtime = Runtime([agent(model, wait_for_myself)])
    async with runtime, asyncio.timeout(2):
        outcome = await runtime.run("desk", "the goal")
    assert outcome.completed
    assert outcome.history[0].results[0].status == "timeout"


@tool(effect="read")
async def look(n: int) -> int:
    return n


@tool(effect="read")
def look_in_thread(n: int) -> int:
    return n


@tool(effect="manual")
async def pay(amount: int) -> int:
    return amount


@tool(effect="read")
async def wait() -> None:
    await asyncio.Event().wait()


def by_goal(request: ModelRequest) -> Step:
    """Read, write, and end as the goal says."""
    match request.turn, request.goal:
        case 1, "cancelled":
            return batch(call("1", "wait"))
        case 1, "failed":
            return RuntimeError("the model is down")
        case 1, _:
            return batch(call("1", "look", {"n": 1}), call("2", "look_in_thread", {"n": 2}))
        case 2, _:
            return batch(call("1", "pay", {"amount": 200 if request.goal == "suspended" else 1}))
        case _:
            return Final("done")


ENDINGS = {
    "completed": Reason.COMPLETED,
    "failed": Reason.MODEL_ERROR,
    "suspended": Reason.APPROVAL_REQUIRED,
    "cancelled": Reason.CANCELLED,
}
AT_ONCE = 250


class Office:
    """A runtime that serves many runs and, beside it, what tells whether it keeps any of them."""

    def __init__(self, *more: Agent) -> None:
        self.model = ScriptedModel(repeat(by_goal))
        self.store = ForgetfulStore()
        asks = Policy(ask=[over(100)])
        desk = agent(self.model, look, look_in_thread, pay, wait, policy=asks)
        self.runtime = Runtime([desk, *more], store=self.store)
        self.actors = weakref.WeakSet[Actor]()
        """The actors of runs that are still in memory."""

    async def serve(self, goals: Sequence[str]) -> None:
        """Run so many invocations at once; then drop all that the test itself keeps of them."""
        reasons = asyncio.gather(*(self._one(goal) for goal in goals))
        await settle(2)
        self.actors.update(actors_of_runs())
        assert self.actors
        assert await reasons == [ENDINGS[goal] for goal in goals]
        self.model.requests.clear()
        await self.store.empty()

    async def _one(self, goal: str) -> Reason:
        run = await self.runtime.start("desk", goal)
        if goal == "cancelled":
            run.cancel()
        return (await run.outcome()).reason


def actors_of_runs() -> list[Actor]:
    # Not isinstance: it would ask objects of other tests for their class, and some are hostile.
    return [o for o in gc.get_objects() if type(o) in (Supervisor, ProgressTracker)]


def mixed(count: int, every: int) -> list[str]:
    """Goals: one of `every` fails, one is suspended, one is cancelled, the others complete."""
    odd = ("failed", "suspended", "cancelled")
    return [odd[n % every] if n % every < len(odd) else "completed" for n in range(count)]


async def test_b114_a_finished_run_leaves_nothing_in_memory() -> None:
    """B114: also with a timer going on that a tool has made, which holds on to the tool's context."""
    ticks: list[asyncio.TimerHandle] = []

    @tool(effect="read")
    async def set_timer() -> None:
        def tick() -> None:
            ticks[:] = [asyncio.get_running_loop().call_later(0.01, tick)]

        tick()

    sets_timer = ScriptedModel([batch(call("1", "set_timer")), Final("done")])
    office = Office(agent(sets_timer, set_timer, name="timers"))
    async with office.runtime as runtime:
        await office.serve(mixed(4, 4))
        assert (await runtime.run("timers", "the goal")).completed
        before, statistics = tasks(), runtime.statistics()
        for _ in range(4):
            await office.serve(mixed(250, 100))
        await settle()
        gc.collect()

        assert len(office.actors) == 0
        assert actors_of_runs() == []
        assert runtime.statistics() == statistics
        assert tasks() == before
        ticks[0].cancel()


async def test_ten_thousand_invocations_leave_nothing_behind() -> None:
    """Issue 2: actors, tasks, threads and memory are back at the baseline after 10,000 runs."""
    threads = set(threading.enumerate())
    office = Office()
    async with office.runtime as runtime:
        for _ in range(4):
            await office.serve(mixed(AT_ONCE, 10))
        gc.collect()
        before, statistics = tasks(), runtime.statistics()
        blocks = sys.getallocatedblocks()

        runs = 9_000
        for _ in range(runs // AT_ONCE):
            await office.serve(mixed(AT_ONCE, 10))
        await settle()
        gc.collect()

        assert sys.getallocatedblocks() - blocks < runs / 4, "not even one object for four runs"
        assert len(office.actors) == 0
        assert actors_of_runs() == []
        assert runtime.statistics() == statistics
        assert tasks() == before
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)
        assert not thread.is_alive()
