"""Casebook J and D, for servers that speak MCP: what dies, hangs or fails is one call."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest
from mcp_tools.bench import ONCE, Stub, held, reads, run, until

from casebook.desk import Played, batch, call, tasks
from loopwright import Agent, Final, Policy, Runtime
from loopwright.testing import ScriptedModel, Step, VirtualClock, settle

pytestmark = pytest.mark.anyio


async def test_b35_tools_of_two_servers_stay_apart(tmp_path: Path) -> None:
    """B35: each is in the namespace of its server; names that differ stay different."""
    names = ("send", "read-file", "read_file", "read.file", "read/file", "x" * 80)
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    stubs = [Stub(tmp_path / name, {"tools": tools}) for name in ("s1", "s2")]
    async with (
        stubs[0].server("s1", effects=reads("send")) as s1,
        stubs[1].server("s2", effects=reads("send")) as s2,
    ):
        made = [tool.name for server in (s1, s2) for tool in server.tools]
        played = await run([batch(call("1", "s2__send")), Final("done")], [*s1.tools, *s2.tools])

    assert len(set(made)) == 2 * len(names)
    assert {"s1__send", "s2__send", "s1__read-file", "s1__read_file"} <= set(made)
    assert all(len(name) <= 64 for name in made)
    assert played.statuses == ["ok"]
    assert [len(stub.calls("send")) for stub in stubs] == [0, 1]


@pytest.mark.parametrize("policy", [ONCE, Policy()], ids=["once", "again"])
async def test_b92_a_server_that_dies_mid_call_is_one_failed_call(
    policy: Policy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """B92: nobody cancelled anything: the run goes on, and nothing spins or is left behind."""
    before = tasks()
    steps: list[Step] = [batch(call("1", "stub__die")), Final("done")]
    with caplog.at_level(logging.WARNING):
        async with Stub(tmp_path / "log").server(effects=reads("die")) as server:
            played = await run(steps, server.tools, policy=policy)
            await until(lambda: not held())
            busy = time.process_time()
            await asyncio.sleep(0.2)
            busy = time.process_time() - busy

    assert played.outcome.completed
    (result,) = played.results
    assert (result.status, result.error and result.error.category) == ("error", "transient")
    assert result.attempts == policy.tool_retry.max_attempts
    assert "cancel scope" not in caplog.text
    assert busy < 0.1
    assert tasks() <= before


async def test_b97_a_call_that_timed_out_is_cancelled_on_the_server(tmp_path: Path) -> None:
    """B97: once, by its request id; the answer that comes then is nobody's; `fast` works."""
    stub, clock = Stub(tmp_path / "log"), VirtualClock()
    steps: list[Step] = [
        batch(call("1", "stub__slow")),
        batch(call("2", "stub__fast")),
        Final("ok"),
    ]
    model = ScriptedModel(steps)
    async with stub.server(effects=reads("slow", "fast"), timeout=0.2) as server:
        desk = Agent("desk", model=model, tools=server.tools, policy=ONCE)
        async with Runtime([desk], clock=clock) as runtime:
            started = await runtime.start("desk", "the goal")
            await until(lambda: stub.calls("slow"))
            await clock.advance(0.2)
            outcome = await asyncio.wait_for(started.outcome(), 10)
            # By now the late answer has been read: that to `fast` came after it.
            await settle()

    assert outcome.completed
    assert Played(outcome, model).statuses == ["timeout", "ok"]
    assert Played(outcome, model).results[1].output == "fast"
    (slow,), cancelled = stub.calls("slow"), stub.heard("notifications/cancelled")
    assert [told["params"]["requestId"] for told in cancelled] == [slow["id"]]


async def test_b98_what_a_server_calls_an_error_is_one(tmp_path: Path) -> None:
    """B98: by its flag and nothing else; a text may look like an error, or be empty."""
    answers: list[dict[str, object]] = [
        {"isError": True, "content": [{"type": "text", "text": "not found"}]},
        {"isError": False, "content": [{"type": "text", "text": "Error: codes list"}]},
        {"content": []},
    ]
    steps: list[Step] = [
        batch(*(call(str(n), "stub__answer", {"result": a}) for n, a in enumerate(answers))),
        Final("done"),
    ]
    async with Stub(tmp_path / "log").server(effects=reads("answer")) as server:
        played = await run(steps, server.tools)

    assert played.statuses == ["error", "ok", "ok"]
    failed, listed, empty = played.results
    assert failed.error is not None
    assert (failed.error.message, failed.error.category) == ("not found", "permanent")
    assert not failed.error.retryable
    assert (listed.output, empty.output) == ("Error: codes list", "")


async def test_b119_a_huge_result_of_a_server_is_cut_as_any_other(tmp_path: Path) -> None:
    """B119: the model is shown the limit, whole characters; the journal keeps all; the run goes on."""
    big = {"text": "é", "times": 5_000_000}
    steps: list[Step] = [batch(call("1", "stub__big", big)), Final("done")]
    async with Stub(tmp_path / "log").server(effects=reads("big")) as server:
        played = await run(steps, server.tools)
    assert played.outcome.completed
    assert played.results[0].output == "é" * 5_000_000
    (shown,) = played.model.requests[1].history[0].results
    assert str(shown.output).endswith("é… [cut: the whole has 5000000 characters]")
