"""Asking the owner of the data: whatever its reconciler does, there is one finding."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from loopwright import Reconciled, applied, not_applied, rejected, tool, unknown
from loopwright.actors import AnyTool
from loopwright.actors.kernel import ActorSystem, Request
from loopwright.actors.roles._executor import ToolExecutor
from loopwright.protocol import CallId, EffectKey, Finding, Reconcile, attempt_id
from loopwright.testing import Probe, VirtualClock, settle
from services.bench import INVOCATION, Gate, escaping, executor, held, unheard

pytestmark = pytest.mark.anyio


def asked(reconciler: Any, timeout: float | None = 10.0) -> AnyTool:
    """Make a tool with this reconciler."""

    @tool(effect="reconcilable", timeout=timeout)
    async def wire() -> None: ...

    wire.reconcile(reconciler)
    return wire


def saying(said: object, *, sync: bool) -> AnyTool:
    async def ask(_key: str) -> object:
        return said

    def blocking(_key: str) -> object:
        return said

    return asked(blocking if sync else ask)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    "said",
    [applied({"receipt": 7}), applied(), rejected("no funds"), not_applied(), unknown("no trace")],
    ids=lambda said: said.finding,
)
async def test_what_it_says_is_what_was_found(said: Reconciled, sync: bool) -> None:
    """Async, or in a thread."""
    async with executor(saying(said, sync=sync)) as bench:
        assert await bench.found() == said


async def test_it_is_asked_by_effect_key_and_once_a_question() -> None:
    """The key is all it gets; questions may be open at the same time."""
    keys: list[str] = []

    async def ask(key: str) -> Reconciled:
        keys.append(key)
        return applied(key)

    async with executor(asked(ask)) as bench:
        bench.ask("a", key="order:1")
        bench.ask("b", key="order:2")
        await settle()
        assert keys == ["order:1", "order:2"]
        assert [found.receipt for found in bench.findings] == ["order:1", "order:2"]


async def test_it_may_return_something_to_await() -> None:
    """A plain function that returns a coroutine is awaited in the loop."""
    threads: list[int] = []

    async def inner() -> Reconciled:
        threads.append(threading.get_ident())
        return not_applied()

    def ask(_key: str) -> object:
        threads.append(threading.get_ident())
        return inner()

    async with executor(asked(ask)) as bench:
        assert await bench.found() == not_applied()
    assert threads[0] != threads[1] == threading.get_ident()


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class OddError(BaseException):
    """Neither an Exception nor anything Python knows."""


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("broken"), "its reconciler failed with ValueError: broken"),
        (TimeoutError("slow"), "its reconciler failed with TimeoutError: slow"),
        (MuteError(), "its reconciler failed with MuteError: <its text cannot be read>"),
        (OddError("odd"), "its reconciler failed with OddError: odd"),
        (SystemExit(3), "its reconciler failed with SystemExit: 3"),
        (StopIteration(3), "its reconciler failed with RuntimeError: "),
        (ExceptionGroup("g", [KeyError("x")]), "its reconciler failed with KeyError: 'x'"),
        (asyncio.CancelledError("own"), "its reconciler cancelled itself"),
    ],
    ids=repr,
)
async def test_one_that_fails_has_told_nothing(
    error: BaseException, reason: str, sync: bool
) -> None:
    """It is `unknown`, with the reason: never `not_applied`."""

    async def ask(_key: str) -> None:
        raise error

    def blocking(_key: str) -> None:
        raise error

    async with executor(asked(blocking if sync else ask)) as bench:
        found = await bench.found()

    assert found.finding == "unknown"
    assert found.reason.startswith(reason)


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    "nonsense",
    [None, True, "applied", {"finding": "applied"}, applied, Reconciled(cast("Finding", "maybe"))],
    ids=repr,
)
async def test_one_that_answers_nonsense_has_told_nothing(nonsense: object, sync: bool) -> None:
    """Only the four findings are read as one; `True` is no yes."""
    async with executor(saying(nonsense, sync=sync)) as bench:
        found = await bench.found()

    assert found.finding == "unknown"
    assert "return applied(receipt), rejected(reason), not_applied() or unknown()" in found.reason


async def test_what_it_says_is_made_to_fit_the_journal() -> None:
    """A receipt without a JSON form is named; a reason is bounded, and is a text."""
    unfit = Reconciled("applied", cast("Any", object()))
    async with executor(saying(unfit, sync=False)) as bench:
        assert (await bench.found()).receipt == {"unserializable": "object"}
    async with executor(saying(rejected("x" * 5_000), sync=False)) as bench:
        assert len((await bench.found()).reason) < 2_100
    async with executor(saying(rejected(cast("Any", Mute())), sync=False)) as bench:
        assert (await bench.found()).finding == "unknown"


async def test_one_that_hangs_is_given_up() -> None:
    """It has the tool's limit; what it says later is dropped."""
    gate = Gate()

    async def ask(_key: str) -> Reconciled:
        await gate.wait("ask")
        return applied()

    async with executor(asked(ask)) as bench:
        bench.ask()
        await bench.clock.advance(9.9)
        assert bench.findings == []
        await bench.clock.advance(0.1)
        (found,) = bench.findings
        gate.open.set()
        await settle()
        assert bench.findings == [found]

    assert found == unknown("its reconciler did not answer within 10.0 s")


async def test_one_that_does_not_obey_is_not_waited_for() -> None:
    """It swallows its cancellation: the answer is there all the same, once."""
    gate = Gate()

    async def ask(_key: str) -> Reconciled:
        while not gate.open.is_set():
            try:
                await gate.wait("ask")
            except asyncio.CancelledError:
                continue
        return applied()

    async with executor(asked(ask)) as bench:
        bench.ask()
        await bench.clock.advance(10)
        assert [found.finding for found in bench.findings] == ["unknown"]
        gate.open.set()
        await settle()
        assert len(bench.findings) == 1


@pytest.fixture
def leave() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


async def test_a_blocking_one_that_hangs_is_given_up(leave: threading.Event) -> None:
    """Its thread is abandoned, and the loop goes on."""

    def ask(_key: str) -> Reconciled:
        leave.wait(30)
        return applied()

    async with executor(asked(ask)) as bench:
        bench.ask()
        await settle()
        await bench.clock.advance(10)
        assert [found.finding for found in bench.findings] == ["unknown"]
        leave.set()
        await settle()
        assert len(bench.findings) == 1


async def test_without_a_limit_it_is_waited_for() -> None:
    """The invocation's own limits hold."""
    gate = Gate()

    async def ask(_key: str) -> Reconciled:
        await gate.wait("ask")
        return applied()

    async with executor(asked(ask, timeout=None)) as bench:
        bench.ask()
        await bench.clock.advance(100_000)
        assert bench.findings == []
        gate.open.set()
        await settle()
        assert [found.finding for found in bench.findings] == ["applied"]


async def test_a_tool_without_one_cannot_be_asked() -> None:
    """Its class was stricter when the write was dispatched, say."""

    @tool(effect="idempotent")
    async def pay() -> None: ...

    async with executor(pay) as bench:
        assert await bench.found() == unknown("tool 'pay' has no reconciler")


async def test_it_sees_the_context_of_whoever_is_worked_for() -> None:
    """A copy: what it sets is its own."""
    variable = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    async def ask(_key: str) -> Reconciled:
        seen.append(variable.get())
        variable.set("by the reconciler")
        return applied()

    async with executor(asked(ask)) as bench:
        bench.foreign.run(variable.set, "ann")
        await bench.found("a")
        await bench.found("b")
    assert seen == ["ann", "ann"]


async def test_asking_does_not_take_the_place_of_a_call() -> None:
    """The limit is for attempts."""
    gate = Gate()

    @tool(effect="reconcilable", max_concurrency=1)
    async def wire() -> str:
        return await gate.wait("wire")

    @wire.reconcile
    async def ask(_key: str) -> Reconciled:
        return applied()

    async with executor(wire) as bench:
        bench.start("a")
        await settle()
        bench.ask("b")
        await settle()
        assert [found.finding for found in bench.findings] == ["applied"]


async def test_closing_ends_the_asking() -> None:
    """A timer of a closed executor calls nobody, and one answer stays one."""
    gate = Gate()

    async def ask(_key: str) -> Reconciled:
        await gate.wait("ask")
        return applied()

    async with executor(asked(ask)) as bench:
        bench.ask()
        await settle()
    closed = len(bench.asker.messages)
    await bench.clock.advance(20)
    assert len(bench.asker.messages) == closed <= 1


@pytest.mark.parametrize("sync", [False, True])
def test_a_keyboard_interrupt_is_the_processs(sync: bool) -> None:
    """It is meant for the process, and is no finding."""
    told: list[Any] = []

    async def ask(_key: str) -> None:
        raise KeyboardInterrupt("stop")

    def blocking(_key: str) -> None:
        raise KeyboardInterrupt("stop")

    async def main() -> None:
        async with ActorSystem() as system:
            asker = Probe(system)
            told.append(asker)
            made = asked(blocking if sync else ask)
            ref = system.start(ToolExecutor, made, VirtualClock(), held, unheard)
            name = attempt_id(CallId("c"), 1)
            order = Reconcile(INVOCATION, 1, CallId("c"), name, made.name, EffectKey("k"))
            ref.tell(Request(order, asker.ref))
            await asyncio.Event().wait()

    assert isinstance(escaping(main()), KeyboardInterrupt)
    assert all(found.found.finding == "unknown" for found in told[0].messages)
