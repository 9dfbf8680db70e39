"""Against real servers: `mcp-server-time` and `mcp-server-git`, over stdio and over HTTP."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
import uvicorn
from anyio.from_thread import start_blocking_portal
from casebook.desk import batch, call
from mcp_server_time.server import (  # type: ignore[import-untyped]  # it has no py.typed
    create_server,  # pyright: ignore[reportMissingTypeStubs]
)

from loopwright import Agent, Final, Policy, Runtime, SyncRuntime, ToolContext, tool
from loopwright.adapters import MCPServer
from loopwright.policy import tool_named
from loopwright.testing import ScriptedModel, Step

from .bench import held, run

pytestmark = pytest.mark.anyio


def clock_server(**options: object) -> MCPServer:
    arguments = ["-m", "mcp_server_time", "--local-timezone", "UTC"]
    return MCPServer.stdio("clock", sys.executable, args=arguments, **options)  # type: ignore[arg-type]  # passed on


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Make a repository with one commit, and a file that is not added yet."""
    for words in (
        ["init", "--quiet", "--initial-branch", "main"],
        ["config", "user.email", "ana@example.org"],
        ["config", "user.name", "Ana"],
        ["commit", "--quiet", "--allow-empty", "--message", "the beginning"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "notes.txt").write_text("remember\n")
    return tmp_path


async def test_a_clock_over_stdio() -> None:
    """What it returns is structured; what does not fit its schema never gets to it."""
    steps: list[Step] = [
        batch(call("1", "clock__get_current_time", {"timezone": "Europe/Vienna"})),
        batch(call("2", "clock__get_current_time", {"zone": 1})),
        batch(call("3", "clock__get_current_time", {"timezone": "Mars/Olympus"})),
        Final("late"),
    ]
    async with clock_server(effects={"get_current_time": "read"}) as clock:
        assert {t.name: t.effect.value for t in clock.tools} == {
            "clock__get_current_time": "read",
            "clock__convert_time": "manual",
        }
        played = await run(steps, clock.tools)
    told, unfit, failed = played.results
    assert isinstance(told.output, dict)
    assert told.output["timezone"] == "Europe/Vienna"
    assert unfit.status == "invalid_arguments"
    assert unfit.error is not None
    assert "timezone: Field required" in unfit.error.message
    assert failed.status == "error"
    assert failed.error is not None
    assert "Mars/Olympus" in failed.error.message
    assert not held()


async def test_a_repository_over_stdio(repository: Path) -> None:
    """A model reads and writes in it; the write waits for a person, who is shown what it is."""
    where = {"repo_path": str(repository)}
    steps: list[Step] = [
        batch(call("1", "git__git_status", where), call("2", "git__git_log", where)),
        batch(call("3", "git__git_add", {**where, "files": ["notes.txt"]})),
        batch(call("4", "git__git_commit", {**where, "message": "notes"})),
        Final("done"),
    ]
    server = MCPServer.stdio(
        "git",
        sys.executable,
        args=["-m", "mcp_server_git", "--repository", str(repository)],
        effects={"git_commit": "manual"},
        trust_hints=True,
    )
    async with server as git:
        policy = Policy(ask=[tool_named("git__git_commit")])
        desk = Agent("desk", model=ScriptedModel(steps), tools=git.tools, policy=policy)
        async with Runtime([desk]) as runtime:
            asked = await runtime.run("desk", "the goal")
            assert asked.proposal is not None
            (ask,) = asked.proposal.asks
            assert (ask.tool_name, ask.arguments["message"]) == ("git__git_commit", "notes")
            going = await runtime.approve(asked.invocation_id, asked.proposal.digest, by="ana")
            outcome = await going.outcome()
    assert outcome.completed
    results = [result for turn in outcome.history for result in turn.results]
    assert [result.status.value for result in results] == ["ok"] * 4
    assert "notes.txt" in str(results[0].output)
    assert "the beginning" in str(results[1].output)
    assert logged(repository) == ["notes", "the beginning"]


def logged(repository: Path) -> list[str]:
    log = subprocess.check_output(["git", "log", "--format=%s"], cwd=repository, text=True)
    return log.splitlines()


@pytest.fixture
def web_clock() -> Generator[str]:
    """Serve the clock over streamable HTTP, on a free port, in a thread."""
    app = create_server("UTC").streamable_http_app()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        # From here on who connects waits until it is served.
        listening.listen()
        config = uvicorn.Config(app, log_level="error", ws="none", lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        server.should_exit = True
        thread.join(10)


async def test_a_clock_over_http(web_clock: str) -> None:
    """Beside a tool of our own, in one batch."""

    @tool(effect="read")
    async def weather(ctx: ToolContext) -> str:
        return f"fine for {ctx.call_id}"

    steps: list[Step] = [
        batch(call("1", "clock__get_current_time", {"timezone": "UTC"}), call("2", "weather")),
        Final("done"),
    ]
    async with MCPServer.http("clock", web_clock, trust_hints=True) as clock:
        played = await run(steps, [*clock.tools, weather])
    assert played.statuses == ["ok", "ok"]
    assert played.results[1].output == "fine for 2"
    assert not held()


def test_a_service_without_a_loop() -> None:
    """A server is opened in a portal, and used by a `SyncRuntime`, whose loop is another one."""
    steps: list[Step] = [
        batch(call("1", "clock__get_current_time", {"timezone": "UTC"})),
        Final("done"),
    ]
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(clock_server(trust_hints=True)) as clock,
    ):
        desk = Agent("desk", model=ScriptedModel(steps), tools=clock.tools)
        with SyncRuntime(Runtime([desk])) as runtime:
            outcome = runtime.run("desk", "the goal")
    assert outcome.completed
    assert outcome.history[0].results[0].status == "ok"
