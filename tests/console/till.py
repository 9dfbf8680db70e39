"""An app for the tests: a till whose line goes dead whenever it pays, and a bank that can be asked.

A goal says which tool is called for which orders: `pay 7 8`. The line works from the second attempt
on; the bank knows what is in `bank.txt`.
"""

from __future__ import annotations

from pathlib import Path

from loopwright import (
    Agent,
    Final,
    ModelReply,
    ModelRequest,
    Policy,
    Reconciled,
    ToolCall,
    ToolCalls,
    applied,
    tool,
    unknown,
)
from loopwright.policy import tool_named
from loopwright.protocol import CallId

BANK, SENT = Path("bank.txt"), Path("sent.txt")


def send(order: int, what: str) -> str:
    """Send a payment; the first one of an order is not heard of again."""
    before = SENT.read_text().splitlines() if SENT.exists() else []
    SENT.write_text("".join(f"{line}\n" for line in (*before, f"{order} {what}")))
    if not any(line.startswith(f"{order} ") for line in before):
        raise ConnectionError("the line went dead")
    return "sent"


@tool(effect="manual", effect_key=lambda a: f"pay:{a.order}")
def pay(order: int) -> str:
    """Pay."""
    return send(order, "paid")


@tool(effect="reconcilable", effect_key=lambda a: f"refund:{a.order}")
async def refund(order: int) -> str:
    """Pay back."""
    return send(order, "refunded")


@refund.reconcile
def ask_bank(effect_key: str) -> Reconciled:
    """Ask the bank."""
    return applied(BANK.read_text()) if BANK.exists() else unknown("the bank is closed")


@tool(effect="idempotent", effect_key=lambda a: f"gift:{a.order}")
def gift(order: int, amount: int = 5) -> str:
    """Give something away."""
    return f"{amount} for {order}"


class Teller:
    """Does what the goal says, then tells how each call ended."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        if request.history:
            results = request.history[-1].results
            return ModelReply(Final(" ".join(f"{r.call_id}={r.status}" for r in results)))
        name, *orders = request.goal.split()
        calls = [ToolCall(CallId(f"c{n}"), name, {"order": int(n)}) for n in orders]
        return ModelReply(ToolCalls(tuple(calls)))


till = Agent(
    "till",
    model=Teller(),
    tools=[pay, refund, gift],
    policy=Policy(ask=[tool_named("gift")]),
)
