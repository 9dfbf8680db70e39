"""What Claude replies, at once or as a stream, becomes the same decision; nothing is guessed."""

from __future__ import annotations

from typing import Any

import pytest
from wire.claude import FOUND, REDACTED, SEARCH, THOUGHT, USAGE, events, message, text, use
from wire.decisions import request_of

from loopwright.adapters.anthropic._reply import Body, body_of, joined, reply_of, usage_of
from loopwright.adapters.anthropic._stream import Building
from loopwright.protocol import (
    BrokenCall,
    CallId,
    Clarification,
    Final,
    JsonObject,
    Malformed,
    ModelError,
    ModelErrorKind,
    ModelReply,
    RemoteProtocolError,
    ToolCall,
    ToolCalls,
    Usage,
)

BY = "anthropic:claude-test"


def call(call_id: str, name: str, arguments: JsonObject, *normalized: str) -> ToolCall:
    return ToolCall(CallId(call_id), name, arguments, normalized)


def streamed(body: dict[str, Any], *, size: int = 4) -> tuple[Body, str]:
    building = Building()
    heard = "".join(building.take(event) for event in events(body, size=size))
    return building.body(), heard


def read(body: dict[str, Any], *, output: bool = False) -> ModelReply:
    """Read a body both ways, which must give the same."""
    request = request_of([], output=output)
    at_once = reply_of(body_of(body), request, BY, "d")
    in_pieces, heard = streamed(body)
    assert reply_of(in_pieces, request, BY, "d") == at_once
    assert heard == "".join(block.get("text", "") for block in body["content"])
    return at_once


# ---------------------------------------------------------------- decisions
def test_a_text_is_a_final_answer() -> None:
    reply = read(message(text("All "), text("done.")))
    assert reply.decision == Final("All done.")
    assert (reply.model, reply.response_id, reply.stop_reason) == (
        "claude-test-1",
        "msg_1",
        "end_turn",
    )
    assert reply.usage == Usage(20, 5)
    assert reply.replay is None


def test_calls_keep_their_ids_and_order_and_the_text_is_commentary() -> None:
    body = message(text("I look."), use("a", "look", {"n": 1}), use("b", "seek"), stop="tool_use")
    assert read(body).decision == ToolCalls(
        (call("a", "look", {"n": 1}), call("b", "seek", {})), "I look."
    )


def test_a_reserved_call_is_the_decision_it_stands_for() -> None:
    body = message(use("a", "ask_user", {"question": "Which?"}), stop="tool_use")
    assert read(body).decision == Clarification("Which?")


def test_arguments_in_writing_are_parsed_strictly_not_as_the_sdk_would() -> None:
    """A number that is none, a key twice, a piece: each is a broken call, and nothing is repaired."""
    for written in ('{"n": NaN}', '{"n": 1, "n": 2}', '{"n": 1', "[1]"):
        body, _ = streamed(message(use("a", "look", written), stop="tool_use"))
        decision = reply_of(body, request_of([]), BY, "d").decision
        assert isinstance(decision, ToolCalls)
        assert isinstance(decision.calls[0], BrokenCall)
        assert decision.calls[0].raw == written
    body, _ = streamed(message(use("a", "look", '{"t": "a\tb", "big": 1' + "0" * 30 + "}")))
    decision = reply_of(body, request_of([]), BY, "d").decision
    assert isinstance(decision, ToolCalls)
    assert decision.calls[0] == call(
        "a", "look", {"t": "a\tb", "big": 10**30}, "control_characters"
    )


def test_arguments_that_came_at_once_and_are_no_object_are_a_broken_call() -> None:
    for given in ([1], "text", {"n": float("nan")}, 5):
        body = message({"type": "tool_use", "id": "a", "name": "look", "input": given})
        decision = reply_of(body_of(body), request_of([]), BY, "d").decision
        assert isinstance(decision, ToolCalls)
        assert isinstance(decision.calls[0], BrokenCall)


def test_an_id_that_is_missing_is_made_up() -> None:
    body = body_of(message(use(None), use(""), use("look"), stop="tool_use"))
    decision = reply_of(body, request_of([]), BY, "d").decision
    assert isinstance(decision, ToolCalls)
    assert len({call.call_id for call in decision.calls}) == 3


def test_a_structured_answer_is_checked_as_one() -> None:
    body = message(text('{"answer": "done", "output": {"n": 7}}'))
    assert read(body, output=True).decision == Final("done", {"n": 7})
    assert isinstance(read(message(text("prose")), output=True).decision, Malformed)


def test_a_reply_without_anything_is_a_blank_answer() -> None:
    assert read(message()).decision == Final("")


# ---------------------------------------------------------------- why it ended
@pytest.mark.parametrize("stop", ["end_turn", "tool_use", "stop_sequence", "brand_new", None])
def test_what_was_said_stands_whatever_the_word_for_its_end(stop: str | None) -> None:
    reply = read(message(text("done"), stop=stop))
    assert (reply.decision, reply.stop_reason) == (Final("done"), stop or "")


def test_a_reply_that_was_cut_off_is_no_answer_and_none_of_its_calls_is_run() -> None:
    cut = read(message(text("The ans"), stop="max_tokens")).decision
    assert isinstance(cut, Malformed)
    assert "max_tokens" in cut.problem
    body = message(use("a", "look", {"n": 1}), use("b"), stop="max_tokens")
    decision = read(body).decision
    assert isinstance(decision, ToolCalls)
    assert all(isinstance(call, BrokenCall) for call in decision.calls)
    assert [call.call_id for call in decision.calls] == ["a", "b"]


@pytest.mark.parametrize("content", [(), (text("I will"),), (use("a"),)])
def test_a_refusal_is_one_whatever_came_before_it(content: tuple[dict[str, Any], ...]) -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "lab\nmethods"}
    with pytest.raises(ModelError, match=r"refused to answer: bio \(lab\\x0amethods\)") as raised:
        read(message(*content, stop="refusal", stop_details=details))
    assert raised.value.kind is ModelErrorKind.REFUSED
    assert raised.value.usage == Usage(20, 5)
    with pytest.raises(ModelError, match=r"refused to answer$"):
        read(message(*content, stop="refusal"))


def test_a_full_context_window_is_a_matter_for_a_larger_one() -> None:
    with pytest.raises(ModelError) as raised:
        read(message(text("half"), stop="model_context_window_exceeded"))
    assert raised.value.kind is ModelErrorKind.CONTEXT_TOO_LONG
    assert raised.value.usage == Usage(20, 5)


def test_a_pause_is_one_unless_there_is_a_call_to_be_run() -> None:
    assert body_of(message(SEARCH, stop="pause_turn")).paused
    assert not body_of(message(SEARCH, use("a"), stop="pause_turn")).paused
    assert not body_of(message(SEARCH)).paused


# ---------------------------------------------------------------- thinking
def test_thinking_is_kept_to_be_sent_again_and_is_nowhere_else() -> None:
    body = message(THOUGHT, text("I look."), REDACTED, use("a"), stop="tool_use")
    reply = read(body)
    assert reply.decision == ToolCalls((call("a", "look", {}),), "I look.")
    assert "secret" not in repr(reply.decision)
    items = [THOUGHT, text("I look."), REDACTED, {"call": 0}]
    assert reply.replay == {"by": BY, "after": "d", "items": items}


def test_thinking_that_shows_no_text_is_thinking_all_the_same() -> None:
    """Its signature holds it; the API wants it back with its empty text."""
    omitted = {"type": "thinking", "thinking": "", "signature": "s"}
    reply = read(message(omitted, text("done")))
    assert reply.replay == {"by": BY, "after": "d", "items": [omitted, text("done")]}


def test_thinking_that_was_cut_off_is_not_kept() -> None:
    """It has no signature; sent again, it would count as forged."""
    body = message({**THOUGHT, "signature": ""}, stop="max_tokens")
    assert read(body).replay is None


def test_a_tool_of_the_provider_is_no_call_of_ours() -> None:
    body = message(text("I search. "), SEARCH, FOUND, text("Found."))
    reply = read(body)
    assert reply.decision == Final("I search. Found.")
    items = [text("I search. "), SEARCH, FOUND, text("Found.")]
    assert reply.replay == {"by": BY, "after": "d", "items": items}
    # Cut off, it may have no result, without which it is not taken back.
    assert read(message(SEARCH, text("x"), stop="max_tokens")).replay is None


# ---------------------------------------------------------------- usage
def test_what_a_cache_gave_or_took_counts_as_sent() -> None:
    counts = {
        "input_tokens": 25,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 7,
        "output_tokens": 15,
    }
    assert usage_of(counts) == Usage(42, 15, cached_tokens=10, cache_written_tokens=7)
    nothing = {**counts, "cache_read_input_tokens": None, "cache_creation_input_tokens": None}
    assert usage_of(nothing) == Usage(25, 15)


@pytest.mark.parametrize(
    "counts",
    [
        None,
        {},
        [],
        "20",
        {"input_tokens": 20},
        {**USAGE, "input_tokens": None},
        {**USAGE, "output_tokens": -1},
        {**USAGE, "output_tokens": "5"},
        {**USAGE, "output_tokens": True},
        {**USAGE, "cache_read_input_tokens": 1.5},
    ],
)
def test_a_usage_that_cannot_be_read_is_none_and_the_reply_stands(counts: object) -> None:
    assert usage_of(counts) is None
    body = body_of(message(text("done"), usage=counts))
    reply = reply_of(body, request_of([]), BY, "d")
    assert (reply.decision, reply.usage) == (Final("done"), None)


def test_parts_of_a_reply_are_charged_together() -> None:
    one, other = body_of(message(SEARCH, stop="pause_turn")), body_of(message(FOUND, text("x")))
    both = joined(joined(None, one), other)
    assert (both.usage, both.stop_reason) == (Usage(40, 10), "end_turn")
    assert list(both.content) == [SEARCH, FOUND, text("x")]
    assert joined(one, body_of(message(usage=None))).usage is None


# ---------------------------------------------------------------- what is no reply
@pytest.mark.parametrize(
    "body",
    [
        None,
        "<html>",
        [],
        {},
        {"type": "error", "error": {"type": "api_error"}},
        message() | {"content": None},
        message() | {"content": "text"},
        message() | {"content": ["text"]},
    ],
)
def test_a_body_that_is_no_message_is_said_to_be_none(body: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="the reply"):
        body_of(body)


@pytest.mark.parametrize(
    "block", [{}, {"type": None}, {"type": "text"}, {"type": "text", "text": 5}]
)
def test_a_block_that_is_none_is_not_passed_over(block: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError, match=r"the reply.content\[1\]"):
        reply_of(body_of(message(text("x"), block)), request_of([]), BY, "d")


def test_names_that_are_none_are_blank() -> None:
    body = body_of({"content": [text("x")], "id": None, "model": 5, "stop_reason": []})
    assert (body.id, body.model, body.stop_reason) == ("", "", "")


# ---------------------------------------------------------------- streams
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_pieces_of_any_size_make_the_same_message(size: int) -> None:
    content = (THOUGHT, text("Grüße"), SEARCH, FOUND, use("a", "look", {"ü": [1, {"x": "}"}]}))
    body, heard = streamed(message(*content, stop="tool_use"), size=size)
    at_once = body_of(message(*content, stop="tool_use"))
    request = request_of([])
    assert reply_of(body, request, BY, "d") == reply_of(at_once, request, BY, "d")
    assert heard == "Grüße"


def test_a_stream_without_its_end_is_no_message() -> None:
    """Wherever it ends before: also where all blocks and the reason for the end have come."""
    told = events(message(text("done"), use("a"), stop="tool_use"))
    for count in range(len(told)):
        building = Building()
        for event in told[:count]:
            building.take(event)
        with pytest.raises(RemoteProtocolError, match="ended before the reply was complete"):
            building.body()


def test_what_is_not_known_in_a_stream_is_passed_over() -> None:
    told = events(message(text("done")))
    told.insert(3, {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta"}})
    told.insert(2, {"type": "brand_new"})
    cite = {"type": "citations_delta", "citation": {"cited_text": "x"}}
    told.insert(5, {"type": "content_block_delta", "index": 0, "delta": cite})
    building = Building()
    heard = "".join(building.take(event) for event in told)
    body = building.body()
    assert heard == "done"
    assert body.content[0]["citations"] == [{"cited_text": "x"}]


@pytest.mark.parametrize(
    "event",
    [
        5,
        None,
        {},
        {"type": 5},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}},
    ],
)
def test_an_event_that_fits_nothing_is_an_error(event: Any) -> None:
    building = Building()
    building.take(events(message())[0])
    with pytest.raises(RemoteProtocolError, match="the stream"):
        building.take(event)


def test_what_a_tool_of_the_provider_was_given_must_be_readable() -> None:
    """It has to be sent back, and is not ours to mend."""
    with pytest.raises(RemoteProtocolError, match="the stream"):
        streamed(message({**SEARCH, "input": '{"query": '}))


def test_a_block_may_begin_with_a_text() -> None:
    building = Building()
    told: list[dict[str, Any]] = [
        {"type": "message_start", "message": message()},
        {"type": "content_block_start", "index": 0, "content_block": text("He")},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "y"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    assert [building.take(event) for event in told] == ["", "He", "y", "", ""]
    assert building.body().content == (text("Hey"),)
