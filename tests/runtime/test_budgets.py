"""Coming to an end in time, through a whole runtime: nudge, restrict, finalise, or a condition."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest
from casebook.desk import batch, call

from loopwright import (
    Agent,
    Budget,
    Final,
    ModelReply,
    Outcome,
    Policy,
    Reason,
    Runtime,
    Usage,
    tool,
)
from loopwright.policy import Condition, Cost, MaxSteps, ToolSeen, When
from loopwright.protocol import Price
from loopwright.testing import ScriptedModel, Step, VirtualClock

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def look(n: int) -> int:
    """Fail for odd numbers."""
    if n % 2:
        raise LookupError(n)
    return n


@tool(effect="idempotent", finishing=True)
async def submit(n: int) -> int:
    return n


def looks(*numbers: int) -> list[Step]:
    return [batch(call("c", "look", {"n": n})) for n in numbers]


def submits(n: int) -> Step:
    return batch(call("s", "submit", {"n": n}))


async def play(
    steps: Sequence[Step],
    *,
    budget: Budget | None = None,
    stop: Condition | None = None,
    restrict: bool = False,
    prices: Sequence[Price] = (),
) -> tuple[Outcome, ScriptedModel]:
    model = ScriptedModel(steps)
    policy = Policy(stop=stop, soft_stop="restrict" if restrict else "notice")
    desk = Agent(
        "desk", model=model, tools=[look, submit], policy=policy, budget=budget, prices=prices
    )
    async with Runtime([desk], clock=VirtualClock()) as runtime:
        return await runtime.run("desk", "the goal"), model


async def test_nudge_then_restrict_then_finalise() -> None:
    """Of five steps with one kept aside: all tools; the finishing one; none, to sum up."""
    budget = Budget(max_steps=5, reserve_steps=1)
    steps = [*looks(0, 2, 4), submits(1), Final("all in all")]
    outcome, model = await play(steps, budget=budget, restrict=True)

    assert (outcome.reason, outcome.answer) == (Reason.COMPLETED, "all in all")
    offered = [[spec.name for spec in request.tools] for request in model.requests]
    assert offered == [["look", "submit"]] * 3 + [["submit"], []]
    assert [request.notice is not None for request in model.requests] == [False] * 3 + [True, False]


async def test_what_is_not_offered_does_not_run() -> None:
    """A model that goes on all the same gets refusals, and the last step is still the last."""
    budget = Budget(max_steps=5, reserve_steps=1)
    outcome, _ = await play(looks(0, 2, 4, 6, 8), budget=budget, restrict=True)
    statuses = [[r.status.value for r in turn.results] for turn in outcome.history]
    assert statuses[:3] == [["ok"]] * 3
    assert all(status != "ok" for turn in statuses[3:] for status in turn)
    assert outcome.tool_calls == 3
    assert not outcome.completed


@pytest.mark.parametrize("limit", [0, 1, 2])
async def test_the_failure_that_reaches_the_limit_is_the_last(limit: int) -> None:
    """0 and 1 both end with the first one; what succeeds costs nothing of it."""
    outcome, model = await play(looks(0, 1, 2, 3, 4), budget=Budget(max_tool_failures=limit))
    assert outcome.reason is Reason.TOOL_FAILURES_EXHAUSTED
    assert model.calls == (4 if limit == 2 else 2)


async def test_no_tool_calls_and_no_failures_are_no_reason_not_to_answer() -> None:
    """0 is a real limit of what a model may do, not of what it may say."""
    budget = Budget(max_tool_calls=0, max_tool_failures=0, max_handoffs=0)
    outcome, _ = await play([Final("known")], budget=budget)
    assert outcome.completed


async def test_a_condition_ends_what_is_done() -> None:
    """Once the tool has returned nobody is asked any more, and the outcome says why."""
    stop = ToolSeen("submit")
    outcome, model = await play([*looks(0), submits(1), Final("never said")], stop=stop)
    assert outcome.reason is Reason.TERMINATED
    assert model.calls == 2
    assert outcome.cause is not None
    assert "ToolSeen('submit')" in outcome.cause


async def test_a_condition_about_a_budget_ends_like_one() -> None:
    """Money is counted, a tool that has not been called is not seen."""
    reply = ModelReply(batch(call("c", "look", {"n": 0})), Usage(1_000_000))
    outcome, _ = await play(
        [reply, reply, reply],
        stop=MaxSteps(8) | Cost(2) & ~ToolSeen("submit"),
        prices=[Price("ScriptedModel", Decimal(1), Decimal(1))],
    )
    assert (outcome.reason, outcome.cost) == (Reason.COST_BUDGET_EXHAUSTED, Decimal(2))


async def test_a_condition_that_fails_ends_it_and_names_itself() -> None:
    """No model call is made on the word of a broken function."""
    stop = ~When("stuck", lambda seen: bool(1 / len(seen.history)))
    outcome, model = await play(looks(0), stop=stop)
    assert (outcome.reason, model.calls) == (Reason.TERMINATED, 0)
    assert outcome.cause == "the stop condition stuck failed with ZeroDivisionError"
