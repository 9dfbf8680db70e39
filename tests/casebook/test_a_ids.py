"""Casebook A: call ids, and the order in which a model is shown results."""

from __future__ import annotations

from collections import Counter

import pytest

from casebook.desk import agent, batch, call, play, shown, sleep
from loopwright import Final, Reason, Runtime, tool
from loopwright.testing import ScriptedModel, VirtualClock

pytestmark = pytest.mark.anyio


async def test_b01_a_duplicate_id_refuses_the_whole_decision() -> None:
    """B01: two calls under one id are never merged: neither runs, and the model may repair it."""
    ran: Counter[str] = Counter()

    @tool(effect="read")
    async def read_a(k: int) -> None:
        ran["read_a"] += k

    @tool(effect="read")
    async def read_b(k: int) -> None:
        ran["read_b"] += k

    played = await play(
        [batch(call("c1", "read_a", {"k": 1}), call("c1", "read_b", {"k": 2})), Final("done")],
        read_a,
        read_b,
    )

    assert played.outcome.reason is Reason.COMPLETED
    assert not ran
    assert played.results == []
    assert played.model.calls == 2
    (refused,) = played.model.requests[1].history
    assert refused.fault is not None
    assert "c1" in refused.fault.problem


async def test_b05_results_are_shown_in_declared_order() -> None:
    """B05: reads overlap, and the order in which they end leaves no trace in the next request."""

    async def with_delays(a_ms: int, b_ms: int, c_ms: int) -> tuple[object, ...]:
        clock = VirtualClock()
        running, most = 0, 0

        async def wait(milliseconds: int) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await sleep(clock, milliseconds / 1000)
            running -= 1

        @tool(effect="read")
        async def a() -> str:
            await wait(a_ms)
            return "A"

        @tool(effect="read")
        async def b() -> str:
            await wait(b_ms)
            return "B"

        @tool(effect="read")
        async def c() -> str:
            await wait(c_ms)
            return "C"

        model = ScriptedModel(
            [batch(call("1", "a"), call("2", "b"), call("3", "c")), Final("done")]
        )
        async with Runtime([agent(model, a, b, c)], clock=clock) as runtime:
            run = await runtime.start("desk", "the goal")
            await clock.advance(0.049)
            assert model.calls == 1
            await clock.advance(0.001)
            assert model.calls == 2
            assert (await run.outcome()).completed
        assert most == 3
        results = model.requests[1].history[0].results
        assert [(r.call_id, r.output) for r in results] == [("1", "A"), ("2", "B"), ("3", "C")]
        return shown(model.requests[1])

    assert await with_delays(50, 20, 0) == await with_delays(0, 20, 50)
