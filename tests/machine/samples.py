"""Decisions, plans and results to drive a machine with, and a small validator that makes them.

The name of a tool says what it is: `read…` reads, `pay…` is an idempotent write, `wire…` a
reconcilable one, `mail…` a manual one, `post…` an idempotent one that goes into the outbox,
`transfer…` an idempotent write a human is asked about, `hire` and `hire_too` stand for child
invocations, `ban…` is denied by policy, anything else is unknown.
"""

from __future__ import annotations

from decimal import Decimal

from loopwright.policy import Footprint, proposal_digest, stages
from loopwright.protocol import (
    NO_USAGE,
    Accepted,
    AnyCall,
    Ask,
    Budget,
    CallId,
    CannotContinue,
    ChildStand,
    Clarification,
    Decision,
    Effect,
    Ending,
    ErrorCategory,
    Execute,
    Final,
    Handoff,
    InvocationId,
    InvocationStarted,
    JsonValue,
    NeedsApproval,
    Plan,
    PlannedCall,
    Price,
    Principal,
    Reason,
    Reconcile,
    RequestApproval,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolError,
    ToolResult,
    Usage,
    Validate,
    ValidationVerdict,
    call_fingerprint,
    derived_effect_key,
)

Batch = ToolCalls | RequestApproval | Handoff

INVOCATION = InvocationId("inv-1")
CHILDREN = {"hire": Budget(max_steps=5, max_tool_calls=10), "hire_too": Budget()}
"""Tools that stand for child invocations, and the limits those would have alone."""


def started(budget: Budget, prices: tuple[Price, ...] = ()) -> InvocationStarted:
    """Make the first record."""
    return InvocationStarted(
        INVOCATION,
        "desk",
        "1",
        "1",
        "refund order 7",
        Principal(),
        budget,
        1_000.0,
        prices=prices,
    )


def calls(*names: str) -> ToolCalls:
    """Ask for these tools; the call id is the tool's name."""
    return ToolCalls(tuple(ToolCall(CallId(name), name, {"of": name}) for name in names))


def effect_of(tool: str) -> Effect:
    """Read the effect class off the name."""
    if tool.startswith(("pay", "transfer", "post")):
        return Effect.IDEMPOTENT
    if tool.startswith("wire") or tool in CHILDREN:
        return Effect.RECONCILABLE
    return Effect.MANUAL if tool.startswith("mail") else Effect.READ


def judge(request: Validate) -> ValidationVerdict:
    """Stand in for the Validator."""
    decision: Decision = request.decision
    match decision:
        case Final() | Clarification() | CannotContinue() | Handoff(calls=()):
            return Accepted()
        case ToolCalls() | RequestApproval() | Handoff():
            return _judge_calls(request, decision)


def plan_of(request: Validate, decision: Batch) -> Plan:
    """Plan a batch: unknown tools are refused, and then no write starts."""
    unknown = [c.tool_name for c in decision.calls if not _known(c.tool_name)]
    planned: list[PlannedCall] = []
    for call in decision.calls:
        effect = effect_of(call.tool_name)
        key = derived_effect_key(request.invocation_id, request.turn, call.call_id)
        refused: ToolResult | None = None
        if not _known(call.tool_name):
            refused = refusal(call.call_id, call.tool_name, ResultStatus.UNKNOWN_TOOL)
        elif _denied(request, call):
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
                "helper" if call.tool_name in CHILDREN else None,
            )
        )
    runnable = [Footprint(i, call.effect) for i, call in enumerate(planned) if call.refused is None]
    fault = f"there is no tool {unknown[0]!r}" if unknown else None
    return Plan(tuple(planned), stages(runnable), fault=fault)


def at_once(verdict: ValidationVerdict) -> ValidationVerdict:
    """Plan a batch in one stage, as the planner does not do today: more may be unknown at once."""
    if not isinstance(verdict, Accepted) or verdict.plan is None:
        return verdict
    stage = tuple(index for stage in verdict.plan.stages for index in stage)
    return Accepted(verdict.plan._replace(stages=(stage,) if stage else ()))


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


def failed(
    execute: Execute,
    status: ResultStatus = ResultStatus.ERROR,
    *,
    category: ErrorCategory = ErrorCategory.INTERNAL,
) -> ToolResult:
    """Return what a tool that failed, or was interrupted, returns."""
    error = ToolError(category, "RuntimeError", "boom")
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


def child_of(call_id: str) -> InvocationId:
    """Name the child invocation that a call stands for."""
    return InvocationId(f"child-{call_id}")


_AFTER = {
    Ending.FINISHED: ResultStatus.OK,
    Ending.SUSPENDED: ResultStatus.OUTCOME_UNKNOWN,
    Ending.FAILED: ResultStatus.ERROR,
    Ending.CANCELLED: ResultStatus.CANCELLED,
}


def stand_of(
    order: Execute | Reconcile,
    reason: Reason | None = Reason.COMPLETED,
    tool_calls: int = 1,
    usage: Usage = NO_USAGE,
    cost: str = "0",
) -> ToolResult:
    """Say how the child stands that a call started, and what it has used; or that nobody knows."""
    status = ResultStatus.OUTCOME_UNKNOWN if reason is None else _AFTER[reason.outcome]
    error = ToolError(ErrorCategory.INTERNAL, str(reason), "see the child itself")
    child = child_of(order.call_id)
    return ToolResult(
        order.call_id,
        order.tool_name,
        status,
        "its answer" if status is ResultStatus.OK else None,
        None if status is ResultStatus.OK else error,
        effect_key=order.effect_key,
        effect=None if status is ResultStatus.OUTCOME_UNKNOWN else "committed",
        child=reason and ChildStand(child, reason, tool_calls, usage, Decimal(cost)),
    )


def _known(tool: str) -> bool:
    kinds = ("read", "pay", "wire", "mail", "post", "transfer", "ban")
    return tool.startswith(kinds) or tool in CHILDREN


def _denied(request: Validate, call: AnyCall) -> bool:
    """Whether policy, a human, nobody in time, or what was denied before says no."""
    if call.tool_name.startswith("ban") or call.call_id in request.expired:
        return True
    if call.call_id in dict(request.denied):
        return True
    return isinstance(call, ToolCall) and (
        call_fingerprint(call.tool_name, call.arguments) in request.refused
    )


def _judge_calls(request: Validate, decision: Batch) -> ValidationVerdict:
    plan = plan_of(request, decision)
    bound = [
        (c.call_id, c.tool_name, c.arguments if isinstance(c, ToolCall) else {}, "1")
        for c in decision.calls
    ]
    digest = proposal_digest(bound, "1", request.invocation_id, request.turn)
    settled = {*request.approved, *(call_id for call_id, _ in request.denied)}
    asks = tuple(
        Ask(call.call_id, call.tool_name, call.arguments, "over the limit")
        for call in plan.calls
        if call.refused is None
        and call.tool_name.startswith("transfer")
        and (call.call_id not in settled or request.digest != digest)
    )
    return NeedsApproval(plan, digest, asks) if asks else Accepted(plan)
