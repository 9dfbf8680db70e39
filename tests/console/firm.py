"""An app for the tests: a boss, whose clerk works for it as a child, and asks before it pays.

The goal says what the clerk does: `pay 7` needs a yes, `send 7` is not heard of again, and anything
else is a question. With FIRM_EXPIRES set, nobody has longer than so many seconds to say yes.
"""

from __future__ import annotations

import os
from pathlib import Path

from loopwright import (
    Agent,
    CallId,
    Clarification,
    Final,
    ModelReply,
    ModelRequest,
    Policy,
    ToolCall,
    ToolCalls,
    tool,
)
from loopwright.policy import tool_named

PAID = Path("paid.txt")


@tool(effect="manual")
def pay(amount: int) -> str:
    """Pay."""
    with PAID.open("a", encoding="utf-8") as file:
        file.write(f"{amount}\n")
    return "paid"


@tool(effect="manual")
def send(amount: int) -> str:
    """Send; the line goes dead."""
    raise ConnectionError("the line went dead")


class Clerk:
    """Does what the goal says, and asks first where it says nothing of the kind."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        name, *amounts = request.goal.split()
        if request.history and (name in ("pay", "send") or request.history[-1].answer):
            return ModelReply(Final(f"the clerk is done with {request.goal}"))
        if name not in ("pay", "send"):
            return ModelReply(Clarification("Which colour?"))
        calls = [ToolCall(CallId(f"p{n}"), name, {"amount": int(n)}) for n in amounts]
        return ModelReply(ToolCalls(tuple(calls)))


class Boss:
    """Has the clerk do it, once for each part of the goal."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        if request.history:
            return ModelReply(Final("done"))
        goals = request.goal.split(" and ")
        calls = [ToolCall(CallId(f"c{n}"), "clerk", {"goal": g}) for n, g in enumerate(goals)]
        return ModelReply(ToolCalls(tuple(calls)))


EXPIRES = os.environ.get("FIRM_EXPIRES")

clerk = Agent(
    "clerk",
    model=Clerk(),
    tools=[pay, send],
    policy=Policy(
        ask=[tool_named("pay")], approval_expires=None if EXPIRES is None else float(EXPIRES)
    ),
)
boss = Agent("boss", model=Boss(), tools=[clerk.as_tool()])
agents = [boss, clerk]
