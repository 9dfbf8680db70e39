"""Plan-and-execute: the plan is on record, has a version, and is replaced a few times at most."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from loopwright import (
    Agent,
    ConfigurationError,
    Context,
    Outcome,
    Policy,
    Reason,
    Runtime,
    ToolCalls,
    ToolFailure,
    tool,
)
from loopwright.examples.patterns import Plan, PlanAndExecute, Step, Task, record_plan
from loopwright.examples.patterns.stories import PLAN_GOAL, plan_agent
from loopwright.policy import tool_named
from loopwright.protocol import CallId, JsonObject, ToolCall, calls_of, to_json
from loopwright.stores import SQLiteStore

pytestmark = pytest.mark.anyio


class Planner:
    """Plans as it is told, and keeps what it was asked."""

    def __init__(self, plan: Callable[[Task], Plan]) -> None:
        self._plan = plan
        self.tasks: list[Task] = []

    async def plan(self, task: Task) -> Plan:
        self.tasks.append(task)
        return self._plan(task)

    async def answer(self, task: Task) -> str:
        return f"{len(task.ran)} steps by plan {task.version}"


class Worker:
    """An agent with one write, which fails for what is bad, and can be made to hang."""

    def __init__(
        self,
        planner: Planner,
        *,
        max_replans: int = 2,
        policy: Policy | None = None,
        hang_at: str = "",
    ) -> None:
        self.worked: list[str] = []
        self.hanging = anyio.Event()

        @tool(effect="idempotent", effect_key=lambda call: f"work:{call.on}")
        async def work(on: str) -> str:
            if on == hang_at:
                self.hanging.set()
                await anyio.sleep_forever()
            self.worked.append(on)
            if on.startswith("bad"):
                raise ToolFailure(f"{on} is broken")
            return f"{on} done"

        model = PlanAndExecute(planner, max_replans=max_replans)
        self.agent = Agent("planner", model=model, tools=[record_plan, work], policy=policy)

    async def run(self) -> Outcome:
        async with Runtime([self.agent]) as runtime:
            return await runtime.run("planner", "go")


def steps(*on: str) -> tuple[Step, ...]:
    return tuple(Step("work", {"on": one}) for one in on)


def always(*on: str) -> Planner:
    return Planner(lambda task: Plan(task.version, steps(*on)))


def arguments(version: int, *on: str) -> JsonObject:
    """What `record_plan` is called with."""
    planned = to_json([{"tool": "work", "arguments": {"on": one}} for one in on])
    return {"version": version, "steps": planned.value}


def call_ids(outcome: Outcome) -> list[str]:
    return [c.call_id for turn in outcome.history for c in calls_of(turn.proposal.decision)]


async def test_it_ends_when_every_step_of_the_plan_has_been_carried_out() -> None:
    """The planner is asked once; the plan is the first thing that is committed."""
    planner = always("a", "b")
    worker = Worker(planner)
    outcome = await worker.run()
    assert (outcome.reason, outcome.answer) == (Reason.COMPLETED, "2 steps by plan 1")
    assert call_ids(outcome) == ["plan-v1", "v1.1", "v1.2"]
    assert outcome.history[0].outputs()["plan-v1"] == arguments(1, "a", "b")
    assert len(planner.tasks) == 1


async def test_a_step_that_fails_leads_to_the_next_version() -> None:
    """What was done stays done, and the planner is shown it, and what failed."""
    planner = Planner(
        lambda task: Plan(task.version, steps(*(("a", "bad", "c"), ("b", "c"))[task.version - 1]))
    )
    worker = Worker(planner)
    outcome = await worker.run()
    assert outcome.completed
    assert worker.worked == ["a", "bad", "b", "c"]
    assert call_ids(outcome) == ["plan-v1", "v1.1", "v1.2", "plan-v2", "v2.1", "v2.2"]
    (_, again) = planner.tasks
    assert [(ran.version, ran.step.arguments["on"], ran.result.ok) for ran in again.ran] == [
        (1, "a", True),
        (1, "bad", False),
    ]


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_it_is_planned_anew_so_often_and_no_more(limit: int) -> None:
    planner = always("bad")
    worker = Worker(planner, max_replans=limit)
    outcome = await worker.run()
    assert outcome.reason is Reason.CANNOT_CONTINUE
    assert [task.version for task in planner.tasks] == list(range(1, limit + 2))
    assert outcome.cause is not None
    assert outcome.cause.startswith(f"replan_limit: step 1 of plan {limit + 1}, work, failed: bad")


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (Plan(1, ()), "plan 1 has no steps"),
        (Plan(0, steps("a")), "it is plan 0, which is not the next one; make plan 1"),
        (Plan(2, steps("a")), "it is plan 2, which is not the next one; make plan 1"),
        (Plan(1, (Step("play", {}),)), "plan 1 needs a tool 'play'; there are: work"),
        (Plan(1, (Step("record_plan", {}),)), "plan 1 needs a tool 'record_plan'"),
    ],
)
async def test_a_plan_that_is_none_is_refused_and_may_be_repaired(plan: Plan, problem: str) -> None:
    planner = Planner(lambda task: Plan(1, steps("a")) if task.fault else plan)
    worker = Worker(planner)
    outcome = await worker.run()
    assert outcome.completed
    assert problem in planner.tasks[1].fault
    assert call_ids(outcome) == ["plan-v1", "v1.1"]


async def test_a_stale_plan_is_never_carried_out_again() -> None:
    """A planner that keeps giving the first plan for the second one gets nowhere."""
    worker = Worker(Planner(lambda _: Plan(1, steps("a", "bad"))))
    outcome = await worker.run()
    assert outcome.reason is Reason.INVALID_DECISION
    assert "it is plan 1, which is not the next one; make plan 2" in str(outcome.cause)
    assert worker.worked == ["a", "bad"]


async def test_a_person_may_go_on_with_the_next_plan_and_with_no_other() -> None:
    """Past the limit, too; a plan of an earlier version is on record, and changes nothing."""
    worker = Worker(always("bad"), max_replans=0)

    def recorded(version: int) -> ToolCalls:
        call = ToolCall(CallId("mine"), "record_plan", arguments(version, "good"))
        return ToolCalls((call,))

    async with Runtime([worker.agent]) as runtime:
        outcome = await runtime.run("planner", "go")
        for version in (1, 3):
            run = await runtime.decide(outcome.invocation_id, recorded(version), by="bo")
            assert (await run.outcome()).reason is Reason.CANNOT_CONTINUE
        run = await runtime.decide(outcome.invocation_id, recorded(2), by="bo")
        outcome = await run.outcome()
    assert (outcome.reason, worker.worked) == (Reason.COMPLETED, ["bad", "good"])


async def test_a_person_can_be_asked_about_the_plan_and_edit_it() -> None:
    """Nothing of it runs before; what runs then is the plan as it was edited."""
    worker = Worker(always("a", "b"), policy=Policy(ask=[tool_named("record_plan")]))
    async with Runtime([worker.agent]) as runtime:
        outcome = await runtime.run("planner", "go")
        assert outcome.reason is Reason.APPROVAL_REQUIRED
        assert outcome.proposal is not None
        assert worker.worked == []
        digest, edits = outcome.proposal.digest, {"plan-v1": arguments(1, "b")}
        run = await runtime.approve(outcome.invocation_id, digest, by="bo", edits=edits)
        outcome = await run.outcome()
    assert (outcome.reason, worker.worked) == (Reason.COMPLETED, ["b"])


async def test_another_process_goes_on_with_the_plan_on_record(tmp_path: Path) -> None:
    """The first one dies in the middle of a step; the plan is not made again, nor is its first step."""
    path = tmp_path / "store.db"
    first = Worker(always("a", "b"), hang_at="b")
    async with Runtime([first.agent], store=SQLiteStore(path)) as runtime:
        await runtime.start("planner", "go")
        await first.hanging.wait()
    planner = always("z")
    second = Worker(planner)
    async with Runtime([second.agent], store=SQLiteStore(path)) as runtime:
        (run,) = await runtime.recover()
        outcome = await run.outcome()
    assert (outcome.reason, outcome.answer) == (Reason.COMPLETED, "2 steps by plan 1")
    assert (first.worked, second.worked, planner.tasks) == (["a"], ["b"], [])


async def test_whoever_is_not_shown_the_plan_does_not_begin_anew() -> None:
    """A bounded context would hide it: better no decision than all of it a second time."""
    policy = Policy(context=Context(max_tokens=1))
    worker = Worker(always("a", "b"), policy=policy)
    outcome = await worker.run()
    assert outcome.reason is Reason.MODEL_ERROR
    assert "is not shown all its turns" in str(outcome.cause)
    assert len(worker.worked) == len(set(worker.worked))


def test_a_limit_that_cannot_be_meant_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="negative; give 0 or more"):
        PlanAndExecute(always("a"), max_replans=-1)


async def test_the_story_books_what_the_first_plan_could_not() -> None:
    agent = plan_agent()
    async with Runtime([agent]) as runtime:
        outcome = await runtime.run(agent.name, PLAN_GOAL)
    assert outcome.answer == "booked as steady-0003 by plan 2"
