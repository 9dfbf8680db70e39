"""Who works at the desk: three that hand over to each other, a person, and a clerk as a tool."""

from __future__ import annotations

from decimal import Decimal

from loopwright import Agent, Budget, Policy, tool
from loopwright.policy import over

from . import models
from .models import RuleModel
from .tickets import PAID, Resolution

LIMIT = 100
"""Above this sum a person has to say yes, whoever books it for whomever."""


@tool(effect="read")
async def find_payment(order: int) -> Decimal | None:
    """Look up what was paid for an order; null if there is no such order."""
    return PAID.get(order)


@tool(effect="idempotent", effect_key=lambda call: f"refund:{call.order}")
async def book_refund(order: int, amount: Decimal) -> str:
    """Book a refund in the ledger, which deduplicates by the key; return its reference."""
    return f"RF-{order:04} of {amount}"


@tool(effect="idempotent", effect_key=lambda call: f"invoice:{call.order}")
async def correct_invoice(order: int) -> str:
    """Issue the invoice of an order anew; return its number."""
    return f"INV-{order:04}-2"


def make_agents() -> list[Agent]:
    """Make the desk: a runtime needs all of them, also those that are only handed over to."""
    clerk = Agent(
        "ledger-clerk",
        model=RuleModel(models.ledger_clerk),
        tools=[find_payment, book_refund],
        policy=Policy(ask=[over(LIMIT)]),
    )
    # Each step of the desk counts for the one invocation, whoever takes it.
    triage = Agent(
        "triage",
        model=RuleModel(models.triage),
        handoffs=["refunds", "billing"],
        escape="human-desk",
        budget=Budget(max_steps=12, max_tool_calls=8, max_handoffs=4),
    )
    refunds = Agent(
        "refunds",
        model=RuleModel(models.refunds),
        tools=[
            clerk.as_tool(
                description="Have a refund booked: say how much, and for which order.",
                budget=Budget(max_steps=4, max_tool_calls=2),
            )
        ],
        handoffs=["billing", "triage"],
        escape="human-desk",
    )
    billing = Agent(
        "billing", model=RuleModel(models.billing), tools=[correct_invoice], output=Resolution
    )
    human_desk = Agent("human-desk", model=RuleModel(models.human_desk), output=Resolution)
    return [triage, refunds, billing, human_desk, clerk]
