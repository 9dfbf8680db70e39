"""The Responses API as data: items of input, how responses are read, and what is sent again."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from wire.decisions import request_of, turn_of, turns
from wire.gpt import JSON, RESPONSES, answer, play
from wire.loopback import loopback

from loopwright import Agent, Budget, Reason, Runtime, tool
from loopwright.adapters.openai._model import Settings
from loopwright.adapters.openai.responses._reply import reply_of
from loopwright.adapters.openai.responses._request import payload_of
from loopwright.adapters.openai.responses._stream import Events
from loopwright.protocol import (
    BrokenCall,
    CallId,
    Clarification,
    Decision,
    Fault,
    Final,
    Malformed,
    ModelError,
    ModelErrorKind,
    ModelReply,
    Proposal,
    RequestApproval,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolResult,
    Turn,
    TurnCommitted,
    Usage,
)
from loopwright.stores import SQLiteStore

BY = "openai_responses:m"
SETTINGS = Settings("m", BY, True, {}, "max_output_tokens")
THOUGHT: JSON = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
SECOND: JSON = {**THOUGHT, "id": "rs_2"}
LOOK: JSON = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}


def message(text: str, **fields: str) -> JSON:
    content: list[JSON] = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, **fields}


def reply(body: object, *, output: bool = False) -> ModelReply:
    return reply_of(body, request_of([], output=output), BY)


def said(*output: JSON) -> ModelReply:
    return reply(RESPONSES.response(output))


def committed(
    decision: Decision | Malformed,
    told: ModelReply,
    *results: ToolResult,
    fault: Fault | None = None,
) -> Turn:
    proposal = Proposal(decision, Usage(1, 1), replay=told.replay)
    return turn_of(TurnCommitted(1, proposal, results, len(results), 0.0, 0.0, fault))


def again(*output: JSON, settings: Settings = SETTINGS) -> list[JSON]:
    """Say with which items a response is sent again."""
    told = said(*output)
    decision = told.decision
    calls = decision.calls if isinstance(decision, ToolCalls | RequestApproval) else ()
    results = [ToolResult(c.call_id, c.tool_name, ResultStatus.OK, "seen") for c in calls]
    turn = committed(cast("Decision", decision), told, *results)
    return items(turn, settings=settings)


def items(*history: Turn, settings: Settings = SETTINGS) -> list[JSON]:
    sent = payload_of(request_of(list(history)), settings, stream=False)
    found = cast("list[JSON]", sent["input"])[1:]
    return [item for item in found if item["type"] != "function_call_output"]


# ---------------------------------------------------------------- requests
def test_nothing_is_stored_at_the_provider() -> None:
    sent = payload_of(request_of([]), SETTINGS, stream=True)
    assert sent["store"] is False
    assert sent["include"] == ["reasoning.encrypted_content"]
    assert "previous_response_id" not in sent
    assert sent["instructions"] == "Do it."
    assert sent["input"] == [{"type": "message", "role": "user", "content": "the goal"}]
    assert "instructions" not in payload_of(request_of([], instructions=""), SETTINGS, stream=True)


def test_tools_are_not_taken_to_be_strict() -> None:
    """Without a word on it, the API takes every schema to be strict."""
    sent = payload_of(request_of([]), SETTINGS, stream=True)
    assert {tool["strict"] for tool in cast("list[JSON]", sent["tools"])} == {False}


def test_the_least_number_of_tokens_is_what_the_api_takes() -> None:
    for left, sent in ((1, 16), (16, 16), (500, 500)):
        request = request_of([], max_output_tokens=left)
        assert payload_of(request, SETTINGS, stream=False)["max_output_tokens"] == sent


@limits(deadline=None)
@given(st.data(), st.booleans(), st.booleans())
def test_the_journal_comes_back_from_the_items(
    data: st.DataObject, output: bool, final_calls: bool
) -> None:
    """Journal → input → journal: the items of each turn, read as output, are its decision."""
    history = data.draw(turns(output=output))
    request = request_of(history, output=output)
    settings = Settings("m", BY, not final_calls, {}, "n")
    before: list[JSON] = []
    for number, turn in enumerate(history, start=1):
        so_far = request_of(history[:number], output=output)
        sent = cast("list[JSON]", payload_of(so_far, settings, stream=False)["input"])
        assert sent[: len(before)] == before, "what was sent once is sent again as it was"
        new, before = sent[len(before) :], sent
        made = [
            message(item["content"]) if item["type"] == "message" else item
            for item in new
            if item["type"] == "function_call" or item.get("role") == "assistant"
        ]
        assert reply_of(RESPONSES.response(made), request, BY).decision == turn.proposal.decision


@given(turns())
def test_every_call_has_one_result_right_behind_it_in_order(history: list[Turn]) -> None:
    sent = payload_of(request_of(history), SETTINGS, stream=False)
    calls: list[str] = []
    waiting: list[str] = []
    for item in cast("list[JSON]", sent["input"]):
        if item["type"] == "function_call":
            waiting.append(item["call_id"])
            calls.append(item["call_id"])
        elif item["type"] == "function_call_output":
            assert item["call_id"] == waiting.pop(0)
        else:
            assert not waiting
    assert not waiting
    assert len(set(calls)) == len(calls)


# ---------------------------------------------------------------- replies
@pytest.mark.parametrize("word", ["completed", "", None, "as_you_like"])
def test_the_status_is_kept_and_does_not_change_what_was_said(word: object) -> None:
    told = reply({**RESPONSES.response([message("Hello")]), "status": word})
    assert told.decision == Final("Hello")
    assert told.stop_reason == (word or "")


@pytest.mark.parametrize("why", ["max_output_tokens", "content_filter", "max_messages", None])
def test_nothing_of_an_incomplete_response_counts(why: str | None) -> None:
    """B24, B41: also where an item says that it is complete itself."""
    fields = {"status": "incomplete", "incomplete_details": {"reason": why} if why else None}
    text = reply({**RESPONSES.response([message("The ans")]), **fields})
    assert isinstance(text.decision, Malformed)
    assert text.decision.raw == "The ans"
    assert text.stop_reason == (why or "incomplete")
    made = [THOUGHT, {**LOOK, "status": "completed"}]
    calls = reply({**RESPONSES.response(made), **fields})
    assert isinstance(calls.decision, ToolCalls)
    assert isinstance(calls.decision.calls[0], BrokenCall)
    assert calls.replay is None


def test_an_incomplete_item_makes_the_response_one() -> None:
    told = said({**LOOK, "status": "incomplete"}, {**LOOK, "call_id": "b"})
    assert isinstance(told.decision, ToolCalls)
    assert all(isinstance(c, BrokenCall) for c in told.decision.calls)


@pytest.mark.parametrize(
    "body",
    [
        RESPONSES.body(None, refusal="no"),
        RESPONSES.body("", refusal="no"),
        RESPONSES.body(None, stop="content_filter"),
    ],
)
def test_a_refusal_without_anything_else_is_one(body: JSON) -> None:
    with pytest.raises(ModelError) as raised:
        reply(body)
    assert raised.value.kind is ModelErrorKind.REFUSED
    assert raised.value.usage == Usage(20, 5, cached_tokens=8)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", ModelErrorKind.TRANSIENT),
        ("vector_store_timeout", ModelErrorKind.TRANSIENT),
        ("rate_limit_exceeded", ModelErrorKind.RATE_LIMITED),
        ("invalid_prompt", ModelErrorKind.REFUSED),
        ("bio_policy", ModelErrorKind.REFUSED),
        ("misalignment_policy_violation", ModelErrorKind.REFUSED),
        ("context_length_exceeded", ModelErrorKind.CONTEXT_TOO_LONG),
        ("insufficient_quota", ModelErrorKind.PERMANENT),
        (None, ModelErrorKind.TRANSIENT),
    ],
)
def test_a_failed_response_is_what_its_code_says(code: str | None, kind: ModelErrorKind) -> None:
    body = RESPONSES.response([], status="failed", error={"code": code, "message": "oops"})
    with pytest.raises(ModelError, match="oops") as raised:
        reply(body)
    assert raised.value.kind is kind
    assert raised.value.usage == Usage(20, 5, cached_tokens=8)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("failed", ModelErrorKind.TRANSIENT),
        ("cancelled", ModelErrorKind.TRANSIENT),
        ("queued", ModelErrorKind.PERMANENT),
        ("in_progress", ModelErrorKind.PERMANENT),
    ],
)
def test_a_response_that_is_none_is_an_error(status: str, kind: ModelErrorKind) -> None:
    with pytest.raises(ModelError) as raised:
        reply(RESPONSES.response([message("Hel")], status=status))
    assert raised.value.kind is kind


def test_items_nobody_asked_for_are_passed_over() -> None:
    other = {
        "type": "web_search_call",
        "id": "ws_1",
        "content": "as it likes",
        "status": "completed",
    }
    assert said(other, message("Hello")).decision == Final("Hello")


def test_a_comment_on_the_work_is_no_part_of_the_answer() -> None:
    """But beside calls it is what the model has to say."""
    comment = message("Let me see. ", phase="commentary")
    assert said(comment, message("42", phase="final_answer")).decision == Final("42")
    assert said(comment).decision == Final("Let me see. ")
    told = said(comment, LOOK).decision
    assert told == ToolCalls((ToolCall(CallId("a"), "look", {}),), "Let me see. ")


def test_a_call_without_an_id_gets_one() -> None:
    nameless = {key: value for key, value in LOOK.items() if key != "call_id"}
    told = said(nameless, {**LOOK, "call_id": None}, {**LOOK, "call_id": ""}).decision
    assert isinstance(told, ToolCalls)
    assert [c.call_id for c in told.calls] == ["call_1_0", "call_1_1", "call_1_2"]


def test_what_met_a_cache_is_counted_apart() -> None:
    details = {"cached_tokens": 8, "cache_write_tokens": 4}
    usage = {"input_tokens": 20, "output_tokens": 5, "input_tokens_details": details}
    assert reply(RESPONSES.response([LOOK], usage=usage)).usage == Usage(20, 5, False, 8, 4)
    assert reply(RESPONSES.response([LOOK], usage=None)).usage is None
    assert reply(RESPONSES.response([LOOK], usage={"input_tokens": None})).usage is None


# ---------------------------------------------------------------- what is sent again
CALL: JSON = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
OTHER: JSON = {**CALL, "call_id": "b"}


def spoken(text: str, **fields: str) -> JSON:
    return {"type": "message", "role": "assistant", "content": text, **fields}


def test_reasoning_goes_back_in_front_of_what_it_led_to() -> None:
    """In the order in which it came, and without ids of items: nothing is stored there."""
    assert again(THOUGHT, LOOK, SECOND, OTHER) == [THOUGHT, CALL, SECOND, OTHER]
    assert again(THOUGHT, message("Hm."), SECOND, LOOK) == [THOUGHT, spoken("Hm."), SECOND, CALL]
    assert again(LOOK, THOUGHT, message("Hm.")) == [CALL, THOUGHT, spoken("Hm.")]


def test_a_phase_goes_back_with_its_text() -> None:
    output = message("Hm.", phase="commentary")
    assert again(output, LOOK) == [spoken("Hm.", phase="commentary"), CALL]


def test_reasoning_with_nothing_behind_it_is_left_out() -> None:
    """The API refuses it."""
    assert again(LOOK, THOUGHT) == [CALL]
    assert again(THOUGHT, message(""), LOOK) == [CALL]
    assert again(THOUGHT, message("a"), SECOND, message("b"), LOOK) == [SECOND, spoken("ab"), CALL]


@pytest.mark.parametrize(
    ("item", "sent"),
    [
        ({**THOUGHT, "status": "completed", "content": []}, [THOUGHT]),
        ({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}, []),
        (
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
            [
                {
                    "type": "reasoning",
                    "summary": [],
                    "content": [{"type": "reasoning_text", "text": "hm"}],
                }
            ],
        ),
    ],
)
def test_only_reasoning_that_says_all_by_itself_goes_back(item: JSON, sent: list[JSON]) -> None:
    """Nobody could look up the others: they were not stored."""
    assert again(item, LOOK) == [*sent, CALL]


def test_another_model_is_not_sent_it() -> None:
    other = Settings("m2", "openai_responses:m2", True, {}, "n")
    assert again(THOUGHT, LOOK, settings=other) == [CALL]


def test_a_call_that_is_a_decision_keeps_its_reasoning() -> None:
    asked = {**LOOK, "name": "ask_user", "arguments": '{"question":"?"}'}
    told = said(THOUGHT, asked)
    assert told.decision == Clarification("?")
    thought, made = items(committed(Clarification("?"), told))
    assert thought == THOUGHT
    assert made["name"] == "ask_user"
    gate = {**OTHER, "name": "request_approval", "arguments": '{"reason":"much"}'}
    sent = again(THOUGHT, LOOK, SECOND, gate)
    assert [item.get("name") for item in sent] == [None, "look", None, "request_approval"]


def test_reasoning_is_not_sent_where_the_turn_is_not_what_came() -> None:
    """Calls that are not shown, a text that is no longer there."""
    told = said(THOUGHT, LOOK)
    result = ToolResult(CallId("a"), "look", ResultStatus.OK, "seen")
    fault = Fault("decision", "no")
    assert items(committed(Malformed("no", "raw"), told, fault=fault))[0] == spoken("raw")
    both = said(THOUGHT, message("Hm."), LOOK)
    silent = committed(ToolCalls((ToolCall(CallId("a"), "look", {}),)), both, result)
    assert items(silent) == [CALL]


def test_reasoning_stays_with_a_call_that_is_shown_under_another_id() -> None:
    """An id the provider would not take back, or has seen before, says nothing of the reasoning."""
    odd = "x" * 41
    told = said(THOUGHT, {**LOOK, "call_id": odd})
    result = ToolResult(CallId(odd), "look", ResultStatus.OK, "seen")
    thought, made = items(committed(ToolCalls((ToolCall(CallId(odd), "look", {}),)), told, result))
    assert thought == THOUGHT
    assert made == {**CALL, "call_id": made["call_id"]}
    assert len(made["call_id"]) <= 40


@pytest.mark.anyio
async def test_reasoning_is_kept_with_the_turn_and_shown_to_nobody_else(tmp_path: Path) -> None:
    """It is in the journal alone, and is sent again by whoever goes on from there."""

    @tool(effect="read")
    async def look() -> str:
        return "seen"

    store = SQLiteStore(tmp_path / "agents.db")
    script = [RESPONSES.response([THOUGHT, LOOK]), RESPONSES.body("done")]
    async with loopback([answer(RESPONSES, body, stream=True) for body in script]) as server:
        outcome = await play(RESPONSES.model(server), look, store=store, budget=Budget(max_steps=1))
        assert outcome.reason is Reason.MAX_STEPS
        desk = Agent("desk", model=RESPONSES.model(server), tools=[look])
        async with Runtime([desk], store=SQLiteStore(tmp_path / "agents.db")) as runtime:
            more = Budget(max_steps=2)
            outcome = await runtime.resume(outcome.invocation_id, grant=more)
        sent = server.requests[1].body["input"]
    assert outcome.answer == "done"
    assert [item["type"] for item in sent] == [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert sent[1] == THOUGHT
    assert "gAAA" not in repr(outcome)


def test_without_reasoning_nothing_is_kept() -> None:
    assert said(message("Hm."), LOOK).replay is None


# ---------------------------------------------------------------- streams
def test_the_last_event_has_the_whole_response() -> None:
    events = Events()
    body = RESPONSES.body("Hello")
    heard: list[JSON] = [
        {"type": "response.created", "response": {}},
        {"type": "response.output_text.delta", "delta": "Hel"},
        {"type": "response.reasoning_summary_text.delta", "delta": "hm"},
        {"type": "response.refusal.delta", "delta": "no"},
        {"type": "as_you_like", "delta": "x"},
    ]
    assert [events.add(event) for event in heard] == ["", "Hel", "", "", ""]
    assert not events.over
    with pytest.raises(ModelError, match="ended before the response"):
        events.body(done=True)
    events.add({"type": "response.incomplete", "response": body})
    assert events.over
    assert events.body(done=False) == body


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", ModelErrorKind.TRANSIENT),
        ("rate_limit_exceeded", ModelErrorKind.RATE_LIMITED),
        (None, ModelErrorKind.TRANSIENT),
    ],
)
def test_an_error_event_is_the_end(code: str | None, kind: ModelErrorKind) -> None:
    with pytest.raises(ModelError, match="oops") as raised:
        Events().add({"type": "error", "code": code, "message": "oops", "param": None})
    assert raised.value.kind is kind
