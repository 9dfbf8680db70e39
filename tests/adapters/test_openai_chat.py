"""Chat Completions as data: what is said, how replies are read, and how streams are put together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire.decisions import request_of, turn_of, turns
from wire.gpt import CHAT, JSON, call

from loopwright.adapters.openai._model import Settings
from loopwright.adapters.openai.chat import OpenAIChatModel
from loopwright.adapters.openai.chat._reply import reply_of
from loopwright.adapters.openai.chat._request import payload_of
from loopwright.adapters.openai.chat._stream import Chunks
from loopwright.protocol import (
    BrokenCall,
    CallId,
    Decision,
    Final,
    JsonObject,
    JsonValue,
    Malformed,
    ModelError,
    ModelErrorKind,
    ModelReply,
    Proposal,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolResult,
    Turn,
    TurnCommitted,
    Usage,
)

BY = "openai_chat:m"
SETTINGS = Settings("m", BY, True, {}, "max_tokens")


def reply(body: object, *, output: bool = False) -> ModelReply:
    return reply_of(body, request_of([], output=output), BY)


def payload(*history: Turn, **fields: Any) -> JSON:
    request = request_of(list(history), **fields)
    return payload_of(request, SETTINGS, stream=False)


def committed(told: ModelReply, *results: ToolResult, turn: int = 1) -> Turn:
    proposal = Proposal(_decided(told), Usage(1, 1), replay=told.replay)
    return turn_of(TurnCommitted(turn, proposal, results, len(results), 0.0, 0.0))


def _decided(told: ModelReply) -> Decision | Malformed:
    assert not isinstance(told.decision, str | bytes | Mapping)
    return told.decision


def ok(call_id: str, output: JsonValue = "seen") -> ToolResult:
    return ToolResult(CallId(call_id), "look", ResultStatus.OK, output)


def pieces(*found: JSON) -> list[JSON]:
    """Write pieces of calls as the chunks of a stream that ends as it should."""
    deltas: list[JSON] = []
    for piece in found:
        function = {"name": piece.get("name"), "arguments": piece.get("args")}
        own = {key: piece[key] for key in ("index", "id", "extra_content") if key in piece}
        given = {key: value for key, value in function.items() if value is not None}
        deltas.append({"tool_calls": [{**own, "function": given}]})
    return [*map(CHAT.chunk, deltas), CHAT.chunk({}, "tool_calls")]


def heard(chunks: list[JSON], *, done: bool = False) -> JsonObject:
    collected = Chunks()
    for chunk in chunks:
        collected.add(chunk)
    return collected.body(done=done)


def calls_heard(*found: JSON) -> list[tuple[str, str, str]]:
    body = cast("JSON", heard(pieces(*found)))
    made = body["choices"][0]["message"]["tool_calls"]
    return [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in made]


# ---------------------------------------------------------------- requests
def test_instructions_come_first_and_the_goal_is_the_users() -> None:
    messages = payload(notice="hurry")["messages"]
    assert messages == [
        {"role": "system", "content": "Do it."},
        {"role": "user", "content": "the goal"},
        {"role": "user", "content": "hurry"},
    ]
    assert payload(instructions="")["messages"][0]["role"] == "user"


def test_a_result_is_in_the_tools_place_right_behind_its_call() -> None:
    told = reply(CHAT.body(None, call("a", "look", '{"x": 1}')))
    messages = payload(committed(told, ok("a", {"b": [1]})))["messages"]
    function = {"name": "look", "arguments": '{"x":1}'}
    assert messages[2:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "a", "content": '{"b":[1]}'},
    ]


@pytest.mark.parametrize(
    ("base_url", "field"),
    [
        (None, "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("http://localhost:11434/v1", "max_tokens"),
        ("https://notopenai.com/v1", "max_tokens"),
    ],
)
def test_the_limit_has_the_name_that_the_server_knows(base_url: str | None, field: str) -> None:
    model = OpenAIChatModel("m", base_url=base_url, api_key="k")
    assert model._settings.limit == field  # pyright: ignore[reportPrivateUsage]
    own = OpenAIChatModel("m", base_url=base_url, api_key="k", max_tokens_field="n_predict")
    assert own._settings.limit == "n_predict"  # pyright: ignore[reportPrivateUsage]


@settings(deadline=None)
@given(st.data(), st.booleans(), st.booleans(), st.booleans())
def test_the_journal_comes_back_from_the_messages(
    data: st.DataObject, output: bool, final_calls: bool, stream: bool
) -> None:
    """Journal → messages → journal: each assistant message, read as a reply, is its decision."""
    history = data.draw(turns(output=output))
    request = request_of(history, output=output)
    sent = payload_of(request, Settings("m", BY, not final_calls, {}, "n"), stream=False)
    messages = cast("list[JSON]", sent["messages"])
    assistants = [message for message in messages if message["role"] == "assistant"]
    assert len(assistants) == len(history)
    for message, turn in zip(assistants, history, strict=True):
        body: JSON = {"choices": [{"message": message, "finish_reason": "stop"}]}
        if stream:
            calls = [
                call(c["id"], c["function"]["name"], c["function"]["arguments"])
                for c in message.get("tool_calls", ())
            ]
            events = CHAT.events(CHAT.body(message["content"], *calls))
            body = heard([json.loads(event[6:]) for event in events[:-1]])
        assert reply_of(body, request, BY).decision == turn.proposal.decision


@given(turns())
def test_every_call_has_one_result_right_behind_it_in_order(history: list[Turn]) -> None:
    messages = payload(*history)["messages"]
    seen: list[str] = []
    for index, message in enumerate(messages):
        ids = [made["id"] for made in message.get("tool_calls", ())]
        behind = messages[index + 1 : index + 1 + len(ids)]
        assert [result.get("tool_call_id") for result in behind] == ids
        seen += ids
    assert len(set(seen)) == len(seen)
    assert len(seen) == sum(message["role"] == "tool" for message in messages)


# ---------------------------------------------------------------- replies
@pytest.mark.parametrize("word", ["stop", "tool_calls", "function_call", "eos", "", None, 7])
def test_the_servers_word_is_kept_and_does_not_change_what_was_said(word: object) -> None:
    body = CHAT.body("Hello")
    body["choices"][0]["finish_reason"] = word
    told = reply(body)
    assert told.decision == Final("Hello")
    assert told.stop_reason == (word if isinstance(word, str) else "")


@pytest.mark.parametrize("word", ["length", "content_filter"])
def test_nothing_of_a_reply_that_was_cut_off_counts(word: str) -> None:
    """And what came of it is not blanked."""
    text = reply(CHAT.body("The ans", stop=word)).decision
    assert isinstance(text, Malformed)
    assert text.raw == "The ans"
    calls = reply(CHAT.body("I will", call("a", "look", '{"x":1}'), stop=word)).decision
    assert isinstance(calls, ToolCalls)
    assert calls.commentary == "I will"
    (broken,) = calls.calls
    assert isinstance(broken, BrokenCall)
    assert word in broken.problem


@pytest.mark.parametrize(
    "body",
    [
        CHAT.body(None, stop="content_filter"),
        CHAT.body(" \n", stop="content_filter"),
        CHAT.body(None, refusal="no"),
        CHAT.body("", refusal="no"),
        {"choices": [{"message": {"content": [{"type": "refusal", "refusal": "no"}]}}]},
    ],
)
def test_a_refusal_without_anything_else_is_one(body: JSON) -> None:
    with pytest.raises(ModelError) as raised:
        reply(body)
    assert raised.value.kind is ModelErrorKind.REFUSED


def test_a_refusal_beside_something_else_does_not_blank_it() -> None:
    assert reply(CHAT.body("Hello", refusal="no")).decision == Final("Hello")


@pytest.mark.parametrize("word", ["error", "abort", "insufficient_system_resource"])
def test_a_reply_the_server_gave_up_is_asked_for_again(word: str) -> None:
    with pytest.raises(ModelError, match=word) as raised:
        reply(CHAT.body("Hel", stop=word))
    assert raised.value.kind is ModelErrorKind.TRANSIENT
    assert raised.value.usage == Usage(20, 5, cached_tokens=8)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429, "message": "slow down"}, ModelErrorKind.RATE_LIMITED),
        ({"code": 502, "message": "oops"}, ModelErrorKind.TRANSIENT),
        ({"code": "content_filter", "message": "no"}, ModelErrorKind.REFUSED),
        ("oops", ModelErrorKind.TRANSIENT),
    ],
)
def test_an_error_with_status_200_is_one(error: object, kind: ModelErrorKind) -> None:
    """As routers say what became of the server behind them."""
    with pytest.raises(ModelError) as raised:
        reply({"id": "x", "error": error})
    assert raised.value.kind is kind


def test_a_content_may_come_in_parts() -> None:
    """What the model thought is none of them."""
    parts: list[JSON] = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Hel"},
        {"type": "text", "text": "lo"},
        {"type": "image_url", "image_url": {}},
    ]
    message: JSON = {"message": {"content": parts}, "finish_reason": "stop"}
    assert reply({"choices": [message]}).decision == Final("Hello")
    assert reply(heard([CHAT.chunk({"content": parts}, "stop")])).decision == Final("Hello")


def test_halves_of_a_character_are_joined_or_replaced() -> None:
    body = CHAT.body("a\ud83d\ude00b\ud83d")
    assert reply(body).decision == Final("a\U0001f600b\ufffd")


def test_the_old_form_of_a_call_is_one() -> None:
    function = {"name": "look", "arguments": '{"x": 1}'}
    message = {"content": None, "function_call": function}
    body = {"choices": [{"message": message, "finish_reason": "function_call"}]}
    expected = ToolCalls((ToolCall(CallId("call_1_0"), "look", {"x": 1}),))
    assert reply(body).decision == expected
    deltas = [{"name": "look", "arguments": ""}, {"arguments": '{"x"'}, {"arguments": ": 1}"}]
    chunks = [CHAT.chunk({"function_call": delta}) for delta in deltas]
    streamed = heard([*chunks, CHAT.chunk({}, "function_call")])
    assert reply(streamed).decision == expected


@pytest.mark.parametrize(
    "calls",
    [
        [{"id": "a", "type": "function", "function": {"name": "look", "arguments": {"x": 1}}}],
        [{"id": "a", "function": {"name": "look", "arguments": '{"x": 1}'}, "index": "0"}],
    ],
)
def test_arguments_may_be_an_object_already(calls: list[JSON]) -> None:
    told = reply({"choices": [{"message": {"tool_calls": calls}}]})
    assert told.decision == ToolCalls((ToolCall(CallId("a"), "look", {"x": 1}),))


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        "many",
        {"prompt_tokens": None, "completion_tokens": 5},
        {"prompt_tokens": 20},
        {"prompt_tokens": -1, "completion_tokens": 5},
        {"prompt_tokens": 1.5, "completion_tokens": 5},
        {"prompt_tokens": True, "completion_tokens": 5},
        {
            "prompt_tokens": 20,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 21},
        },
    ],
)
def test_a_usage_that_cannot_be_meant_is_none(usage: object) -> None:
    """B45: it is then estimated, and never counted as 0."""
    told = reply({**CHAT.body("Hello"), "usage": usage})
    assert told.decision == Final("Hello")
    assert told.usage is None


@pytest.mark.parametrize(
    ("details", "usage"),
    [
        (None, Usage(20, 5)),
        ({"cached_tokens": None}, Usage(20, 5)),
        ({"cached_tokens": 8, "cache_write_tokens": 4}, Usage(20, 5, False, 8, 4)),
    ],
)
def test_what_met_a_cache_is_counted_apart(details: JSON | None, usage: Usage) -> None:
    counted = {"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": details}
    assert reply({**CHAT.body("Hello"), "usage": counted}).usage == usage


# ---------------------------------------------------------------- what is sent again
def thoughtful(text: str = "hm") -> JSON:
    body = CHAT.body(None, call("a", "look", '{"x":1}'), call("r", "request_approval", "{}"))
    body["choices"][0]["message"]["reasoning_content"] = text
    return body


@pytest.mark.parametrize("thought", ["hm", ""])
def test_a_thought_goes_back_with_the_calls_it_led_to(thought: str) -> None:
    """DeepSeek and Moonshot refuse calls without it, also where it is empty."""
    told = reply_of(thoughtful(thought), request_of([]), BY)
    assert "hm" not in str(told.decision)
    turn = Proposal(_decided(told), Usage(1, 1), replay=told.replay)
    history = [turn_of(TurnCommitted(1, turn, (ok("a"),), 1, 0.0, 0.0))]
    sent = payload_of(request_of(history), SETTINGS, stream=False)
    messages = cast("list[JSON]", sent["messages"])
    assert messages[2]["reasoning_content"] == thought
    other = Settings("m2", "openai_chat:m2", True, {}, "n")
    sent = payload_of(request_of(history), other, stream=False)
    assert "reasoning_content" not in cast("list[JSON]", sent["messages"])[2]


def test_calls_without_a_thought_have_a_blank_one_beside_those_that_have_one() -> None:
    """Such as those of another model: whoever wants thoughts refuses calls that have none at all."""
    told, silent = reply(thoughtful()), reply(CHAT.body(None, call("z", "look", "{}")))
    first = turn_of(
        TurnCommitted(1, Proposal(_decided(told), Usage(1, 1), replay=told.replay), (), 0, 0.0, 0.0)
    )
    messages = payload(first, committed(silent, ok("z"), turn=2))["messages"]
    thoughts = [m.get("reasoning_content") for m in messages if m["role"] == "assistant"]
    assert thoughts == ["hm", ""]
    assert "reasoning_content" not in payload(committed(silent, ok("z")))["messages"][2]


def test_a_thought_before_a_text_is_forgotten() -> None:
    """Some servers refuse to be sent it, and none needs it."""
    body = CHAT.body("Hello")
    body["choices"][0]["message"]["reasoning_content"] = "hm"
    assert reply(body).replay is None


def test_a_thought_is_never_a_part_of_a_streamed_text() -> None:
    deltas = [{"reasoning_content": "h"}, {"reasoning_content": "m"}, {"content": "Hello"}]
    collected = Chunks()
    assert [collected.add(CHAT.chunk(delta)) for delta in deltas] == ["", "", "Hello"]
    found = pieces({"index": 0, "id": "a", "name": "look", "args": "{}"})
    told = reply(heard([*map(CHAT.chunk, deltas), *found]))
    assert told.replay == {"by": BY, "reasoning_content": "hm"}


def test_a_signature_goes_back_with_the_call_it_came_with() -> None:
    """Gemini refuses its own calls without it; a call that is a decision has one too."""
    signed = {"google": {"thought_signature": "c2ln"}}
    found = pieces(
        {"index": 0, "id": "a", "name": "look", "args": "{}"},
        {"index": 1, "id": "b", "name": "look", "args": "{}", "extra_content": signed},
    )
    told = reply(heard(found))
    messages = payload(committed(told, ok("a"), ok("b")))["messages"]
    assert [c.get("extra_content") for c in messages[2]["tool_calls"]] == [None, signed]
    asked = pieces(
        {"id": "q", "name": "ask_user", "args": '{"question":"?"}', "extra_content": signed}
    )
    assert reply(heard(asked)).replay == {"by": BY, "calls": {"0": signed}}


def test_what_cannot_be_kept_is_not_sent_again() -> None:
    body = CHAT.body(None, call("a", "look", "{}"))
    body["choices"][0]["message"]["tool_calls"][0]["extra_content"] = {"n": float("nan")}
    assert reply(body).replay is None


# ---------------------------------------------------------------- streams
@pytest.mark.parametrize(
    ("found", "calls"),
    [
        pytest.param(
            [
                {"id": "a", "name": "f"},
                {"args": '{"x"'},
                {"args": ":1}"},
                {"id": "b", "name": "g", "args": '{"y":2}'},
            ],
            [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')],
            id="no index",
        ),
        pytest.param(
            [
                {"index": 0, "id": "a", "name": "f", "args": '{"x":1}'},
                {"index": 0, "id": "b", "name": "g", "args": '{"y":2}'},
            ],
            [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')],
            id="every call is number 0",
        ),
        pytest.param(
            [
                {"index": 0, "id": "", "name": "f", "args": '{"x":1}'},
                {"index": 0, "id": "", "name": "f", "args": '{"x":2}'},
            ],
            [("", "f", '{"x":1}'), ("", "f", '{"x":2}')],
            id="every call is number 0, and none has an id",
        ),
        pytest.param(
            [
                {"index": 0, "id": "a", "name": "f", "args": '{"x"'},
                {"index": 0, "id": "a", "name": "f", "args": ":1}"},
            ],
            [("a", "f", '{"x":1}')],
            id="id and name with each piece",
        ),
        pytest.param(
            [{"id": "a", "name": "f", "args": '{"x"'}, {"id": "a", "name": "f", "args": ":1}"}],
            [("a", "f", '{"x":1}')],
            id="id and name with each piece, no index",
        ),
        pytest.param(
            [{"name": "f", "args": '{"x"'}, {"name": "f", "args": ":1}"}],
            [("", "f", '{"x":1}')],
            id="name with each piece, nothing else",
        ),
        pytest.param(
            [{"name": "f", "args": '{"x":1}'}, {"name": "f", "args": '{"x":2}'}],
            [("", "f", '{"x":1}'), ("", "f", '{"x":2}')],
            id="whole calls, nothing else",
        ),
        pytest.param(
            [
                {"index": 0, "id": "a", "name": "f"},
                {"index": 1, "id": "b", "name": "g"},
                {"index": 1, "args": "{}"},
                {"index": 0, "args": '{"x":1}'},
            ],
            [("a", "f", '{"x":1}'), ("b", "g", "{}")],
            id="in turns, by index",
        ),
        pytest.param(
            [
                {"id": "a", "name": "f"},
                {"id": "b", "name": "g"},
                {"id": "b", "args": "{}"},
                {"id": "a", "args": '{"x":1}'},
            ],
            [("a", "f", '{"x":1}'), ("b", "g", "{}")],
            id="in turns, by id",
        ),
        pytest.param(
            [
                {"index": 0, "id": "a", "name": "f"},
                {"index": 0, "id": "b", "name": "g"},
                {"index": 0, "id": "a", "args": '{"x":1}'},
                {"index": 0, "id": "b", "args": "{}"},
            ],
            [("a", "f", '{"x":1}'), ("b", "g", "{}")],
            id="in turns, by id, every call is number 0",
        ),
        pytest.param(
            [
                {"index": 0, "id": "f", "name": "f", "args": '{"x":1}'},
                {"index": 1, "id": "f", "name": "f", "args": '{"x":2}'},
            ],
            [("f", "f", '{"x":1}'), ("f", "f", '{"x":2}')],
            id="the name for an id",
        ),
        pytest.param(
            [{"index": 0, "name": "f", "args": ""}, {"index": 0, "id": "a", "args": "{}"}],
            [("a", "f", "{}")],
            id="the id comes later",
        ),
        pytest.param(
            [{"index": 0, "id": "a", "name": "f", "args": {"x": 1}}],
            [("a", "f", '{"x": 1}')],
            id="arguments as an object",
        ),
    ],
)
def test_b42_pieces_are_put_together(found: list[JSON], calls: list[tuple[str, str, str]]) -> None:
    assert calls_heard(*found) == calls


@pytest.mark.parametrize(
    "found",
    [
        [{"id": "a", "name": "f"}, {"id": "b", "name": "g"}, {"args": '{"x"'}, {"args": ":1}"}],
        [{"name": "f"}, {"name": "g"}, {"args": '{"x"'}, {"args": '{"y"'}, {"args": ":1}"}],
        [
            {"id": "a", "name": "f", "args": '{"x"'},
            {"id": "b", "name": "g", "args": "{}"},
            {"args": ":1}"},
        ],
        [
            {"index": 0, "id": "a", "name": "f", "args": '{"x"'},
            {"index": 0, "id": "b", "name": "g"},
            {"index": 0, "args": ":1}"},
        ],
        [{"args": '{"x":1}'}],
        [{"name": "f"}, {"id": "a", "args": '{"x":1}'}],
    ],
)
def test_b42_pieces_that_could_be_anybodys_are_an_error(found: list[JSON]) -> None:
    """Arguments that were put together by guessing must not run."""
    with pytest.raises(ModelError, match="whose they are; ask this server with stream=False"):
        calls_heard(*found)


@pytest.mark.parametrize("done", [True, False])
def test_a_stream_ends_with_a_reason_or_with_done(done: bool) -> None:
    """Otherwise it is half a reply."""
    chunks = [CHAT.chunk({"content": "Hello"})]
    if done:
        assert reply(heard(chunks, done=True)).decision == Final("Hello")
        return
    with pytest.raises(ModelError, match="ended before the reply") as raised:
        heard(chunks)
    assert raised.value.kind is ModelErrorKind.TRANSIENT


def test_chunks_without_a_choice_are_passed_over() -> None:
    """As Azure begins with what its filter found, and others end with the usage."""
    filtered: JSON = {"choices": [], "prompt_filter_results": [{}]}
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    ends = {"choices": None, "usage": usage}
    told = reply(
        heard([filtered, CHAT.chunk({"content": "Hi"}), other, CHAT.chunk({}, "stop"), ends])
    )
    assert told.decision == Final("Hi")
    assert told.usage == Usage(3, 1)


def test_a_reply_that_dies_says_what_it_has_cost_where_that_is_known() -> None:
    """Some servers count with each chunk."""
    counted: dict[str, Any] = {"prompt_tokens": 3, "completion_tokens": 1}
    with pytest.raises(ModelError) as raised:
        heard([{**CHAT.chunk({"content": "Hi"}), "usage": counted}])
    assert raised.value.usage == Usage(3, 1)


def test_a_refusal_is_streamed_too() -> None:
    chunks = [CHAT.chunk({"refusal": "n"}), CHAT.chunk({"refusal": "o"}), CHAT.chunk({}, "stop")]
    with pytest.raises(ModelError, match=r"\(stop\): no"):
        reply(heard(chunks))
