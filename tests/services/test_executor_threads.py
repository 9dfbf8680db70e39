"""The ToolExecutor: bodies that block run in threads, bounded, and are abandoned when they must be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from loopwright import tool
from loopwright.actors import AnyTool
from loopwright.protocol import Executed, NotDispatched
from loopwright.testing import settle
from services.bench import ExecutorBench, effect_of, error_type, executor

pytestmark = pytest.mark.anyio


class Floor:
    """Where blocking bodies stand until they are let go."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.leave = threading.Event()
        self.came: list[str] = []

    def stand(self, who: str) -> str:
        """Block, in a thread."""
        self.came.append(who)
        self.entered.release()
        assert self.leave.wait(30)
        return who

    async def full(self, count: int) -> None:
        """Wait until so many have entered."""
        for _ in range(count):
            await asyncio.to_thread(self.entered.acquire)


@pytest.fixture
def floor() -> Iterator[Floor]:
    made = Floor()
    yield made
    made.leave.set()


def blocking(
    floor: Floor, *, write: bool = False, limit: int | None = 1, timeout: float | None = 10
) -> AnyTool:
    def t(who: str) -> str:
        return floor.stand(who)

    return tool(effect=effect_of(write), max_concurrency=limit, timeout=timeout)(t)


async def test_a_blocking_body_does_not_block_the_loop(floor: Floor) -> None:
    """B88: the loop goes on while it stands."""
    async with executor(blocking(floor)) as bench:
        bench.start("a", who="a")
        await floor.full(1)
        await settle()
        assert bench.statuses == []
        floor.leave.set()
        (result,) = await bench.results(1)

    assert (result.status, result.output) == ("ok", "a")


async def test_a_body_may_return_something_to_await() -> None:
    """A plain function that returns a coroutine is awaited in the loop."""
    threads: list[int] = []

    async def inner() -> str:
        threads.append(threading.get_ident())
        return "from inside"

    @tool(effect="read")
    def t() -> object:
        threads.append(threading.get_ident())
        return inner()

    async with executor(t) as bench:
        result = await bench.run()

    assert result.output == "from inside"
    assert threads[0] != threads[1] == threading.get_ident()


@pytest.mark.parametrize("write", [False, True])
async def test_a_blocking_body_that_is_late_is_abandoned(floor: Floor, write: bool) -> None:
    """B88: the answer comes in time, and there is no second one."""
    async with executor(blocking(floor, write=write)) as bench:
        bench.start("a", who="a")
        await floor.full(1)
        await bench.clock.advance(10)
        (result,) = await bench.results(1)
        floor.leave.set()
        await settle()
        await bench.results(1)

    assert result.status == ("outcome_unknown" if write else "timeout")


@pytest.mark.parametrize("write", [False, True])
async def test_a_blocking_body_that_is_interrupted(floor: Floor, write: bool) -> None:
    """Nobody waits for its thread."""
    async with executor(blocking(floor, write=write)) as bench:
        bench.start("a", who="a")
        await floor.full(1)
        bench.interrupt("a")
        (result,) = await bench.results(1)

    assert result.status == ("outcome_unknown" if write else "cancelled")


async def late(
    bench: ExecutorBench, floor: Floor, *, interrupted: bool = False, attempt: int = 1
) -> None:
    """Abandon an attempt, then let its body go on; the only thread has come to the next one then."""
    bench.start("a", attempt=attempt, who="a")
    await floor.full(1)
    if interrupted:
        bench.interrupt("a", attempt=attempt)
    else:
        await bench.clock.advance(10)
    await bench.results(1)
    assert bench.late == []
    floor.leave.set()
    await bench.run("b", who="b")


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("write", [False, True])
async def test_a_late_result_of_a_write_is_told(
    floor: Floor, write: bool, interrupted: bool
) -> None:
    """Its thread has gone on: that it has worked after all settles it. A late read is nobody's."""
    async with executor(blocking(floor, write=write)) as bench:
        await late(bench, floor, interrupted=interrupted, attempt=2)

    told = [(order.call_id, order.attempt, output) for order, output in bench.late]
    assert told == ([("a", 2, "a")] if write else [])


async def test_what_was_in_time_is_not_told_again(floor: Floor) -> None:
    """Its answer was the result."""
    floor.leave.set()
    async with executor(blocking(floor, write=True)) as bench:
        assert (await bench.run("a", who="a")).ok
        assert (await bench.run("b", who="b")).ok
    assert bench.late == []


async def nothing() -> None:
    raise AssertionError


def fails() -> object:
    raise ValueError("late")


@pytest.mark.parametrize(
    ("body", "told"),
    [(fails, []), (nothing, []), (object, [{"unserializable": "object"}])],
    ids=["fails", "has not run", "no JSON"],
)
async def test_what_a_late_body_has_told(
    floor: Floor, body: Callable[[], object], told: list[object]
) -> None:
    """A failure says nothing: it may have taken effect before. A coroutine is closed, and never runs."""

    @tool(effect="manual", timeout=10, max_concurrency=1)
    def t(who: str) -> object:
        floor.stand(who)
        return body() if who == "a" else None

    async with executor(t) as bench:
        await late(bench, floor)
    assert [output for _, output in bench.late] == told


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("why", ["timeout", "interrupted"])
async def test_without_a_free_thread_a_body_never_ran(floor: Floor, write: bool, why: str) -> None:
    """An abandoned body keeps its thread; who came for it later is told that it did not begin."""
    async with executor(blocking(floor, write=write)) as bench:
        bench.start("a", who="a")
        await floor.full(1)
        bench.interrupt("a")
        await bench.results(1)
        bench.start("b", who="b")
        await settle()
        if why == "timeout":
            await bench.clock.advance(10)
        else:
            bench.interrupt("b")
        result = (await bench.results(2))[1]
        floor.leave.set()

    assert floor.came == ["a"]
    assert error_type(result) == "NeverRan"
    if write:
        assert result.status == "not_started"
    else:
        assert result.status == ("timeout" if why == "timeout" else "cancelled")


@pytest.mark.parametrize("why", ["cancelled", "lease"])
async def test_what_waits_for_a_thread_begins_only_if_it_still_may(floor: Floor, why: str) -> None:
    """A thread comes free long after it was ordered: it was cancelled, or the lease has lapsed."""
    async with executor(blocking(floor, write=True, timeout=None)) as bench:
        bench.start("a", who="a")
        await floor.full(1)
        bench.interrupt("a")
        await bench.results(1)
        bench.start("b", who="b")
        await settle()
        if why == "cancelled":
            bench.interrupt("b", begun=False)
            await settle()
        else:
            bench.held = False
        floor.leave.set()
        answer = (await bench.asker.received(2))[1]

    assert floor.came == ["a"]
    if why == "cancelled":
        assert isinstance(answer, Executed)
        assert (answer.result.status, error_type(answer.result)) == ("not_started", "NeverRan")
    else:
        assert isinstance(answer, NotDispatched)
        assert answer.attempt_id == "b#1"


async def test_a_pool_of_threads_is_bounded(floor: Floor) -> None:
    """The limit of the tool is that of its threads; the next body takes over a thread."""
    made = tool(effect="read", name="bounded", max_concurrency=3)(floor.stand)
    async with executor(made) as bench:
        for name in "abcde":
            bench.start(name, who=name)
        await floor.full(3)
        await settle()
        assert sorted(floor.came) == ["a", "b", "c"]
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("loopwright-bounded") == 3
        floor.leave.set()
        await bench.results(5)

    assert sorted(floor.came) == ["a", "b", "c", "d", "e"]


async def test_a_stop_iteration_from_a_thread_is_an_error() -> None:
    """A coroutine cannot raise it: it is told as what it says."""

    @tool(effect="read")
    def t() -> None:
        raise StopIteration(7)

    async with executor(t) as bench:
        result = await bench.run()

    assert result.error is not None
    assert (result.status, result.error.message) == ("error", "StopIteration(7)")
