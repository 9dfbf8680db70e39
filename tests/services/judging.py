"""A Validator's tools and questions, and short ways to say what became of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopwright import (
    Agent,
    Policy,
    Principal,
    ToolCalls,
    tool,
)
from loopwright.actors import AnyTool
from loopwright.actors.roles._judge import Judge
from loopwright.protocol import (
    Accepted,
    BrokenCall,
    CallId,
    Decision,
    JsonValue,
    NeedsApproval,
    Plan,
    ToolAccess,
    ToolCall,
    Validate,
    ValidationVerdict,
)
from loopwright.testing import ScriptedModel
from services.bench import INVOCATION


@tool(effect="read")
def find(sku: str, limit: int = 5) -> None: ...


@tool(effect="idempotent", effect_key=lambda a: f"order:{a.order}")
def pay(order: int, amount: int = 1) -> None: ...


@tool(effect="manual")
def mail(to: str) -> None: ...


@tool(effect="manual", effect_key=lambda a: a.order)
def keyless(order: int) -> None: ...


TOOLS = (find, pay, mail, keyless)


def call(call_id: str, name: str, **arguments: JsonValue) -> ToolCall:
    return ToolCall(CallId(call_id), name, arguments)


FIND = call("f", "find", sku="a")
PAY = call("p", "pay", order="7")
MAIL = call("m", "mail", to="ann")


REQUEST = ("approved", "denied", "digest", "edits", "refused", "metadata", "expired")
"""What goes with the request, not with the policy."""


def judge(
    decision: Decision,
    *,
    output: Any = None,
    tools: Sequence[AnyTool] = TOOLS,
    handoffs: Sequence[str] = (),
    use: ToolAccess = "all",
    **options: Any,
) -> ValidationVerdict:
    """Judge a decision of an agent with the policy; answers of humans go along."""
    request = {key: options.pop(key) for key in REQUEST if key in options}
    agent = Agent(
        "desk",
        model=ScriptedModel([]),
        tools=tools,
        output=output,
        handoffs=handoffs,
        policy=Policy(**options),
    )
    order = Validate(INVOCATION, 1, decision, Principal("ann"), tools=use, **request)
    return Judge(agent).judge(order)


def plan_of(*calls: ToolCall | BrokenCall, **options: Any) -> Plan:
    """Judge a batch that goes on, with or without a human."""
    verdict = judge(ToolCalls(calls), **options)
    assert isinstance(verdict, Accepted | NeedsApproval)
    assert verdict.plan is not None
    return verdict.plan


def asked(decision: Decision, **options: Any) -> NeedsApproval:
    verdict = judge(decision, **options)
    assert isinstance(verdict, NeedsApproval)
    return verdict


def fates(plan: Plan) -> list[str]:
    """Each call: `runs`, or the status that refuses it."""
    return [c.refused.status.value if c.refused is not None else "runs" for c in plan.calls]


def message_of(plan: Plan, index: int = 0) -> str:
    refused = plan.calls[index].refused
    assert refused is not None
    assert refused.error is not None
    return f"{refused.error.category.value}/{refused.error.type}: {refused.error.message}"
