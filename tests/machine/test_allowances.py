"""What one decision may use near the end of a budget, and when there is no further one."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from loopwright.policy import Cost, MaxSteps, Policy, ToolSeen, When
from loopwright.protocol import (
    Budget,
    CallId,
    Decide,
    Execute,
    Price,
    Reason,
    RunState,
    Usage,
    Validate,
)
from machine.driver import Driver
from machine.samples import calls, failed

PRICES = (Price("m1", Decimal(1_000), Decimal(1_000)),)
RESTRICT = Policy(soft_stop="restrict")


def spending(budget: Budget, *turns: int) -> Driver:
    """Take turns of this many input tokens each, at a thousandth of a dollar each."""
    run = Driver(budget, prices=PRICES).start()
    for tokens in turns:
        run.decide(calls("read"), Usage(tokens)).judged().assessed().done("read").observed()
    return run


# ---------------------------------------------------------------- money and failures
def test_cost_stops_the_next_model_call() -> None:
    """What was asked for still runs; the cost is that of the prices in the journal, exactly."""
    run = spending(Budget(max_cost=Decimal("0.3")), 100, 200)
    assert run.reason is Reason.COST_BUDGET_EXHAUSTED
    assert run.outcome.cost == Decimal("0.3")
    assert run.statuses() == ["ok"]
    run = run.reload().grant(Budget(max_cost=Decimal("0.1")))
    assert run.last(Decide).allowance.cost == Decimal("0.1")


def test_a_free_model_goes_on_when_the_money_is_used_up() -> None:
    """A limit of cost says nothing of what costs nothing."""
    free = (Price("m1", Decimal(0), Decimal(0)),)
    run = Driver(Budget(max_cost=Decimal(0)), prices=free).start()
    assert run.state is RunState.MODEL_THINKING
    assert run.finish().reason is Reason.COMPLETED


@pytest.mark.parametrize(("limit", "turns"), [(0, 1), (1, 1), (2, 2)])
def test_failed_calls_are_counted_over_all_turns(limit: int, turns: int) -> None:
    """The one that reaches the limit ends it, at the next model call: its turn is committed."""
    run = Driver(Budget(max_tool_failures=limit)).start()
    for turn in range(turns):
        run.propose("read", "read_b").done("read_b")
        run.done("read", failed(run.running["read"])).observed()
        assert run.state.at_rest == (turn == turns - 1)
    assert run.reason is Reason.TOOL_FAILURES_EXHAUSTED
    assert run.statuses() == ["error", "ok"]
    assert run.outcome.spent.tool_failures == turns
    run.grant(Budget(max_tool_failures=1))
    assert run.state is (RunState.FAILED if limit == 0 else RunState.MODEL_THINKING)


def test_a_call_that_was_refused_has_not_failed() -> None:
    """Denied, unknown or never started: it did not run."""
    run = Driver(Budget(max_tool_failures=1)).start().propose("ban").observed()
    run.propose("nonsense", "pay").observed()
    assert run.machine.folded.spent.tool_failures == 0
    assert run.state is RunState.MODEL_THINKING


# ---------------------------------------------------------------- towards the end
def test_a_decision_is_told_what_is_left_for_it() -> None:
    """Tokens, cost and time; no limit means none."""
    at = datetime.fromtimestamp(1_000 + 90, UTC)
    budget = Budget(max_tokens=1_000, max_cost=Decimal(1), deadline=at, max_active_seconds=50)
    run = spending(budget, 100)
    allowed = run.last(Decide).allowance
    assert (allowed.tokens, allowed.cost, allowed.until) == (900, Decimal("0.9"), 50)
    assert (allowed.tools, allowed.finish) == ("all", False)
    allowed = Driver().start().last(Decide).allowance
    assert (allowed.tokens, allowed.cost, allowed.until) == (None, None, None)


@pytest.mark.parametrize("policy", [None, RESTRICT], ids=["notice", "restrict"])
def test_after_the_soft_stop_the_finishing_model_and_tools_do_the_rest(
    policy: Policy | None,
) -> None:
    """From the decision it is told with, and for all that follow, over a crash as well."""
    tools = "all" if policy is None else "finishing"
    run = Driver(Budget(max_steps=10), policy).start()
    for _ in range(7):
        run.turn("read")
    assert not run.last(Decide).allowance.finish
    run.turn("read")
    assert run.last(Decide).notice is not None
    for _ in range(2):
        assert run.last(Decide).allowance.finish
        assert run.last(Decide).allowance.tools == tools
        run.decide(calls("read"))
        assert run.last(Validate).tools == tools
        run.judged().assessed().done("read").observed()
        if not run.state.at_rest:
            run = run.reload().recover()
    assert run.reason is Reason.MAX_STEPS


def test_the_last_steps_are_kept_for_summing_up() -> None:
    """Nudge, then no tools at all: the Validator is told so, and the model may still answer."""
    run = Driver(Budget(max_steps=4, reserve_steps=1)).start().turn("read").turn("read")
    assert run.last(Decide).notice is not None
    assert run.last(Decide).allowance.tools == "all"
    run.turn("read")
    assert run.last(Decide).allowance.tools == "none"
    run.decide(calls("read"))
    assert run.last(Validate).tools == "none"

    run = Driver(Budget(max_steps=1, reserve_steps=1)).start()
    assert run.last(Decide).allowance.tools == "none"
    assert run.finish().reason is Reason.COMPLETED


def test_the_soft_stop_counts_children_and_names_what_is_done() -> None:
    """What a child has used is not left; a write that took effect need not be made again."""
    run = Driver(Budget(max_tool_calls=10)).start().turn("pay").propose("hire")
    run.child_rested("hire", tool_calls=6).observed()
    told = run.last(Decide).notice
    assert told is not None
    assert "2 tool calls" in told
    assert run.turns[0].results[0].effect_key is not None
    assert run.turns[0].results[0].effect_key in told


# ---------------------------------------------------------------- stop conditions
def test_a_stop_condition_ends_it_before_the_next_model_call() -> None:
    """What it names as reached is the cause, and the reason where it is about a budget."""
    run = Driver(policy=Policy(stop=ToolSeen("pay"))).start().turn("read").turn("pay")
    assert (run.reason, run.outcome.cause) == (Reason.TERMINATED, "ToolSeen('pay')")
    assert run.outcome.partial is not None

    run = Driver(policy=Policy(stop=MaxSteps(2) | Cost(9))).start().turn("read").turn("read")
    assert run.reason is Reason.MAX_STEPS
    assert len(run.all(Decide)) == 2


def test_a_stop_condition_cannot_be_granted_away() -> None:
    """It is policy: a grant of steps ends in the same place, without a model call."""
    run = Driver(policy=Policy(stop=MaxSteps(1))).start().turn("read")
    run = run.reload().grant(Budget(max_steps=9))
    assert run.reason is Reason.MAX_STEPS
    assert run.all(Decide) == []


def test_a_stop_condition_sees_what_another_process_has_done() -> None:
    """It reads the journal's turns, and nothing it was told on the way."""
    run = Driver(policy=Policy(stop=ToolSeen("pay") & MaxSteps(3))).start().turn("pay").turn("read")
    run = run.reload().recover().turn("read")
    assert run.reason is Reason.MAX_STEPS


def test_a_stop_condition_that_is_broken_stops_it_and_says_so() -> None:
    """Foreign code may raise: no model call is made on the strength of that."""

    def broken(_: object) -> bool:
        raise KeyError("x")

    run = Driver(policy=Policy(stop=~When("mine", broken))).start()
    assert run.reason is Reason.TERMINATED
    assert run.outcome.cause == "the stop condition mine failed with KeyError"


def test_a_batch_of_a_person_is_not_restricted() -> None:
    """Near the end of the budget as well: who decides instead knows why."""
    run = Driver(Budget(max_steps=2, reserve_steps=1), RESTRICT).start().turn("read").fail_model()
    run.decide_instead(calls("read"))
    assert run.last(Validate).tools == "all"
    run.judged().done("read")
    assert [execute.call_id for execute in run.all(Execute)] == [CallId("read")] * 2
