"""What may run of what a model proposes, and how: trusted code, without any state."""

from __future__ import annotations

from dataclasses import dataclass, replace

from loopwright.policy import (
    Access,
    Allow,
    Deny,
    Judgement,
    plan_fingerprint,
    proposal_digest,
    stages,
)
from loopwright.policy import Ask as AskHuman
from loopwright.protocol import (
    Accepted,
    AnyCall,
    Ask,
    BrokenCall,
    Calls,
    CannotContinue,
    Clarification,
    Effect,
    ErrorCategory,
    Faulty,
    Final,
    InvocationStarted,
    JsonObject,
    NeedsApproval,
    Plan,
    PlannedCall,
    RemoteProtocolError,
    RequestApproval,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolError,
    ToolResult,
    Validate,
    ValidationVerdict,
    Verdict,
    bounded,
    check_json,
    derived_effect_key,
)

from .._agent import Agent
from .._tool import AnyTool, InvalidArgumentsError
from .._work import described


@dataclass(slots=True)
class _Judged:
    """One call on its way to a plan."""

    planned: PlannedCall
    ask: str | None = None
    verdict: Verdict | None = None
    broken: str | None = None
    """What the model did wrong; a denial by a human is not that."""


class Judge:
    """Judges decisions of one agent: schemas from its tools, permission from today's policy.

    Args:
        agent: Whose decisions.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def judge(self, request: Validate) -> ValidationVerdict:
        """Say whether a decision may go on, and how."""
        decision = request.decision
        match decision:
            case Final():
                return self._final(decision)
            case Clarification(question=question):
                blank = not question.strip()
                return Faulty("the question is blank; ask one, or decide") if blank else Accepted()
            case CannotContinue():
                return Accepted()
            case ToolCalls(calls=calls):
                return self._batch(request, calls, None)
            case RequestApproval(calls=calls, reason=reason):
                return self._batch(request, calls, reason or "the model asks for approval")

    def _final(self, decision: Final) -> ValidationVerdict:
        if self._agent.output is None:
            if decision.answer.strip() or decision.output is not None:
                return Accepted(output=decision.output)
            return Faulty("the final answer is blank; answer, or go on with calls")
        adapter = self._agent.output
        try:
            value = adapter.validate_python(decision.output)
            # By alias and with a round trip in mind: `parse_output` has to read this again.
            output = adapter.dump_python(value, mode="json", by_alias=True, round_trip=True)
            check_json(output, where="output")
        except Exception as error:  # noqa: BLE001 - the type's validators are foreign code
            return Faulty(f"the final output does not fit: {described(error)}")
        return Accepted(output=output)

    def _batch(self, request: Validate, calls: Calls, model_asks: str | None) -> ValidationVerdict:
        problem = _batch_problem(calls)
        if problem is not None:
            return Faulty(problem)
        judged: list[_Judged] = []
        faults: list[str] = []
        asks_needed = request.digest is not None
        for call in calls:
            one = self._call(request, call, model_asks)
            judged.append(one)
            asks_needed = asks_needed or one.ask is not None
            if one.broken is not None:
                faults.append(one.broken)
        policy = self._agent.policy
        if faults and policy.max_faulty_turns == 0:
            return Faulty("; ".join(faults))
        if faults:
            # A broken batch never starts a write: the model did not mean what it said.
            judged = [_withheld(j) for j in judged]
        plan_fault = "; ".join(faults) or None
        if not asks_needed:
            return Accepted(_plan(calls, judged, plan_fault))
        digest = proposal_digest(
            (
                (j.planned.call_id, j.planned.tool_name, j.planned.arguments, self._schema(j))
                for j in judged
            ),
            policy.version,
        )
        if request.digest == digest:
            judged = [
                _answered(self._edited(request, call, model_asks, one), request)
                for call, one in zip(calls, judged, strict=True)
            ]
        plan = _plan(calls, judged, plan_fault)
        asks = tuple(
            Ask(j.planned.call_id, j.planned.tool_name, j.planned.arguments, j.ask)
            for j in judged
            if j.ask is not None
        )
        return NeedsApproval(plan, digest, asks) if asks else Accepted(plan)

    def _edited(
        self, request: Validate, call: AnyCall, model_asks: str | None, proposed: _Judged
    ) -> _Judged:
        """Judge a call anew where a human has changed it; under today's policy, as any other."""
        arguments = request.edits.get(call.call_id)
        if arguments is None or not isinstance(call, ToolCall) or proposed.planned.refused:
            return proposed
        one = self._call(request, replace(call, arguments=arguments), model_asks)
        one.planned = one.planned._replace(edited=one.planned.refused is None)
        return one

    def check_edit(self, started: InvocationStarted, turn: int, call: ToolCall) -> JsonObject:
        """Check what a human wants to run instead of a call; return it as it will run.

        Raises:
            RemoteProtocolError: If it does not fit the tool, or today's policy denies it.
        """
        decision = ToolCalls((call,))
        request = Validate(started.invocation_id, turn, decision, started.principal)
        planned = self._call(request, call, None).planned
        if planned.refused is not None and planned.refused.error is not None:
            where, problem = f"edits.{bounded(call.call_id)}", planned.refused.error.message
            raise RemoteProtocolError(where, problem)
        return planned.arguments

    def _judgement(
        self, request: Validate, call: ToolCall, tool: AnyTool, arguments: JsonObject
    ) -> Judgement:
        policy = self._agent.policy
        if policy.allows_everything:
            return _ALLOWED
        return policy.judge(
            Access(
                request.principal, self._agent.name, tool.name, tool.effect, arguments, call.call_id
            )
        )

    def _schema(self, judged: _Judged) -> str:
        tool = self._agent.tools.get(judged.planned.tool_name)
        return tool.schema_version if tool is not None else ""

    def _call(self, request: Validate, call: AnyCall, model_asks: str | None) -> _Judged:
        tool = self._agent.tools.get(call.tool_name)
        if tool is None:
            known = ", ".join(self._agent.tools) or "none"
            text = f"there is no tool {bounded(call.tool_name)!r}; available: {known}"
            return _refused(call, ResultStatus.UNKNOWN_TOOL, "UnknownTool", text)
        if isinstance(call, BrokenCall):
            return _unfit(call, call.problem, tool)
        try:
            arguments, checked = tool.check(call.arguments)
        except InvalidArgumentsError as error:
            return _unfit(call, str(error), tool)
        judgement = self._judgement(request, call, tool, arguments)
        if isinstance(judgement, Deny):
            denied = _refused(
                call, ResultStatus.DENIED, "Denied", judgement.reason, tool.effect, arguments
            )
            denied.verdict = Verdict(call.call_id, "deny", judgement.rule, judgement.reason)
            return denied
        key, outbox = None, None
        if tool.effect.is_write:
            try:
                key = tool.effect_key_of(checked)
                outbox = tool.resources_of(checked) if tool.outbox else None
            except InvalidArgumentsError as error:
                return _unfit(call, str(error), tool)
            key = key or derived_effect_key(request.invocation_id, request.turn, call.call_id)
        planned = PlannedCall(call.call_id, tool.name, tool.effect, arguments, key, None, outbox)
        match judgement:
            case AskHuman(reason=reason, rule=rule):
                return _Judged(planned, reason, Verdict(call.call_id, "ask", rule, reason))
            case Allow() if model_asks is not None:
                return _Judged(
                    planned, model_asks, Verdict(call.call_id, "ask", "model", model_asks)
                )
            case Allow(rule=rule) if rule != "default":
                return _Judged(planned, verdict=Verdict(call.call_id, "allow", rule))
            case Allow():
                return _Judged(planned)


_ALLOWED = Allow()


def _batch_problem(calls: Calls) -> str | None:
    """What makes the decision as a whole unusable."""
    if not calls:
        return "the batch is empty; name at least one call, or give the final answer"
    seen: set[str] = set()
    for call in calls:
        if not call.call_id.strip():
            return "a call has no call id; give each its own"
        if call.call_id in seen:
            shown = bounded(call.call_id)
            return f"the call id {shown!r} is used twice; give each call its own"
        seen.add(call.call_id)
    return None


def _unfit(call: AnyCall, problem: str, tool: AnyTool) -> _Judged:
    return _refused(call, ResultStatus.INVALID_ARGUMENTS, "InvalidArguments", problem, tool.effect)


def _refused(
    call: AnyCall,
    status: ResultStatus,
    kind: str,
    text: str,
    effect: Effect = Effect.READ,
    arguments: JsonObject | None = None,
) -> _Judged:
    category = (
        ErrorCategory.PERMISSION if status is ResultStatus.DENIED else ErrorCategory.INVALID_INPUT
    )
    name = bounded(call.tool_name)
    result = ToolResult(call.call_id, name, status, error=ToolError(category, kind, text))
    given = call.arguments if isinstance(call, ToolCall) else {}
    planned = PlannedCall(
        call.call_id, name, effect, given if arguments is None else arguments, refused=result
    )
    return _Judged(planned, broken=f"call {bounded(call.call_id)!r}: {text}")


def _withheld(judged: _Judged) -> _Judged:
    planned = judged.planned
    if planned.refused is not None or not planned.effect.is_write:
        return judged
    text = "not started, because another call of the batch was refused; propose it again"
    error = ToolError(ErrorCategory.INVALID_INPUT, "BrokenBatch", text)
    result = ToolResult(planned.call_id, planned.tool_name, ResultStatus.NOT_STARTED, error=error)
    return _Judged(_refuse(planned, result), verdict=judged.verdict)


def _answered(judged: _Judged, request: Validate) -> _Judged:
    """Apply a human's answers: they were given for exactly this proposal."""
    planned = judged.planned
    if judged.ask is None:
        return judged
    if planned.call_id in request.approved:
        return _Judged(planned, verdict=judged.verdict)
    why = dict(request.denied).get(planned.call_id)
    if why is None:
        return judged
    error = ToolError(ErrorCategory.PERMISSION, "DeniedByHuman", f"denied by {why}")
    result = ToolResult(planned.call_id, planned.tool_name, ResultStatus.DENIED, error=error)
    return _Judged(_refuse(planned, result), verdict=judged.verdict)


def _refuse(planned: PlannedCall, result: ToolResult) -> PlannedCall:
    return PlannedCall(
        planned.call_id, planned.tool_name, planned.effect, planned.arguments, refused=result
    )


def _plan(proposed: Calls, judged: list[_Judged], fault: str | None) -> Plan:
    calls = tuple([j.planned for j in judged])
    runnable = [(i, call.effect) for i, call in enumerate(calls) if call.refused is None]
    verdicts = tuple([j.verdict for j in judged if j.verdict is not None])
    return Plan(calls, stages(runnable), plan_fingerprint(proposed), verdicts, fault)
