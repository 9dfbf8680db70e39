"""What each message means to people who watch: names and bounded evidence, never hidden reasoning.

Texts are cut, arguments and outputs are told by digest and size: the journal has them in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Literal, TypeAlias

from loopwright.protocol import (
    Accepted,
    Answer,
    AnswerApproval,
    AnyCall,
    Assessed,
    AttemptFailed,
    Cancel,
    CannotContinue,
    ChildRested,
    Clarification,
    CommitFailed,
    Committed,
    Compacted,
    Decide,
    Decided,
    DecideFailed,
    DecideInstead,
    Execute,
    Executed,
    Expire,
    Faulty,
    Found,
    Grant,
    Handoff,
    HandOver,
    Input,
    JsonObject,
    JsonValue,
    Late,
    LeaseLost,
    Malformed,
    ModelErrorKind,
    NeedsApproval,
    NotDispatched,
    Observed,
    Output,
    Plan,
    Proposed,
    Reconcile,
    Recover,
    RequestApproval,
    Rested,
    Settle,
    Stalled,
    ToolCall,
    ToolResult,
    Usage,
    Validated,
    ValidationVerdict,
    Verified,
    bounded,
    calls_of,
    digest,
    dumps,
)
from loopwright.protocol import (
    Final as FinalAnswer,
)

EventName: TypeAlias = Literal[
    "state_transition",
    "llm_call_started",
    "llm_call_finished",
    "tool_call_requested",
    "permission_evaluated",
    "tool_progress",
    "tool_call_finished",
    "context_compacted",
    "checkpoint_saved",
    "checkpoint_failed",
    "run_finished",
    "notice",
    "approval",
    "reconcile",
    "handoff",
    "retry",
    "breaker",
    "lease",
    "late",
    "verification",
    "progress",
    "child",
    "command",
]
Fact: TypeAlias = tuple[EventName, JsonObject]

TEXT_LIMIT: Final = 300
"""Characters kept of a text."""
LIST_LIMIT: Final = 32
"""Items kept of a list."""
_DIGEST: Final = 32


def heard(message: Input) -> Iterator[Fact]:
    """Say what a message means that came in; many mean nothing to people."""
    match message:
        case Decided():
            yield "llm_call_finished", _decided(message)
        case DecideFailed(error=error, category=category):
            yield "llm_call_finished", {"error": _cut(error), "kind": category}
        case AttemptFailed():
            yield _attempt_failed(message)
        case Validated(verdict=verdict):
            yield "permission_evaluated", _verdict(verdict)
        case Executed(attempt_id=attempt, result=result):
            yield "tool_call_finished", _finished(attempt, result)
            if (down := result.error) is not None and result.unavailable:
                data: JsonObject = {"tool": result.tool_name, "error": _cut(down.message)}
                yield "breaker", data
        case ChildRested(attempt_id=attempt, result=result):
            yield "tool_call_finished", _finished(attempt, result)
            if (child := result.child) is not None:
                data = {
                    "invocation": child.invocation_id,
                    "reason": str(child.reason),
                    "tool_calls": child.tool_calls,
                    **_tokens(child.usage),
                }
                yield "child", data
        case Compacted():
            data = {
                "upto": message.upto,
                "summary": _digest(message.summary),
                "chars": len(message.summary),
                "endpoint": message.endpoint,
                "error": _cut(message.error),
                **_tokens(message.usage),
            }
            yield "context_compacted", data
        case Verified(verification=verification):
            data = {
                "verifier": message.verifier,
                "passed": verification.passed,
                "reason": _cut(verification.reason),
            }
            yield "verification", data
        case Assessed(stalled=stalled):
            yield from _progress("stalled", stalled)
        case Observed(stalled=stalled, nudge=nudge):
            yield from _progress("nudge", nudge)
            yield from _progress("stalled", stalled)
        case Found(attempt_id=attempt, found=found):
            data = {
                "attempt": bounded(attempt),
                "found": found.finding,
                "reason": _cut(found.reason),
            }
            yield "reconcile", data
        case Settle(call_id=call, found=found, by=by):
            data = {
                "call": bounded(call),
                "found": found.finding,
                "reason": _cut(found.reason),
                "by": bounded(by),
            }
            yield "reconcile", data
        case NotDispatched(error=error) | LeaseLost(error=error):
            yield "lease", {"lost": _cut(error)}
        case Recover():
            yield "lease", {"taken_over": True}
        case Committed(last_seq=seq):
            yield "checkpoint_saved", {"seq": seq}
        case CommitFailed(last_seq=seq, error=error, fenced=fenced):
            yield "checkpoint_failed", {"seq": seq, "error": _cut(error), "fenced": fenced}
        case _:
            yield from _commanded(message)


def said(message: Output) -> Iterator[Fact]:
    """Say what a message means that went out; many mean nothing to people."""
    match message:
        case Decide(notice=notice, allowance=allowance):
            if notice is not None:
                yield "notice", {"text": _cut(notice)}
            data: JsonObject = {
                "context_chars": message.context_chars,
                "summarized": message.summarized,
                "tools": allowance.tools,
                "finish": allowance.finish,
            }
            yield "llm_call_started", data
        case Execute():
            data = {
                "attempt": bounded(message.attempt_id),
                "tool": message.tool_name,
                "effect": message.effect,
                "effect_key": None if message.effect_key is None else bounded(message.effect_key),
                "arguments": _digest(message.arguments),
            }
            yield "tool_call_requested", data
        case Reconcile(attempt_id=attempt, effect_key=key):
            yield "reconcile", {"attempt": bounded(attempt), "effect_key": bounded(key)}
        case HandOver(agent=agent):
            yield "handoff", {"agent": agent}
        case Rested(outcome=outcome):
            spent = outcome.spent
            data = {
                "reason": str(outcome.reason),
                "cause": None if outcome.cause is None else _cut(outcome.cause),
                "durable": message.durable,
                "steps": spent.steps,
                "tool_calls": spent.tool_calls,
                "cost": str(spent.cost),
                "active_seconds": round(spent.active_seconds, 6),
                "unresolved": len(outcome.unresolved_effects),
                **_tokens(spent.usage),
            }
            yield "run_finished", data
        case Late(what=what):
            yield "late", {"message": _cut(what)}
        case _:
            return


def _commanded(message: Input) -> Iterator[Fact]:
    """Say what people want."""
    match message:
        case AnswerApproval():
            calls = message.calls
            data: JsonObject = {
                "digest": message.digest,
                "approved": message.approved,
                "calls": None if calls is None else _some(calls),
                "edited": _some(message.edits),
                "by": bounded(message.by),
                "reason": _cut(message.reason),
            }
            yield "approval", data
        case Expire(by=by):
            yield "approval", {"expired": True, "by": bounded(by)}
        case DecideInstead(decision=decision, by=by):
            yield "approval", {"by": bounded(by), **_decision(decision)}
        case Answer(text=text, by=by):
            yield "command", {"command": "answer", "by": bounded(by), "text": _cut(text)}
        case Cancel(reason=reason, by=by, hard=hard):
            data = {"command": "cancel", "by": bounded(by), "reason": _cut(reason), "hard": hard}
            yield "command", data
        case Grant(budget=budget, by=by):
            yield "command", {"command": "resume", "by": bounded(by), "granted": budget is not None}
        case _:
            return


def _decided(message: Decided) -> JsonObject:
    usage = message.usage
    return {
        **_decision(message.decision),
        "model": bounded(message.model),
        "endpoint": message.endpoint,
        "response": bounded(message.response_id),
        "stop_reason": bounded(message.stop_reason),
        "attempts": message.attempts,
        **_tokens(usage),
        "input": usage.input_tokens,
        "cached": usage.cached_tokens,
        "cache_written": usage.cache_written_tokens,
        "estimated": usage.estimated,
    }


def _decision(decision: Proposed) -> JsonObject:
    """Say what was decided: its kind, its text, its calls."""
    told: JsonObject = {"decision": decision.kind}
    match decision:
        case FinalAnswer(answer=answer):
            told["text"] = _cut(answer)
        case Clarification(question=question):
            told["text"] = _cut(question)
        case CannotContinue(code=code, reason=reason):
            told["text"] = _cut(f"{code}: {reason}")
        case Malformed(problem=problem):
            told["text"] = _cut(problem)
        case RequestApproval(reason=reason):
            told["text"] = _cut(reason)
        case Handoff(target=target, reason=reason):
            told["target"] = bounded(target)
            told["text"] = _cut(reason)
        case _:
            pass
    if calls := calls_of(decision):
        told["calls"] = [_call(call) for call in calls[:LIST_LIMIT]]
    return told


def _call(call: AnyCall) -> JsonValue:
    return {
        "call": bounded(call.call_id),
        "tool": bounded(call.tool_name),
        "arguments": _digest(call.arguments) if isinstance(call, ToolCall) else None,
    }


def _verdict(verdict: ValidationVerdict) -> JsonObject:
    told: JsonObject = {"verdict": type(verdict).__name__}
    match verdict:
        case Faulty(problem=problem):
            told["problem"] = _cut(problem)
        case NeedsApproval(plan=plan, digest=proposal, asks=asks):
            told["digest"] = proposal
            told["asks"] = [
                {"call": bounded(ask.call_id), "tool": ask.tool_name, "reason": _cut(ask.reason)}
                for ask in asks[:LIST_LIMIT]
            ]
            told |= _plan(plan)
        case Accepted(plan=plan):
            told |= {} if plan is None else _plan(plan)
    return told


def _plan(plan: Plan) -> JsonObject:
    """Say which rule said what of which call, and which calls are refused."""
    refused = [call.refused for call in plan.calls if call.refused is not None]
    return {
        "rules": [
            {
                "call": bounded(said.call_id),
                "verdict": said.verdict,
                "rule": bounded(said.rule),
                "reason": _cut(said.reason),
            }
            for said in plan.verdicts[:LIST_LIMIT]
        ],
        "refused": [_ended(result) for result in refused[:LIST_LIMIT]],
        "stages": [
            _some(plan.calls[index].call_id for index in stage)
            for stage in plan.stages[:LIST_LIMIT]
        ],
        "fault": None if plan.fault is None else _cut(plan.fault),
    }


def _ended(result: ToolResult) -> JsonObject:
    error = result.error
    return {
        "call": bounded(result.call_id),
        "tool": bounded(result.tool_name),
        "status": result.status,
        "error": None if error is None else _cut(error.message),
        "category": None if error is None else error.category,
    }


def _finished(attempt: str, result: ToolResult) -> JsonObject:
    output = result.output
    return {
        "attempt": bounded(attempt),
        **_ended(result),
        "output": None if output is None else _digest(output),
        "bytes": 0 if output is None else len(dumps(output)),
    }


def _attempt_failed(message: AttemptFailed) -> Fact:
    data: JsonObject = {"endpoint": message.endpoint, "error": _cut(message.error)}
    if message.category is ModelErrorKind.UNAVAILABLE:
        return "breaker", data
    data |= {
        "attempt": message.attempt,
        "kind": message.category,
        "retry_in": round(message.retry_in, 6),
        **_tokens(message.usage),
    }
    return "retry", data


def _progress(verdict: str, found: Stalled | None) -> Iterator[Fact]:
    if found is not None:
        evidence = _cut(found.evidence)
        yield "progress", {"verdict": verdict, "signal": found.signal, "evidence": evidence}


def _tokens(usage: Usage) -> JsonObject:
    return {"tokens": usage.total}


def _some(texts: Iterable[str]) -> JsonValue:
    return [bounded(text) for text in islice(texts, LIST_LIMIT)]


def _cut(text: str) -> str:
    return bounded(text, TEXT_LIMIT)


def _digest(value: JsonValue) -> str:
    return digest(value)[:_DIGEST]
