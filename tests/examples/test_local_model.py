"""The example on the model of this process, with a script in its place; the real one: see adapters."""

from __future__ import annotations

import pytest

from loopwright import Final, Reason, Runtime, ToolCall, ToolCalls
from loopwright.examples.local_model import GOAL, NAME, make_agent
from loopwright.examples.local_model.__main__ import story
from loopwright.protocol import CallId, Malformed
from loopwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def look(call_id: str, city: str = "Oslo") -> ToolCalls:
    return ToolCalls((ToolCall(CallId(call_id), "weather", {"city": city}),))


async def test_a_model_that_knows_what_to_do_gets_it_done() -> None:
    model = ScriptedModel([look("a"), look("b", "Rome"), Malformed("no JSON", "{"), Final("3")])
    async with Runtime([make_agent(model)]) as runtime:
        outcome = await runtime.run(NAME, GOAL)
    told = story(outcome)
    assert outcome.completed
    assert "   weather: ok 3 degrees Celsius" in told
    assert "   weather: ok Nothing is known of Rome." in told
    assert "   no: no JSON" in told
    assert told[-2] == "completed: 3"


async def test_a_model_that_does_not_is_stopped() -> None:
    model = ScriptedModel([look(str(turn)) for turn in range(9)])
    async with Runtime([make_agent(model)]) as runtime:
        outcome = await runtime.run(NAME, GOAL)
    assert outcome.reason in (Reason.NO_PROGRESS, Reason.MAX_STEPS)
    assert outcome.steps <= 4
