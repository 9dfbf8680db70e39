"""Decisions, plans and results to drive a machine with, and a small validator that makes them.

The name of a tool says what it is: `read…` reads, `pay…` is an idempotent write, `wire…` a
reconcilable one, `mail…` a manual one, `post…` an idempotent one that goes into the outbox,
`transfer…` an idempotent write a human is asked about, anything else is unknown.
"""

from __future__ import annotations

from loopwright.policy import proposal_digest, stages
from loopwright.protocol import (
    Accepted,
    Ask,
    Budget,
    CallId,
    CannotContinue,
    Clarification,
    Decision,
    Effect,
    ErrorCategory,
    Execute,
    Final,
    InvocationId,
    InvocationStarted,
    JsonValue,
    NeedsApproval,
    Plan,
    PlannedCall,
    Principal,
    RequestApproval,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolError,
    ToolResult,
    Validate,
    ValidationVerdict,
    derived_effect_key,
)

INVOCATION = InvocationId("inv-1")


def started(budget: Budget) -> InvocationStarted:
    """Make the first record."""
    return InvocationStarted(
        INVOCATION, "desk", "1", "1", "refund order 7", Principal(), budget, 1_000.0
    )


def calls(*names: str) -> ToolCalls:
    """Ask for these tools; the call id is the tool's name."""
    return ToolCalls(tuple(ToolCall(CallId(name), name, {"of": name}) for name in names))


def effect_of(tool: str) -> Effect:
    """Read the effect class off the name."""
    if tool.startswith(("pay", "transfer", "post")):
        return Effect.IDEMPOTENT
    if tool.startswith("wire"):
        return Effect.RECONCILABLE
    return Effect.MANUAL if tool.startswith("mail") else Effect.READ


def judge(request: Validate) -> ValidationVerdict:
    """Stand in for the Validator."""
    decision: Decision = request.decision
    match decision:
        case Final() | Clarification() | CannotContinue():
            return Accepted()
        case ToolCalls() | RequestApproval():
            return _judge_calls(request, decision)


def plan_of(request: Validate, decision: ToolCalls | RequestApproval) -> Plan:
    """Plan a batch: unknown tools are refused, and then no write starts."""
    unknown = [c.tool_name for c in decision.calls if not _known(c.tool_name)]
    denied = dict(request.denied)
    planned: list[PlannedCall] = []
    for call in decision.calls:
        effect = effect_of(call.tool_name)
        key = derived_effect_key(request.invocation_id, request.turn, call.call_id)
        refused: ToolResult | None = None
        if not _known(call.tool_name):
            refused = refusal(call.call_id, call.tool_name, ResultStatus.UNKNOWN_TOOL)
        elif call.call_id in denied:
            refused = refusal(call.call_id, call.tool_name, ResultStatus.DENIED)
        elif unknown and effect.is_write:
            refused = refusal(call.call_id, call.tool_name, ResultStatus.NOT_STARTED)
        arguments = call.arguments if isinstance(call, ToolCall) else {}
        edit = request.edits.get(call.call_id)
        planned.append(
            PlannedCall(
                call.call_id,
                call.tool_name,
                effect,
                arguments if edit is None else edit,
                key if effect.is_write else None,
                refused,
                (f"tool:{call.tool_name}",) if call.tool_name.startswith("post") else None,
                edit is not None,
            )
        )
    runnable = [(i, call.effect) for i, call in enumerate(planned) if call.refused is None]
    fault = f"there is no tool {unknown[0]!r}" if unknown else None
    names = "|".join(sorted(call.tool_name for call in planned)).encode()
    return Plan(tuple(planned), stages(runnable), names, fault=fault)


def ok(execute: Execute, output: JsonValue = "done") -> ToolResult:
    """Return what a tool that worked returns."""
    return ToolResult(
        execute.call_id,
        execute.tool_name,
        ResultStatus.OK,
        output,
        attempts=execute.attempt,
        effect_key=execute.effect_key,
    )


def failed(execute: Execute, status: ResultStatus = ResultStatus.ERROR) -> ToolResult:
    """Return what a tool that failed, or was interrupted, returns."""
    error = ToolError(ErrorCategory.INTERNAL, "RuntimeError", "boom")
    return ToolResult(
        execute.call_id,
        execute.tool_name,
        status,
        error=error,
        attempts=execute.attempt,
        effect_key=execute.effect_key,
    )


def lost(execute: Execute) -> ToolResult:
    """Return what a write returns of which nobody knows whether it took effect."""
    return failed(execute, ResultStatus.OUTCOME_UNKNOWN)


def refusal(call_id: CallId, tool: str, status: ResultStatus) -> ToolResult:
    """Make the result of a call that is not run."""
    error = ToolError(ErrorCategory.INVALID_INPUT, "Refused", "it may not run")
    return ToolResult(call_id, tool, status, error=error)


def _known(tool: str) -> bool:
    return tool.startswith(("read", "pay", "wire", "mail", "post", "transfer"))


def _judge_calls(request: Validate, decision: ToolCalls | RequestApproval) -> ValidationVerdict:
    plan = plan_of(request, decision)
    bound = [
        (c.call_id, c.tool_name, c.arguments if isinstance(c, ToolCall) else {}, "1")
        for c in decision.calls
    ]
    digest = proposal_digest(bound, "1")
    settled = {*request.approved, *(call_id for call_id, _ in request.denied)}
    asks = tuple(
        Ask(call.call_id, call.tool_name, call.arguments, "over the limit")
        for call in plan.calls
        if call.refused is None
        and call.tool_name.startswith("transfer")
        and (call.call_id not in settled or request.digest != digest)
    )
    return NeedsApproval(plan, digest, asks) if asks else Accepted(plan)
