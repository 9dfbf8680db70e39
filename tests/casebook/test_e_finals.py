"""Casebook E: what counts as a final answer."""

from __future__ import annotations

import pytest

from casebook.desk import batch, call, play
from loopwright import Final, Reason, tool
from loopwright.testing import Step

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def look() -> str:
    return "seen"


@pytest.mark.parametrize("blank", ["", "  \n", Final(""), Final("  \n")])
async def test_b36_a_blank_final_is_repaired_once(blank: Step) -> None:
    """B36: a blank reply is no answer: the model may repair one, a second in a row is the end."""
    first = batch(call("1", "look"))

    repaired = await play([first, blank, Final("done")], look)
    assert repaired.outcome.completed
    assert (repaired.outcome.answer, repaired.model.calls) == ("done", 3)
    fault = repaired.model.requests[2].history[1].fault
    assert fault is not None
    assert fault.level == "decision"

    again = await play([first, blank, blank, Final("too late")], look)
    assert again.outcome.reason is Reason.INVALID_DECISION
    assert (again.outcome.answer, again.model.calls) == ("", 3)


@pytest.mark.parametrize("output", [{"a": 1}, [], 0, False])
async def test_b36_an_answer_that_is_not_text_is_not_blank(output: object) -> None:
    """B36: a JSON value in place of a text is an answer, also where it is falsy."""
    played = await play([{"kind": "final", "output": output}])
    assert played.outcome.completed
    assert played.outcome.output == output
    assert played.model.calls == 1
