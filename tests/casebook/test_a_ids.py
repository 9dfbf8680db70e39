"""Casebook A: call ids, and the order in which a model is shown results."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from wire.gpt import CHAT, JSON, RESPONSES, answer
from wire.gpt import call as raw_call
from wire.gpt import play as ask
from wire.loopback import loopback

from casebook.desk import agent, batch, call, play, shown, sleep
from loopwright import Agent, Final, Reason, Runtime, ToolCalls, tool
from loopwright.stores import SQLiteStore
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


@pytest.mark.parametrize("stream", [True, False])
async def test_b03_ids_that_are_missing_are_minted_once(stream: bool, tmp_path: Path) -> None:
    """B03: what the model is shown, what is stored and what is read back has the same ids."""

    @tool(effect="read")
    async def f(x: int) -> int:
        return x * 100

    body = CHAT.body(
        None, *(raw_call(id, "f", f'{{"x":{x}}}') for x, id in ((1, ""), (2, None), (3, "")))
    )
    del body["choices"][0]["message"]["tool_calls"][2]["id"]
    script = [answer(CHAT, said, stream=stream) for said in (body, CHAT.body("done"))]
    async with loopback(script) as server:
        model = CHAT.model(server, stream=stream)
        outcome = await ask(model, f, store=SQLiteStore(tmp_path / "agents.db"))
        second = server.requests[1].body

    assert outcome.completed
    sent = CHAT.calls(second)
    ids = [id for id, _, _ in sent]
    assert len(set(ids)) == 3
    assert all(ids)
    assert [(json.loads(given)["x"]) for _, _, given in sent] == [1, 2, 3]
    assert CHAT.results(second) == [
        (id, str(x * 100)) for id, x in zip(ids, (1, 2, 3), strict=True)
    ]
    desk = Agent("desk", model=model, tools=[f])
    async with Runtime([desk], store=SQLiteStore(tmp_path / "agents.db")) as runtime:
        reloaded = (await runtime.state(outcome.invocation_id)).history()
    for history in (outcome.history, reloaded):
        decision = history[0].proposal.decision
        assert isinstance(decision, ToolCalls)
        assert [c.call_id for c in decision.calls] == ids
        assert [r.call_id for r in history[0].results] == ids


@pytest.mark.parametrize("stream", [True, False])
async def test_b04_results_go_to_call_ids_where_items_have_none(stream: bool) -> None:
    """B04: an item's own id is no part of anything."""

    @tool(effect="read")
    async def add(a: int) -> int:
        return a + 1

    output: list[JSON] = [
        {"type": "function_call", "call_id": id, "name": "add", "arguments": f'{{"a":{a}}}'}
        for id, a in (("k1", 1), ("k2", 2))
    ]
    script = [RESPONSES.response(output), RESPONSES.body("done")]
    async with loopback([answer(RESPONSES, body, stream=stream) for body in script]) as server:
        outcome = await ask(RESPONSES.model(server, stream=stream), add)
        second = server.requests[1].body

    assert outcome.completed
    assert RESPONSES.results(second) == [("k1", "2"), ("k2", "3")]
    sent = json.dumps(second["input"])
    assert not any(word in sent for word in ('"id"', "None", "null", "undefined", '""'))


@pytest.mark.parametrize("stream", [True, False])
async def test_b06_an_id_that_is_the_name_of_the_function_is_none(stream: bool) -> None:
    """B06: the calls stay apart, and each result is stored with what it is the result of."""

    @tool(effect="read")
    async def lookup(x: int) -> str:
        return f"seen {x}"

    calls = [raw_call("lookup", "lookup", f'{{"x":{x}}}') for x in (1, 2)]
    script = [CHAT.body(None, *calls), CHAT.body("done")]
    async with loopback([answer(CHAT, body, stream=stream) for body in script]) as server:
        outcome = await ask(CHAT.model(server, stream=stream), lookup)
        second = server.requests[1].body

    assert outcome.completed
    decision, results = outcome.history[0].proposal.decision, outcome.history[0].results
    assert isinstance(decision, ToolCalls)
    assert [r.call_id for r in results] == [c.call_id for c in decision.calls]
    assert [r.output for r in results] == ["seen 1", "seen 2"]
    assert CHAT.results(second) == [(r.call_id, str(r.output)) for r in results]
    assert len({r.call_id for r in results}) == 2


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
