"""The edge to a model: what is a decision, what is a broken call, and what is neither."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.protocol import (
    BrokenCall,
    CallId,
    CannotContinue,
    Clarification,
    Decision,
    Final,
    JsonValue,
    RemoteProtocolError,
    RequestApproval,
    ToolCall,
    ToolCalls,
    bounded,
    parse_call,
    parse_decision,
)

CALL = ToolCall(CallId("c1"), "read", {"of": 7})
HALF = "half an emoji: \ud83d"


@pytest.mark.parametrize(
    ("raw", "decision"),
    [
        ('{"kind": "final", "answer": "42"}', Final("42")),
        (b'{"kind": "final", "output": {"n": 1}}', Final("", {"n": 1})),
        ({"kind": "clarification", "question": "which?"}, Clarification("which?")),
        (
            {"kind": "cannot_continue", "code": "no_data", "reason": "gone"},
            CannotContinue("no_data", "gone"),
        ),
        (
            {
                "kind": "tool_calls",
                "calls": [{"call_id": "c1", "tool_name": "read", "arguments": {"of": 7}}],
            },
            ToolCalls((CALL,)),
        ),
        (
            '{"kind":"tool_calls","calls":[{"call_id":"c1","tool_name":"read","arguments":"{\\"of\\":7}"}]}',
            ToolCalls((CALL,)),
        ),
        (
            {"kind": "request_approval", "calls": [CALL], "reason": "sure?"},
            RequestApproval((CALL,), "sure?"),
        ),
        (Final("typed"), Final("typed")),
    ],
)
def test_each_kind_is_read_from_text_mapping_or_type(raw: object, decision: Decision) -> None:
    """Whatever way it comes, it is the same typed decision."""
    assert parse_decision(raw) == decision


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        ("", "decision"),
        ("{", "decision"),
        ("[]", "decision"),
        (None, "decision"),
        (7, "decision"),
        ("{}", "decision"),
        ('{"kind": "shell"}', "decision"),
        ('{"kind": "malformed", "problem": "p", "raw": "r"}', "decision"),
        ('{"kind": "final", "answer": 1}', "decision.final.answer"),
        ('{"kind": "final", "answer": "a", "extra": 1}', "decision.final.extra"),
        ('{"kind": "final", "answer": "a", "schema_version": 2}', "decision.final.schema_version"),
        ('{"kind": "final", "kind": "final", "answer": "a"}', "decision"),
        ('{"kind": "clarification"}', "decision.clarification.question"),
        ('{"kind": "tool_calls", "calls": "none"}', "decision.tool_calls.calls"),
        ('{"kind": "tool_calls", "calls": [1]}', "decision.calls[0]"),
        (
            '{"kind": "tool_calls", "calls": [{"call_id": 1, "tool_name": "x"}]}',
            "decision.calls[0]",
        ),
        (
            '{"kind": "tool_calls", "calls": [{"call_id": "c", "tool_name": "x", "shell": 1}]}',
            "decision.calls[0]",
        ),
    ],
)
def test_what_is_no_decision_is_refused_by_path(raw: object, where: str) -> None:
    """Unknown kinds, fields and versions are errors of the model, named by where they are."""
    with pytest.raises(RemoteProtocolError) as caught:
        parse_decision(raw)
    assert caught.value.where.startswith(where)


@given(st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.lists(st.text()))
def test_nothing_but_a_remote_error_comes_of_bad_input(raw: object) -> None:
    """Whatever a model sends, it is a decision or a `RemoteProtocolError`."""
    with suppress(RemoteProtocolError):
        assert parse_decision(raw) is not None


@pytest.mark.parametrize("arguments", [[], 1, "{", "[1]", '{"a": NaN}', '{"a":1,"a":2}', b"\xff"])
def test_arguments_that_are_no_object_make_a_broken_call(arguments: object) -> None:
    """Nobody is ever shown arguments the model did not write; the batch beside it stands."""
    call = parse_call("c1", "pay", arguments)
    assert isinstance(call, BrokenCall)
    assert call.problem


def test_arguments_that_are_nested_without_end_make_a_broken_call() -> None:
    """Also where they come as objects, which not even a repr can show."""
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    call = parse_call("c1", "pay", deep)
    assert isinstance(call, BrokenCall)
    assert (call.problem, call.raw) == (
        "arguments: nested deeper than 64 levels; flatten it",
        "<dict>",
    )


@pytest.mark.parametrize("arguments", [None, "", "  ", "null", {}])
def test_no_arguments_are_an_empty_object(arguments: object) -> None:
    """A tool without parameters may be called in any of these ways."""
    call = parse_call("c1", "read", arguments)
    assert isinstance(call, ToolCall)
    assert call.arguments == {}


def test_a_typed_call_is_as_strict_as_a_parsed_one() -> None:
    """Arguments somebody built in code must be JSON too."""
    call = ToolCall(CallId("c1"), "read", {"x": float("nan")})
    decision = parse_decision(ToolCalls((call, CALL)))
    assert isinstance(decision, ToolCalls)
    assert [type(c) for c in decision.calls] == [BrokenCall, ToolCall]


@given(st.text(max_size=400), st.integers(1, 100))
def test_an_echoed_text_is_short_and_printable(text: str, limit: int) -> None:
    """What a model wrote can be shown back to it, logged, and stored."""
    shown = bounded(text, limit)
    assert shown.isprintable()
    if len(text) <= limit and text.isprintable():
        assert shown == text


@pytest.mark.parametrize(
    ("decision", "where"),
    [
        (Final(answer=cast("str", 42)), "decision.answer"),
        (Clarification(question=cast("str", None)), "decision.question"),
        (CannotContinue("code", cast("str", [])), "decision.reason"),
        (ToolCalls((ToolCall(cast("CallId", None), "find", {}),)), "decision.calls[0]"),
        (ToolCalls((ToolCall(CallId("a"), cast("str", 7), {}),)), "decision.calls[0]"),
        (ToolCalls(cast("tuple[ToolCall, ...]", ("find",))), "decision.calls[0]"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_typed_decision_is_not_trusted_for_its_type(decision: Decision, where: str) -> None:
    """Python enforces no annotation: what would crash later is refused at the edge, by path."""
    with pytest.raises(RemoteProtocolError) as refused:
        parse_decision(decision)
    assert refused.value.where == where


def test_arguments_of_a_typed_call_are_a_copy_unless_nobody_can_change_them() -> None:
    """A model that keeps and changes its object later reaches nobody."""
    inner: list[JsonValue] = [1]
    given = ToolCalls((ToolCall(CallId("a"), "find", {"ids": inner}),))
    parsed = parse_decision(given)
    inner.append(2)
    assert isinstance(parsed, ToolCalls)
    assert cast("ToolCall", parsed.calls[0]).arguments == {"ids": [1]}


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        ({"kind": "final", "answer": HALF}, "decision.answer"),
        (Final(HALF), "decision.answer"),
        ({"kind": "clarification", "question": HALF}, "decision.question"),
        (Clarification(HALF), "decision.question"),
        ({"kind": "tool_calls", "calls": [CALL], "commentary": HALF}, "decision.commentary"),
        (
            {"kind": "tool_calls", "calls": [{"call_id": "a", "tool_name": HALF}]},
            "decision.calls[0]",
        ),
        (ToolCalls((ToolCall(CallId(HALF), "read", {}),)), "decision.calls[0]"),
    ],
)
def test_half_a_character_is_no_text(raw: object, where: str) -> None:
    """JSON text can say a lone surrogate, UTF-8 cannot: nothing that is stored may hold one."""
    with pytest.raises(RemoteProtocolError, match="lone surrogate") as caught:
        parse_decision(raw)
    assert caught.value.where == where
