"""The ToolExecutor: limits of time and number, and interrupts at every moment."""

from __future__ import annotations

import asyncio

import pytest

from loopwright import tool
from loopwright.actors import AnyTool
from loopwright.testing import settle
from services.bench import Gate, effect_of, error_type, executor

pytestmark = pytest.mark.anyio


def gated(
    gate: Gate,
    *,
    write: bool = False,
    timeout: float | None = None,
    max_concurrency: int | None = None,
) -> AnyTool:
    """Make a tool that waits at the gate."""

    async def t(who: str = "?") -> str:
        return await gate.wait(who)

    return tool(effect=effect_of(write), timeout=timeout, max_concurrency=max_concurrency)(t)


def stubborn(gate: Gate, *, write: bool = False, timeout: float | None = None) -> AnyTool:
    """Make a tool that swallows its cancellation, and returns once the gate is open."""

    async def t(who: str = "?") -> str:
        while not gate.open.is_set():
            try:
                await gate.wait(who)
            except asyncio.CancelledError:
                gate.came.append(f"{who} goes on")
        return "late"

    return tool(effect=effect_of(write), timeout=timeout)(t)


async def test_each_attempt_has_the_same_limit_from_its_own_start() -> None:
    """Attempts due at different times are timed out at those, with one timer."""
    gate = Gate()
    async with executor(gated(gate, timeout=10)) as bench:
        bench.start("a")
        await bench.clock.advance(4)
        bench.start("b")
        bench.start("c")
        await bench.clock.advance(3)
        bench.start("d")
        bench.interrupt("b")
        await bench.clock.advance(2.9)
        assert bench.statuses == [("b", "cancelled")]
        await bench.clock.advance(0.2)
        assert bench.statuses[1:] == [("a", "timeout")]
        await bench.clock.advance(3.8)
        assert bench.statuses[2:] == []
        await bench.clock.advance(0.2)
        assert bench.statuses[2:] == [("c", "timeout")]
        await bench.clock.advance(3)
        assert bench.statuses[3:] == [("d", "timeout")]
        bench.start("e")
        await bench.clock.advance(10)
        await bench.results(5)

    first = bench.answered[1].error
    assert first is not None
    assert (first.type, first.retryable) == ("Timeout", True)
    assert first.message == "it exceeded its limit of 10 s"


async def test_what_ended_in_time_is_not_timed_out() -> None:
    """The timer finds nothing due then."""
    gate = Gate()
    gate.open.set()
    async with executor(gated(gate, timeout=10)) as bench:
        assert (await bench.run("a")).ok
        await bench.clock.advance(100)
        assert (await bench.run("b")).ok


async def test_a_write_that_is_late_has_an_unknown_outcome() -> None:
    """B55: a write never ends as `timeout`: it may have taken effect."""
    gate = Gate()
    async with executor(gated(gate, write=True, timeout=10)) as bench:
        bench.start()
        await bench.clock.advance(10)
        (result,) = await bench.results(1)

    assert result.status == "outcome_unknown"
    assert error_type(result) == "OutcomeUnknown"


@pytest.mark.parametrize("write", [False, True])
async def test_a_body_that_does_not_obey_is_not_waited_for(write: bool) -> None:
    """It is timed out all the same, and what it returns late is dropped."""
    gate = Gate()
    async with executor(stubborn(gate, write=write, timeout=10)) as bench:
        bench.start()
        await bench.clock.advance(10)
        assert bench.statuses == [("c1", "outcome_unknown" if write else "timeout")]
        assert gate.came == ["?", "? goes on", "?"]
        gate.open.set()
        await settle()
        await bench.results(1)


@pytest.mark.parametrize("write", [False, True])
async def test_an_interrupt_that_is_swallowed_still_was_one(write: bool) -> None:
    """What an interrupted body returns in the end is not taken as if nobody had interrupted it."""
    gate = Gate()
    async with executor(stubborn(gate, write=write, timeout=10)) as bench:
        bench.start()
        await settle()
        bench.interrupt()
        await bench.clock.advance(20)
        assert bench.statuses == []
        gate.open.set()
        (result,) = await bench.results(1)

    assert result.status == ("outcome_unknown" if write else "cancelled")
    assert error_type(result) == ("OutcomeUnknown" if write else "Cancelled")


async def test_an_error_on_being_interrupted_is_the_interrupt() -> None:
    """What a body raises while it unwinds says nothing about the call."""
    gate = Gate()

    @tool(effect="read")
    async def t() -> None:
        try:
            await gate.wait("t")
        finally:
            raise ValueError("while unwinding")

    async with executor(t) as bench:
        bench.start()
        await settle()
        bench.interrupt()
        (result,) = await bench.results(1)

    assert (result.status, error_type(result)) == ("cancelled", "Cancelled")


@pytest.mark.parametrize("write", [False, True])
async def test_an_interrupt_in_the_tick_of_the_dispatch(write: bool) -> None:
    """The body has begun by the time it is cancelled, so there is an answer."""
    gate = Gate()
    async with executor(gated(gate, write=write)) as bench:
        bench.start()
        bench.interrupt()
        bench.interrupt()
        (result,) = await bench.results(1)

    assert result.status == ("outcome_unknown" if write else "cancelled")


async def test_interrupting_what_is_over_or_unknown_does_nothing() -> None:
    """It is answered already, or was never asked."""
    gate = Gate()
    gate.open.set()
    async with executor(gated(gate)) as bench:
        bench.interrupt("nobody")
        assert (await bench.run()).ok
        bench.interrupt()
        await bench.results(1)


async def test_no_more_than_the_limit_run_at_once_and_the_rest_in_order() -> None:
    """Who waits has not begun, and its time does not run."""
    gate = Gate()
    async with executor(gated(gate, max_concurrency=2, timeout=10)) as bench:
        for name in "abcde":
            bench.start(name, who=name)
        await bench.clock.advance(9)
        assert gate.came == ["a", "b"]
        bench.interrupt("a")
        await settle()
        assert gate.came == ["a", "b", "c"]
        await bench.clock.advance(5)
        assert bench.statuses == [("a", "cancelled"), ("b", "timeout")]
        assert gate.came == ["a", "b", "c", "d"]
        gate.open.set()
        await bench.results(5)
        assert gate.came == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("write", [False, True])
async def test_what_was_still_waiting_never_ran(write: bool) -> None:
    """An interrupt takes it out of the queue: a write is `not_started`, a read `cancelled`."""
    gate = Gate()
    async with executor(gated(gate, write=write, max_concurrency=1)) as bench:
        bench.start("a", who="a")
        bench.start("b", who="b")
        bench.start("c", who="c")
        await settle()
        bench.interrupt("b")
        (result,) = await bench.results(1)
        assert result.call_id == "b"
        assert result.status == ("not_started" if write else "cancelled")
        assert result.error is not None
        assert result.error.message == "it was interrupted; the body never ran"
        gate.open.set()
        await bench.results(3)

    assert gate.came == ["a", "c"]


@pytest.mark.parametrize("write", [False, True])
async def test_what_has_begun_may_be_left_to_report(write: bool) -> None:
    """A soft cancel gives it its grace, and takes out only what still waits for its turn."""
    gate = Gate()
    async with executor(gated(gate, write=write, max_concurrency=1)) as bench:
        for name in "abc":
            bench.start(name, who=name)
        await settle()
        for name in "abc":
            bench.interrupt(name, begun=False)
        stopped = "not_started" if write else "cancelled"
        await bench.results(2)
        assert bench.statuses == [("b", stopped), ("c", stopped)]
        gate.open.set()
        await bench.results(3)

    assert bench.statuses[2:] == [("a", "ok")]
    assert gate.came == ["a"]


async def test_what_was_left_to_report_can_be_interrupted_later() -> None:
    """Once its grace is over."""
    gate = Gate()
    async with executor(gated(gate, write=True)) as bench:
        bench.start()
        await settle()
        bench.interrupt(begun=False)
        await settle()
        assert bench.statuses == []
        bench.interrupt()
        (result,) = await bench.results(1)

    assert result.status == "outcome_unknown"


async def test_nothing_that_waits_begins_while_all_is_closed() -> None:
    """A write must not be started by the end of the one before it."""
    gate = Gate()
    async with executor(gated(gate, write=True, max_concurrency=1)) as bench:
        bench.start("a", who="a")
        bench.start("b", who="b")
        await settle()

    assert gate.came == ["a"]


async def test_closing_abandons_the_timer() -> None:
    """A timer of a closed executor calls nobody."""
    gate = Gate()
    async with executor(gated(gate, timeout=10)) as bench:
        bench.start()
        await settle()
    closed = bench.statuses
    await bench.clock.advance(20)
    assert bench.statuses == closed == [("c1", "error")]


@pytest.mark.parametrize("limit", [None, 1])
async def test_an_attempt_ordered_anew_is_answered(limit: int | None) -> None:
    """A rebuilt Supervisor orders its reads again: the first one's end is not the second's."""
    gate = Gate()
    async with executor(gated(gate, max_concurrency=limit)) as bench:
        bench.start("a", who="first")
        bench.start("b", who="waiting")
        await settle()
        bench.start("a", who="second")
        bench.start("b", who="waiting, too")
        await settle()
        gate.open.set()
        await settle()

    outputs = [result.output for result in bench.answered if result.ok]
    assert sorted(map(str, outputs)) == ["second", "waiting, too"]
