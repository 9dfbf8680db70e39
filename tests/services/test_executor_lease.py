"""The ToolExecutor: nothing is dispatched without a lease that is safely held at that moment."""

from __future__ import annotations

import pytest

from loopwright import applied, tool
from loopwright.actors import AnyTool
from loopwright.protocol import CallId, Executed, NotDispatched, attempt_id
from loopwright.testing import settle
from services.bench import Gate, effect_of, executor

pytestmark = pytest.mark.anyio


def counting(came: list[str], *, sync: bool, write: bool) -> AnyTool:
    """Make a tool that says that it has run."""

    async def t() -> None:
        came.append("ran")

    def blocking() -> None:
        came.append("ran")

    register = tool(effect=effect_of(write), name="t")
    return register(blocking) if sync else register(t)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("write", [False, True])
async def test_without_a_lease_the_body_never_runs(sync: bool, write: bool) -> None:
    """Another worker may have dispatched it: it is refused, which is no result of the call."""
    came: list[str] = []
    async with executor(counting(came, sync=sync, write=write)) as bench:
        bench.held = False
        bench.start("c1", attempt=2)
        await settle()
        (refused,) = bench.asker.messages

    assert came == []
    name = attempt_id(CallId("c1"), 2)
    text = "the lease of worker w1 is no longer safely held"
    assert refused == NotDispatched(1, name, text)


async def test_what_waited_for_its_turn_is_looked_at_when_it_comes() -> None:
    """It was ordered in time; its lease has lapsed meanwhile. Those behind it are not held up."""
    gate = Gate()

    @tool(effect="manual", max_concurrency=1)
    async def t(who: str) -> str:
        return await gate.wait(who)

    async with executor(t) as bench:
        for name in "abc":
            bench.start(name, who=name)
        await settle()
        assert gate.came == ["a"]
        bench.held = False
        gate.open.set()
        await settle()
        assert gate.came == ["a"]
        refused = [m.attempt_id for m in bench.asker.messages if isinstance(m, NotDispatched)]
        assert refused == ["b#1", "c#1"]
        # It was dispatched while the lease was held.
        assert [m.result.ok for m in bench.asker.messages if isinstance(m, Executed)] == [True]

        bench.held = True
        assert (await bench.run("d", who="d")).ok
    assert gate.came == ["a", "d"]


async def test_a_lease_that_lapses_while_the_body_runs_does_not_stop_it() -> None:
    """It is dispatched: what it returns is told to whoever ordered it."""
    gate = Gate()

    @tool(effect="manual")
    async def t() -> str:
        return await gate.wait("t")

    async with executor(t) as bench:
        bench.start()
        await settle()
        bench.held = False
        gate.open.set()
        (result,) = await bench.results(1)

    assert result.ok


async def test_what_was_refused_can_be_ordered_anew() -> None:
    """By whoever owns it then: it leaves nothing behind."""
    came: list[str] = []
    async with executor(counting(came, sync=False, write=True)) as bench:
        bench.held = False
        bench.start()
        await settle()
        bench.interrupt()
        bench.held = True
        assert (await bench.run()).ok
        assert len(bench.asker.messages) == 2
    assert came == ["ran"]


async def test_asking_what_became_of_a_write_needs_no_lease() -> None:
    """It changes nothing."""

    @tool(effect="reconcilable")
    async def t() -> None: ...

    @t.reconcile
    async def ask(_key: str) -> object:
        return applied("r")

    async with executor(t) as bench:
        bench.held = False
        assert (await bench.found()).finding == "applied"
