"""A parent and a child, and two who hand over, in processes that are killed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from crash.desk import make_agent as make_desk
from loopwright import (
    Agent,
    Budget,
    FallbackChain,
    Final,
    Handoff,
    ModelReply,
    ModelRequest,
    Policy,
    ProgressNote,
    ToolCall,
    ToolCalls,
)
from loopwright.policy import Retry
from loopwright.protocol import CallId, Price, Usage

NAME = "boss"


class Boss:
    """Has the desk do it, and ends; it keeps nothing, so it may be asked again."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Say this turn."""
        if request.turn > 1:
            return ModelReply(Final("done"), Usage(1, 1))
        call = ToolCall(CallId("delegate"), "desk", {"goal": "go"})
        return ModelReply(ToolCalls((call,)), Usage(1, 1))


def make_agents(folder: Path) -> list[Agent]:
    """Make both: what the crash kit calls in each life."""
    desk = make_desk(folder)
    prices, budget = [Price("Boss", Decimal(1_000_000), Decimal(0))], Budget(max_tool_calls=9)
    boss = Agent(NAME, model=Boss(), tools=[desk.as_tool()], budget=budget, prices=prices)
    return [boss, desk]


class Down:
    """A model that cannot be reached."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Say nothing."""
        raise ConnectionError("the line is dead")


class Triage:
    """Hands over to the desk."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Say this turn."""
        note = ProgressNote(("understood",), ("all of it",))
        return ModelReply(Handoff("desk", "it can", note), Usage(1, 1))


def make_relay(folder: Path) -> list[Agent]:
    """Make two who hand over; the first has a model that is down, and another one."""
    policy = Policy(retry=Retry(max_attempts=1))
    model = FallbackChain([Down(), Triage()])
    return [Agent("triage", model=model, handoffs=["desk"], policy=policy), make_desk(folder)]
