"""README's code, word for word, with what it leaves to the reader: so it is type-checked too.

`test_docs.py` compares the two.
"""

# ruff: isort: skip_file
from __future__ import annotations

from decimal import Decimal

from loopwright import Agent, Budget, Policy, Principal, Reason, Reconciled, Runtime, ToolContext
from loopwright import applied, not_applied, tool
from loopwright.adapters import AnthropicModel
from loopwright.policy import over
from loopwright.stores import SQLiteStore


class Payments:
    """A payment service, of which every backend has its own."""

    async def refund(self, order: int, amount: Decimal, *, idempotency_key: str) -> str:
        """Pay back, at most once under one key; return the receipt."""
        return f"{amount} for {order} under {idempotency_key}"

    async def find(self, key: str) -> str | None:
        """Find the receipt of what was paid back under a key."""
        return key or None


payments = Payments()


@tool(effect="read")
async def order_status(order: int) -> dict[str, str]:
    """Look up an order."""
    return {"state": "paid", "amount": "30.00"}


@tool(effect="reconcilable", timeout=10, effect_key=lambda a: f"refund:{a.order}")
async def refund(order: int, amount: Decimal, ctx: ToolContext) -> str:
    """Pay money back, under an effect key that the payment service knows it by."""
    assert ctx.effect_key is not None  # as every write has
    return await payments.refund(order, amount, idempotency_key=ctx.effect_key)


@refund.reconcile
async def _(effect_key: str) -> Reconciled:
    """Tell what became of a refund, where a timeout or a crash has left that open."""
    receipt = await payments.find(effect_key)
    return applied(receipt) if receipt else not_applied()


desk = Agent(
    "refund-desk",
    model=AnthropicModel("claude-…"),  # or anything with `async def decide(request) -> ModelReply`
    tools=[order_status, refund],
    policy=Policy(ask=[over(100)]),  # above 100, a human has to say yes
    budget=Budget(max_steps=8, max_tool_calls=12),
)


async def use() -> None:
    """Use it."""
    async with Runtime([desk], store=SQLiteStore("agents.db")) as runtime:
        outcome = await runtime.run("refund-desk", "Refund order 7", principal=Principal("ana"))

        run = await runtime.start("refund-desk", "…", key="ticket-991")  # same key, same invocation
        async for record in run.events():
            print(record.kind)  # committed records, as they come
        run.cancel(reason="user left")  # from any thread

        # also from another process, days later:
        if outcome.proposal is not None:  # it waits for a yes to exactly this
            run = await runtime.approve(outcome.invocation_id, outcome.proposal.digest, by="bo")
            outcome = await run.outcome()
        if outcome.reason is Reason.MAX_STEPS:
            outcome = await runtime.resume(outcome.invocation_id, grant=Budget(max_steps=5))
        await runtime.recover()  # go on with what a dead worker left; or Runtime(adopt=True)

        for fact in await runtime.effects(statuses=["outcome_unknown"]):
            # nobody here can tell: find out, then settle it
            await runtime.settle(fact.invocation_id, fact.entry.call_id, applied("r-1"), by="bo")
