"""What Claude is asked: the journal as messages that the API takes, and takes only like that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire.claude import FOUND, REDACTED, SEARCH, THOUGHT, message, text, use
from wire.decisions import SCHEMA, broken, request_of, turn_of, turns

from loopwright.adapters.anthropic._reply import body_of, reply_of
from loopwright.adapters.anthropic._request import Prepared, prepared
from loopwright.adapters.anthropic._settings import Settings
from loopwright.protocol import (
    BrokenCall,
    CallId,
    Clarification,
    Decision,
    ErrorCategory,
    Fault,
    Final,
    JsonValue,
    Malformed,
    ModelRequest,
    Proposal,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolError,
    ToolResult,
    Turn,
    TurnCommitted,
    Usage,
)

ENABLED: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
EPHEMERAL = {"type": "ephemeral"}


def ask(request: ModelRequest, *, cache: bool = False, **fields: Any) -> Prepared:
    return prepared(request, Settings("claude-test", 8192, cache=cache, **fields))


def payload(request: ModelRequest, **fields: Any) -> dict[str, Any]:
    return ask(request, **fields).payload


def committed(
    decision: Decision | Malformed,
    *results: ToolResult,
    turn: int = 1,
    replay: JsonValue = None,
    fault: Fault | None = None,
    notice: str | None = None,
    answer: str | None = None,
) -> Turn:
    proposal = Proposal(decision, Usage(1, 1), replay=replay)
    record = TurnCommitted(turn, proposal, results, len(results), 0.0, 0.0, fault)
    return turn_of(record, notice, answer)


def calls(*ids: str, say: str = "") -> ToolCalls:
    return ToolCalls(tuple(ToolCall(CallId(i), "look", {"n": 1}) for i in ids), say)


def ok(call_id: str, output: JsonValue = "seen") -> ToolResult:
    return ToolResult(CallId(call_id), "look", ResultStatus.OK, output)


def failed(call_id: str, status: ResultStatus = ResultStatus.ERROR) -> ToolResult:
    error = ToolError(ErrorCategory.PERMANENT, "Missing", "not found")
    return ToolResult(CallId(call_id), "look", status, None, error)


def used(call_id: str) -> dict[str, Any]:
    return use(call_id, "look", {"n": 1})


def result(call_id: str, content: str | None = "seen", **fields: Any) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    return block | ({} if content is None else {"content": content}) | fields


def messages(request: ModelRequest, **fields: Any) -> list[tuple[str, list[Any]]]:
    return [(m["role"], m["content"]) for m in payload(request, **fields)["messages"]]


# ---------------------------------------------------------------- properties
def well_formed(found: list[tuple[str, list[Any]]]) -> None:
    """Check what the API refuses otherwise."""
    assert found[0][0] == found[-1][0] == "user"
    ids = set[str]()
    for index, (role, content) in enumerate(found):
        assert role == ("assistant" if index % 2 else "user")
        assert content
        asked = [block["id"] for block in content if block["type"] == "tool_use"]
        assert not ids & set(asked)
        ids |= set(asked)
        answered = [b["tool_use_id"] for b in content if b["type"] == "tool_result"]
        before = found[index - 1][1] if index else []
        assert answered == [block["id"] for block in before if block["type"] == "tool_use"]
        assert all(block["type"] == "tool_result" for block in content[: len(answered)])
        for block in content:
            assert block["type"] != "text" or block["text"].strip()
            assert block.get("content") != ""


@given(st.data(), st.booleans(), st.booleans())
def test_what_is_committed_comes_back_from_the_messages(
    data: st.DataObject, output: bool, structured: bool
) -> None:
    """Journal → messages → journal: each reply, read as if it had just come, is its decision."""
    history = data.draw(turns(output=output))
    request = request_of(history, output=output)
    found = messages(request, structured_output=structured)
    well_formed(found)
    said = [content for role, content in found if role == "assistant"]
    # A reply that another one follows directly, as after an answer nobody faulted, is one with it.
    if len(said) == len(history):
        for content, turn in zip(said, history, strict=True):
            reply = reply_of(body_of(message(*content)), request, "anthropic:claude-test", "")
            assert reply.decision == _trimmed(turn.proposal.decision)


def _trimmed(decision: Decision | Malformed) -> Decision | Malformed:
    if isinstance(decision, ToolCalls) and not decision.commentary.strip():
        return ToolCalls(decision.calls)
    return decision


@given(turns(), st.sampled_from([{}, ENABLED, {"thinking": {"type": "adaptive"}}]))
def test_replays_of_any_kind_leave_the_messages_well_formed(
    history: list[Turn], options: dict[str, Any]
) -> None:
    """Also where what is kept does not fit what was decided, as after a refused reply."""
    marks: list[Any] = [{"call": 0}, {"call": 1}, {"call": 9}, {"call": "a"}, {"call": None}]
    kept: list[Any] = [THOUGHT, text("x"), SEARCH, FOUND, *marks, REDACTED]
    replay: JsonValue = {"by": "anthropic:claude-test", "after": "", "items": kept}
    with_replays = [
        committed(
            turn.proposal.decision,
            *turn.results,
            turn=turn.number,
            replay=replay,
            notice=turn.notice,
            answer=turn.answer,
        )
        for turn in history
    ]
    well_formed(messages(request_of(with_replays), options=options))


# ---------------------------------------------------------------- the parts of a request
def test_a_first_request() -> None:
    assert payload(request_of([])) == {
        "model": "claude-test",
        "max_tokens": 8192,
        "system": [text("Do it.")],
        "tools": payload(request_of([]))["tools"],
        "messages": [{"role": "user", "content": [text("the goal")]}],
    }
    look, *reserved = payload(request_of([]))["tools"]
    assert look == {
        "name": "look",
        "description": "Look.",
        "input_schema": {"type": "object", "properties": {}},
    }
    names = [tool["name"] for tool in reserved]
    assert names == ["ask_user", "cannot_continue", "request_approval", "hand_over"]


def test_a_turn_is_a_reply_and_the_results_directly_behind_it() -> None:
    history = [committed(calls("a", "b", say="I look."), ok("a"), ok("b", {"n": 2}))]
    assert messages(request_of(history))[1:] == [
        ("assistant", [text("I look."), used("a"), used("b")]),
        ("user", [result("a"), result("b", '{"n":2}')]),
    ]


def test_what_the_users_side_says_at_a_time_is_one_message_results_first() -> None:
    history = [
        committed(calls("a"), ok("a"), notice="before"),
        committed(calls("b"), ok("b"), turn=2, notice="between"),
    ]
    found = messages(request_of(history, notice="now", summary="the past"))
    assert [content for role, content in found if role == "user"] == [
        [text("the goal"), text("What happened before, in short:\nthe past"), text("before")],
        [result("a"), text("between")],
        [result("b"), text("now")],
    ]


def test_a_person_who_answers_answers_the_call_that_asked() -> None:
    (_, asked), (_, told) = messages(
        request_of([committed(Clarification("Which?"), answer="the red one")])
    )[1:]
    assert asked == [{**use(asked[0]["id"], "ask_user"), "input": {"question": "Which?"}}]
    assert told == [result(asked[0]["id"], "the red one")]


@pytest.mark.parametrize("blank", ["", " \n"])
def test_what_is_blank_is_not_sent_as_a_text(blank: str) -> None:
    """The API refuses blank texts, and messages without content."""
    history = [
        committed(Final(blank), fault=Fault("decision", "it is blank")),
        committed(calls("a", say=blank), ok("a", blank), turn=2),
    ]
    request = request_of(history, goal=blank, instructions=blank)
    assert "system" not in payload(request)
    assert messages(request) == [
        ("user", [text("(no text)")]),
        ("assistant", [text("(no text)")]),
        ("user", [text("That reply could not be used: it is blank")]),
        ("assistant", [used("a")]),
        ("user", [result("a", None)]),
    ]


def test_the_last_word_is_never_the_models_own() -> None:
    """It would be taken for the beginning of the reply, or refused."""
    found = messages(request_of([committed(Final("done"))]))
    assert found[1:] == [("assistant", [text("done")]), ("user", [text("Go on.")])]


def test_a_broken_call_is_shown_without_arguments_and_its_result_says_why() -> None:
    decision = ToolCalls((broken("a"),))
    assert isinstance(decision.calls[0], BrokenCall)
    found = messages(request_of([committed(decision, failed("a", ResultStatus.INVALID_ARGUMENTS))]))
    assert found[1][1] == [use("a")]
    assert found[2][1][0]["is_error"] is True


@pytest.mark.parametrize("status", [s for s in ResultStatus if s is not ResultStatus.OK])
def test_only_a_result_that_failed_is_an_error(status: ResultStatus) -> None:
    """What its text says decides nothing."""
    history = [committed(calls("a", "b"), failed("a", status), ok("b", "Error: codes list"))]
    one, other = messages(request_of(history))[2][1]
    assert one["is_error"] is True
    assert other == result("b", "Error: codes list")


def test_a_budget_lowers_what_a_reply_may_have_and_never_raises_it() -> None:
    for left, limit in ((None, 8192), (100, 100), (10**9, 8192)):
        assert payload(request_of([], max_output_tokens=left))["max_tokens"] == limit


# ---------------------------------------------------------------- structured answers
def test_a_schema_is_enforced_by_the_api() -> None:
    asked = payload(request_of([], output=True))
    made = asked["output_config"]["format"]
    assert made["type"] == "json_schema"
    assert made["schema"]["properties"]["output"] == SCHEMA
    assert made["schema"]["required"] == ["answer", "output"]
    assert "final_answer" not in [tool["name"] for tool in asked["tools"]]
    assert "output_config" not in payload(request_of([]))


TREE: dict[str, Any] = {
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
            "additionalProperties": False,
        }
    },
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "structured"),
    [(SCHEMA, False), ({"type": "object", "additionalProperties": True}, True), (TREE, True)],
    ids=["switched off", "open", "recursive"],
)
def test_what_the_api_cannot_enforce_is_a_call(schema: Any, structured: bool) -> None:
    request = request_of([], output=True, output_schema=schema)
    asked = payload(request, structured_output=structured)
    assert "output_config" not in asked
    assert asked["tools"][-1]["name"] == "final_answer"
    assert asked["tools"][-1]["input_schema"]["properties"]["output"]


def test_a_definition_that_is_used_twice_is_no_circle() -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer"}}}
    pair = {name: {"$ref": "#/$defs/Point"} for name in ("a", "b")}
    schema = {"$defs": {"Point": point}, "type": "object", "properties": pair}
    asked = payload(request_of([], output=True, output_schema=schema))
    assert asked["output_config"]["format"]["schema"]["$defs"]["Point"]["required"] == ["x"]


# ---------------------------------------------------------------- options
def test_options_are_merged_last() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    options: dict[str, Any] = {
        "temperature": 0.5,
        "system": None,
        "tools": [search],
        "output_config": {"effort": "low"},
        "metadata": {"user_id": "u"},
    }
    asked = payload(request_of([], output=True), options=options)
    assert asked["temperature"] == 0.5
    assert asked["metadata"] == {"user_id": "u"}
    assert "system" not in asked
    assert asked["tools"][0]["name"] == "look"
    assert asked["tools"][-1] == search
    assert asked["output_config"].keys() == {"effort", "format"}
    assert options["output_config"] == {"effort": "low"}


# ---------------------------------------------------------------- caching
def marked(asked: dict[str, Any]) -> list[str]:
    """Say which blocks bear a mark, in the order the API reads them."""
    blocks = [(tool["name"], tool) for tool in asked["tools"]]
    blocks += [("system", block) for block in asked.get("system", [])]
    for index, said in enumerate(asked["messages"]):
        blocks += [(f"{index}.{at}", block) for at, block in enumerate(said["content"])]
    found = [(name, b["cache_control"]) for name, b in blocks if "cache_control" in b]
    assert all(mark == EPHEMERAL for _, mark in found)
    return [name for name, _ in found]


def test_the_beginning_that_the_next_request_has_as_well_is_cached() -> None:
    """What never changes, and all that has been said so far; four marks are the most there may be."""
    history = [
        committed(calls("a", "b"), ok("a"), ok("b")),
        committed(calls("c"), ok("c"), turn=2),
    ]
    assert marked(payload(request_of([]), cache=True)) == ["system", "0.0"]
    assert marked(payload(request_of(history[:1]), cache=True)) == ["system", "0.0", "2.1"]
    assert marked(payload(request_of(history), cache=True)) == ["system", "2.1", "4.0"]
    bare = payload(request_of([], instructions=""), cache=True)
    assert marked(bare) == ["hand_over", "0.0"]
    nothing: dict[str, Any] = {"system": None, "tools": None}
    barest = payload(request_of([]), cache=True, options=nothing)
    assert barest["messages"][0]["content"][0]["cache_control"] == EPHEMERAL
    assert marked(payload(request_of(history))) == []


@given(turns())
def test_a_request_begins_with_all_of_the_one_before_it(history: list[Turn]) -> None:
    """Otherwise nothing would be found in the cache."""
    for end in range(len(history)):
        before = messages(request_of(history[:end], notice=history[end].notice))
        after = messages(request_of(history))
        if before[-1][1] != [text("Go on.")]:
            assert after[: len(before) - 1] == before[:-1]
            assert after[len(before) - 1][1][: len(before[-1][1])] == before[-1][1]


# ---------------------------------------------------------------- thinking
class Loop:
    """Turns as they really come about: each replay is bound to what was sent."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        self.turns: list[Turn] = []

    def reply(
        self, *content: dict[str, Any], by: str = "anthropic:claude-test", **now: Any
    ) -> None:
        request = request_of(self.turns, **now)
        body = body_of(message(*content, stop="tool_use"))
        reply = reply_of(body, request, by, ask(request, **self.fields).after)
        decision = reply.decision
        assert isinstance(decision, ToolCalls)
        results = tuple(ok(call.call_id) for call in decision.calls)
        made = committed(
            decision,
            *results,
            turn=len(self.turns) + 1,
            replay=reply.replay,
            notice=request.notice,
        )
        self.turns.append(made)

    def said(self, **now: Any) -> list[list[Any]]:
        found = messages(request_of(self.turns, **now), **self.fields)
        return [content for role, content in found if role == "assistant"]

    def thinking(self, **now: Any) -> list[bool]:
        kinds = [{block["type"] for block in content} for content in self.said(**now)]
        return ["thinking" in kind for kind in kinds]


def test_thinking_goes_back_as_it_was_where_it_was() -> None:
    loop = Loop()
    first = (THOUGHT, text("I look. "), used("a"), REDACTED, used("b"))
    second = ({**THOUGHT, "signature": "sig-2"}, SEARCH, FOUND, text("Now "), used("c"))
    loop.reply(*first)
    loop.reply(*second)
    assert loop.said() == [[*first], [*second]]


def test_a_call_that_stands_for_a_decision_keeps_its_place() -> None:
    """Its id is not kept; its result finds it all the same."""
    decision = Clarification("Which?")
    asks = use("toolu_9", "ask_user", {"question": "Which?"})
    request = request_of([])
    body = body_of(message(THOUGHT, text("Hm."), asks, stop="tool_use"))
    reply = reply_of(body, request, "anthropic:claude-test", ask(request).after)
    assert reply.decision == decision
    (_, said), (_, told) = messages(
        request_of([committed(decision, replay=reply.replay, answer="red")])
    )[1:]
    assert said[:2] == [THOUGHT, text("Hm.")]
    assert (said[2]["name"], said[2]["input"]) == ("ask_user", {"question": "Which?"})
    assert told[0]["tool_use_id"] == said[2]["id"]


def test_the_thinking_of_another_model_is_not_sent() -> None:
    loop = Loop()
    loop.reply(THOUGHT, used("a"), by="anthropic:claude-other")
    loop.reply(THOUGHT, used("b"), by="openai:gpt")
    assert loop.said() == [[used("a")], [used("b")]]


@pytest.mark.parametrize("replay", [5, [], {}, {"by": 1}, {"by": "anthropic:claude-test"}])
def test_what_is_kept_in_another_form_is_passed_over(replay: JsonValue) -> None:
    history = [committed(calls("a"), ok("a"), replay=replay)]
    assert messages(request_of(history))[1] == ("assistant", [used("a")])


@pytest.mark.parametrize(
    "change",
    [{"instructions": "Do it otherwise."}, {"tools": ()}, {"summary": "More."}, {"goal": "other"}],
    ids=lambda change: next(iter(change)),
)
def test_thinking_is_sent_only_behind_what_it_was_thought_of(change: dict[str, Any]) -> None:
    """Newer models refuse a request in which anything before their thinking has changed."""
    loop = Loop()
    loop.reply(THOUGHT, used("a"))
    loop.reply({**THOUGHT, "signature": "sig-2"}, used("b"))
    assert loop.thinking() == [True, True]
    assert loop.thinking(notice="Come to an end.") == [True, True]
    assert loop.thinking(**change) == [False, False]
    # What is thought from then on is bound to what was sent from then on.
    loop.reply({**THOUGHT, "signature": "sig-3"}, used("c"), **change)
    assert loop.thinking(**change) == [False, False, True]


def test_thinking_is_not_bound_to_what_no_journal_has() -> None:
    """What was put behind an answer, so that the model could go on, is not there the next time."""
    loop = Loop()
    loop.turns.append(committed(Final("done")))
    loop.reply(THOUGHT, used("a"))
    assert loop.thinking() == [False]


def test_with_thinking_off_none_is_sent() -> None:
    loop = Loop(options={"thinking": {"type": "disabled"}})
    loop.reply(THOUGHT, used("a"))
    assert loop.thinking() == [False]


def test_a_turn_that_is_left_out_takes_the_thinking_behind_it_along() -> None:
    loop = Loop()
    for call_id in "abc":
        loop.reply({**THOUGHT, "signature": call_id}, used(call_id))
    del loop.turns[0]
    assert loop.thinking() == [False, False]


def test_thinking_that_is_asked_for_is_always_sent_to_models_that_do_not_bind_it() -> None:
    """These want it at the beginning of each loop of calls, and look at nothing before it."""
    loop = Loop(options=ENABLED)
    for call_id in "abc":
        loop.reply({**THOUGHT, "signature": call_id}, used(call_id))
    assert loop.thinking(instructions="otherwise") == [True, True, True]
    del loop.turns[0]
    assert loop.thinking() == [True, True]
    assert payload(request_of(loop.turns), options=ENABLED)["thinking"] == ENABLED["thinking"]


def test_a_loop_that_does_not_begin_with_thinking_goes_on_without() -> None:
    """The API refuses it otherwise; and with thinking off, it refuses all thinking."""
    loop = Loop(options=ENABLED)
    loop.reply(used("a"), by="openai:gpt")
    loop.reply(THOUGHT, used("b"))
    asked = payload(request_of(loop.turns), options=ENABLED)
    assert asked["thinking"] == {"type": "disabled"}
    assert loop.thinking() == [False, False]
    adaptive = {"thinking": {"type": "adaptive"}}
    asked = payload(request_of(loop.turns), options=adaptive)
    assert asked["thinking"] == {"type": "adaptive"}, "here the model thinks where it wants to"


def test_a_model_thinks_once_for_a_loop() -> None:
    """Without interleaved thinking, later replies of a loop have none: thinking stays on."""
    loop = Loop(options=ENABLED)
    loop.reply(THOUGHT, used("a"))
    loop.reply(used("b"))
    assert payload(request_of(loop.turns), options=ENABLED)["thinking"] == ENABLED["thinking"]
    # A text of the user's side begins a new turn, which has to begin with thinking of its own.
    loop.reply(used("c"), notice="Come to an end.")
    asked = payload(request_of(loop.turns), options=ENABLED)
    assert asked["thinking"] == {"type": "disabled"}


def test_after_an_answer_thinking_is_on_again() -> None:
    loop = Loop(options=ENABLED)
    loop.reply(used("a"), by="openai:gpt")
    loop.turns.append(committed(Final("x"), turn=2, fault=Fault("decision", "not so")))
    asked = payload(request_of(loop.turns), options=ENABLED)
    assert asked["thinking"] == ENABLED["thinking"]


def test_thinking_needs_more_room_than_it_may_take() -> None:
    """Where a budget leaves less, the reply comes without."""
    for left, kind in ((2000, "disabled"), (2001, "enabled"), (None, "enabled")):
        asked = payload(request_of([], max_output_tokens=left), options=ENABLED)
        assert asked["thinking"]["type"] == kind
    # With interleaved thinking, more may be asked for than a reply may have: that is meant.
    for options in ({"thinking": {"type": "enabled"}}, {"thinking": {"type": "enabled", "x": 1}}):
        assert payload(request_of([]), options=options)["thinking"] == options["thinking"]
    wide: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 50_000}}
    assert payload(request_of([]), options=wide)["thinking"]["type"] == "enabled"


def test_a_message_never_ends_in_thinking() -> None:
    """The API refuses it; a reply that only thought was a blank answer."""
    request = request_of([])
    reply = reply_of(body_of(message(THOUGHT)), request, "anthropic:claude-test", "")
    assert reply.decision == Final("")
    fault = Fault("decision", "it is blank")
    history = [committed(Final(""), replay=reply.replay, fault=fault)]
    assert messages(request_of(history))[1] == ("assistant", [text("(no text)")])
    cut = committed(Malformed("cut", ""), replay=reply.replay, fault=fault)
    assert messages(request_of([cut]), options=ENABLED)[1][1] == [THOUGHT, text("(no text)")]
