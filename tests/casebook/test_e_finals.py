"""Casebook E: what counts as a final answer."""

from __future__ import annotations

import pytest
from wire.gpt import CHAT, JSON, RESPONSES, Api, answer
from wire.gpt import call as raw_call
from wire.gpt import play as ask
from wire.loopback import loopback

from casebook.desk import batch, call, play
from loopwright import Agent, FallbackChain, Final, Reason, Runtime, tool
from loopwright.protocol import Malformed
from loopwright.testing import ScriptedModel, Step

pytestmark = pytest.mark.anyio


class Other(ScriptedModel):
    name = "other"


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


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("api", "body"),
    [
        (CHAT, CHAT.body(None, refusal="no")),
        (CHAT, CHAT.body(None, stop="content_filter")),
        (RESPONSES, RESPONSES.body(None, refusal="no")),
    ],
    ids=["refusal", "content_filter", "refusal item"],
)
async def test_b38_openai_a_refusal_is_final(api: Api, body: JSON, stream: bool) -> None:
    """B38: it is neither tried again nor given to another model, unless that is asked for."""
    for on_refusal in (None, ScriptedModel([Final("I will")])):
        other = Other([Final("never asked")])
        async with loopback(lambda _: answer(api, body, stream=stream)) as server:
            chain = FallbackChain([api.model(server, stream=stream), other], on_refusal=on_refusal)
            async with Runtime([Agent("desk", model=chain)]) as runtime:
                outcome = await runtime.run("desk", "the goal")
            assert len(server.requests) == 1
        assert other.calls == 0
        if on_refusal is None:
            assert outcome.reason is Reason.MODEL_REFUSED
        else:
            assert outcome.answer == "I will"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", [CHAT, RESPONSES], ids=lambda api: api.name)
async def test_b38_openai_what_a_filter_cut_off_is_not_blanked(api: Api, stream: bool) -> None:
    """B38: a filter that stops a reply in its middle is no refusal: the model may say it anew."""
    script = [
        api.body("The first half", stop="content_filter"),
        api.body(None, raw_call("1", "look", "{}"), stop="content_filter"),
        api.body("done"),
    ]
    async with loopback([answer(api, body, stream=stream) for body in script]) as server:
        outcome = await ask(api.model(server, stream=stream), look)
    assert outcome.answer == "done"
    first = outcome.history[0].proposal.decision
    assert isinstance(first, Malformed)
    assert first.raw == "The first half"
    assert [r.status.value for r in outcome.history[1].results] == ["invalid_arguments"]


@pytest.mark.parametrize("stream", [True, False])
async def test_b41_an_incomplete_response_is_no_answer(stream: bool) -> None:
    """B41: neither is its text one, nor does a call of it run that says it is complete."""
    ran: list[str] = []

    @tool(effect="manual")
    async def write(path: str) -> None:
        ran.append(path)

    script = [
        RESPONSES.body("The ans", stop="max_output_tokens"),
        RESPONSES.body(None, raw_call("1", "write", '{"path":"a"}'), stop="max_output_tokens"),
        RESPONSES.body("The answer"),
    ]
    async with loopback([answer(RESPONSES, body, stream=stream) for body in script]) as server:
        outcome = await ask(RESPONSES.model(server, stream=stream), write)
    assert outcome.answer == "The answer"
    text, calls, _ = outcome.history
    assert isinstance(text.proposal.decision, Malformed)
    assert text.fault is not None
    assert "cut off (max_output_tokens)" in text.fault.problem
    assert [r.status.value for r in calls.results] == ["invalid_arguments"]
    assert not ran
