"""Casebook G: limits are hard, counted right, and end with a typed reason."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime

import pytest

from casebook.desk import agent, batch, call, journal, play, sleep, tasks
from loopwright import Agent, Budget, Final, ModelRequest, Policy, Reason, Runtime, tool
from loopwright.protocol import InvocationEnded, InvocationId, Record, TurnCommitted
from loopwright.stores import MemoryStore
from loopwright.testing import ScriptedModel, Step, VirtualClock, settle

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("used", "size"), [(5, 3), (0, 8)])
async def test_b49_a_batch_that_crosses_the_limit_starts_nothing(used: int, size: int) -> None:
    """B49: limit 6: with 5 used a batch of 3, and with 0 used a batch of 8, does not start."""
    ran: Counter[int] = Counter()

    @tool(effect="read")
    async def look(n: int) -> None:
        ran[n] += 1

    before: list[Step] = [batch(call(str(n), "look", {"n": n})) for n in range(used)]
    crossing = batch(*(call(f"x{n}", "look", {"n": 100 + n}) for n in range(size)))
    played = await play([*before, crossing], look, budget=Budget(max_tool_calls=6))

    assert played.outcome.reason is Reason.TOOL_BUDGET_EXHAUSTED
    assert ran.total() == played.outcome.tool_calls == used
    assert played.statuses == ["ok"] * used + ["not_started"] * size


async def test_b51_the_last_step_is_a_whole_one() -> None:
    """B51: max_steps=3 is three decisions; the calls of the third run, and there is no fourth."""
    ran: Counter[int] = Counter()

    @tool(effect="read")
    async def look(n: int) -> None:
        ran[n] += 1

    budget = Budget(max_steps=3)
    looks: list[Step] = [batch(call("c", "look", {"n": n})) for n in range(9)]
    endless = await play(looks, look, budget=budget)
    assert endless.outcome.reason is Reason.MAX_STEPS
    assert (endless.model.calls, endless.outcome.steps) == (3, 3)
    assert ran == {0: 1, 1: 1, 2: 1}
    assert [[r.status.value for r in t.results] for t in endless.outcome.history] == [["ok"]] * 3

    ending = await play([*looks[:2], Final("done")], look, budget=budget)
    assert ending.outcome.completed
    assert ending.outcome.steps == 3


@pytest.mark.parametrize("obeys", [True, False], ids=["obedient", "stubborn"])
async def test_b54_a_hanging_model_does_not_outlast_the_deadline(obeys: bool) -> None:
    """B54: at 0.3 s a model call is given up, by 0.5 s it is abandoned, and the end is durable."""
    clock = VirtualClock()
    heard, let_go = asyncio.Event(), asyncio.Event()

    async def hang(request: ModelRequest) -> Final:
        try:
            await sleep(clock, 10)
        except asyncio.CancelledError:
            heard.set()
            if obeys:
                raise
            await let_go.wait()
        return Final("too late")

    model = ScriptedModel([hang])
    deadline = datetime.fromtimestamp(clock.now().wall + 0.3, UTC)
    desk = agent(model, policy=Policy(cancel_grace=0.2), budget=Budget(deadline=deadline))
    async with Runtime([desk], clock=clock) as runtime:
        await settle()
        before = tasks()
        run = await runtime.start("desk", "the goal")
        await clock.advance(0.299)
        assert not heard.is_set()
        await clock.advance(0.001 if obeys else 0.201)
        assert heard.is_set()
        outcome = await asyncio.wait_for(run.outcome(), 1)
        ended = (await journal(runtime, run.id))[-1]
        let_go.set()
        await settle()
        assert tasks() == before

    assert outcome.reason is Reason.DEADLINE_EXCEEDED
    assert isinstance(ended, InvocationEnded)
    assert ended.reason is Reason.DEADLINE_EXCEEDED
    assert outcome.history[:] == ()


async def test_b120_no_clock_on_the_wall_decides_anything() -> None:
    """B120: the wall clock jumps back and forth during a run, and after a restart monotonic begins
    anew: only running time counts, and what was used before the restart still is.
    """
    store = MemoryStore()

    def desk(clock: VirtualClock, *naps: float) -> Agent:
        @tool(effect="read")
        async def nap(seconds: float) -> float:
            await sleep(clock, seconds)
            return seconds

        steps = [batch(call(f"c{n}", "nap", {"seconds": s})) for n, s in enumerate(naps)]
        return agent(ScriptedModel([*steps, Final("done")]), nap)

    clock = VirtualClock()
    budget = Budget(max_active_seconds=10)
    async with Runtime([desk(clock, 1, 60)], store=store, clock=clock) as runtime:
        run = await runtime.start("desk", "the goal", budget=budget)
        await clock.advance(0.5)
        clock.jump_wall(-3_600)
        await clock.advance(0.25)
        clock.jump_wall(7_200)
        await clock.advance(0.25)
        records = await journal_so_far(runtime, run.id)
        assert [r.active_seconds for r in records if isinstance(r, TurnCommitted)] == [1.0]

    clock = VirtualClock(monotonic=0.1)
    async with Runtime([desk(clock, 8.9, 60)], store=store, clock=clock) as runtime:
        (run,) = await runtime.recover()
        await clock.advance(8.9)
        records = await journal_so_far(runtime, run.id)
        spent = [r.active_seconds for r in records if isinstance(r, TurnCommitted)]
        assert spent == [1.0, pytest.approx(9.9)]
        await clock.advance(0.2)
        outcome = await run.outcome()
    assert outcome.reason is Reason.TIME_BUDGET_EXHAUSTED
    assert outcome.spent.active_seconds == pytest.approx(10, abs=0.11)
    assert [r.turn for r in records if isinstance(r, TurnCommitted)] == [1, 2]


async def journal_so_far(runtime: Runtime, invocation_id: str) -> list[Record]:
    """Read what is durable of an invocation that runs."""
    stored = await runtime.store.load(InvocationId(invocation_id))
    return [entry.record for entry in stored.entries()]
