"""The reference controller of the seed documents: its output, its two tests, and what else its
text says such tests cover, against our runtime under `Policy.strict()`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
import pytest

from loopwright import (
    Agent,
    Budget,
    Final,
    ModelReply,
    ModelRequest,
    Outcome,
    Policy,
    Runtime,
    ToolCall,
    ToolCalls,
    tool,
)
from loopwright.examples.reference_controller import VALUES, ScriptedModel, controller
from loopwright.policy import tool_named
from loopwright.protocol import CallId, JsonValue, Reason, StoreError, TurnCommitted
from loopwright.stores import MemoryStore
from loopwright.testing import FailingStore, settle
from loopwright.testing import ScriptedModel as Steps

pytestmark = pytest.mark.anyio

GOAL = "test"


def lookup(wait: Callable[[str], Awaitable[None]]) -> Agent:
    """Make the controller of the example, with a lookup that waits before it returns."""

    @tool(effect="read", name="lookup")
    async def body(key: str) -> dict[str, str]:
        await wait(key)
        return {"key": key, "value": VALUES[key]}

    return Agent(
        "reference-controller",
        model=ScriptedModel(),
        tools=[body],
        policy=Policy.strict(),
        budget=controller.budget,
    )


class Counter:
    """A tool that counts how often its body ran, under an agent that asks for it again and again."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.executions = 0

        @tool(effect="read")
        async def count(key: str) -> dict[str, bool]:
            self.executions += 1
            return {"ok": True}

        self.agent = Agent(
            "counter",
            model=self,
            tools=[count],
            policy=policy or Policy.strict(),
            budget=Budget(max_steps=4, max_tool_calls=4),
        )

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Propose the same plan every time."""
        return ModelReply(ToolCalls((ToolCall(CallId("same-call"), "count", {"key": "same"}),)))


def reads(*call_ids: str) -> ToolCalls:
    return ToolCalls(tuple(ToolCall(CallId(c), "count", {"key": c}) for c in call_ids))


async def run(agent: Agent, budget: Budget | None = None) -> Outcome:
    async with Runtime([agent]) as runtime:
        return await runtime.run(agent.name, GOAL, budget=budget)


def test_it_prints_what_the_seed_prints() -> None:
    """Exactly; events are committed turns."""
    ran = subprocess.run(
        [sys.executable, "-m", "loopwright.examples.reference_controller"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == (
        "completed\nprofile=active; policy=refund-under-100\nsteps=2 tool_calls=2 events=2\n"
    )


# ---------------------------------------------------------------- the seed's own two tests
async def test_parallel_results_preserve_call_order() -> None:
    """The profile takes longer than the policy, and still comes first."""
    policy_done = anyio.Event()

    async def wait(key: str) -> None:
        if key == "profile":
            await policy_done.wait()
        else:
            policy_done.set()

    outcome = await run(lookup(wait))
    assert outcome.reason is Reason.COMPLETED
    assert [result.call_id for result in outcome.history[0].results] == [
        "call-profile",
        "call-policy",
    ]


async def test_repeated_plan_stops_before_second_execution() -> None:
    counter = Counter()
    outcome = await run(counter.agent)
    assert outcome.reason is Reason.NO_PROGRESS
    assert counter.executions == 1


# ---------------------------------------------------------------- what else such tests cover
async def test_correlation_out_of_order_binds_each_result_to_its_call() -> None:
    """The second call returns first; each output is under the id of the call that asked for it."""
    done: list[str] = []
    policy_done = anyio.Event()

    async def wait(key: str) -> None:
        if key == "profile":
            await policy_done.wait()
        done.append(key)
        policy_done.set()

    outcome = await run(lookup(wait))
    assert done == ["policy", "profile"]
    outputs: dict[str, JsonValue] = outcome.history[0].outputs()
    assert outputs == {
        "call-profile": {"key": "profile", "value": "active"},
        "call-policy": {"key": "policy", "value": "refund-under-100"},
    }


async def test_step_budget_is_checked_before_the_model_is_asked() -> None:
    counter = Counter(replace(Policy.strict(), progress=Policy().progress))
    outcome = await run(counter.agent, Budget(max_steps=2, max_tool_calls=4))
    assert outcome.reason is Reason.MAX_STEPS
    assert (outcome.steps, counter.executions, len(outcome.history)) == (2, 2, 2)


async def test_tool_budget_starts_nothing_of_a_batch_that_crosses_it() -> None:
    counter = Counter()
    counter.agent.model = Steps([reads("a", "b")])
    outcome = await run(counter.agent, Budget(max_steps=4, max_tool_calls=1))
    assert outcome.reason is Reason.TOOL_BUDGET_EXHAUSTED
    assert (outcome.tool_calls, counter.executions) == (0, 0)


async def test_cancel_reaches_the_tools_and_starts_nothing_more() -> None:
    interrupted: list[str] = []

    async def wait(key: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            interrupted.append(key)

    agent = lookup(wait)
    async with Runtime([agent]) as runtime:
        invocation = await runtime.start(agent.name, GOAL)
        await settle()
        invocation.cancel("not wanted any more")
        outcome = await invocation.outcome()
    assert outcome.reason is Reason.CANCELLED
    assert sorted(interrupted) == ["policy", "profile"]
    assert [result.status for result in outcome.history[0].results] == ["cancelled", "cancelled"]


async def test_approval_is_asked_for_before_anything_of_the_batch_starts() -> None:
    counter = Counter(replace(Policy.strict(), ask=[tool_named("count")]))
    counter.agent.model = Steps([reads("a"), Final("counted")])
    async with Runtime([counter.agent]) as runtime:
        outcome = await runtime.run(counter.agent.name, GOAL)
        assert outcome.reason is Reason.APPROVAL_REQUIRED
        assert outcome.proposal is not None
        assert [ask.call_id for ask in outcome.proposal.asks] == ["a"]
        assert counter.executions == 0
        digest = outcome.proposal.digest
        again = await runtime.approve(outcome.invocation_id, digest, by="bo")
        outcome = await again.outcome()
    assert (outcome.reason, outcome.answer) == (Reason.COMPLETED, "counted")
    assert counter.executions == 1


async def test_a_failing_checkpoint_ends_before_the_next_decision() -> None:
    """The batch ran, its commit fails, and the model is not asked on the strength of it."""
    store = FailingStore(MemoryStore())

    async def wait(key: str) -> None:
        if key == "policy":
            store.fail_next(StoreError("disk full"))

    agent = lookup(wait)
    asked: list[int] = []

    class Model(ScriptedModel):
        async def decide(self, request: ModelRequest) -> ModelReply:
            asked.append(request.turn)
            return await super().decide(request)

    agent.model = Model()
    async with Runtime([agent], store=store) as runtime:
        invocation = await runtime.start(agent.name, GOAL)
        outcome = await invocation.outcome()
        records = [record async for record in invocation.events()]
    assert outcome.reason is Reason.CHECKPOINT_FAILED
    assert outcome.cause == "disk full"
    assert asked == [1]
    assert not any(isinstance(record, TurnCommitted) for record in records)
