"""The trace: which events a turn makes, in which order, and who may disturb whom."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from itertools import pairwise

import pytest

from loopwright import (
    Agent,
    Final,
    Outcome,
    Reason,
    Runtime,
    ToolCall,
    ToolCalls,
    ToolFailure,
    tool,
)
from loopwright.actors import AnyTool, RunObserver, TraceEvent
from loopwright.actors._trace import of_input, of_output
from loopwright.protocol import CallId, CancelDecide, Late, Tick, dumps, loads
from loopwright.testing import ScriptedModel, Step, VirtualClock
from services.bench import INVOCATION

CALL = ToolCalls((ToolCall(CallId("a"), "t", {}),))


async def run(steps: Sequence[Step], *tools: AnyTool, observers: Sequence[RunObserver]) -> Outcome:
    agent = Agent("desk", model=ScriptedModel(steps), tools=tools)
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
    assert data["llm_call_finished"] == {
        "decision": "tool_calls",
        "model": "scripted",
        "tokens": 15,
        "estimated": False,
    }
    requested = data["tool_call_requested"]
    assert (requested["attempt"], requested["tool"], requested["effect"]) == (
        "a#1",
        "t",
        "idempotent",
    )
    assert str(requested["effect_key"]).startswith("call:")
    assert data["tool_call_finished"] == {
        "attempt": "a#1",
        "tool": "t",
        "status": "ok",
        "error": None,
    }
    assert data["permission_evaluated"] == {"verdict": "Accepted"}
    assert events[-1].data == {"reason": "completed", "cause": None}
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
    assert finished[2] == {"error": "ConnectionError: no route"}
    assert events[-1].data["reason"] == "model_error"
    assert events[-1].data["cause"] == "ConnectionError: no route"


def test_a_reply_nobody_waits_for_is_late() -> None:
    """It is told as that; messages that say nothing new to people make no event."""
    late = Late("Executed a#1")

    assert of_output(INVOCATION, 2, late) == TraceEvent(
        "late", INVOCATION, 2, {"message": "Executed a#1"}
    )
    assert of_output(INVOCATION, 2, CancelDecide(INVOCATION, 2)) is None
    assert of_input(INVOCATION, 2, Tick()) is None


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
