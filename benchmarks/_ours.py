"""The standard invocation on loopwright: everything on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import _floor

from loopwright import (
    Agent,
    Budget,
    Claim,
    Final,
    Model,
    ModelReply,
    ModelRequest,
    Policy,
    Principal,
    Progress,
    Runtime,
    ToolCalls,
    Usage,
    Verification,
    passed,
    tool,
)
from loopwright.policy import (
    Context,
    Cost,
    MaxSteps,
    ToolSeen,
    allow_if,
    ask_if,
    not_,
    operation,
    over,
    requires,
    role,
    same_tenant,
    tool_named,
    writes,
)
from loopwright.protocol import Price, TurnCommitted, parse_call

USAGE = Usage(10, 10)
TRAVELLER = Principal("ann", "acme", roles=("traveller",), capabilities=("weather",))


@tool(effect="read")
async def get_weather(city: str) -> dict[str, object]:
    """Weather in a city."""
    return await _floor.get_weather(city)


@tool(effect="read")
async def get_time(city: str) -> dict[str, object]:
    """Local time in a city."""
    return await _floor.get_time(city)


class StandardModel:
    """Says what the floor's model says, through the same strict door as a provider's adapter."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Propose two reads, or answer."""
        calls = _floor.said(request.turn - 1, self.turns)
        if calls is None:
            if _floor.HELD is not None:
                await _floor.HELD.wait()
            return ModelReply(Final("done"), USAGE)
        return ModelReply(ToolCalls(tuple(parse_call(*call) for call in calls)), USAGE)


def place(arguments: Any) -> list[str]:
    """Name what a call reads: the city's data, in the tenant's own name."""
    return [f"acme/{arguments.city}"]


TENANT_TOOLS = [
    tool(effect="read", name="get_weather", resources=place)(_floor.get_weather),
    tool(effect="read", name="get_time", resources=place)(_floor.get_time),
]
"""The same two, which say what they touch."""


async def is_done(claim: Claim) -> Verification:
    """Let the one answer pass."""
    assert claim.answer == "done"
    return passed()


def never_met(_: TurnCommitted) -> bool | None:
    """Say nothing of a goal."""
    return None


def standard_agent(model: Model) -> Agent:
    """Make the agent all benchmarks run.

    The budget counts steps, tool calls, tokens and running time, and repeated plans are looked
    for; only the limits are far away.
    """
    far = 10**9
    budget = Budget(
        max_steps=far, max_tool_calls=far, max_tokens=far, max_active_seconds=float(far)
    )
    policy = Policy(progress=Progress(max_repeats=far))
    tools = [get_weather, get_time]
    return Agent("standard", model=model, tools=tools, budget=budget, policy=policy)


def bare_agent() -> Agent:
    """Make the agent that has no rules: nothing is counted, looked for, asked or verified."""
    nothing = Progress(
        max_repeats=None,
        max_stale_turns=None,
        max_rounds=None,
        max_errors=None,
        max_goal_turns=None,
        max_seen_turns=None,
        nudge=False,
    )
    policy = Policy(progress=nothing)
    budget = Budget(max_steps=None, max_handoffs=None)
    return Agent(
        "standard",
        model=StandardModel(10),
        tools=[get_weather, get_time],
        budget=budget,
        policy=policy,
    )


def ruled_agents() -> list[Agent]:
    """Make the agent on which every kind of rule is switched on, and those it may hand over to."""
    far, model = 10**9, StandardModel(10)
    budget = Budget(
        max_steps=far,
        max_tool_calls=far,
        max_tokens=far,
        max_active_seconds=float(far),
        deadline=datetime.now(UTC) + timedelta(days=1),
        max_cost=Decimal(far),
        max_tool_failures=far,
        reserve_steps=1,
    )
    policy = Policy(
        deny=[tool_named("drop_tables"), not_(same_tenant())],
        rules=[
            requires("weather", "get_weather"),
            ask_if(operation("refund"), over(500)),
            allow_if(role("traveller"), same_tenant()),
        ],
        ask=[writes(), over(100)],
        default_deny=True,
        stop=Cost(far) | MaxSteps(far) & ToolSeen("submit"),
        progress=Progress(max_repeats=far, goals={"answered": never_met}, max_goal_turns=far),
        context=Context(max_tokens=far),
        soft_stop="restrict",
        approval_expires=float(far),
    )
    desk = Agent("desk", model=model)
    agent = Agent(
        "standard",
        model=model,
        tools=TENANT_TOOLS,
        budget=budget,
        policy=policy,
        prices=[Price("StandardModel", Decimal(3), Decimal(15), Decimal("0.3"))],
        verifiers=[is_done],
        handoffs=["desk"],
        escape="desk",
    )
    return [agent, desk]


async def completed(runtime: Runtime, principal: Principal | None = None) -> None:
    """Run one standard invocation, and see to it that it did its work."""
    outcome = await runtime.run("standard", "go", principal=principal)
    if not outcome.completed:
        raise AssertionError(outcome)
