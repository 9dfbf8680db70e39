"""Calls over a connection: what is sent, what comes back, and what of it is told to whom."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from casebook.desk import batch, call

from loopwright import Final
from loopwright.actors import TraceEvent
from loopwright.adapters import MCPNoAnswerError
from loopwright.protocol import JsonValue
from loopwright.testing import Step

from .bench import CONTEXT, Stub, reads, run

pytestmark = pytest.mark.anyio


def _answer_of(text: str) -> str:
    """Write the answer to a call as it stands there, with the JSON of its text."""
    return '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":' + text + "}]}}"


async def test_a_call_says_what_it_is_for(tmp_path: Path) -> None:
    """The call id and the effect key are in its `_meta`, for a server that wants to deduplicate."""
    stub = Stub(tmp_path / "log")
    async with stub.server(effects={"echo": "idempotent"}) as server:
        steps: list[Step] = [
            batch(call("c7", "stub__echo", {"a": None, "b": [1, {"c": None}]})),
            Final("done"),
        ]
        played = await run(steps, server.tools)

    assert played.outcome.completed
    (result,) = played.results
    (sent,) = stub.calls("echo")
    assert result.output == sent["params"]
    # A null is an argument, and not the lack of one.
    assert sent["params"]["arguments"] == {"a": None, "b": [1, {"c": None}]}
    meta = sent["params"]["_meta"]
    assert meta == {
        "loopwright/invocation_id": played.outcome.invocation_id,
        "loopwright/call_id": "c7",
        "loopwright/attempt": 1,
        "loopwright/effect_key": result.effect_key,
    }
    assert result.effect_key


async def test_a_read_has_no_effect_key_to_send(tmp_path: Path) -> None:
    stub = Stub(tmp_path / "log")
    async with stub.server(effects=reads("echo")) as server:
        await run([batch(call("1", "stub__echo")), Final("done")], server.tools)
    (sent,) = stub.calls("echo")
    assert "loopwright/effect_key" not in sent["params"]["_meta"]


async def test_progress_goes_into_the_trace(tmp_path: Path) -> None:
    """And is asked for only where somebody watches."""
    stub, events = Stub(tmp_path / "log"), list[TraceEvent]()
    steps: list[Step] = [batch(call("1", "stub__progress", {"times": 2})), Final("done")]
    async with stub.server(effects=reads("progress")) as server:
        watched = await run(steps, server.tools, events=events)
        unwatched = await run(steps, server.tools)

    told = [event.data for event in events if event.name == "tool_progress"]
    tool = {"attempt": "1#1", "tool": "stub__progress"}
    assert told == [
        {**tool, "message": "at work", "done": 1.0, "total": 3.0},
        {**tool, "message": "at work", "done": 2.0, "total": 3.0},
    ]
    first, second = stub.calls("progress")
    assert "progressToken" in first["params"]["_meta"]
    assert "progressToken" not in second["params"]["_meta"]
    assert watched.statuses == unwatched.statuses == ["ok"]


@pytest.mark.parametrize(
    ("code", "read", "write"),
    [
        (-32602, ("error", "invalid_input"), ("error", "invalid_input")),
        (-32601, ("error", "permanent"), ("error", "permanent")),
        # It may have come after the effect.
        (-32603, ("error", "permanent"), ("outcome_unknown", "transient")),
        (-32600, ("error", "permanent"), ("outcome_unknown", "transient")),
        (0, ("error", "permanent"), ("outcome_unknown", "transient")),
        (-32000, ("error", "transient"), ("outcome_unknown", "transient")),
    ],
)
async def test_few_errors_say_that_nothing_was_run(
    code: int, read: tuple[str, str], write: tuple[str, str], tmp_path: Path
) -> None:
    """A read has failed with any of them; of a write most say nothing."""
    steps: list[Step] = [batch(call("1", "stub__refuse", {"code": code})), Final("done")]
    for effect, (status, category) in (("read", read), ("manual", write)):
        async with Stub(tmp_path / effect).server(effects={"refuse": effect}) as server:
            played = await run(steps, server.tools)
            facts = [*played.outcome.unresolved_effects]
        if status == "outcome_unknown":
            assert [fact.status for fact in facts] == ["outcome_unknown"]
            continue
        (result,) = played.results
        assert result.error is not None
        assert (result.status, result.error.category) == (status, category)
        assert result.error.message == "MCP server 'stub': no"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (
            "elicitation/create",
            {"message": "Your password?", "requestedSchema": {"type": "object", "properties": {}}},
        ),
        ("sampling/createMessage", {"messages": [], "maxTokens": 1}),
        ("roots/list", {}),
        ("loopwright/nonsense", {}),
    ],
)
async def test_what_a_server_asks_for_is_refused(
    method: str, params: dict[str, Any], tmp_path: Path
) -> None:
    """It gets an answer, and goes on with it: nobody hangs, and no person or model is bothered."""
    steps: list[Step] = [
        batch(call("1", "stub__ask", {"method": method, "params": params})),
        Final("done"),
    ]
    async with Stub(tmp_path / "log").server(effects=reads("ask")) as server:
        played = await run(steps, server.tools)
    (result,) = played.results
    assert "error" in json.loads(str(result.output))


async def test_garbage_is_one_failed_call(tmp_path: Path) -> None:
    """Lines that are no messages are not heard; a result that is none is a failure."""
    steps: list[Step] = [
        batch(call("1", "stub__garbage")),
        batch(call("2", "stub__fast")),
        Final("done"),
    ]
    async with Stub(tmp_path / "log").server(effects=reads("garbage", "fast")) as server:
        played = await run(steps, server.tools)
    assert played.statuses == ["error", "ok"]
    assert played.results[0].error is not None
    assert played.results[0].error.message.endswith("answered something that is no result")


@pytest.mark.parametrize(
    ("line", "output"),
    [
        (_answer_of('"cut \\ud83d"'), "cut \ufffd"),
        (_answer_of('"\xff\xfe"'), "\ufffd\ufffd"),
        ("\xff\n" + _answer_of('"a banner"'), "a banner"),
        (_answer_of("[" * 300 + "]" * 300), None),
    ],
    ids=["half a character", "no UTF-8", "a banner", "too deep"],
)
async def test_what_can_hardly_be_read(line: str, output: str | None, tmp_path: Path) -> None:
    """It is one call, answered at once, and not the last that is heard of the server."""
    async with Stub(tmp_path / "log").server(effects=reads("fast")) as server:
        async with asyncio.timeout(5):
            raw = server.tool("raw")({"line": line}, CONTEXT)
            if output is None:
                with pytest.raises(MCPNoAnswerError, match="answered with what cannot be read"):
                    await raw
            else:
                assert await raw == output
            assert await server.tool("fast")({}, CONTEXT) == "fast"


async def test_a_write_that_was_answered_with_garbage_may_have_run(tmp_path: Path) -> None:
    async with Stub(tmp_path / "log").server() as server:
        played = await run([batch(call("1", "stub__garbage"))], server.tools)
    assert [e.status for e in played.outcome.unresolved_effects] == ["outcome_unknown"]


async def test_many_calls_at_once_are_told_apart(tmp_path: Path) -> None:
    """Reads of one batch go out together, each with its own answer."""
    names = [f"answer_{n}" for n in range(20)]
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    stub = Stub(tmp_path / "log", {"tools": tools})
    calls = batch(*(call(name, f"stub__{name}") for name in names))
    async with stub.server(effects=reads(*names)) as server:
        played = await run([calls, Final("done")], server.tools)
    assert [result.output for result in played.results] == names


async def test_a_tool_can_be_called_as_what_it_is(tmp_path: Path) -> None:
    """Without a runtime, and from another loop than its own, as `SyncRuntime` does."""
    async with Stub(tmp_path / "log").server(effects=reads("fast")) as server:
        fast = server.tool("fast")

        async def elsewhere() -> JsonValue:
            answer: JsonValue = await fast({}, CONTEXT)
            return answer

        assert await fast({}, CONTEXT) == "fast"
        assert await asyncio.to_thread(asyncio.run, elsewhere()) == "fast"
