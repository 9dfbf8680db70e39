"""The journal as a conversation, and back: nothing is lost, and every call has its one result."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire.decisions import broken, request_of, turn_of, turns

from loopwright.adapters.conversation import (
    Entry,
    RawCall,
    RawReply,
    Replied,
    Returned,
    Said,
    conversation,
    decision_of,
)
from loopwright.protocol import (
    BrokenCall,
    CallId,
    CannotContinue,
    Clarification,
    Decision,
    ErrorCategory,
    Fault,
    Final,
    Handoff,
    Malformed,
    ProgressNote,
    Proposal,
    RequestApproval,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolError,
    ToolResult,
    Turn,
    TurnCommitted,
    Usage,
    reserved_tools,
)


def committed(
    decision: Decision | Malformed,
    *results: ToolResult,
    turn: int = 1,
    fault: Fault | None = None,
    answer: str | None = None,
) -> Turn:
    proposal = Proposal(decision, Usage(1, 1))
    record = TurnCommitted(turn, proposal, results, len(results), 0.0, 0.0, fault)
    return turn_of(record, answer=answer)


def call(call_id: str = "c1", name: str = "look") -> ToolCall:
    return ToolCall(CallId(call_id), name, {})


def ok(output: str, call_id: str = "c1") -> ToolResult:
    return ToolResult(CallId(call_id), "look", ResultStatus.OK, output)


def told(*history: Turn) -> list[Entry]:
    return list(conversation(request_of(list(history))))[1:]


def replies(entries: tuple[Entry, ...]) -> list[Replied]:
    return [entry for entry in entries if isinstance(entry, Replied)]


# ---------------------------------------------------------------- properties
@given(st.data(), st.booleans(), st.booleans())
def test_what_is_committed_comes_back_from_the_conversation(
    data: st.DataObject, output: bool, final_calls: bool
) -> None:
    """Journal → conversation → journal: each reply, read as if it had just come, is its decision."""
    history = data.draw(turns(output=output))
    request = request_of(history, output=output)
    found = replies(conversation(request, final_calls=final_calls))
    assert len(found) == len(history)
    for reply, turn in zip(found, history, strict=True):
        calls = [RawCall(c.id, c.name, json.dumps(c.arguments)) for c in reply.calls]
        assert decision_of(RawReply(reply.text, calls), request) == turn.proposal.decision


@given(turns(), st.booleans())
def test_every_call_has_one_result_right_behind_it_in_order(
    history: list[Turn], final_calls: bool
) -> None:
    entries = conversation(request_of(history), final_calls=final_calls)
    ids: list[str] = []
    for index, entry in enumerate(entries):
        if isinstance(entry, Returned):
            assert isinstance(entries[index - 1], Replied)
        if not isinstance(entry, Replied):
            continue
        assert entry.text or entry.calls
        if entry.calls:
            behind = entries[index + 1]
            assert isinstance(behind, Returned)
            assert [r.id for r in behind.results] == [c.id for c in entry.calls]
            ids += [c.id for c in entry.calls]
    assert len(set(ids)) == len(ids)


# ---------------------------------------------------------------- ids
def test_an_id_no_provider_would_take_back_is_shown_as_another_one_always_the_same() -> None:
    odd = committed(ToolCalls((call("a b/ü"),)), ok("x", "a b/ü"))
    (reply, returned) = told(odd)
    assert isinstance(reply, Replied)
    assert isinstance(returned, Returned)
    assert reply.calls[0].id == returned.results[0].id
    assert reply.calls[0].id.startswith("t1c0_")
    assert told(odd) == [reply, returned]


def test_an_id_that_is_used_again_in_a_later_turn_is_told_apart() -> None:
    first = committed(ToolCalls((call("c1"),)), ok("x"))
    again = committed(ToolCalls((call("c1"),)), ok("y"), turn=2)
    ids = [c.id for entry in told(first, again) if isinstance(entry, Replied) for c in entry.calls]
    assert ids[0] == "c1"
    assert ids[1] != "c1"


def test_a_name_no_provider_would_take_back_is_not_sent_back() -> None:
    odd = committed(ToolCalls((call("c1", "rm -rf /"),)), ok("x"))
    (reply, _) = told(odd)
    assert isinstance(reply, Replied)
    assert reply.calls[0].name == "unusable_name"


# ---------------------------------------------------------------- results
def test_what_a_tool_says_does_not_decide_whether_it_failed() -> None:
    """B98: a result is a failure by its status, whatever its text is."""
    error = ToolError(ErrorCategory.PERMANENT, "ToolFailure", "not found")
    failed = ToolResult(CallId("c1"), "look", ResultStatus.ERROR, None, error)
    both = committed(ToolCalls((call("c1"), call("c2"))), failed, ok("Error: codes list", "c2"))
    returned = told(both)[1]
    assert isinstance(returned, Returned)
    assert [result.failed for result in returned.results] == [True, False]
    assert "not found" in returned.results[0].text
    assert returned.results[1].text == "Error: codes list"


def test_a_model_is_told_what_a_person_has_had_its_call_run_with() -> None:
    """It would otherwise take the result for that of the arguments it has proposed."""
    edited = replace(ok("paid"), arguments={"amount": 5})
    returned = told(committed(ToolCalls((call(),)), edited))[1]
    assert isinstance(returned, Returned)
    (result,) = returned.results
    assert json.loads(result.text) == {
        "status": "ok",
        "arguments": {"amount": 5},
        "output": "paid",
    }
    assert not result.failed


def test_calls_without_results_are_answered_all_the_same() -> None:
    """A decision-level fault runs nothing and has no results; providers want one for each call."""
    twice = committed(
        ToolCalls((call("c1"), call("c1"))), fault=Fault("decision", "the id c1 is used twice")
    )
    entries = told(twice)
    returned = entries[1]
    assert isinstance(returned, Returned)
    assert len({result.id for result in returned.results}) == 2
    assert all("used twice" in result.text for result in returned.results)
    assert len(entries) == 2


def test_a_broken_call_is_sent_back_with_no_arguments_and_its_problem() -> None:
    problem = ToolError(ErrorCategory.INVALID_INPUT, "InvalidArguments", "not JSON")
    result = ToolResult(CallId("c1"), "look", ResultStatus.INVALID_ARGUMENTS, None, problem)
    (reply, returned) = told(committed(ToolCalls((broken("c1"),)), result))
    assert isinstance(reply, Replied)
    assert isinstance(returned, Returned)
    assert reply.calls[0].arguments == {}
    assert returned.results[0].failed


# ---------------------------------------------------------------- faults and people
@pytest.mark.parametrize("raw", ["", "  ", "half a repl"])
def test_a_reply_that_was_none_is_shown_with_what_was_wrong_with_it(raw: str) -> None:
    turn = committed(Malformed("it was cut off", raw), fault=Fault("decision", "it was cut off"))
    reply, said = told(turn)
    assert reply == Replied(raw.strip() or "(no text)")
    assert isinstance(said, Said)
    assert "it was cut off" in said.text


def test_a_rejected_answer_is_followed_by_the_reason() -> None:
    turn = committed(Final("42"), fault=Fault("answer", "sources: no source is named"))
    assert told(turn)[0] == Replied("42")
    said = told(turn)[1]
    assert isinstance(said, Said)
    assert "no source is named" in said.text


def test_an_answer_of_a_person_is_the_result_of_the_question() -> None:
    reply, returned = told(committed(Clarification("Which?"), answer="the blue one"))
    assert isinstance(reply, Replied)
    assert isinstance(returned, Returned)
    assert reply.calls[0].name == "ask_user"
    assert returned.results[0].text == "the blue one"
    assert not returned.results[0].failed


def test_goal_summary_and_notice_are_said_around_the_turns() -> None:
    request = request_of([committed(ToolCalls((call(),)), ok("x"))], summary="s", notice="hurry")
    entries = conversation(request)
    assert entries[0] == Said("the goal")
    assert entries[1] == Said("What happened before, in short:\ns")
    assert entries[-1] == Said("hurry")


# ---------------------------------------------------------------- replies
def parsed(
    *calls: RawCall, text: str = "", cut_off: str = "", output: bool = False
) -> Decision | Malformed:
    return decision_of(RawReply(text, calls, cut_off), request_of([], output=output))


@pytest.mark.parametrize("missing", ["", "  ", None, 7, "look"])
def test_b03_b06_ids_a_server_does_not_have_are_minted(missing: object) -> None:
    decision = parsed(*[RawCall(missing, "look", f'{{"x":{n}}}') for n in (1, 2, 3)])
    assert isinstance(decision, ToolCalls)
    assert [c.call_id for c in decision.calls] == ["call_1_0", "call_1_1", "call_1_2"]


def test_b01_an_id_that_is_used_twice_is_left_for_the_runtime_to_refuse() -> None:
    decision = parsed(RawCall("c1", "look", "{}"), RawCall("c1", "look", "{}"))
    assert isinstance(decision, ToolCalls)
    assert [c.call_id for c in decision.calls] == ["c1", "c1"]


def test_b24_no_call_of_a_reply_that_was_cut_off_is_sound() -> None:
    decision = parsed(
        RawCall("a", "look", '{"p":1}'), RawCall("b", "look", '{"p'), cut_off="length"
    )
    assert isinstance(decision, ToolCalls)
    assert all(isinstance(c, BrokenCall) for c in decision.calls)
    assert "cut off (length)" in str(decision.calls[0])


def test_b41_a_text_that_was_cut_off_is_no_answer() -> None:
    decision = parsed(text="The ans", cut_off="max_output_tokens")
    assert isinstance(decision, Malformed)
    assert decision.raw == "The ans"


@pytest.mark.parametrize(
    ("name", "given", "decision"),
    [
        ("ask_user", {"question": "Which?"}, Clarification("Which?")),
        ("cannot_continue", {"code": "c", "reason": "r"}, CannotContinue("c", "r")),
        (
            "hand_over",
            {"target": "billing", "reason": "r", "done": ["d"], "open": [], "evidence": ["c1"]},
            Handoff("billing", "r", ProgressNote(("d",), (), (CallId("c1"),))),
        ),
        ("final_answer", {"answer": "a"}, Final("a")),
    ],
)
def test_a_reserved_call_is_the_decision_it_stands_for(
    name: str, given: dict[str, object], decision: Decision
) -> None:
    assert parsed(RawCall("r", name, json.dumps(given)), text="thinking aloud") == decision


def test_a_request_for_approval_is_about_the_other_calls_of_its_reply() -> None:
    asked = RawCall("r", "request_approval", '{"reason": "it is a lot"}')
    decision = parsed(asked, RawCall("c1", "look", "{}"))
    assert decision == RequestApproval((call("c1"),), "it is a lot")


@pytest.mark.parametrize(
    ("calls", "problem"),
    [
        ([("ask_user", '{"question": "?"}'), ("look", "{}")], "together with other calls"),
        ([("ask_user", '{"question": "?"}'), ("cannot_continue", "{}")], "at once"),
        ([("hand_over", "{}"), ("hand_over", "{}")], "at once"),
        ([("request_approval", '{"reason": "?"}')], "without the calls"),
        ([("ask_user", '{"question": 7}')], "ask_user.question"),
        ([("ask_user", '{"question": "?", "colour": 1}')], "ask_user.colour"),
        ([("ask_user", '{"question": ')], "ask_user"),
        ([("cannot_continue", "{}")], "cannot_continue.code"),
    ],
)
def test_a_reserved_call_that_makes_no_sense_runs_nothing_and_says_why(
    calls: list[tuple[str, str]], problem: str
) -> None:
    decision = parsed(*[RawCall(f"c{n}", *given) for n, given in enumerate(calls)])
    assert isinstance(decision, Malformed)
    assert problem in decision.problem


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ('{"answer": "a", "output": {"n": 1}}', Final("a", {"n": 1})),
        (" \n", Final(" \n")),
    ],
)
def test_a_typed_final_is_read_from_the_text(text: str, decision: Final) -> None:
    assert parsed(text=text, output=True) == decision


@pytest.mark.parametrize("text", ["plain", '{"answer": 1}', "[]", '{"n": 1}', '{"answer": "a"'])
def test_a_text_that_is_no_typed_final_is_malformed(text: str) -> None:
    decision = parsed(text=text, output=True)
    assert isinstance(decision, Malformed)
    assert "final answer" in decision.problem


def test_only_what_makes_sense_is_offered() -> None:
    request = request_of([])
    names = {spec.name for spec in reserved_tools(request)}
    assert names == {"ask_user", "cannot_continue", "request_approval", "hand_over"}
    bare = request_of([], tools=(), handoffs=())
    assert {spec.name for spec in reserved_tools(bare)} == {"ask_user", "cannot_continue"}
