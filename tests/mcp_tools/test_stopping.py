"""Calls that are given up: the server is told once, and nobody waits for it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from casebook.desk import Played, batch, call

from loopwright import Agent, Final, Reason, Runtime, ToolFailure
from loopwright.actors import AnyTool
from loopwright.testing import ScriptedModel, Step, VirtualClock

from .bench import CONTEXT, ONCE, Stub, held, reads, until

pytestmark = pytest.mark.anyio


async def test_a_cancel_reaches_the_server(tmp_path: Path) -> None:
    """The run ends as cancelled, and the server is told which request nobody waits for."""
    stub = Stub(tmp_path / "log")
    async with stub.server(effects=reads("slow")) as server:
        desk = Agent(
            "desk", model=ScriptedModel([batch(call("1", "stub__slow"))]), tools=server.tools
        )
        async with Runtime([desk]) as runtime:
            run = await runtime.start("desk", "the goal")
            await until(lambda: stub.calls("slow"))
            run.cancel("enough")
            outcome = await run.outcome()
        await until(lambda: stub.heard("notifications/cancelled"))
    assert outcome.reason is Reason.CANCELLED
    (asked,), (told,) = stub.calls("slow"), stub.heard("notifications/cancelled")
    assert told["params"]["requestId"] == asked["id"]


async def test_a_server_that_hears_nothing_holds_nobody_up(tmp_path: Path) -> None:
    """Its pipe is full, so that not even a cancel can be written: the run ends all the same."""
    stub, clock = Stub(tmp_path / "log"), VirtualClock()
    full = {"text": "x" * 1_000_000}
    steps: list[Step] = [
        batch(call("1", "stub__deaf"), call("2", "stub__fast", full)),
        Final("done"),
    ]
    model = ScriptedModel(steps)
    async with stub.server(effects=reads("deaf", "fast"), timeout=5) as server:
        desk = Agent("desk", model=model, tools=server.tools, policy=ONCE)
        async with Runtime([desk], clock=clock) as runtime:
            run = await runtime.start("desk", "the goal")
            await until(lambda: stub.calls("deaf"))
            await clock.advance(5)
            outcome = await asyncio.wait_for(run.outcome(), 2)
    assert outcome.completed
    assert Played(outcome, model).statuses == ["timeout", "timeout"]
    assert not held()


async def test_a_call_that_waits_for_a_new_connection_can_be_given_up(tmp_path: Path) -> None:
    """And what it waited for goes on for the others."""
    stub = Stub(tmp_path / "log")
    async with stub.server(effects=reads("leave", "fast")) as server:
        await server.tool("leave")({}, CONTEXT)
        await until(lambda: not held())
        impatient = asyncio.ensure_future(server.tool("fast")({}, CONTEXT))
        patient = asyncio.ensure_future(server.tool("fast")({}, CONTEXT))
        await until(held)
        impatient.cancel()
        assert await patient == "fast"
        assert impatient.cancelled()
    assert len(stub.heard("initialize")) == 2


async def test_a_server_that_is_not_heard_any_more_is_replaced(tmp_path: Path) -> None:
    """It lives and reads, and yet answers nobody: after some calls in a row, another one is asked."""
    stub = Stub(tmp_path / "log")
    async with stub.server(effects=reads("mute", "fast")) as server:
        patient = asyncio.ensure_future(server.tool("mute")({"patient": True}, CONTEXT))
        for given_up in range(1, 4):
            if given_up == 2:
                # What is heard counts for all.
                assert await server.tool("fast")({}, CONTEXT) == "fast"
            await give_up(server.tool("mute"), stub)
        assert len(stub.heard("initialize")) == 1
        await give_up(server.tool("mute"), stub)
        assert await server.tool("fast")({}, CONTEXT) == "fast"
        assert len(stub.heard("initialize")) == 2
        # Who still waits for the former one is not let down.
        assert not patient.done()
        patient.cancel()
        await until(lambda: len(held()) == 1)


async def give_up(tool: AnyTool, stub: Stub) -> None:
    before = len(stub.calls("mute"))
    call = asyncio.ensure_future(tool({}, CONTEXT))
    await until(lambda: len(stub.calls("mute")) > before)
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call


async def test_nothing_runs_once_it_is_closed(tmp_path: Path) -> None:
    """Its tools are still there, and say so; opened again, they are those of the new listing."""
    stub = Stub(tmp_path / "log")
    server = stub.server(effects=reads("fast"))
    async with server:
        fast = server.tool("fast")
    with pytest.raises(ToolFailure, match="MCP server 'stub' is closed; the call was not sent"):
        await fast({}, CONTEXT)
    assert not held()
    async with server:
        assert await server.tool("fast")({}, CONTEXT) == "fast"
    assert len(stub.heard("initialize")) == 2


async def test_who_waits_as_it_is_closed_is_told(tmp_path: Path) -> None:
    stub = Stub(tmp_path / "log")
    async with stub.server(effects=reads("slow")) as server:
        waiting = asyncio.ensure_future(server.tool("slow")({}, CONTEXT))
        await until(lambda: stub.calls("slow"))
    with pytest.raises(ConnectionError):
        await waiting
