"""Scripts against the whole runtime are strict both ways, and say what differs first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from loopwright import Agent, Budget, Policy, ToolContext, tool
from loopwright.policy import tool_named
from loopwright.protocol import ConfigurationError, JsonValue, Reason
from loopwright.testing import ScriptedModel, ScriptMismatchError, parse_script, play

pytestmark = pytest.mark.anyio


def two_reads(*steps: Mapping[str, Any], **more: object) -> dict[str, Any]:
    """Let the model ask for the reads `a` and `b`, then go on with these steps."""
    calls = [{"call_id": c, "tool_name": "read", "arguments": {"key": c}} for c in ("a", "b")]
    return {
        "agent": "desk",
        "goal": "read",
        "tools": {"read": {"effect": "read", "parameters": {"key": "string"}}},
        "script": [{"decide": {"tool_calls": calls}}, *steps],
        **more,
    }


def ok(call_id: str, value: JsonValue = None) -> dict[str, Any]:
    return {"execute": call_id, "reply": {"ok": value}}


FINAL = {"decide": {"final": "done"}}


async def mismatch(script: Mapping[str, Any]) -> str:
    with pytest.raises(ScriptMismatchError) as failed:
        await play(script)
    return str(failed.value)


async def test_a_started_call_that_no_step_mentions_is_a_mismatch() -> None:
    assert await mismatch(two_reads(ok("a"))) == (
        "script: end\n  expected: nothing more\n  got:      call 'b' (read) is started"
    )


async def test_a_decision_beyond_the_script_is_a_mismatch() -> None:
    assert await mismatch(two_reads(ok("a"), ok("b"))) == (
        "script: end\n  expected: nothing more\n  got:      the model is asked for decision 2"
    )


async def test_an_expected_call_has_to_be_started() -> None:
    """The first difference is named, with what happened instead."""
    assert await mismatch(two_reads(ok("a"), ok("c"))) == (
        "script: step 3 (execute)\n"
        "  expected: call 'c' to be started\n"
        "  got:      call 'b' (read) is started"
    )


async def test_the_model_has_to_be_asked() -> None:
    said = await mismatch(two_reads(ok("a"), FINAL))
    assert "expected: the model to be asked for a decision" in said
    assert "got:      call 'b' (read) is started" in said


async def test_an_invocation_at_rest_is_what_was_got_instead() -> None:
    said = await mismatch(two_reads(ok("a"), ok("b"), FINAL, FINAL))
    assert said.endswith("got:      the invocation rests: completed")


async def test_arguments_are_compared_exactly() -> None:
    step = {**ok("a"), "arguments": {"key": "x", "more": 1}}
    assert await mismatch(two_reads(step)) == (
        "script: step 2 (execute)\n  expected: arguments['key']: 'x'\n  got:      'a'"
    )


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"notice": True}, "notice: one\n  got:      None"),
        ({"fault": True}, "fault: one\n  got:      None"),
        ({"answer": "x"}, "answer: 'x'\n  got:      None"),
        ({"results": {"a": "ok"}}, "results['b']: nothing\n  got:      'error'"),
        ({"results": {"a": {"ok": 2}, "b": "error"}}, "results['a']['ok']: 2\n  got:      1"),
        ({"results": {"a": "ok", "b": {"ok": 1}}}, "results['b']: {'ok': 1}\n  got:      'error'"),
    ],
)
async def test_what_the_model_is_shown_is_compared(request_: dict[str, Any], said: str) -> None:
    failed = {"execute": "b", "reply": {"error": {"category": "permanent", "message": "no"}}}
    script = two_reads(ok("a", 1), failed, {**FINAL, "request": request_})
    assert f"step 4 (decide)\n  expected: {said}" in await mismatch(script)


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"reason": "max_steps"}, "expected: reason: 'max_steps'\n  got:      'completed'"),
        ({"answer": "do"}, "expected: answer: 'do'\n  got:      'done'"),
        ({"steps": 3}, "expected: steps: 3\n  got:      2"),
        ({"tool_calls": 1}, "expected: tool_calls: 1\n  got:      2"),
        ({"results": {"a": "ok"}}, "expected: results['b']: nothing\n  got:      'ok'"),
        (
            {"effects": {"k": "committed"}},
            "expected: effects['k']: 'committed'\n  got:      nothing",
        ),
        ({"asks": ["a"]}, "expected: asks[0]: 'a'\n  got:      nothing"),
        ({"question": "?"}, "expected: question: '?'\n  got:      ''"),
    ],
)
async def test_the_end_is_compared(expected: dict[str, Any], said: str) -> None:
    assert said in await mismatch(two_reads(ok("a"), ok("b"), FINAL, expect=expected))


async def test_a_running_invocation_has_no_reason() -> None:
    said = await mismatch(two_reads({"expect": {"reason": "completed"}}))
    assert "step 2 (expect)\n  expected: to rest with completed" in said


async def test_a_reply_to_an_interrupted_call_is_a_mismatch() -> None:
    said = await mismatch(two_reads({"cancel": {}}, ok("a")))
    assert "expected: call 'a' to run\n  got:      it was interrupted" in said


async def test_a_reply_to_a_model_call_that_was_given_up_is_a_mismatch() -> None:
    script: dict[str, Any] = {
        "agent": "desk",
        "goal": "g",
        "script": [{"cancel": {}}, FINAL],
    }
    assert "the model call was given up" in await mismatch(script)


async def test_a_failure_of_the_store_that_never_happens_is_a_mismatch() -> None:
    said = await mismatch(two_reads(ok("a"), ok("b"), FINAL, {"fail_commit": "transient"}))
    assert "expected: an append that fails\n  got:      no append after fail_commit" in said


async def test_what_a_person_may_not_say_is_a_mismatch() -> None:
    said = await mismatch(two_reads({"answer": "blue"}))
    assert "expected: what was said to be accepted" in said
    assert "got:      refused: InvocationStateError: " in said


async def test_an_approval_needs_a_proposal() -> None:
    said = await mismatch(two_reads({"approve": True}))
    assert "expected: calls that wait for an approval" in said


async def test_the_outcome_is_returned_and_none_while_it_runs() -> None:
    outcome = await play(two_reads(ok("a"), ok("b"), FINAL))
    assert outcome is not None
    assert outcome.reason is Reason.COMPLETED
    hanging = {"agent": "desk", "goal": "g", "script": [{"decide": "hang"}]}
    assert await play(parse_script(hanging)) is None


# ---------------------------------------------------------------- agents from Python
@tool(effect="idempotent", effect_key=lambda arguments: f"refund:{arguments.order}")
async def refund(order: int, ctx: ToolContext) -> str:
    """Pay the money back."""
    raise AssertionError("a script never runs the body of a tool")


DESK = Agent(
    "refund-desk",
    model=ScriptedModel([]),
    tools=[refund],
    policy=Policy(ask=[tool_named("refund")]),
    budget=Budget(max_steps=1),
)
CALL = {
    "decide": {"tool_calls": [{"call_id": "a", "tool_name": "refund", "arguments": {"order": 7}}]}
}


async def test_an_agent_from_python_keeps_all_but_its_model_and_bodies() -> None:
    """Schemas, policy, budget and effect keys are its own; bodies and model are the script's."""
    script = {
        "agent": "refund-desk",
        "goal": "refund",
        "script": [CALL, {"approve": True}, ok("a", "r-1")],
        "expect": {"reason": "max_steps", "effects": {"refund:7": "committed"}},
    }
    await play(script, [DESK])
    assert DESK.tools["refund"] is refund


async def test_a_script_may_change_policy_and_budget_of_an_agent() -> None:
    script = {
        "agent": "refund-desk",
        "goal": "refund",
        "policy": {"ask": [], "deny": ["refund"]},
        "budget": {"max_steps": 2},
        "script": [CALL, FINAL],
        "expect": {"reason": "completed", "results": {"a": "denied"}},
    }
    await play(script, [DESK])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"agent": "billing"}, "there is no agent 'billing'; declare `tools`, or use: refund-desk"),
        ({"agent": "a b", "tools": {}}, "agent name 'a b' is not usable"),
        ({"budget": {"max_steps": -1}}, "Budget.max_steps is -1"),
        ({"policy": {"cancel_grace": -1}}, "Policy.cancel_grace is -1"),
        ({"tools": {"t": {"effect": "read", "parameters": {"from": "any"}}}}, "'from' cannot name"),
        ({"tools": {"t": {"effect": "manual", "effect_key": "k:{x}"}}}, "its effect_key has {x}"),
        ({"tools": {"t": {"effect": "read", "effect_key": "k"}}}, "a read with an effect key"),
    ],
)
async def test_an_agent_that_cannot_be_made_is_one_sentence(
    change: dict[str, Any], said: str
) -> None:
    script: dict[str, Any] = {"agent": "refund-desk", "goal": "g", "script": [], **change}
    with pytest.raises(ConfigurationError, match=r"^case: ") as refused:
        await play(parse_script(script, name="case"), [DESK])
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
