"""Casebook C: calls that run side by side."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from casebook.desk import FlakyStore, agent, batch, call, play, sleep, tasks
from loopwright import Final, Reason, Runtime, ToolCalls, tool
from loopwright.protocol import StoreError
from loopwright.testing import ScriptedModel, VirtualClock, settle

pytestmark = pytest.mark.anyio


async def test_b15_a_failing_call_does_not_cost_its_siblings() -> None:
    """B15: each of three parallel calls has its own result, and the run goes on."""

    @tool(effect="read")
    async def a() -> str:
        return "A"

    @tool(effect="read")
    async def b() -> None:
        raise RuntimeError("boom")

    @tool(effect="read")
    async def c() -> str:
        return "C"

    played = await play(
        [batch(call("1", "a"), call("2", "b"), call("3", "c")), Final("done")], a, b, c
    )

    assert played.outcome.reason is Reason.COMPLETED
    assert played.model.calls == 2
    assert played.statuses == ["ok", "error", "ok"]
    first, failed, last = played.results
    assert (first.output, last.output) == ("A", "C")
    assert failed.error is not None
    assert (failed.error.type, failed.error.message) == ("RuntimeError", "boom")


@pytest.mark.parametrize("error", [StoreError("the disk is gone"), OSError("the disk is gone")])
async def test_b16_no_task_outlives_a_failed_run(error: Exception) -> None:
    """B16: when a run fails, what it started has ended before its caller hears of it."""
    clock, late = VirtualClock(), Counter[str]()
    store = FlakyStore(lambda number: error if number > 1 else None)

    @tool(effect="read")
    async def slow(name: str) -> None:
        late["started"] += 1
        await sleep(clock, 1)
        late[name] += 1

    model = ScriptedModel(
        [batch(call("1", "slow", {"name": "x"}), call("2", "slow", {"name": "y"}))]
    )
    async with Runtime([agent(model, slow)], store=store, clock=clock) as runtime:
        await settle()
        before = tasks()
        run = await runtime.start("desk", "the goal")
        waiting = asyncio.create_task(run.outcome())
        await clock.advance(0.01)
        outcome = await waiting
        assert tasks() == before
        await clock.advance(2)

    assert outcome.reason is Reason.CHECKPOINT_FAILED
    assert late == {"started": 2}


async def test_b17_writes_of_a_batch_do_not_overlap() -> None:
    """B17: writes run one at a time, in call order, and a read between them keeps its place."""
    clock = VirtualClock()
    value, writing, most = 0, 0, 0
    order: list[int] = []

    @tool(effect="manual")
    async def add(amount: int) -> int:
        nonlocal value, writing, most
        writing += 1
        most = max(most, writing)
        order.append(amount)
        seen = value
        await sleep(clock, 0.01)
        value = seen + amount
        writing -= 1
        return value

    @tool(effect="read")
    async def get() -> int:
        return value

    model = ScriptedModel(
        [
            batch(
                call("1", "add", {"amount": 1}), call("2", "get"), call("3", "add", {"amount": 2})
            ),
            Final("done"),
        ]
    )
    async with Runtime([agent(model, add, get)], clock=clock) as runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(0.02)
        outcome = await run.outcome()

    assert outcome.completed
    assert (value, most, order) == (3, 1, [1, 2])
    results = outcome.history[0].results
    assert [(r.status.value, r.output) for r in results] == [("ok", 1), ("ok", 1), ("ok", 3)]


async def test_b18_text_beside_calls_is_no_answer() -> None:
    """B18: the calls run, the text is kept as commentary, and the answer comes later."""
    ran: Counter[str] = Counter()

    @tool(effect="read")
    async def look() -> None:
        ran["c1"] += 1

    played = await play(
        [batch(call("c1", "look"), commentary="Checking…"), {"kind": "final", "answer": "42"}], look
    )

    assert ran["c1"] == 1
    assert played.outcome.answer == "42"
    assert played.model.calls == 2
    decision = played.model.requests[1].history[0].proposal.decision
    assert isinstance(decision, ToolCalls)
    assert decision.commentary == "Checking…"
