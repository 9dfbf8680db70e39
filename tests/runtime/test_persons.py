"""People who step in: a decision in the model's place, and answers that come too late."""

from __future__ import annotations

import pytest
from casebook.desk import agent, batch, call, journal

from loopwright import Budget, Final, Policy, Progress, Reason, Runtime, tool
from loopwright.policy import writes
from loopwright.protocol import (
    ApprovalDecided,
    ApprovalExpiredError,
    InvocationStateError,
    RemoteProtocolError,
    ResultStatus,
    TurnCommitted,
)
from loopwright.testing import ScriptedModel, Step, VirtualClock, settle

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def look(of: int = 0) -> str:
    return f"looked at {of}"


@tool(effect="manual")
async def pay(amount: int) -> str:
    return f"paid {amount}"


async def test_a_person_decides_where_the_model_is_out_of_steps() -> None:
    """The decision counts as a step, is journaled with a name, and may end it."""
    model = ScriptedModel([batch(call("l", "look"))])
    desk = agent(model, look, budget=Budget(max_steps=1))
    async with Runtime([desk]) as runtime:
        outcome = await runtime.run("desk", "the goal")
        assert outcome.reason is Reason.MAX_STEPS
        run = await runtime.decide(outcome.invocation_id, Final("I know"), by="bo")
        after = await run.outcome()
        turns = [r for r in await journal(runtime, run.id) if isinstance(r, TurnCommitted)]
    assert after.completed
    assert (after.answer, after.steps, model.calls) == ("I know", 2, 1)
    assert [turn.proposal.by for turn in turns] == ["", "bo"]
    assert after.usage.total == 15, "a person's step costs no tokens"


async def test_a_persons_calls_are_judged_like_a_models() -> None:
    """Policy asks about them, and denies them; after its step the model goes on."""
    model = ScriptedModel([{"kind": "clarification", "question": "what now?"}, Final("done")])
    desk = agent(model, look, pay, policy=Policy(ask=[writes()]))
    async with Runtime([desk]) as runtime:
        outcome = await runtime.run("desk", "the goal")
        run = await runtime.decide(
            outcome.invocation_id, batch(call("p", "pay", {"amount": 1})), by="bo"
        )
        waiting = await run.outcome()
        assert waiting.reason is Reason.APPROVAL_REQUIRED
        assert waiting.proposal is not None
        run = await runtime.approve(run.id, waiting.proposal.digest, by="ann")
        after = await run.outcome()
    assert after.completed
    assert after.history[1].results[0].output == "paid 1"


@pytest.mark.parametrize(
    "decision",
    [
        {"kind": "nonsense"},
        "not json",
        Final("  "),
        {"kind": "tool_calls", "calls": []},
        {"kind": "handoff", "target": "x", "reason": "y", "progress": {"done": ["z"]}},
        None,
    ],
)
async def test_what_is_no_decision_changes_nothing(decision: object) -> None:
    """It is refused to the person, not committed as a fault of the model."""
    model = ScriptedModel([{"kind": "clarification", "question": "what now?"}])
    async with Runtime([agent(model)]) as runtime:
        outcome = await runtime.run("desk", "the goal")
        with pytest.raises(RemoteProtocolError):
            await runtime.decide(outcome.invocation_id, decision, by="bo")
        after = await runtime.outcome(outcome.invocation_id)
    assert after.state_version == outcome.state_version


async def test_nobody_decides_over_a_proposal_that_waits_or_after_the_end() -> None:
    """An open turn has to be finished first; what is completed is over."""
    model = ScriptedModel([batch(call("p", "pay", {"amount": 1}))])
    async with Runtime([agent(model, pay, policy=Policy(ask=[writes()]))]) as runtime:
        outcome = await runtime.run("desk", "the goal")
        with pytest.raises(InvocationStateError, match="in the middle of turn 1"):
            await runtime.decide(outcome.invocation_id, Final("x"), by="bo")
    async with Runtime([agent(ScriptedModel([Final("done")]))]) as runtime:
        outcome = await runtime.run("desk", "the goal")
        with pytest.raises(InvocationStateError):
            await runtime.decide(outcome.invocation_id, Final("x"), by="bo")


async def test_a_stalled_invocation_asks_a_person_who_may_decide() -> None:
    """`on_stall="ask"` puts the evidence to a human as the question."""
    same = [batch(call("l", "look"))] * 4
    policy = Policy(progress=Progress(on_stall="ask"))
    async with Runtime([agent(ScriptedModel(same), look, policy=policy)]) as runtime:
        outcome = await runtime.run("desk", "the goal")
        assert outcome.reason is Reason.CLARIFICATION_REQUIRED
        assert "repeated_plan" in outcome.question
        assert "look" in outcome.question
        run = await runtime.decide(outcome.invocation_id, Final("it is 7"), by="bo")
        assert (await run.outcome()).completed


def asking(clock: VirtualClock, steps: list[Step], grace: float) -> Runtime:
    """Make a runtime whose agent asks before it pays, for ten minutes."""
    rules = Policy(ask=[writes()], approval_expires=600, approval_grace=grace)
    return Runtime([agent(ScriptedModel(steps), pay, policy=rules)], clock=clock, adopt=True)


PAY = batch(call("p", "pay", {"amount": 1}))


@pytest.mark.parametrize("grace", [0, 3600])
async def test_b81_expiry_is_nobodys_no(grace: float) -> None:
    """B81: ten minutes without an answer: recorded as expired, nothing runs, and it goes on.

    Also where it waits in memory for longer than that.
    """
    clock = VirtualClock()
    async with asking(clock, [PAY, Final("then not")], grace) as runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(1)
        await clock.advance(620)
        await settle()
        outcome = await run.outcome()
        (decided,) = [r for r in await journal(runtime, run.id) if isinstance(r, ApprovalDecided)]
    assert outcome.completed
    assert decided.expired
    (result,) = outcome.history[0].results
    assert result.status is ResultStatus.DENIED
    assert result.error is not None
    assert result.error.type == "ApprovalExpired"


async def test_a_late_yes_is_refused_and_lets_it_go_on() -> None:
    """The answer comes a second too late: it is told so, and what waits waits no longer."""
    clock = VirtualClock()
    model = ScriptedModel([PAY, Final("then not")])
    desk = agent(model, pay, policy=Policy(ask=[writes()], approval_expires=600))
    async with Runtime([desk], clock=clock) as runtime:
        outcome = await runtime.run("desk", "the goal")
        assert outcome.proposal is not None
        assert outcome.proposal.expires_at == clock.now().wall + 600
        await clock.advance(600)
        with pytest.raises(ApprovalExpiredError):
            await runtime.approve(outcome.invocation_id, outcome.proposal.digest, by="bo")
        after = await runtime.outcome(outcome.invocation_id)
    assert after.completed
    assert after.history[0].results[0].status is ResultStatus.DENIED


async def test_an_answer_in_time_counts() -> None:
    """A second before, it is an answer like any other."""
    clock = VirtualClock()
    model = ScriptedModel([PAY, Final("paid")])
    desk = agent(model, pay, policy=Policy(ask=[writes()], approval_expires=600))
    async with Runtime([desk], clock=clock) as runtime:
        outcome = await runtime.run("desk", "the goal")
        assert outcome.proposal is not None
        await clock.advance(599)
        run = await runtime.approve(outcome.invocation_id, outcome.proposal.digest, by="bo")
        assert (await run.outcome()).history[0].results[0].output == "paid 1"
