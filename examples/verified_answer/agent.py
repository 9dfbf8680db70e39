"""The agent: it has to mend a bug and pay a refund, and its model is too quick to say that it has.

The model is made of rules. It claims to be done at once; only when a verifier has told it that
it is not, it does what is missing, and claims again.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path

from loopwright import (
    Agent,
    Final,
    Model,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolCalls,
    ToolContext,
    Usage,
    tool,
)
from loopwright.actors import AnyTool
from loopwright.protocol import CallId, Decision, History, JsonObject

from .layers import command, has_fields, receipts_exist
from .project import MENDED

NAME = "repair-desk"
GOAL = "Order 7 was charged a cent too much. Refund it, and mend pricing.py."


def make_agent(project: Path, model: Model | None = None) -> Agent:
    """Make the agent for the project in a folder."""
    tests = (sys.executable, "-B", "-m", "unittest", "-q")
    return Agent(
        NAME,
        model=model or HastyModel(),
        tools=_tools(project),
        verifiers=[
            has_fields("refund_id", "amount", "summary"),
            receipts_exist("refund", "refund_id", "amount"),
            command(*tests, cwd=project),
        ],
    )


def _tools(project: Path) -> list[AnyTool]:
    @tool(effect="idempotent", effect_key=lambda call: f"refund:{call.order}")
    async def refund(order: int, amount: Decimal, ctx: ToolContext) -> dict[str, str]:
        """Pay a refund; a till of its own stands behind it, which deduplicates by the key."""
        return {"refund_id": f"RF-{order:04}", "amount": str(amount), "key": str(ctx.effect_key)}

    @tool(effect="idempotent", effect_key=lambda _: "write:pricing.py")
    def write_pricing(text: str) -> int:
        """Replace pricing.py; return how many characters it has now."""
        return (project / "pricing.py").write_text(text)

    return [refund, write_pricing]


class HastyModel:
    """Stands where a language model would."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Claim to be done, or do what the last claim lacked."""
        return ModelReply(_next_step(request.history), Usage(), model="hasty")


def _next_step(history: History) -> Decision:
    done = {call: output for turn in history for call, output in turn.outputs().items()}
    told = history[-1].fault if history else None
    if told is None or told.level != "answer":
        receipt = done.get("pay")
        refund_id = receipt["refund_id"] if isinstance(receipt, dict) else "RF-9999"
        output: JsonObject = {"refund_id": refund_id, "amount": "0.01", "summary": "all done"}
        return Final("The refund is paid and pricing.py is mended.", output)
    if "pay" not in done:
        return _call("pay", "refund", order=7, amount="0.01")
    return _call("mend", "write_pricing", text=MENDED)


def _call(call_id: str, tool_name: str, **arguments: str | int) -> ToolCalls:
    return ToolCalls((ToolCall(CallId(call_id), tool_name, dict(arguments)),))
