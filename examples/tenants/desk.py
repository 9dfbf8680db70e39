"""The desk: one agent for both shops; its tools say which objects a call touches."""

from __future__ import annotations

from decimal import Decimal

from loopwright import Agent, Budget, Final, Model, ModelReply, ModelRequest, Usage, tool
from loopwright.actors import AnyTool
from loopwright.protocol import CallId, ToolCall, ToolCalls

from .office import Office
from .rules import make_policy

NAME = "tenant-desk"


def make_agent(office: Office, model: Model | None = None) -> Agent:
    """Make the agent; by default it decides by `RuleModel`, which needs no key."""
    return Agent(
        NAME,
        model=model or RuleModel(),
        tools=make_tools(office),
        policy=make_policy(office),
        budget=Budget(max_steps=6),
    )


def make_tools(office: Office) -> list[AnyTool]:
    """Make the tools. What an object is called comes from the office, not from the model."""

    @tool(effect="read", operation="look", resources=lambda call: [office.order_named(call.order)])
    def order_status(order: str) -> str:
        """Say what was paid for an order."""
        return f"{office.orders[order].paid} paid"

    @tool(
        effect="idempotent",
        effect_key=lambda call: f"refund:{call.order}",
        writes=lambda call: [office.order_named(call.order)],
    )
    def refund(order: str, amount: Decimal) -> str:
        """Give back part of what was paid for an order."""
        office.refunds.append((order, amount))
        return f"{amount} refunded"

    # It calls itself a refund, and touches something no rule speaks of.
    @tool(
        effect="manual",
        operation="refund",
        writes=lambda call: [office.card_named(call.card)],
    )
    def void_card(card: str) -> str:
        """Void a gift card and pay it out."""
        office.voided.append(card)
        return f"{card} voided"

    # It does not say what it touches: under `same_tenant` it can't be used at all.
    @tool(effect="read", operation="look")
    def export_orders() -> list[str]:
        """List all orders."""
        return list(office.orders)

    return [order_status, refund, void_card, export_orders]


class RuleModel:
    """Does what the goal says, as in ``refund order=A-1 amount=30``; then tells what came of it."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Propose the call, or tell its result."""
        if not request.history:
            name, *words = request.goal.split()
            fields = dict(word.split("=", 1) for word in words)
            call = ToolCall(CallId("c1"), name, {**fields})
            return ModelReply(ToolCalls((call,)), Usage(), model="rules")
        (result,) = request.history[-1].results
        told = result.error.message if result.error is not None else str(result.output)
        return ModelReply(Final(told), Usage(), model="rules")
