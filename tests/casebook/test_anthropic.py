"""The casebook where the Messages API of Anthropic has its own form of a case."""

from __future__ import annotations

from typing import Any

import pytest
from wire.claude import events, message, text, use
from wire.loopback import Answer, Heard, loopback, sse

from casebook.desk import journal
from loopwright import Agent, Budget, Outcome, Policy, Reason, Runtime, ToolFailure, Usage, tool
from loopwright.actors import AnyTool
from loopwright.adapters.anthropic import AnthropicModel
from loopwright.policy import Retry
from loopwright.protocol import ModelAttempted, Record, ResultStatus

pytestmark = pytest.mark.anyio

DONE = message(text("done"))
BOTH = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


def body(reply: dict[str, Any], *, stream: bool) -> Answer:
    return Answer(sse(*events(reply), names=True) if stream else reply)


async def play(
    *answers: Answer, tools: tuple[AnyTool, ...] = (), stream: bool = True
) -> tuple[Outcome, list[Heard], list[Record]]:
    """Run one invocation to its rest."""
    async with loopback(answers) as server:
        model = AnthropicModel("claude-test", base_url=server.url, api_key="k", stream=stream)
        policy = Policy(retry=Retry(first=0.001))
        desk = Agent("desk", model=model, tools=tools, policy=policy, budget=Budget(max_steps=8))
        async with Runtime([desk]) as runtime:
            outcome = await runtime.run("desk", "the goal")
            return outcome, server.requests, await journal(runtime, outcome.invocation_id)


@pytest.mark.parametrize("case", ["i", "ii"])
async def test_b24_no_call_of_a_truncated_reply_runs(case: str) -> None:
    """B24 (i, ii): also a call that looks complete, and the one beside it: each is told, and none
    is run.
    """
    ran: list[str] = []

    @tool(effect="manual")
    async def write(path: str, text: str = "") -> None:
        ran.append("write")

    @tool(effect="read")
    async def look() -> None:
        ran.append("look")

    written = '{"path":"a.txt","text":"hel' if case == "i" else '{"path":"a.txt"}'
    cut = message(use("w", "write", written), use("r", "look"), stop="max_tokens")
    outcome, heard, _ = await play(
        body(cut, stream=True), body(DONE, stream=True), tools=(write, look)
    )
    assert outcome.completed
    assert ran == []
    results = outcome.history[0].results
    assert [result.status for result in results] == [ResultStatus.INVALID_ARGUMENTS] * 2
    told = heard[1].body["messages"][-1]["content"]
    assert [block["tool_use_id"] for block in told[:2]] == ["w", "r"]
    assert all("cut off" in block["content"] and block["is_error"] for block in told[:2])


async def test_b24_arguments_without_an_end_are_no_arguments() -> None:
    """B24 (iii): although the provider says that the call is whole; the one beside it is."""
    ran: list[str] = []

    @tool(effect="manual")
    async def write(path: str, text: str = "") -> None:
        ran.append("write")

    @tool(effect="read")
    async def look() -> None:
        ran.append("look")

    broken = '{"path":"a.txt","text":"hel'
    open_ended = message(use("w", "write", broken), use("r", "look"), stop="tool_use")
    outcome, _, _ = await play(
        body(open_ended, stream=True), body(DONE, stream=True), tools=(write, look)
    )
    assert [r.status.value for r in outcome.history[0].results] == ["invalid_arguments", "ok"]
    assert ran == ["look"]


@BOTH
@pytest.mark.parametrize("kind", ["text", "call"])
async def test_b24_truncated_replies_in_a_row_come_to_an_end(kind: str, stream: bool) -> None:
    """B24: three of them end it; it does not go on for ever."""

    @tool(effect="read")
    async def look() -> None:
        raise AssertionError("it ran")

    content = text("The ans") if kind == "text" else use("r", "look", {"n": 1})
    cut = body(message(content, stop="max_tokens"), stream=stream)
    outcome, heard, _ = await play(*[cut] * 8, tools=(look,), stream=stream)
    assert outcome.reason is Reason.INVALID_DECISION
    assert len(heard) <= 3


@BOTH
async def test_b38_anthropic_a_refusal_is_not_asked_for_again(stream: bool) -> None:
    """B38 (a): `stop_reason: refusal` with no content: M=1, and no retry."""
    outcome, heard, records = await play(
        body(message(stop="refusal"), stream=stream), stream=stream
    )
    assert outcome.reason is Reason.MODEL_REFUSED
    assert len(heard) == 1
    assert [r.category for r in records if isinstance(r, ModelAttempted)] == ["refused"]


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        ([{"output_tokens": 15}], Usage(25, 15)),
        (
            [{"input_tokens": 25, "cache_read_input_tokens": 10, "output_tokens": 15}],
            Usage(35, 15, cached_tokens=10),
        ),
        ([{"output_tokens": 7}, {"output_tokens": 15}], Usage(25, 15)),
        ([{"input_tokens": None, "output_tokens": 15}], Usage(25, 15)),
    ],
    ids=["one", "all again", "two", "null"],
)
async def test_b46_usage_that_is_counted_on_is_not_added_up(
    counted: list[dict[str, Any]], usage: Usage
) -> None:
    """B46: each count in a stream is that of all of it: 25 fresh tokens sent, 15 made, not 16."""
    begun, *told = events(message(text("done")))
    begun["message"]["usage"] = {"input_tokens": 25, "output_tokens": 1}
    *told, ended, stop = told
    ends = [{**ended, "usage": counts} for counts in counted]
    outcome, _, _ = await play(Answer(sse(begun, *told, *ends, stop, names=True)))
    assert outcome.completed
    assert outcome.usage == usage


@BOTH
async def test_b98_anthropic_is_error_only_where_the_result_is_one(stream: bool) -> None:
    """B98: what a text says makes no error of it, and an empty one is none."""

    @tool(effect="read")
    async def find() -> str:
        raise ToolFailure("not found")

    @tool(effect="read")
    async def codes() -> str:
        return "Error: codes list"

    @tool(effect="read")
    async def nothing() -> str:
        return ""

    calling = message(use("a", "find"), use("b", "codes"), use("c", "nothing"), stop="tool_use")
    outcome, heard, _ = await play(
        body(calling, stream=stream),
        body(DONE, stream=stream),
        tools=(find, codes, nothing),
        stream=stream,
    )
    assert [r.status.value for r in outcome.history[0].results] == ["error", "ok", "ok"]
    failed, listed, empty = heard[1].body["messages"][-1]["content"]
    assert failed["is_error"] is True
    assert "not found" in failed["content"]
    assert listed == {
        "type": "tool_result",
        "tool_use_id": "b",
        "content": "Error: codes list",
    }
    assert "is_error" not in empty
    assert not empty.get("content")
