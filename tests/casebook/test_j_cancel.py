"""Casebook J: cancels, timeouts, and errors that tools raise themselves."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from pathlib import Path

import pytest

from casebook.desk import Played, agent, batch, call, play, sleep
from casebook.processes import Worker
from loopwright import Budget, Final, ModelRequest, Policy, Reason, Runtime, tool
from loopwright.testing import ScriptedModel, Step, VirtualClock, settle

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("effect", ["read", "manual"])
async def test_b86_a_tool_that_swallows_its_cancellation_ends_nothing_but_itself(
    effect: str,
) -> None:
    """B86: "fine" after a cancel is no success, and leads to no further model call."""
    clock = VirtualClock()

    @tool(effect=effect)
    async def stubborn() -> str:
        try:
            await sleep(clock, 10)
        except BaseException:  # noqa: BLE001 - what the case is about
            return "fine"
        return "in time"

    model = ScriptedModel([batch(call("1", "stubborn"))])
    desk = agent(model, stubborn, policy=Policy(cancel_grace=1))
    async with Runtime([desk], clock=clock) as runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(0.05)
        run.cancel("enough")
        await clock.advance(1)
        outcome = await asyncio.wait_for(run.outcome(), 1)

    assert outcome.reason is Reason.CANCELLED
    assert model.calls == 1
    ended = "cancelled" if effect == "read" else "outcome_unknown"
    assert Played(outcome, model).statuses == [ended]


@pytest.mark.parametrize("effect", ["read", "manual"])
async def test_b86_a_tool_that_never_ends_is_abandoned(
    effect: str,
) -> None:
    """B86: the run returns within the grace period, and the task is reported as abandoned."""
    clock, let_go = VirtualClock(), False

    @tool(effect=effect)
    async def endless() -> None:
        while not let_go:
            with contextlib.suppress(BaseException):
                await sleep(clock, 10)

    model = ScriptedModel([batch(call("1", "endless"))])
    desk = agent(model, endless, policy=Policy(cancel_grace=1))
    async with Runtime([desk], clock=clock) as runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(0.05)
        run.cancel("enough")
        await clock.advance(1)
        outcome = await asyncio.wait_for(run.outcome(), 1)
        let_go = True
        await clock.advance(10)

    assert outcome.reason is Reason.CANCELLED
    assert model.calls == 1
    (result,) = outcome.history[0].results
    assert result.status == ("cancelled" if effect == "read" else "outcome_unknown")
    assert result.error is not None
    assert "abandoned" in result.error.message


class Blocking:
    """Sync tools that block a real thread until they are let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.returned = threading.Event()

    def block(self) -> str:
        self.let_go.wait(3)
        self.returned.set()
        return "too late"


@pytest.mark.parametrize(("effect", "status"), [("read", "timeout"), ("manual", "outcome_unknown")])
async def test_b88_a_blocking_tool_blocks_nobody_else(effect: str, status: str) -> None:
    """B88: it is given up at its limit, its late return is dropped, and the loop never waits."""
    blocking, ticks = Blocking(), 0

    @tool(effect=effect, timeout=0.1)
    def slow() -> str:
        return blocking.block()

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticker = asyncio.create_task(tick())
    model = ScriptedModel([batch(call("1", "slow")), Final("done")])
    async with Runtime([agent(model, slow)]) as runtime:
        began = time.monotonic()
        outcome = await runtime.run("desk", "the goal")
        seconds = time.monotonic() - began
        blocking.let_go.set()
        await asyncio.to_thread(blocking.returned.wait, 3)
        await settle()
        after = await runtime.outcome(outcome.invocation_id)
    ticker.cancel()

    assert outcome.completed
    assert 0.1 <= seconds <= 0.3
    assert ticks >= 5
    for told in (outcome, after):
        assert Played(told, model).statuses == [status]


async def test_b88_fifty_blocked_threads_leave_room_for_a_fast_tool() -> None:
    """B88: after 50 such calls, most of them still blocking, a fast sync tool runs promptly."""
    blocking = Blocking()

    @tool(effect="read", timeout=0.1)
    def slow() -> str:
        return blocking.block()

    @tool(effect="read")
    def fast() -> float:
        return time.monotonic()

    steps: list[Step] = [
        batch(*(call(str(n), "slow") for n in range(50))),
        batch(call("fast", "fast")),
        Final("done"),
    ]
    model = ScriptedModel(steps)
    async with Runtime([agent(model, slow, fast)]) as runtime:
        began = time.monotonic()
        outcome = await runtime.run("desk", "the goal")
        seconds = time.monotonic() - began
        blocking.let_go.set()

    assert outcome.completed
    assert Played(outcome, model).statuses == ["timeout"] * 50 + ["ok"]
    assert seconds < 0.5


async def test_b88_one_idle_thread_is_not_promised_to_two_calls() -> None:
    """B88: calls of a blocking tool wait for one another only where all its threads are busy."""
    both = threading.Barrier(2)
    pair = batch(*(call(str(n), "meet", {"alone": False}) for n in (2, 3)))

    @tool(effect="read", timeout=3)
    def meet(alone: bool) -> None:
        if not alone:
            both.wait(1)

    async def once_the_thread_is_idle(request: ModelRequest) -> Step:
        await asyncio.sleep(0.02)
        return pair

    first = batch(call("1", "meet", {"alone": True}))
    model = ScriptedModel([first, once_the_thread_is_idle, Final("done")])
    async with Runtime([agent(model, meet)]) as runtime:
        outcome = await runtime.run("desk", "the goal")
    assert Played(outcome, model).statuses == ["ok"] * 3


async def test_b88_a_blocked_thread_does_not_keep_the_process(tmp_path: Path) -> None:
    """B88: a process ends while its tool would block for another minute."""
    began = time.monotonic()
    worker = Worker("blocked", tmp_path / "none", tmp_path / "none")
    assert await worker.said() == ["completed", "timeout"]
    assert await worker.ended() == (0, "")
    assert time.monotonic() - began < 10


async def test_b89_a_tools_own_timeout_error_is_its_error() -> None:
    """B89: only the runtime's own limit is a `timeout`."""

    @tool(effect="read", timeout=5)
    async def ask_upstream() -> None:
        raise TimeoutError("upstream")

    played = await play(
        [batch(call("1", "ask_upstream")), Final("done")],
        ask_upstream,
        budget=Budget(max_active_seconds=60),
    )

    assert played.outcome.completed
    assert played.model.calls == 2
    (result,) = played.results
    assert result.status == "error"
    assert result.error is not None
    assert (result.error.type, result.error.message) == ("TimeoutError", "upstream")
