"""Opening a server: what cannot be used is refused with one sentence, and nothing is left of it."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from loopwright import Agent, ConfigurationError, Effect, ToolFailure
from loopwright.adapters import MCPConnectError, MCPServer
from loopwright.testing import ScriptedModel

from .bench import CONTEXT, Stub, held, until

pytestmark = pytest.mark.anyio

ANY: dict[str, Any] = {"type": "object"}


def listed(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "inputSchema": ANY} for name in names]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"start": "exit"}, "MCP server 'stub' cannot be connected to: Connection closed; what "),
    ({"start": "silent"}, "MCP server 'stub' cannot be connected to: it was not ready within "),
    (
        {"tools": listed("a", "b", "a")},
        "MCP server 'stub' cannot be connected to: the tools of ",
    ),
    ({"tools": listed(*map(str, range(10_000)))}, "MCP server 'stub' cannot be connected to: "),
    ({"pages": {"": [[], "x"], "x": [[], "x"]}}, "MCP server 'stub' cannot be connected to: "),
    (
        {"tools": [{"name": "a", "inputSchema": {"type": "array"}}]},
        "MCP server 'stub' cannot be connected to: it said something that the protocol does not",
    ),
]


@pytest.mark.parametrize(
    ("setup", "sentence"),
    REFUSED,
    ids=["exit", "silent", "twice", "many", "endless", "malformed"],
)
async def test_what_cannot_be_used_is_refused(
    setup: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    """It never hangs, and leaves no process behind."""
    within = 1.0 if setup.get("start") == "silent" else 30.0
    with pytest.raises(MCPConnectError) as caught:
        async with Stub(tmp_path / "log", setup).server(connect_timeout=within):
            pass
    assert str(caught.value).startswith(sentence)
    assert not held()


async def test_a_command_that_is_not_there() -> None:
    server = MCPServer.stdio("s", "/no/such/command", args=["--token", "hush"], env={"KEY": "hush"})
    with pytest.raises(MCPConnectError) as caught:
        async with server:
            pass
    assert "FileNotFoundError" in str(caught.value)
    assert str(caught.value).endswith("; is the command installed, with its arguments in args=?")
    assert "hush" not in f"{caught.value!r} {server!r}"


async def test_a_server_that_is_not_there() -> None:
    """Nothing that it would be let in with is in what is said of it."""
    url = "http://user:hush@127.0.0.1:9/mcp?token=hush#hush"
    server = MCPServer.http("s", url, headers={"Authorization": "Bearer hush"})
    with pytest.raises(MCPConnectError) as caught:
        async with server:
            pass
    assert str(caught.value).startswith(
        "MCP server 's' cannot be connected to: it cannot be reached"
    )
    assert "hush" not in f"{caught.value!r} {server!r} {caught.value.__cause__!r}"
    assert repr(server) == "<MCPServer s http://127.0.0.1/mcp>"


async def test_greetings_on_stdout_are_not_heard(tmp_path: Path) -> None:
    async with Stub(tmp_path / "log", {"start": "garbage"}).server() as server:
        assert server.tool("fast").effect is Effect.MANUAL


async def test_a_tool_whose_schema_cannot_be_applied_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are there: nobody here can mend a server."""
    schemas: list[Any] = [
        {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/a.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"a": {"pattern": "(("}}},
    ]
    tools = [{"name": f"t{n}", "inputSchema": schema} for n, schema in enumerate(schemas)]
    stub = Stub(tmp_path / "log", {"tools": [*tools, *listed("good")]})
    with caplog.at_level(logging.WARNING, "loopwright.mcp"):
        async with stub.server() as server:
            assert [tool.name for tool in server.tools] == ["stub__good"]
    assert len(caplog.records) == len(schemas)
    assert "Tool 't0' of MCP server 'stub' is left out" in caplog.text


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"effects": {"fsat": "read"}},
            "effects= of MCP server 'stub' names 'fsat'; usable tools ",
        ),
        (
            {"effects": {"fast": "raed"}},
            "effects= of MCP server 'stub' says 'raed' of 'fast'; give ",
        ),
        ({"timeout": 0}, "tool 'stub__fast' has timeout=0; give seconds above 0, or None"),
        ({"connect_timeout": 0}, "MCP server 'stub' has connect_timeout=0; give seconds above 0"),
        ({"name": "a__b"}, "the name 'a__b' of an MCP server is not usable; use 1-32 letters"),
        ({"name": "_"}, "the name '_' of an MCP server is not usable; use 1-32 letters"),
        ({"name": "x" * 33}, "the name 'xxx"),
    ],
)
async def test_what_cannot_be_meant_is_refused(
    given: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        async with Stub(tmp_path / "log").server(**given):
            pass
    assert str(caught.value).startswith(sentence)
    assert not held()


@pytest.mark.parametrize(
    "url", ["", "git", "ftp://a/b", "http://", "//a", "http://[::1/", "http://a:b/"]
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(ConfigurationError, match="MCP server 'git' has no usable url; give one"):
        MCPServer.http("git", url)


async def test_it_is_opened_once_and_used_while_it_is_open(tmp_path: Path) -> None:
    server = Stub(tmp_path / "log").server()
    with pytest.raises(ConfigurationError, match="MCP server 'stub' was never opened; take its"):
        _ = server.tools
    async with server:
        with pytest.raises(ConfigurationError, match="MCP server 'stub' is open; open it once"):
            await server.__aenter__()
        with pytest.raises(
            ConfigurationError, match="'stub' has no usable tool 'nix'; it has: fast"
        ):
            server.tool("nix")
    assert repr(server) == f"<MCPServer stub stdio {sys.executable}>"


def test_a_server_whose_loop_is_gone_can_be_opened_again(tmp_path: Path) -> None:
    """It was never closed, as where a program fails; nothing of it is left, and it is no use."""
    server = Stub(tmp_path / "log").server(effects={"fast": "read"})

    async def opened() -> None:
        await server.__aenter__()

    async def again() -> None:
        with pytest.raises(ToolFailure, match="'stub' is closed; the call was not sent"):
            await server.tool("fast")({}, CONTEXT)
        async with server:
            assert await server.tool("fast")({}, CONTEXT) == "fast"

    asyncio.run(opened())
    asyncio.run(again())


async def test_two_servers_of_one_name_are_refused_by_the_agent(tmp_path: Path) -> None:
    async with (
        Stub(tmp_path / "1").server() as one,
        Stub(tmp_path / "2").server() as other,
    ):
        with pytest.raises(ConfigurationError, match="has two tools named 'stub__fast'"):
            Agent("desk", model=ScriptedModel([]), tools=[*one.tools, *other.tools])


async def test_its_stderr_goes_into_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """And not into ours, where it would be in the way of a terminal."""
    with caplog.at_level(logging.INFO, "loopwright.mcp"), pytest.raises(MCPConnectError):
        async with Stub(tmp_path / "log", {"start": "exit"}).server():
            pass
    await until(lambda: caplog.records)
    assert "stub says: no such luck" in caplog.text
    assert capfd.readouterr().err == ""
