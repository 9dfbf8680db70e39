"""The standard invocation on loopwright: everything on."""

from __future__ import annotations

import _floor

from loopwright import (
    Agent,
    Budget,
    Final,
    Model,
    ModelReply,
    ModelRequest,
    Policy,
    Progress,
    Runtime,
    ToolCalls,
    Usage,
    tool,
)
from loopwright.protocol import parse_call

USAGE = Usage(10, 10)


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


async def completed(runtime: Runtime) -> None:
    """Run one standard invocation, and see to it that it did its work."""
    outcome = await runtime.run("standard", "go")
    if not outcome.completed:
        raise AssertionError(outcome)
