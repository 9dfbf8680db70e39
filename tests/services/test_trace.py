"""The trace: which events a turn makes, in which order, and who may disturb whom."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from loopwright import (
    Agent,
    Final,
    Outcome,
    Policy,
    Reason,
    Runtime,
    ToolCall,
    ToolCalls,
    ToolFailure,
    tool,
)
from loopwright.actors import AnyTool, JsonLines, RunObserver, TraceEvent
from loopwright.actors._clock import sleep
from loopwright.policy import Access, Deny, Judgement, Retry
from loopwright.protocol import CallId, digest, dumps, loads
from loopwright.testing import ScriptedModel, Step, VirtualClock, settle

CALL = ToolCalls((ToolCall(CallId("a"), "t", {}),))


async def run(steps: Sequence[Step], *tools: AnyTool, observers: Sequence[RunObserver]) -> Outcome:
    policy = Policy(retry=Retry(max_attempts=1))
    agent = Agent("desk", model=ScriptedModel(steps), tools=tools, policy=policy)
    async with Runtime([agent], clock=VirtualClock(), observers=observers) as runtime:
        return await runtime.run("desk", "the goal")


@pytest.mark.anyio
async def test_the_events_of_a_turn_come_in_order() -> None:
    """A write, then a final answer: each step once, each under its own turn."""

    @tool(effect="idempotent")
    async def t() -> str:
        return "done"

    events: list[TraceEvent] = []
    outcome = await run([CALL, Final("ok")], t, observers=[events.append])

    assert {event.invocation_id for event in events} == {outcome.invocation_id}
    names = [event.name for event in events if event.name != "state_transition"]
    assert names == [
        "checkpoint_saved",
        "llm_call_started",
        "llm_call_finished",
        "permission_evaluated",
        "checkpoint_saved",
        "tool_call_requested",
        "tool_call_finished",
        "checkpoint_saved",
        "llm_call_started",
        "llm_call_finished",
        "permission_evaluated",
        "checkpoint_saved",
        "run_finished",
    ]
    data = {event.name: event.data for event in events if event.turn == 1}
    finished = data["llm_call_finished"]
    assert (finished["decision"], finished["model"], finished["attempts"]) == (
        "tool_calls",
        "scripted",
        1,
    )
    assert (finished["tokens"], finished["estimated"]) == (15, False)
    assert finished["calls"] == [{"call": "a", "tool": "t", "arguments": digest({})[:32]}]
    requested = data["tool_call_requested"]
    assert (requested["attempt"], requested["tool"], requested["effect"]) == (
        "a#1",
        "t",
        "idempotent",
    )
    assert str(requested["effect_key"]).startswith("call:")
    done = data["tool_call_finished"]
    assert (done["attempt"], done["tool"], done["status"], done["error"]) == (
        "a#1",
        "t",
        "ok",
        None,
    )
    assert done["output"] == digest("done")[:32]
    assert data["permission_evaluated"] == {
        "verdict": "Accepted",
        "rules": [],
        "refused": [],
        "stages": [["a"]],
        "fault": None,
    }
    last = events[-1].data
    assert (last["reason"], last["cause"], last["steps"]) == ("completed", None, 2)
    assert [loads(dumps(event.data)) for event in events] == [event.data for event in events]


@pytest.mark.anyio
async def test_the_states_of_a_run_are_a_chain() -> None:
    """Each transition begins where the one before it ended."""
    events: list[TraceEvent] = []
    await run([Final("ok")], observers=[events.append])

    moves = [event.data for event in events if event.name == "state_transition"]
    assert all(before["to"] == after["from"] for before, after in pairwise(moves))
    assert moves[-1]["to"] == "FINISHED"


@pytest.mark.anyio
async def test_failures_are_traced_as_what_they_are() -> None:
    """A tool's error, then a model that gives no reply."""

    @tool(effect="read")
    async def t() -> None:
        raise ToolFailure("out of stock")

    events: list[TraceEvent] = []
    await run([CALL, ConnectionError("no route")], t, observers=[events.append])

    finished = [e.data for e in events if e.name in ("tool_call_finished", "llm_call_finished")]
    assert finished[1]["error"] == "out of stock"
    assert finished[2]["error"] == "ConnectionError: no route"
    assert events[-1].data["reason"] == "model_error"
    assert events[-1].data["cause"] == "ConnectionError: no route"


@pytest.mark.anyio
async def test_a_denial_is_traced_with_the_rule_that_denied() -> None:
    """Each rule is explained by name."""

    @tool(effect="manual")
    async def t() -> None:
        raise AssertionError

    def own_orders(access: Access) -> Judgement | None:
        return Deny("not yours")

    events: list[TraceEvent] = []
    model = ScriptedModel([CALL, Final("no")])
    agent = Agent("desk", model=model, tools=[t], policy=Policy(rules=[own_orders]))
    async with Runtime([agent], clock=VirtualClock(), observers=[events.append]) as runtime:
        await runtime.run("desk", "the goal")

    data = next(event.data for event in events if event.name == "permission_evaluated")
    assert data["rules"] == [
        {"call": "a", "verdict": "deny", "rule": "own_orders", "reason": "not yours"}
    ]
    assert "tool_call_requested" not in {event.name for event in events}


@pytest.mark.anyio
async def test_events_say_when_and_ends_how_long() -> None:
    """What a model or a tool took is told with its end."""
    clock = VirtualClock()

    @tool(effect="read")
    async def t() -> None:
        await sleep(clock, 3)

    events: list[TraceEvent] = []
    agent = Agent("desk", model=ScriptedModel([CALL, Final("ok")]), tools=[t])
    async with Runtime([agent], clock=clock, observers=[events.append]) as runtime:
        run = await runtime.start("desk", "the goal")
        await settle()
        await clock.advance(3)
        await run.outcome()

    begun, done = (e for e in events if e.name.startswith("tool_call_"))
    assert (done.seconds, done.at - begun.at) == (3.0, 3.0)
    assert all(event.at >= events[0].at > 0 for event in events)


@pytest.mark.anyio
async def test_json_lines_are_an_observer(tmp_path: Path) -> None:
    """The same events, one object on a line."""
    events: list[TraceEvent] = []
    with JsonLines(tmp_path / "trace.jsonl") as lines:
        await run([Final("ok")], observers=[events.append, lines])

    written = (tmp_path / "trace.jsonl").read_text(encoding="utf-8").splitlines()
    assert [loads(line.encode()) for line in written] == [event.plain() for event in events]


@pytest.mark.anyio
async def test_an_observer_that_raises_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the run, nor the observers after it; it is logged."""

    def broken(event: TraceEvent) -> None:
        raise ValueError(event.name)

    heard: list[TraceEvent] = []
    outcome = await run([Final("ok")], observers=[broken, heard.append])

    assert outcome.reason is Reason.COMPLETED
    assert heard[-1].name == "run_finished"
    assert caplog.text.count("An observer failed on ") == len(heard)


@pytest.mark.anyio
async def test_observers_hear_in_the_context_of_the_caller() -> None:
    """What a caller has set is seen, and what an observer sets is seen by nobody."""
    request = contextvars.ContextVar("request", default="none")
    heard: set[str] = set()

    def observer(_: TraceEvent) -> None:
        heard.add(request.get())
        request.set("spoilt")

    request.set("r-7")
    await run([Final("ok")], observers=[observer])

    assert "none" not in heard
    assert request.get() == "r-7"
