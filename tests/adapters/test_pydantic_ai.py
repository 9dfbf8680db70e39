"""The bridge to `pydantic-ai` as data: what is said, what replies are read as, what is kept."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

pytest.importorskip("pydantic_ai", reason="needs the extra `pydantic-ai`")

from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelHTTPError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel as EagerModel
from pydantic_ai.usage import RequestUsage
from wire.decisions import broken, request_of, turn_of, turns

from loopwright import Agent, Budget, Outcome, Policy, Reason, Runtime, tool
from loopwright.adapters.pydantic_ai import PydanticAIModel
from loopwright.adapters.pydantic_ai._failures import failure_of
from loopwright.adapters.pydantic_ai._reply import reply_of, usage_of
from loopwright.adapters.pydantic_ai._request import messages, parameters
from loopwright.policy import Retry
from loopwright.protocol import (
    CallId,
    ConfigurationError,
    Malformed,
    ModelError,
    ModelErrorKind,
    ModelReply,
    Price,
    Proposal,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolResult,
    Turn,
    TurnCommitted,
    Usage,
)
from loopwright.protocol import (
    Final as FinalAnswer,
)

BY: Final = "pydantic-ai test"


@tool(effect="read")
async def look(x: int) -> str:
    """Look something up."""
    return f"seen {x}"


def reply(*parts: Any, output: bool = False, **fields: Any) -> ModelReply:
    response = ModelResponse(parts=list(parts), **fields)
    return reply_of(response, request_of([], output=output), BY)


def committed(told: ModelReply, *results: ToolResult) -> Turn:
    decision = told.decision
    assert isinstance(decision, ToolCalls | FinalAnswer | Malformed)
    proposal = Proposal(decision, Usage(1, 1), replay=told.replay)
    return turn_of(TurnCommitted(1, proposal, results, len(results), 0.0, 0.0))


def ok(call_id: str) -> ToolResult:
    return ToolResult(CallId(call_id), "look", ResultStatus.OK, "seen")


async def play(model: PydanticAIModel, **fields: Any) -> Outcome:
    fields = {"policy": Policy(retry=Retry(max_attempts=2, first=0, longest=0)), **fields}
    desk = Agent("desk", model=model, tools=[look], **fields)
    async with Runtime([desk]) as runtime:
        return await runtime.run("desk", "the goal")


# ---------------------------------------------------------------- what is said
@settings(deadline=None)
@given(st.data(), st.booleans())
def test_the_journal_comes_back_from_the_messages(data: st.DataObject, output: bool) -> None:
    """Journal → messages → journal: each response, read as a reply, is its decision."""
    history = data.draw(turns(output=output))
    request = request_of(history, output=output)
    said = [m for m in messages(request, BY) if isinstance(m, ModelResponse)]
    assert [reply_of(m, request, BY).decision for m in said] == [
        turn.proposal.decision for turn in history
    ]


@settings(deadline=None)
@given(turns(output=True))
def test_every_call_has_one_result_right_behind_it(history: list[Turn]) -> None:
    """In the order of the calls; and no id is used twice."""
    told = messages(request_of(history, output=True), BY)
    seen: list[str] = []
    for message, behind in pairwise(told):
        calls = message.tool_calls if isinstance(message, ModelResponse) else []
        if calls:
            first = behind.parts[: len(calls)]
            returned = [part for part in first if isinstance(part, ToolReturnPart)]
            assert [(c.tool_call_id, c.tool_name) for c in calls] == [
                (r.tool_call_id, r.tool_name) for r in returned
            ]
            seen += [call.tool_call_id for call in calls]
    assert len(seen) == len(set(seen))


def test_what_is_said_has_its_place() -> None:
    """Instructions are the system's, words are the user's, results stay in the place of results."""
    failed = ToolResult(CallId("b"), "look", ResultStatus.DENIED)
    decision = ToolCalls((ToolCall(CallId("a"), "look", {"x": 1}), broken("b")), "On it.")
    turn = turn_of(TurnCommitted(1, Proposal(decision, Usage(1, 1)), (ok("a"), failed), 1, 0, 0))
    first, said, last = messages(request_of([turn], notice="hurry"), BY)
    assert [type(part) for part in first.parts] == [SystemPromptPart, UserPromptPart]
    assert [type(part) for part in said.parts] == [TextPart, ToolCallPart, ToolCallPart]
    good, bad, notice = last.parts
    assert isinstance(good, ToolReturnPart)
    assert isinstance(bad, ToolReturnPart)
    assert (good.content, good.outcome) == ("seen", "success")
    assert (bad.content, bad.outcome) == ('{"status":"denied"}', "failed")
    assert isinstance(notice, UserPromptPart)
    assert notice.content == "hurry"


def test_a_typed_answer_is_asked_for_as_a_call() -> None:
    asked = parameters(request_of([], output=True))
    assert [tool.name for tool in asked.output_tools] == ["final_answer"]
    assert not asked.allow_text_output
    assert "final_answer" not in [tool.name for tool in asked.function_tools]
    assert parameters(request_of([])).allow_text_output


# ---------------------------------------------------------------- what is read
def test_adjacent_texts_are_one_and_thoughts_are_none() -> None:
    assert reply(ThinkingPart("hm"), TextPart("a"), TextPart("b")).decision == FinalAnswer("ab")


def test_a_call_without_an_id_gets_one() -> None:
    """B03, B06: also where a server sends the name of the function as its id."""
    decision = reply(
        ToolCallPart("look", {"x": 1}, "look"), ToolCallPart("look", '{"x": 2}', "")
    ).decision
    assert isinstance(decision, ToolCalls)
    assert [call.call_id for call in decision.calls] == ["call_1_0", "call_1_1"]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"finish_reason": "content_filter"}, ModelErrorKind.REFUSED),
        ({"finish_reason": "error"}, ModelErrorKind.TRANSIENT),
        ({"state": "incomplete"}, ModelErrorKind.TRANSIENT),
        ({"state": "interrupted"}, ModelErrorKind.TRANSIENT),
    ],
)
def test_some_replies_are_none(fields: dict[str, Any], kind: ModelErrorKind) -> None:
    """And they are charged."""
    usage = RequestUsage(input_tokens=3, output_tokens=2)
    with pytest.raises(ModelError) as caught:
        reply(TextPart("half"), usage=usage, **fields)
    assert caught.value.kind is kind
    assert caught.value.usage == Usage(3, 2)


def test_nothing_of_what_was_cut_off_counts() -> None:
    """And nothing of it is sent again: its thinking may be half of what was signed."""
    told = reply(ThinkingPart("hm", signature="s"), TextPart("ha"), finish_reason="length")
    assert isinstance(told.decision, Malformed)
    assert told.replay is None


def test_the_providers_own_word_is_kept() -> None:
    details = {"finish_reason": "MAX_TOKENS"}
    told = reply(TextPart("ha"), finish_reason="length", provider_details=details)
    assert told.stop_reason == "MAX_TOKENS"
    assert reply(TextPart("ha"), finish_reason="stop").stop_reason == "stop"


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        (
            {
                "input_tokens": 9,
                "output_tokens": 2,
                "cache_read_tokens": 4,
                "cache_write_tokens": 3,
            },
            Usage(9, 2, False, 4, 3),
        ),
        ({"input_tokens": 9, "output_tokens": 0}, Usage(9, 0)),
        ({}, None),
        ({"input_tokens": 9, "output_tokens": 2, "unmeasured_requests": 1}, None),
        ({"input_tokens": -1, "output_tokens": 2}, None),
        ({"input_tokens": "9", "output_tokens": 2}, None),
        ({"input_tokens": 9, "output_tokens": 2, "cache_read_tokens": 10}, None),
    ],
)
def test_a_usage_is_what_was_counted_or_unknown(counted: Any, usage: Usage | None) -> None:
    assert usage_of(RequestUsage(**counted)) == usage


# ---------------------------------------------------------------- what is kept
SIGNED: Final = ThinkingPart("I think.", id="t", signature="s", provider_name="p")


def test_thinking_is_sent_again_where_it_stood() -> None:
    """With the signature, and with what hangs on calls: without it a provider refuses the rest."""
    call = ToolCallPart("look", {"x": 1}, "a", id="fc", provider_name="p")
    call.provider_details = {"thought_signature": "abc"}
    told = reply(SIGNED, TextPart("On it."), call, provider_name="p", provider_url="u")
    again = messages(request_of([committed(told, ok("a"))]), BY)[1]
    assert isinstance(again, ModelResponse)
    assert list(again.parts) == [SIGNED, TextPart("On it."), call]
    assert (again.provider_name, again.provider_url) == ("p", "u")


def test_what_is_kept_holds_no_text_and_no_argument_a_second_time() -> None:
    told = reply(SIGNED, TextPart("secret"), ToolCallPart("look", {"x": "secret"}, "a"))
    assert told.replay is not None
    assert "secret" not in repr(told.replay)
    assert reply(TextPart("a"), ToolCallPart("look", {"x": 1}, "a")).replay is None


def test_another_model_is_told_only_what_was_decided() -> None:
    told = reply(SIGNED, ToolCallPart("look", {"x": 1}, "a"))
    again = messages(request_of([committed(told, ok("a"))]), "pydantic-ai other")[1]
    assert [type(part) for part in again.parts] == [ToolCallPart]


@pytest.mark.parametrize("replay", [{"by": BY, "parts": 3}, {"by": BY, "parts": [{"id": 3}]}, [1]])
def test_what_cannot_be_read_is_left_out(replay: Any) -> None:
    told = reply(ToolCallPart("look", {"x": 1}, "a"))
    turn = committed(ModelReply(told.decision, replay=replay), ok("a"))
    again = messages(request_of([turn]), BY)[1]
    assert [type(part) for part in again.parts] == [ToolCallPart]


def test_what_is_no_json_is_not_kept() -> None:
    part = ThinkingPart("hm", provider_name="p", provider_details={"raw": b"\xff"})
    assert reply(part, TextPart("a")).replay is None


# ---------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ContentFilterError("no"), ModelErrorKind.REFUSED),
        (UnexpectedModelBehavior("what?"), ModelErrorKind.TRANSIENT),
        (ModelAPIError("m", "dead"), ModelErrorKind.TRANSIENT),
        (UserError("wrong"), ModelErrorKind.PERMANENT),
        (ModelHTTPError(422, "m"), ModelErrorKind.PERMANENT),
        (ModelHTTPError(502, "m"), ModelErrorKind.TRANSIENT),
        (ModelHTTPError(413, "m"), ModelErrorKind.CONTEXT_TOO_LONG),
    ],
)
def test_an_exception_says_what_kind_of_failure_it_is(
    error: Exception, kind: ModelErrorKind
) -> None:
    failure = failure_of(error, Usage(1, 0))
    assert isinstance(failure, ModelError)
    assert failure.kind is kind
    assert failure.usage == Usage(1, 0)


def test_an_exception_of_somebody_else_is_left_as_it_is() -> None:
    error = TimeoutError()
    assert failure_of(error) is error


# ---------------------------------------------------------------- through a runtime
class Score(BaseModel):
    points: int


async def speak(told: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    if len(told) == 1:
        yield {0: DeltaToolCall("look", '{"x": 1}', tool_call_id="a")}
    else:
        yield "Seen"
        yield " it."


def think(told: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(told) == 1:
        return ModelResponse(parts=[SIGNED, ToolCallPart("look", {"x": 1}, "a")])
    assert SIGNED in told[1].parts
    return ModelResponse(parts=[TextPart("Seen it.")])


@pytest.mark.anyio
@pytest.mark.parametrize(
    "model",
    [
        PydanticAIModel(FunctionModel(stream_function=speak)),
        PydanticAIModel(FunctionModel(think), stream=False),
        PydanticAIModel(FallbackModel(FunctionModel(think)), stream=False),
    ],
    ids=["stream", "whole", "fallback"],
)
async def test_a_run_of_two_turns(model: PydanticAIModel) -> None:
    outcome = await play(model)
    assert outcome.completed
    assert outcome.answer == "Seen it."
    assert outcome.tool_calls == 1


@pytest.mark.anyio
async def test_a_model_that_only_makes_things_up_ends_with_a_reason() -> None:
    outcome = await play(PydanticAIModel("test"), budget=Budget(max_steps=3), output=Score)
    assert outcome.reason in Reason


@pytest.mark.anyio
async def test_it_has_the_name_and_the_price_of_its_model() -> None:
    model = PydanticAIModel(EagerModel(call_tools=[], custom_output_text="ok"))
    assert model.name == "test"
    assert PydanticAIModel("test", name="mine", context_window=9).context_window == 9
    price = Price("test", Decimal(1), Decimal(1))
    outcome = await play(model, budget=Budget(max_cost=Decimal(1)), prices=[price])
    assert outcome.completed


@pytest.mark.parametrize(
    "name", ["nobody:nothing", "nothing", "openai:gpt-x"], ids=["provider", "model", "key"]
)
def test_a_model_that_cannot_be_had_is_refused_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=name):
        PydanticAIModel(name)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "loopwright.adapters.pydantic_ai._bridge", None)
    with pytest.raises(ConfigurationError, match=r"loopwright\[pydantic-ai\]"):
        PydanticAIModel("test")
