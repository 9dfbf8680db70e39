"""Casebook F: replies that come in pieces count as a whole, or not at all."""

from __future__ import annotations

from collections import Counter

import pytest
from wire.gpt import AT_ONCE, CHAT, JSON, RESPONSES, Api, answer, play
from wire.gpt import call as raw_call
from wire.loopback import Answer, loopback

from loopwright import Agent, Reason, Runtime, tool
from loopwright.protocol import Discarded, LiveText, TurnCommitted, TurnProposed

pytestmark = pytest.mark.anyio


def pieces(*found: JSON) -> Answer:
    """Stream pieces of calls, none of which has an index."""
    deltas: list[JSON] = []
    for piece in found:
        function = {"name": piece.get("name"), "arguments": piece.get("args")}
        deltas.append({"tool_calls": [{"id": piece.get("id"), "function": function}]})
    chunks = [*map(CHAT.chunk, deltas), CHAT.chunk({}, "tool_calls")]
    return Answer(CHAT.sent(*chunks))


async def test_b42_deltas_without_an_index_are_two_calls() -> None:
    """B42: they are neither merged nor cut."""
    got: list[tuple[str, int]] = []

    @tool(effect="read")
    async def f(x: int) -> None:
        got.append(("f", x))

    @tool(effect="read")
    async def g(y: int) -> None:
        got.append(("g", y))

    called = pieces(
        {"id": "a", "name": "f"},
        {"args": '{"x"'},
        {"args": ":1}"},
        {"id": "b", "name": "g", "args": '{"y":2}'},
    )
    async with loopback([called, answer(CHAT, CHAT.body("done"), stream=True)]) as server:
        outcome = await play(CHAT.model(server), f, g)
    assert outcome.completed
    assert sorted(got) == [("f", 1), ("g", 2)]
    assert [r.call_id for r in outcome.history[0].results] == ["a", "b"]


async def test_b42_fragments_that_could_be_anybodys_are_never_run() -> None:
    """B42: interleaved, with neither index nor id, they are a failure of the model's server."""

    @tool(effect="manual")
    async def f(x: int = 0) -> None:
        raise AssertionError("it ran")

    fragments: list[JSON] = [{"args": '{"x"'}, {"args": '{"x"'}, {"args": ":1}"}, {"args": ":2}"}]
    mixed = pieces({"id": "a", "name": "f"}, {"id": "b", "name": "f"}, *fragments)
    async with loopback(lambda _: mixed) as server:
        outcome = await play(CHAT.model(server), f)
    assert outcome.reason is Reason.MODEL_ERROR
    assert "neither by index nor by id" in str(outcome.cause)
    assert not outcome.history


@pytest.mark.parametrize("api", [CHAT, RESPONSES], ids=lambda api: api.name)
async def test_b44_a_dead_attempt_leaves_nothing_behind(api: Api) -> None:
    """B44: its text is not in the answer, its call never runs, and whoever heard it is told."""
    ran: Counter[str] = Counter()

    @tool(effect="manual")
    async def write(path: str) -> None:
        ran["write"] += 1

    whole = api.events(api.body("Hel", raw_call("1", "write", '{"path":"a"}')))
    # All but its end: in one of the two the call is complete already.
    dead = Answer(whole[: -3 if api is CHAT else -1], cut=True)
    async with loopback([dead, answer(api, api.body("Hello"), stream=True)]) as server:
        desk = Agent("desk", model=api.model(server), tools=[write], policy=AT_ONCE)
        async with Runtime([desk]) as runtime:
            run = await runtime.start("desk", "the goal")
            heard = [event async for event in run.events(live=True)]
            outcome = await run.outcome()

    assert outcome.answer == "Hello"
    assert not ran
    records = [event for event in heard if isinstance(event, TurnProposed | TurnCommitted)]
    assert len([r for r in records if isinstance(r, TurnCommitted)]) == 1
    assert (outcome.steps, outcome.history[0].proposal.attempts) == (1, 2)
    live = [event for event in heard if isinstance(event, LiveText | Discarded)]
    texts = "".join(e.text if isinstance(e, LiveText) else f"|{e.attempt} is gone|" for e in live)
    assert texts == "Hel|1 is gone|Hello"
