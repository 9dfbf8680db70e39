"""Casebook J: cancels, timeouts, and errors that tools raise themselves."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from casebook.desk import Played, agent, batch, call, play, sleep
from casebook.processes import Worker, lines
from loopwright import (
    Agent,
    Budget,
    Final,
    ModelReply,
    ModelRequest,
    Policy,
    Reason,
    Runtime,
    tool,
)
from loopwright.policy import Retry
from loopwright.stores import SQLiteStore
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
    """B88: it is given up at its limit and the loop never waits; a read's late return is dropped.

    That of a write settles it: B88 would have it dropped too, 20-protocol and B55 know better.
    """
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
        (fact,) = await runtime.effects() if effect == "manual" else [None]
        blocking.let_go.set()
        await asyncio.to_thread(blocking.returned.wait, 3)
        await settle()
        after = await runtime.outcome(outcome.invocation_id)
    ticker.cancel()

    assert 0.1 <= seconds <= 0.3
    assert ticks >= 5
    assert after.completed
    if effect == "read":
        assert outcome.completed
        assert Played(after, model).statuses == [status]
    else:
        assert outcome.reason is Reason.RECONCILIATION_REQUIRED
        assert fact is not None
        assert fact.entry.status == status
        assert Played(after, model).statuses == ["ok"]
        assert Played(after, model).results[0].output == "too late"


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
        policy=Policy(tool_retry=Retry(max_attempts=1)),
    )

    assert played.outcome.completed
    assert played.model.calls == 2
    (result,) = played.results
    assert result.status == "error"
    assert result.error is not None
    assert (result.error.type, result.error.message) == ("TimeoutError", "upstream")


async def test_b90_what_tears_a_tool_off_is_never_a_success() -> None:
    """B90: a write that raises SystemExit has an unknown outcome, a read has failed; others go on."""

    @tool(effect="manual")
    async def write() -> None:
        raise SystemExit(3)

    @tool(effect="read")
    async def look() -> None:
        raise SystemExit(3)

    model = ScriptedModel([batch(call("r", "look")), batch(call("w", "write"))])
    other = agent(ScriptedModel([Final("done")]), name="other")
    async with Runtime([agent(model, look, write), other]) as runtime:
        outcome, bystander = await asyncio.gather(
            runtime.run("desk", "the goal"), runtime.run("other", "the goal")
        )
    assert bystander.completed
    (read,) = outcome.history[0].results
    assert (read.status, read.error and read.error.category) == ("error", "internal")
    assert outcome.reason is Reason.RECONCILIATION_REQUIRED
    assert [e.status for e in outcome.unresolved_effects] == ["outcome_unknown"]


async def test_b90_an_interrupt_reaches_the_caller(tmp_path: Path) -> None:
    """B90: a read that raises KeyboardInterrupt ends the process; the write in flight is unknown."""
    path, ledger = tmp_path / "agents.db", tmp_path / "ledger"
    code, errors = await Worker("interrupted", path, ledger).ended()
    assert code != 0
    assert "KeyboardInterrupt" in errors

    @tool(effect="manual")
    async def write() -> None:
        raise AssertionError("nobody lets it run again")

    @tool(effect="read")
    async def look() -> str:
        return "seen"

    desk = agent(ScriptedModel([Final("done")]), write, look)
    later = SQLiteStore(path, clock=lambda: time.monotonic() + 60)
    async with Runtime([desk], store=later) as runtime:
        for run in await runtime.recover():
            await run.outcome()
        ended = {one.head.goal: str(one.head.reason) for one in await runtime.invocations()}
        (fact,) = await runtime.effects()
    assert lines(ledger) == ["write"]
    assert ended == {"write": "reconciliation_required", "look": "completed"}
    assert fact.entry.status == "outcome_unknown"


async def test_b94_a_cancel_is_heard_during_a_backoff() -> None:
    """B94: the model's provider is down and it waits 30 s before it asks again: nobody else does."""
    clock, asked = VirtualClock(), 0

    class Patient:
        async def decide(self, request: ModelRequest) -> ModelReply:
            nonlocal asked
            while True:
                asked += 1
                await sleep(clock, 30)  # it was answered 503

    async with Runtime([Agent("desk", model=Patient())], clock=clock) as runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(0.05)
        run.cancel("enough")
        await clock.advance(0.2)
        outcome = await asyncio.wait_for(run.outcome(), 1)
        await clock.advance(60)
    assert outcome.reason is Reason.CANCELLED
    assert asked == 1


@pytest.mark.parametrize("obeys", [True, False])
async def test_b94_a_cancel_is_heard_while_arguments_are_repaired(obeys: bool) -> None:
    """B94: the repair succeeds after the cancel: nothing of it runs, and the model is not asked."""
    clock, ran = VirtualClock(), Counter[str]()

    @tool(effect="manual")
    async def write(n: int) -> None:
        ran["write"] += 1

    async def repair(request: ModelRequest) -> Step:
        try:
            await sleep(clock, 0.1)
        except asyncio.CancelledError:
            if obeys:
                raise
        return batch(call("2", "write", {"n": 1}))

    model = ScriptedModel([batch(call("1", "write", {"n": "x"})), repair, Final("never")])
    async with Runtime([agent(model, write)], clock=clock) as runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(0.05)
        assert model.calls == 2
        run.cancel("enough")
        await clock.advance(0.2)
        outcome = await asyncio.wait_for(run.outcome(), 1)
        await clock.advance(60)
    assert outcome.reason is Reason.CANCELLED
    assert (ran, model.calls) == ({}, 2)
