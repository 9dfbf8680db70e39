"""Scripts in which processes die, and in which somebody says what became of a write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from loopwright import Agent, Reconciled, tool
from loopwright.testing import ScriptedModel, ScriptMismatchError, play

pytestmark = pytest.mark.anyio

PAY = {"decide": {"tool_calls": [{"call_id": "a", "tool_name": "pay", "arguments": {"order": 7}}]}}
CRASH = {"execute": "a", "crash": "after_effect"}
RECOVER = {"recover": None}
PAID = {"execute": "a", "reply": {"ok": "r-1"}}
FINAL = {"decide": {"final": "done"}}
APPLIED = {"reconcile": "a", "reply": {"applied": "r-1"}}


def script(
    *steps: Mapping[str, Any], effect: str = "reconcilable", **more: object
) -> dict[str, Any]:
    """Let the model ask for one payment, then go on with these steps."""
    pay = {
        "effect": effect,
        "parameters": {"order": "integer"},
        "timeout": 10.0,
        "effect_key": "pay:{order}",
    }
    return {
        "agent": "desk",
        "goal": "pay",
        "tools": {"pay": pay},
        "script": [PAY, *steps],
        **more,
    }


async def mismatch(document: Mapping[str, Any]) -> str:
    with pytest.raises(ScriptMismatchError) as failed:
        await play(document)
    return str(failed.value)


# ---------------------------------------------------------------- strict both ways
async def test_a_question_that_no_step_mentions_is_a_mismatch() -> None:
    assert await mismatch(script(CRASH, RECOVER)) == (
        "script: end\n  expected: nothing more\n  got:      what became of call 'a' (pay) is asked"
    )


async def test_an_expected_question_has_to_be_asked() -> None:
    assert await mismatch(script(APPLIED)) == (
        "script: step 2 (reconcile)\n"
        "  expected: what became of call 'a' to be asked\n"
        "  got:      call 'a' (pay) is started"
    )


async def test_a_write_is_not_started_again_before_the_question() -> None:
    said = await mismatch(script(CRASH, RECOVER, PAID))
    assert "got:      what became of call 'a' (pay) is asked" in said


async def test_an_answer_nobody_waits_for_any_more_is_a_mismatch() -> None:
    steps = (CRASH, RECOVER, {"advance": 10}, APPLIED)
    assert "got:      the question was given up" in await mismatch(script(*steps))


async def test_whatever_the_dying_process_had_started_has_to_be_mentioned() -> None:
    calls = [
        {"call_id": c, "tool_name": "look", "arguments": {"order": n}} for n, c in enumerate("ab")
    ]
    document = script(CRASH)
    document["tools"]["look"] = {"effect": "read", "parameters": {"order": "integer"}}
    document["script"][0] = {"decide": {"tool_calls": calls}}
    assert await mismatch(document) == (
        "script: step 2 (execute)\n  expected: nothing more\n  got:      call 'b' (look) is started"
    )


# ---------------------------------------------------------------- dying
@pytest.mark.parametrize("step", [FINAL, PAID, APPLIED, {"cancel": {}}, CRASH, {"approve": True}])
async def test_a_dead_process_does_nothing(step: Mapping[str, Any]) -> None:
    said = await mismatch(script(CRASH, step))
    assert "expected: a process that is alive\n  got:      it has crashed; write `recover:`" in said


async def test_it_dies_in_a_body_that_runs() -> None:
    said = await mismatch(script({"advance": 10}, CRASH, effect="manual"))
    assert "expected: call 'a' to run\n  got:      it was interrupted" in said


async def test_a_process_that_is_alive_is_not_replaced() -> None:
    said = await mismatch(script(RECOVER))
    assert "expected: a crash before it\n  got:      call 'a' (pay) is started" in said


async def test_time_may_pass_and_what_is_durable_be_looked_at_while_nobody_is_alive() -> None:
    expected = {"effects": {"pay:7": "dispatched"}, "steps": 0}
    assert await play(script(CRASH, {"advance": 3600}, {"expect": expected})) is None
    said = await mismatch(script(CRASH, {"expect": {"reason": "completed"}}))
    assert "expected: to rest with completed\n  got:      the process has crashed" in said


async def test_deadlines_go_on_while_nobody_is_alive() -> None:
    end = {"reason": "deadline_exceeded", "effects": {"pay:7": "committed"}}
    steps = (CRASH, {"advance": 100}, RECOVER, APPLIED)
    await play(script(*steps, budget={"deadline": 100.0}, expect=end))


async def test_the_store_that_fails_may_fail_the_next_process_too() -> None:
    fails = {"fail_commit": "transient"}
    end = {"reason": "completed", "effects": {"pay:7": "committed"}}
    steps = (CRASH, fails, RECOVER, APPLIED, {"advance": 1}, FINAL)
    await play(script(*steps, expect=end))


# ---------------------------------------------------------------- a person's word
async def test_a_settlement_of_what_is_known_is_a_mismatch() -> None:
    steps = (PAID, FINAL, {"settle": "a", "found": "not_applied"})
    said = await mismatch(script(*steps))
    assert "got:      refused: AlreadyDecidedError: " in said


async def test_a_person_may_know_sooner_than_the_one_who_is_asked() -> None:
    asked = {"reconcile": "a", "reply": "hang"}
    settled = {"settle": "a", "found": {"applied": "r-2"}, "by": "bo"}
    shown = {**FINAL, "request": {"results": {"a": {"ok": "r-2"}}}}
    await play(script(CRASH, RECOVER, asked, settled, shown, expect={"reason": "completed"}))


# ---------------------------------------------------------------- agents from Python
@tool(effect="reconcilable", effect_key=lambda a: f"pay:{a.order}")
async def pay(order: int) -> str:
    """Pay."""
    raise AssertionError("a script never runs the body of a tool")


@pay.reconcile
async def never(effect_key: str) -> Reconciled:
    """Say what became of it."""
    raise AssertionError("a script never asks the reconciler of a tool")


async def test_the_reconciler_of_an_agent_from_python_is_the_scripts_too() -> None:
    desk = Agent("desk", model=ScriptedModel([]), tools=[pay])
    steps = [PAY, CRASH, RECOVER, APPLIED, FINAL]
    outcome = await play({"agent": "desk", "goal": "pay", "script": steps}, [desk])
    assert outcome is not None
    assert (outcome.answer, outcome.unresolved_effects) == ("done", ())
    assert desk.tools["pay"] is pay
    assert pay.reconciler is never
