"""What may run of what a model proposes, and how: trusted code, without any state."""

from __future__ import annotations

from dataclasses import replace

from pydantic import ValidationError

from loopwright.policy import Access, Allow, Deny, Judgement, proposal_digest
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
    Handoff,
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
    Validate,
    ValidationVerdict,
    Verdict,
    bounded,
    call_fingerprint,
    check_json,
    derived_effect_key,
)

from .._work import described
from ..definitions._agent import Agent
from ..definitions._signature import explain
from ..definitions._tool import AnyTool, InvalidArgumentsError
from ._judged import (
    BROKEN,
    MIXED,
    Judged,
    at_fault,
    is_mixed,
    plan_of,
    refused,
    take_refusal,
    withhold_writes,
)


class Judge:
    """Judges decisions of one agent: schemas from its tools, permission from today's policy.

    Args:
        agent: Whose decisions.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._policy = agent.policy
        self._tools = agent.tools
        self._allows_everything = agent.policy.allows_everything

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
            case Handoff(calls=calls):
                problem = _handoff_problem(decision, self._agent)
                if problem is not None:
                    return Faulty(problem)
                return self._batch(request, calls, None) if calls else Accepted()

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
        except ValidationError as error:
            return Faulty(f"the final output does not fit: {explain(error, 'output')}")
        except Exception as error:  # noqa: BLE001 - the type's validators are foreign code
            return Faulty(f"the final output does not fit: {described(error)}")
        return Accepted(output=output)

    def _batch(self, request: Validate, calls: Calls, model_asks: str | None) -> ValidationVerdict:
        problem = _batch_problem(calls)
        if problem is not None:
            return Faulty(problem)
        judged: list[Judged] = []
        faults: list[str] = []
        for call in calls:
            one = self._call(request, call, model_asks)
            judged.append(one)
            if one.broken is not None:
                faults.append(one.broken)
        policy = self._policy
        withhold = BROKEN
        if not faults and policy.mixed_batch == "reject" and is_mixed(judged):
            withhold = MIXED
            faults.append("a call that changes something is not alone in its batch")
        if faults and policy.max_faulty_turns == 0:
            return Faulty("; ".join(faults))
        if faults:
            withhold_writes(judged, withhold)
        if request.digest is None and not [j for j in judged if j.ask is not None]:
            return Accepted(self._plan(judged, faults))
        digest = proposal_digest(
            (
                (j.planned.call_id, j.planned.tool_name, j.planned.arguments, self._schema(j))
                for j in judged
            ),
            policy.version,
            request.invocation_id,
            request.turn,
        )
        if request.digest == digest:
            judged = [
                self._edited(request, call, model_asks, one)
                for call, one in zip(calls, judged, strict=True)
            ]
            for one in judged:
                if one.planned.call_id in request.approved:
                    one.ask = None
        else:
            for one in judged:
                if one.runs and one.planned.call_id in request.edits:
                    one.ask = one.ask or "somebody has edited it, under another policy"
        for one in judged:
            take_refusal(one, request)
        plan = self._plan(judged, faults)
        asks = tuple(
            Ask(j.planned.call_id, j.planned.tool_name, j.planned.arguments, j.ask)
            for j in judged
            if j.ask is not None
        )
        return NeedsApproval(plan, digest, asks) if asks else Accepted(plan)

    def _plan(self, judged: list[Judged], faults: list[str]) -> Plan:
        serial = self._policy.mixed_batch == "serial"
        return plan_of(judged, "; ".join(faults) if faults else None, serial=serial)

    def _edited(
        self, request: Validate, call: AnyCall, model_asks: str | None, proposed: Judged
    ) -> Judged:
        """Judge a call anew where a human has changed it; under today's policy, as any other."""
        arguments = request.edits.get(call.call_id)
        if arguments is None or not isinstance(call, ToolCall) or not proposed.runs:
            return proposed
        # What was denied before, a human may still approve: nobody repeats a model's proposal.
        anew = request._replace(refused=frozenset())
        one = self._call(anew, replace(call, arguments=arguments), model_asks)
        one.planned = one.planned._replace(edited=one.runs)
        return one

    def check_edit(
        self, started: InvocationStarted, turn: int, call: ToolCall, asked: str = ""
    ) -> Ask:
        """Check what a human wants to run instead of a call; return it as it will run.

        Args:
            started: The invocation.
            turn: In which turn.
            call: With the edited arguments.
            asked: Why a human was asked; what counts is why one would be asked about the edit.

        Raises:
            RemoteProtocolError: If it does not fit the tool, or today's policy denies it.
        """
        decision = ToolCalls((call,))
        request = Validate(
            started.invocation_id, turn, decision, started.principal, metadata=started.metadata
        )
        judged = self._call(request, call, None)
        planned = judged.planned
        if planned.refused is not None and planned.refused.error is not None:
            where, problem = f"edits.{bounded(call.call_id)}", planned.refused.error.message
            if planned.refused.status is ResultStatus.INVALID_ARGUMENTS:
                problem = f"{problem}; give all arguments of the call, which still waits"
            raise RemoteProtocolError(where, problem)
        return Ask(call.call_id, planned.tool_name, planned.arguments, judged.ask or asked)

    def _schema(self, judged: Judged) -> str:
        tool = self._agent.tools.get(judged.planned.tool_name)
        return tool.schema_version if tool is not None else ""

    def _call(self, request: Validate, call: AnyCall, model_asks: str | None) -> Judged:
        if request.tools == "none":
            error = _soft_stop("no tool may be used any more; give the final answer now")
            return refused(call, ResultStatus.NOT_STARTED, error)
        tool = self._tools.get(call.tool_name)
        if tool is None:
            known = ", ".join(self._agent.tools) or "none"
            text = f"there is no tool {bounded(call.tool_name)!r}; available: {known}"
            return at_fault(call, ResultStatus.UNKNOWN_TOOL, "UnknownTool", text)
        if request.tools == "finishing" and not tool.finishing:
            return refused(call, ResultStatus.NOT_STARTED, self._restricted(), tool.effect)
        if isinstance(call, BrokenCall):
            return _unfit(call, call.problem, tool)
        try:
            arguments, checked = tool.check(call.arguments)
            reads, writes = tool.reads_of(checked), tool.writes_of(checked)
        except InvalidArgumentsError as error:
            return _unfit(call, str(error), tool)
        if request.refused and _is_refused(request, tool, call.arguments, arguments):
            text = "it was denied before; do not propose it again"
            return _denied(call, tool, arguments, "DeniedBefore", "denied_before", text)
        judgement = self._judgement(request, call, tool, arguments, reads, writes)
        if isinstance(judgement, Deny):
            rule, reason = judgement.rule, judgement.reason
            return _denied(call, tool, arguments, "Denied", rule, reason)
        key, effect = None, tool.effect
        if effect is not Effect.READ:
            try:
                key = tool.effect_key_of(checked)
            except InvalidArgumentsError as error:
                return _unfit(call, str(error), tool)
        outbox = tool.ordered_by(writes) if tool.outbox else None
        if writes is not None:
            # The same mutation twice in a batch is not tried twice at once.
            writes = (*writes, key or call_fingerprint(tool.name, arguments))
        if effect is not Effect.READ and key is None:
            key = derived_effect_key(request.invocation_id, request.turn, call.call_id)
        planned = PlannedCall(
            call.call_id, tool.name, effect, arguments, key, None, outbox, False, tool.child
        )
        judged = Judged(planned, None, None, None, reads, writes, call.arguments)
        if judgement is not _ALLOWED or model_asks is not None:
            self._note(judged, judgement, model_asks)
        return judged

    def _note(self, judged: Judged, judgement: Allow | AskHuman, model_asks: str | None) -> None:
        """Keep what was said of a call that may run, with or without a human's yes."""
        call_id = judged.planned.call_id
        match judgement:
            case AskHuman(reason=reason, rule=rule):
                judged.ask, judged.verdict = reason, Verdict(call_id, "ask", rule, reason)
            case Allow() if model_asks is not None:
                judged.ask = model_asks
                judged.verdict = Verdict(call_id, "ask", "model", model_asks)
            case Allow(rule=rule) if rule != "default":
                judged.verdict = Verdict(call_id, "allow", rule)
            case Allow():
                pass

    def _judgement(
        self,
        request: Validate,
        call: ToolCall,
        tool: AnyTool,
        arguments: JsonObject,
        reads: tuple[str, ...] | None,
        writes: tuple[str, ...] | None,
    ) -> Judgement:
        if self._allows_everything:
            return _ALLOWED
        return self._policy.judge(
            Access(
                request.principal,
                self._agent.name,
                tool.name,
                tool.operation,
                tool.effect,
                arguments,
                call.call_id,
                reads or (),
                writes or (),
                request.metadata,
            )
        )

    def _restricted(self) -> ToolError:
        left = ", ".join(name for name, tool in self._agent.tools.items() if tool.finishing)
        text = f"only these tools may still be used: {left}" if left else "no tool may be used"
        return _soft_stop(f"the budget is nearly used up, and {text}; come to an end")


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


def _handoff_problem(decision: Handoff, agent: Agent) -> str | None:
    """What makes it impossible to hand the invocation on so."""
    if decision.target not in agent.handoffs or decision.target == agent.name:
        possible = ", ".join(name for name in agent.handoffs if name != agent.name) or "nobody"
        return f"it cannot be handed to {bounded(decision.target)!r}; possible: {possible}"
    if not decision.reason.strip():
        return "the handoff has no reason; say why another agent has to go on"
    note = decision.progress
    if not any(text.strip() for text in (*note.done, *note.open)):
        return "the progress note is empty; say what is done, or what is open"
    return None


def _unfit(call: AnyCall, problem: str, tool: AnyTool) -> Judged:
    return at_fault(call, ResultStatus.INVALID_ARGUMENTS, "InvalidArguments", problem, tool.effect)


def _is_refused(request: Validate, tool: AnyTool, *spelled: JsonObject) -> bool:
    """Whether a call was denied before: as it is proposed, or as it would run."""
    return any(call_fingerprint(tool.name, arguments) in request.refused for arguments in spelled)


def _denied(
    call: ToolCall, tool: AnyTool, arguments: JsonObject, kind: str, rule: str, reason: str
) -> Judged:
    judged = at_fault(call, ResultStatus.DENIED, kind, reason, tool.effect, arguments)
    judged.verdict = Verdict(call.call_id, "deny", rule, reason)
    return judged


def _soft_stop(text: str) -> ToolError:
    return ToolError(ErrorCategory.PERMISSION, "SoftStop", f"not started: {text}")
