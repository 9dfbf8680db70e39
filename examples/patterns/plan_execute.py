"""Plan-and-execute: one plan, made at the start and put on record, and executed call by call.

The plan is a committed result of the tool `record_plan`: a person can be asked about it before any
of it runs, and may edit it. Its version is in the id of each of its calls. When a step fails, the
plan is void and the next version is made, of what is left to do; this happens a few times at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from pydantic import TypeAdapter

from loopwright import (
    CallId,
    CannotContinue,
    ConfigurationError,
    Final,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolCalls,
    Usage,
    tool,
)
from loopwright.protocol import (
    Decision,
    JsonObject,
    Malformed,
    ToolResult,
    ToolSpec,
    Turn,
    bounded,
    calls_of,
    raw_text,
    to_json,
)

from ._committed import own_turns


@dataclass(frozen=True, slots=True)
class Step:
    """One call that a plan consists of."""

    tool: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in this order."""

    version: int
    """From 1. A plan is only accepted as the one right after the plan it replaces."""
    steps: tuple[Step, ...]


_plan = TypeAdapter(Plan)


@tool(effect="read")
async def record_plan(version: int, steps: list[Step]) -> Plan:
    """Put a plan on record. Its steps are carried out as they stand here."""
    return Plan(version, tuple(steps))


class Ran(NamedTuple):
    """A step that has its result."""

    version: int
    """Of the plan it belonged to."""
    step: Step
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Task:
    """What a planner is shown: all of it is committed."""

    goal: str
    tools: tuple[ToolSpec, ...]
    version: int
    """Of the plan that is to be made, or was carried out."""
    ran: tuple[Ran, ...]
    """Steps of all plans, in order. When it is asked for a new plan, the last one has failed."""
    fault: str
    """Why its last reply did not count, if it did not."""


class Planner(Protocol):
    """What may be a language model. It keeps nothing between two calls."""

    async def plan(self, task: Task, /) -> Plan:
        """Plan what is left to do."""
        ...

    async def answer(self, task: Task, /) -> str:
        """Say what came of a plan all of whose steps have succeeded."""
        ...


class PlanAndExecute:
    """Decides by the plan on record; a planner is asked only for plans and for the answer.

    Args:
        planner: Makes the plans.
        max_replans: How often a plan may be replaced because a step of it has failed. One failure
            more ends it with `cannot_continue` and the code ``replan_limit``.

    Raises:
        ConfigurationError: If `max_replans` is negative.
    """

    def __init__(self, planner: Planner, *, max_replans: int = 2) -> None:
        if max_replans < 0:
            msg = f"PlanAndExecute(max_replans={max_replans}) is negative; give 0 or more"
            raise ConfigurationError(msg)
        self._planner = planner
        self._max_replans = max_replans

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Take the next step of the plan, or have one made."""
        turns = own_turns(request)
        plan, ran = _committed(turns)
        fault = turns[-1].fault if turns else None
        told = fault.problem if fault is not None and fault.level != "call" else ""
        tools = tuple(spec for spec in request.tools if spec.name != record_plan.name)
        version = 0 if plan is None else plan.version
        task = Task(request.goal, tools, version, tuple(ran), told)
        here = [one for one in ran if one.version == version]
        if plan is None:
            return await self._made(task)
        if here and not here[-1].result.ok:
            return await self._replaced(task, here)
        if len(here) == len(plan.steps):
            return ModelReply(Final(await self._planner.answer(task)))
        step = plan.steps[len(here)]
        call = ToolCall(CallId(f"v{version}.{len(here) + 1}"), step.tool, step.arguments)
        # It costs nothing: nobody was asked.
        return ModelReply(ToolCalls((call,)), Usage())

    async def _replaced(self, task: Task, here: Sequence[Ran]) -> ModelReply:
        if task.version <= self._max_replans:
            return await self._made(task)
        result = here[-1].result
        why = result.status if result.error is None else result.error.message
        text = f"step {len(here)} of plan {task.version}, {result.tool_name}, failed: {why}"
        limit = f"it may be planned anew {self._max_replans} times"
        return ModelReply(CannotContinue("replan_limit", f"{text}; {limit}"), Usage())

    async def _made(self, task: Task) -> ModelReply:
        wanted = task.version + 1
        plan = await self._planner.plan(replace(task, version=wanted))
        return ModelReply(_recorded(plan, wanted, {spec.name for spec in task.tools}))


def _recorded(plan: Plan, wanted: int, tools: set[str]) -> Decision | Malformed:
    """Put a plan on record, if it is one for here and now."""
    steps = to_json(plan.steps).value
    unknown = next((step.tool for step in plan.steps if step.tool not in tools), None)
    if plan.version != wanted:
        problem = f"it is plan {plan.version}, which is not the next one; make plan {wanted}"
    elif not plan.steps:
        problem = f"plan {wanted} has no steps; give at least one"
    elif unknown is not None:
        known = ", ".join(sorted(tools)) or "none"
        problem = f"plan {wanted} needs a tool {bounded(unknown)!r}; there are: {known}"
    else:
        arguments: JsonObject = {"version": wanted, "steps": steps}
        call = ToolCall(CallId(f"plan-v{wanted}"), record_plan.name, arguments)
        return ToolCalls((call,))
    return Malformed(problem, raw_text(repr(plan)))


def _committed(turns: Sequence[Turn]) -> tuple[Plan | None, list[Ran]]:
    """Read the plan in force, and what ran of it and of those before it.

    A plan on record that is not the next one is refused, whoever has recorded it; so is the
    result of a call that is not of the plan in force.
    """
    plan: Plan | None = None
    ran: list[Ran] = []
    for turn in turns:
        for call, result in zip(calls_of(turn.proposal.decision), turn.results, strict=True):
            version = 0 if plan is None else plan.version
            if call.tool_name == record_plan.name and result.ok:
                recorded = _plan.validate_python(result.output)
                if recorded.version == version + 1:
                    plan = recorded
            elif isinstance(call, ToolCall) and call.call_id.startswith(f"v{version}."):
                ran.append(Ran(version, Step(call.tool_name, call.arguments), result))
    return plan, ran
