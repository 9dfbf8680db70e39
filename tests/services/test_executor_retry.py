"""The ToolExecutor: reads that are tried again, and tools that are left alone for a while."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from loopwright import ToolContext, ToolFailure, tool
from loopwright.actors import AnyTool
from loopwright.policy import Breaker, Retry
from loopwright.protocol import ToolResult
from loopwright.testing import settle
from services.bench import Gate, error_type, executor

pytestmark = pytest.mark.anyio

RETRY = Retry(3, first=2.0, longest=60.0)
"""Waits 1 s, then 2 s: the dice always say one half."""
OPENS = Breaker(failures=2, cool_down=30.0)
HANG = "hang"


def busy(**options: Any) -> ToolFailure:
    return ToolFailure("busy", category="transient", retryable=True, **options)


class Scripted:
    """A tool that returns, raises or hangs as it is told, and knows when it was run."""

    def __init__(
        self, steps: Iterable[object], *, effect: str = "read", sync: bool = False, **options: Any
    ) -> None:
        self.steps = iter(steps)
        self.attempts: list[int] = []
        register = tool(effect=effect, name="t", **options)

        async def body(context: ToolContext) -> object:
            step = self._next(context)
            if step == HANG:
                await asyncio.Event().wait()
            return step

        def sync_body(context: ToolContext) -> object:
            return self._next(context)

        self.tool: AnyTool = register(sync_body) if sync else register(body)

    @property
    def runs(self) -> int:
        return len(self.attempts)

    def _next(self, context: ToolContext) -> object:
        self.attempts.append(context.attempt)
        step = next(self.steps)
        if isinstance(step, BaseException):
            raise step
        return step


# ---------------------------------------------------------------- retries
async def test_a_read_that_may_work_in_a_moment_is_tried_again() -> None:
    """There is one answer, that of the last try, and it says how many there were."""
    scripted = Scripted([busy(), ConnectionError("gone"), "found"])
    async with executor(scripted.tool, RETRY) as bench:
        bench.start()
        await bench.clock.advance(0.9)
        assert scripted.runs == 1
        await bench.clock.advance(0.1)
        assert scripted.runs == 2
        await bench.clock.advance(1.9)
        assert (scripted.runs, bench.answered) == (2, [])
        await bench.clock.advance(0.1)
        (result,) = await bench.results(1)
    assert (result.status, result.output, result.attempts) == ("ok", "found", 3)
    assert scripted.attempts == [1, 2, 3]


async def test_a_blocking_read_is_tried_again_as_well() -> None:
    scripted = Scripted([busy(), ConnectionError("gone"), "found"], sync=True)
    async with executor(scripted.tool, Retry(first=0.0)) as bench:
        result = await bench.run()
    assert (result.status, result.output, result.attempts) == ("ok", "found", 3)


async def test_there_are_only_so_many_tries() -> None:
    scripted = Scripted(
        [busy(), busy(), ToolFailure("full", category="rate_limited", retryable=True)]
    )
    async with executor(scripted.tool, RETRY) as bench:
        bench.start()
        await bench.clock.advance(60)
        (result,) = await bench.results(1)
    assert (result.status, result.attempts) == ("error", 3)
    assert result.error is not None
    assert result.error.message == "full"


@pytest.mark.parametrize(
    "error",
    [
        ToolFailure("no", category="transient"),
        ToolFailure("no", category="unavailable", retryable=True),
        ToolFailure("no", category="permanent", retryable=True),
        ToolFailure("no", category="invalid_input"),
        PermissionError("no"),
        ValueError("no"),
        SystemExit(3),
    ],
    ids=lambda e: f"{type(e).__name__}-{getattr(e, 'category', '')}",
)
async def test_what_will_not_pass_is_not_tried_again(error: BaseException) -> None:
    scripted = Scripted([error])
    async with executor(scripted.tool, RETRY) as bench:
        result = await bench.run()
    assert (result.status, result.attempts, scripted.runs) == ("error", 1, 1)


@pytest.mark.parametrize("effect", ["manual", "idempotent"])
@pytest.mark.parametrize("error", [busy(), TimeoutError(), ConnectionError()], ids=repr)
async def test_a_write_is_never_tried_again_here(effect: str, error: Exception) -> None:
    """Whether it may be sent again is a matter of its effect class, and of the journal."""
    scripted = Scripted([error], effect=effect)
    async with executor(scripted.tool, RETRY) as bench:
        result = await bench.run(attempt=2)
        await bench.clock.advance(60)
        await bench.results(1)
    assert (result.attempts, scripted.runs) == (2, 1)


async def test_a_read_that_is_too_slow_is_tried_again() -> None:
    """Each try has the whole limit, and the first one's slot as soon as it has ended."""
    scripted = Scripted([HANG, HANG, "found"], timeout=10, max_concurrency=1)
    async with executor(scripted.tool, RETRY) as bench:
        bench.start()
        await bench.clock.advance(10 + 1 + 9.9)
        assert (scripted.runs, bench.answered) == (2, [])
        await bench.clock.advance(0.2 + 2)
        (result,) = await bench.results(1)
    assert (result.status, result.attempts) == ("ok", 3)


async def test_one_that_is_always_too_slow_ends_as_that() -> None:
    scripted = Scripted([HANG, HANG, HANG], timeout=10)
    async with executor(scripted.tool, RETRY) as bench:
        bench.start()
        await bench.clock.advance(60)
        (result,) = await bench.results(1)
    assert (result.status, result.attempts, error_type(result)) == ("timeout", 3, "Timeout")


async def test_a_late_return_of_the_first_try_is_not_the_second_ones() -> None:
    """A body that swallowed its cancellation is nobody's, also while it is tried again."""
    gate, runs = Gate(), 0

    @tool(effect="read", timeout=10)
    async def t() -> str:
        nonlocal runs
        runs += 1
        if runs == 2:
            return "second"
        while not gate.open.is_set():
            try:
                await gate.wait("t")
            except asyncio.CancelledError:
                continue
        return "first"

    async with executor(t, RETRY) as bench:
        bench.start()
        await bench.clock.advance(10)
        gate.open.set()
        await settle()
        assert bench.answered == []
        await bench.clock.advance(1)
        (result,) = await bench.results(1)
    assert (result.output, result.attempts) == ("second", 2)


async def test_a_blocking_body_that_is_too_slow_is_not_tried_again() -> None:
    """It still stands in its thread; another one would soon stand in the next."""
    entered, leave = threading.Semaphore(0), threading.Event()

    @tool(effect="read", timeout=10)
    def t() -> None:
        entered.release()
        leave.wait(30)

    async with executor(t, RETRY) as bench:
        bench.start()
        await asyncio.to_thread(entered.acquire)
        await bench.clock.advance(60)
        leave.set()
        (result,) = await bench.results(1)
    assert (result.status, result.attempts) == ("timeout", 1)
    assert not entered.acquire(blocking=False)


async def test_due_times_stay_in_order_while_some_are_tried_again() -> None:
    """One that began anew is due after those that have begun before it."""
    scripted = Scripted([HANG, HANG, HANG, HANG], timeout=10)
    async with executor(scripted.tool, Retry(2, first=2.0)) as bench:
        bench.start("a")
        await bench.clock.advance(8)
        bench.start("b")
        await bench.clock.advance(3)  # "a" began anew at 11
        assert (scripted.runs, bench.answered) == (3, [])
        await bench.clock.advance(8)  # "b" began anew at 19
        assert (scripted.runs, bench.answered) == (4, [])
        await bench.clock.advance(2)
        assert bench.statuses == [("a", "timeout")]
        await bench.clock.advance(8)
        await bench.results(2)


@pytest.mark.parametrize("asked", [7, "7", 7.0])
async def test_who_asks_to_be_left_alone_is(asked: Any) -> None:
    """For as long as it says, and then the jitter."""
    scripted = Scripted([busy(retry_after=asked), "found"])
    async with executor(scripted.tool, RETRY) as bench:
        bench.start()
        await bench.clock.advance(7.9)
        assert scripted.runs == 1
        await bench.clock.advance(0.1)
        (result,) = await bench.results(1)
    assert result.ok


@pytest.mark.parametrize("asked", ["abc", -5, float("nan"), object()])
async def test_who_asks_for_what_cannot_be_meant_is_not_heard(asked: Any) -> None:
    scripted = Scripted([busy(retry_after=asked), "found"])
    async with executor(scripted.tool, RETRY) as bench:
        bench.start()
        await bench.clock.advance(1)
        await bench.results(1)


@pytest.mark.parametrize("asked", [301, 10**12, "Thu, 01 Jan 2037 00:00:00 GMT"])
async def test_who_asks_for_too_long_a_wait_is_not_waited_for(asked: Any) -> None:
    """Also without a deadline: its failure is told at once, and says what was asked for."""
    scripted = Scripted([busy(retry_after=asked)])
    async with executor(scripted.tool, RETRY) as bench:
        result = await bench.run()
    assert (result.status, result.attempts) == ("error", 1)
    assert result.error is not None
    assert result.error.message.startswith("busy; it asks for a wait of ")
    assert result.error.message.endswith(" s, and at most 300 s are waited")


async def test_no_wait_outlasts_the_invocation() -> None:
    """Its failure is told at once then."""
    scripted = Scripted([busy(), busy(retry_after=900)])
    async with executor(scripted.tool, RETRY) as bench:
        bench.start(until=bench.clock.now().monotonic + 10)
        await bench.clock.advance(1)
        (result,) = await bench.results(1)
    assert (result.status, result.attempts) == ("error", 2)


async def test_no_wait_at_all_needs_no_time() -> None:
    scripted = Scripted([busy(), busy(), "found"])
    async with executor(scripted.tool, Retry(first=0.0)) as bench:
        assert (await bench.run()).attempts == 3


async def test_who_waits_to_be_tried_again_holds_up_nobody() -> None:
    """Its slot is another one's meanwhile; then it waits for its turn behind who came before."""
    gate, came = Gate(), list[str]()

    @tool(effect="read", max_concurrency=1)
    async def t(who: str) -> str:
        came.append(who)
        if came == ["a"]:
            raise busy()
        return await gate.wait(who)

    async with executor(t, RETRY) as bench:
        bench.start("a", who="a")
        bench.start("b", who="b")
        bench.start("c", who="c")
        await bench.clock.advance(5)
        assert came == ["a", "b"]
        gate.open.set()
        await bench.results(3)
    assert came == ["a", "b", "c", "a"]


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("queued", [True, False])
async def test_who_waits_to_be_tried_again_can_be_interrupted(begun: bool, queued: bool) -> None:
    """It has failed with what it came to before; nothing of it runs any more."""
    gate, came = Gate(), list[str]()

    @tool(effect="read", max_concurrency=1)
    async def t(who: str) -> str:
        came.append(who)
        if came == ["a"]:
            raise busy()
        return await gate.wait(who)

    async with executor(t, RETRY) as bench:
        bench.start("a", who="a")
        bench.start("b", who="b")
        await bench.clock.advance(5 if queued else 0.5)
        bench.interrupt("a", begun=begun)
        (result,) = await bench.results(1)
        assert (result.call_id, result.status, result.attempts) == ("a", "error", 1)
        gate.open.set()
        await bench.clock.advance(5)
        await bench.results(2)
    assert came == ["a", "b"]


@pytest.mark.parametrize("begun", [True, False])
async def test_who_fails_as_it_is_interrupted_is_not_tried_again(begun: bool) -> None:
    gate, runs = Gate(), 0

    @tool(effect="read")
    async def t() -> None:
        nonlocal runs
        runs += 1
        try:
            await gate.wait("t")
        finally:
            raise busy()

    async with executor(t, RETRY) as bench:
        bench.start()
        await settle()
        bench.interrupt(begun=begun)
        gate.open.set()
        await bench.clock.advance(60)
        (result,) = await bench.results(1)
    assert result.status == ("cancelled" if begun else "error")
    assert runs == 1


async def test_nothing_is_tried_again_without_a_lease() -> None:
    """Another worker may own the invocation by then."""
    scripted = Scripted([busy(), "found"])
    async with executor(scripted.tool, RETRY) as bench:
        bench.start()
        await settle()
        bench.held = False
        await bench.clock.advance(1)
        (said,) = bench.asker.messages
    assert type(said).__name__ == "NotDispatched"
    assert scripted.runs == 1


async def test_nothing_is_tried_again_once_all_is_closed() -> None:
    scripted = Scripted([busy(), "found"])
    async with executor(scripted.tool, RETRY) as bench:
        bench.start()
        await settle()
    await bench.clock.advance(60)
    assert scripted.runs == 1


# ---------------------------------------------------------------- breakers
def shut_out(result: ToolResult) -> bool:
    """Whether the result is that of an open breaker."""
    error = result.error
    if error is None or error.type != "BreakerOpen":
        return False
    assert (result.status, error.category, error.retryable) == ("not_started", "unavailable", True)
    return True


@pytest.mark.parametrize("effect", ["read", "manual", "idempotent"])
async def test_a_tool_that_is_down_is_left_alone(effect: str) -> None:
    """It is not dispatched, and the answer comes at once; after the cool-down one call probes."""
    scripted = Scripted([busy(), busy(), busy(), "ok", "ok"], effect=effect)
    async with executor(scripted.tool, breaker=OPENS) as bench:
        for n in range(2):
            assert not shut_out(await bench.run(f"c{n}"))
        assert shut_out(await bench.run("c2"))
        await bench.clock.advance(30)
        assert not shut_out(await bench.run("c3"))
        assert shut_out(await bench.run("c4"))
        await bench.clock.advance(30)
        assert (await bench.run("c5")).ok
        assert (await bench.run("c6")).ok
    assert scripted.runs == 5


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (busy(), True),
        (TimeoutError(), True),
        (ConnectionError(), True),
        (ToolFailure("no", category="unavailable"), True),
        (ToolFailure("no", category="rate_limited", retryable=True), False),
        (ToolFailure("no", category="invalid_input"), False),
        (ToolFailure("no", category="permission"), False),
        (ToolFailure("no", category="permanent"), False),
        (PermissionError(), False),
        (ValueError("a bug"), False),
        (SystemExit(3), False),
    ],
    ids=lambda e: (
        f"{type(e).__name__}-{getattr(e, 'category', '')}" if isinstance(e, BaseException) else None
    ),
)
@pytest.mark.parametrize("effect", ["read", "manual"])
async def test_what_says_that_a_tool_is_down(error: Exception, counts: bool, effect: str) -> None:
    """What it says of a call, and a bug in it, say nothing of the next call."""
    scripted = Scripted([error, error, "ok"], effect=effect)
    async with executor(scripted.tool, breaker=OPENS) as bench:
        await bench.run("a")
        await bench.run("b")
        assert shut_out(await bench.run("c")) is counts


@pytest.mark.parametrize("effect", ["read", "manual"])
async def test_a_tool_that_is_too_slow_is_down(effect: str) -> None:
    scripted = Scripted([HANG, HANG], effect=effect, timeout=10)
    async with executor(scripted.tool, breaker=OPENS) as bench:
        bench.start("a")
        bench.start("b")
        await bench.clock.advance(10)
        await bench.results(2)
        assert shut_out(await bench.run("c"))


async def test_who_has_queued_is_refused_once_it_is_open() -> None:
    """The failure that opens it is told before its slot is given away."""
    gate = Gate()

    @tool(effect="read", max_concurrency=1)
    async def t(who: str) -> None:
        await gate.wait(who)
        raise busy()

    async with executor(t, breaker=Breaker(1)) as bench:
        for name in "abc":
            bench.start(name, who=name)
        await settle()
        gate.open.set()
        results = await bench.results(3)
    assert sorted(result.call_id for result in results if shut_out(result)) == ["b", "c"]
    assert gate.came == ["a"]


async def test_nobody_queues_while_it_is_open() -> None:
    gate = Gate()

    @tool(effect="read", max_concurrency=1)
    async def t(who: str) -> None:
        if who == "hangs":
            await gate.wait(who)
        raise busy()

    async with executor(t, breaker=OPENS) as bench:
        await bench.run("a", who="fails")
        await bench.run("b", who="fails")
        await bench.clock.advance(30)
        bench.start("probe", who="hangs")
        await settle()
        assert shut_out(await bench.run("c", who="fails"))
        gate.open.set()
        await settle()


async def test_a_read_that_opens_it_is_not_tried_again() -> None:
    """It would be refused after the wait; its answer is how it has failed."""
    scripted = Scripted([busy(), busy(), "never"])
    async with executor(scripted.tool, RETRY, OPENS) as bench:
        bench.start()
        await bench.clock.advance(1)
        (result,) = await bench.results(1)
    assert (result.status, result.attempts, error_type(result)) == ("error", 2, "ToolFailure")


async def test_a_read_that_finds_it_open_after_its_wait_has_failed_as_before() -> None:
    """It has run, so that it was not started would be wrong."""
    scripted = Scripted([busy(), busy(), busy()])
    async with executor(scripted.tool, RETRY, Breaker(3)) as bench:
        bench.start("a")
        bench.start("b")
        await settle()
        bench.start("c")
        await bench.clock.advance(1)
        results = await bench.results(3)
    assert [(result.status, result.attempts) for result in results] == [("error", 1)] * 3
    assert scripted.runs == 3


@pytest.mark.parametrize("obeys", [True, False])
async def test_a_probe_that_is_interrupted_frees_its_place(obeys: bool) -> None:
    gate, runs = Gate(), 0

    @tool(effect="read", timeout=None)
    async def t() -> str:
        nonlocal runs
        runs += 1
        if runs <= 2:
            raise busy()
        while runs == 3 and not gate.open.is_set():
            try:
                await gate.wait("t")
            except asyncio.CancelledError:
                if obeys:
                    raise
        return "ok"

    async with executor(t, breaker=OPENS) as bench:
        await bench.run("a")
        await bench.run("b")
        await bench.clock.advance(30)
        bench.start("probe")
        await settle()
        assert shut_out(await bench.run("c"))
        bench.interrupt("probe")
        await settle()
        bench.start("d")
        await settle()
        assert [r.output for r in bench.answered if r.call_id == "d"] == ["ok"]
        gate.open.set()
        await settle()


async def test_a_probe_that_hangs_loses_its_place() -> None:
    scripted = Scripted([busy(), busy(), HANG, "ok", "ok"], timeout=None)
    async with executor(scripted.tool, breaker=OPENS) as bench:
        await bench.run("a")
        await bench.run("b")
        await bench.clock.advance(30)
        bench.start("probe")
        await bench.clock.advance(29.9)
        assert shut_out(await bench.run("c"))
        await bench.clock.advance(0.1)
        assert (await bench.run("d")).ok
        assert (await bench.run("e")).ok


async def test_a_probe_without_a_lease_frees_its_place() -> None:
    """Also where that is found only in its thread."""
    scripted = Scripted([busy(), busy(), "ok"], sync=True)
    async with executor(scripted.tool, breaker=OPENS) as bench:
        await bench.run("a")
        await bench.run("b")
        await bench.clock.advance(30)
        bench.start("probe")
        await settle(1)
        bench.held = False
        await bench.asker.received(3)
        bench.held = True
        assert (await bench.run("d")).ok
