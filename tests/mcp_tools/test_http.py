"""Streamable HTTP: what the failure of one request says of it, and of no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from casebook.desk import batch, call

from loopwright import Final, ToolFailure
from loopwright.actors import AnyTool
from loopwright.adapters import MCPNoAnswerError, MCPServer
from loopwright.testing import Step

from .bench import CONTEXT, reads, run, until
from .web import Web

pytestmark = pytest.mark.anyio


def server_of(web: Web, *names: str, **options: Any) -> MCPServer:
    return MCPServer.http("web", web.url, effects=reads(*names), **options)


async def test_headers_go_with_each_request() -> None:
    async with Web().served() as web:
        async with server_of(web, headers={"Authorization": "Bearer t"}) as server:
            assert await server.tool("fast")({}, CONTEXT) == "fast"
        assert {headers["authorization"] for headers in web.headers} == {"Bearer t"}


async def test_a_line_that_goes_dead_is_one_call() -> None:
    """The others, which wait for the same server, go on."""
    async with Web().served() as web, server_of(web, "slow", "drop", "body") as server:
        slow = asyncio.ensure_future(server.tool("slow")({}, CONTEXT))
        await until(lambda: web.calls("slow"))
        with pytest.raises(MCPNoAnswerError, match="the line went dead"):
            await server.tool("drop")({}, CONTEXT)
        assert await server.tool("fast")({}, CONTEXT) == "fast"
        assert not slow.done()
        slow.cancel()
        await until(lambda: [m for m in web.heard if m.get("method") == "notifications/cancelled"])


async def test_an_answer_that_breaks_off_is_no_answer() -> None:
    """Whatever becomes of the connection, a write is never called a failure."""
    async with Web().served() as web, server_of(web) as server:
        with pytest.raises(MCPNoAnswerError):
            await server.tool("body")({}, CONTEXT)
        assert await server.tool("fast")({}, CONTEXT) == "fast"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("body", {}),
        ("status", {"status": 200, "body": {"id": 9}, "content-encoding": "gzip"}),
        ("big", {"chars": 3_000}),
        ("big", {"chars": 3_000, "plain": True}),
    ],
    ids=["breaks off", "not unpacked", "event too long", "too long"],
)
async def test_what_cannot_be_read_is_one_call(
    tool: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the body is: a write that waits on the same connection is not left in the dark."""
    monkeypatch.setattr("loopwright.adapters.mcp._http.LARGEST_EVENT", 2_000)
    async with Web().served() as web, server_of(web) as server:
        slow = asyncio.ensure_future(server.tool("slow")({}, CONTEXT))
        await until(lambda: web.calls("slow"))
        with pytest.raises(MCPNoAnswerError):
            await server.tool(tool)(arguments, CONTEXT)
        assert await server.tool("fast")({}, CONTEXT) == "fast"
        assert not slow.done()
        slow.cancel()
    assert [m["method"] for m in web.heard].count("initialize") == 1


async def test_a_server_that_closes_its_stream_at_once_is_asked_with_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where it says that there need be none: nobody is kept busy by that."""
    monkeypatch.setattr("loopwright.adapters.mcp._http.LISTENS_AT_ONCE", 3)
    monkeypatch.setattr("loopwright.adapters.mcp._http.LISTENS_EVERY", 1_000)
    web = Web()
    web.stream = "retry: 0\nid: 1\ndata:\n\n"
    async with web.served(), server_of(web) as server:
        await until(lambda: web.listened == 3)
        for _ in range(50):
            assert await server.tool("fast")({}, CONTEXT) == "fast"
        assert web.listened == 3


async def test_a_cancel_that_is_not_answered_holds_up_no_call() -> None:
    """Nothing else would be sent until it is, and there is no telling when that would be."""
    async with Web().served() as web, server_of(web) as server:
        web.deaf.add("notifications/cancelled")
        slow = asyncio.ensure_future(server.tool("slow")({}, CONTEXT))
        await until(lambda: web.calls("slow"))
        slow.cancel()
        await until(lambda: [m for m in web.heard if m.get("method") == "notifications/cancelled"])
        async with asyncio.timeout(2):
            assert await server.tool("fast")({}, CONTEXT) == "fast"


async def test_calls_that_were_given_up_are_in_nobodys_way() -> None:
    """However many there are: their lines, which the server keeps, are not counted."""
    async with Web().served() as web, server_of(web) as server:
        waiting = [asyncio.ensure_future(server.tool("slow")({}, CONTEXT)) for _ in range(120)]
        await until(lambda: len(web.calls("slow")) == 120)
        async with asyncio.timeout(2):
            assert await server.tool("fast")({}, CONTEXT) == "fast"
        for one in waiting:
            one.cancel()
        async with asyncio.timeout(5):
            assert await server.tool("fast")({}, CONTEXT) == "fast"


async def test_a_session_that_was_lost_costs_no_other_call() -> None:
    """All that meet it go out once more; what is under way on it is waited for."""
    async with Web().served() as web, server_of(web) as server:
        slow = asyncio.ensure_future(server.tool("slow")({}, CONTEXT))
        await until(lambda: web.calls("slow"))
        web.session = "s2"
        fast = [server.tool("fast")({}, CONTEXT) for _ in range(10)]
        assert await asyncio.gather(*fast) == ["fast"] * 10
        assert not slow.done()
        slow.cancel()
    assert [m["method"] for m in web.heard].count("initialize") == 2


async def test_a_server_that_was_restarted_gets_a_new_session() -> None:
    """It does not know the old one, and so has run nothing: the call goes out once more."""
    async with Web().served() as web, server_of(web) as server:
        web.session = "s2"
        assert await server.tool("fast")({}, CONTEXT) == "fast"
        assert web.headers[-1]["mcp-session-id"] == "s2"
        assert [m["method"] for m in web.heard].count("initialize") == 2


async def test_a_server_that_is_down_was_sent_nothing() -> None:
    """And once it is up again, it is used again."""
    web = Web()
    async with web.served():
        server = server_of(web)
        await server.__aenter__()
    with pytest.raises(
        ToolFailure, match=r"it cannot be reached .*; the call was not sent"
    ) as caught:
        await server.tool("fast")({}, CONTEXT)
    assert caught.value.retryable
    web.session = "s2"
    async with web.served():
        assert await server.tool("fast")({}, CONTEXT) == "fast"
        await server.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("answer", "read", "write"),
    [
        ({"status": 401}, "permission", "permission"),
        ({"status": 403, "body": {"id": 1, "error": {}}}, "permission", "permission"),
        ({"status": 429, "retry-after": "7"}, "rate_limited", "rate_limited"),
        ({"status": 500}, "no answer", "no answer"),
        ({"status": 503}, "no answer", "no answer"),
        (
            {"status": 500, "body": {"id": 1, "error": {"code": -32603, "message": "no"}}},
            "permanent",
            "no answer",
        ),
        (
            {"status": 400, "body": {"id": 1, "error": {"code": -32602, "message": "no"}}},
            "invalid_input",
            "invalid_input",
        ),
        ({"status": 202}, "permanent", "no answer"),
        ({"status": 302, "location": "http://127.0.0.1:9/"}, "permanent", "no answer"),
    ],
    ids=["401", "403", "429", "500", "503", "500 json", "400 json", "202", "302"],
)
async def test_what_a_status_says(answer: dict[str, Any], read: str, write: str) -> None:
    async with Web().served() as web, server_of(web, "status") as server:
        assert await came_of(server.tool("status"), answer) == read
    async with Web().served() as web, server_of(web) as server:
        assert await came_of(server.tool("status"), answer) == write


async def came_of(tool: AnyTool, answer: dict[str, Any]) -> str:
    with pytest.raises((ToolFailure, MCPNoAnswerError)) as caught:
        await tool(answer, CONTEXT)
    failure = caught.value
    if not isinstance(failure, ToolFailure):
        return "no answer"
    limited = failure.category == "rate_limited"
    assert (failure.retry_after, failure.retryable) == (("7", True) if limited else (None, False))
    return failure.category


async def test_an_answer_of_another_type_is_no_answer() -> None:
    async with Web().served() as web, server_of(web) as server:
        with pytest.raises(MCPNoAnswerError, match="Unexpected content type"):
            await server.tool("plain")({}, CONTEXT)


async def test_a_result_of_50_megabytes() -> None:
    """It is kept, and cut where it is shown."""
    chars = 50_000_000
    async with Web().served() as web, server_of(web, "big") as server:
        steps: list[Step] = [batch(call("1", "web__big", {"chars": chars})), Final("done")]
        played = await run(steps, server.tools)
    assert played.outcome.completed
    assert len(str(played.results[0].output)) == chars
    (shown,) = played.model.requests[1].history[0].results
    assert str(shown.output).endswith(f"… [cut: the whole has {chars} characters]")
