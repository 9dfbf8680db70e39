"""How an explanation is shown: to people line by line, to machines as one object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from loopwright.protocol import (
    AnswerVerified,
    ApprovalDecided,
    ApprovalRequested,
    CallCompleted,
    CallDispatched,
    CallId,
    CancelRequested,
    CannotContinue,
    Clarification,
    ContextCompacted,
    EffectReconciled,
    Ending,
    Final,
    HandedOff,
    Handoff,
    InvocationEnded,
    InvocationStarted,
    JsonObject,
    JsonValue,
    Malformed,
    ModelAttempted,
    NoticeInjected,
    Proposal,
    Reason,
    Record,
    RequestApproval,
    Resumed,
    Suspended,
    ToolCall,
    ToolCalls,
    ToolResult,
    TurnCommitted,
    TurnProposed,
    calls_of,
    to_json,
)

from . import _plain, _views
from ._explain import CallTold, Explanation, Limit, Pause, TurnTold
from ._panels import fields, principal, proposal, when
from ._session import Session
from ._tree import Tree
from ._watch import BAD, GOOD, WAITING, arguments, cut, line, plainly, said, written

_RULE_STYLES = {"allow": "", "ask": WAITING, "deny": BAD}


def plain(told: Explanation, tree: Tree) -> JsonObject:
    """Give an explanation to machines, nothing shortened."""
    started, stand = told.started, told.stand
    return {
        "invocation_id": started.invocation_id,
        "pinned": {
            key: value
            for key, value in _plain.of_record(started).items()
            if key not in ("invocation_id", "kind", "v")
        },
        "turns": [_plain_turn(turn) for turn in told.turns],
        **_plain.of_reason(stand.reason),
        "cause": stand.cause,
        "answer": stand.answer,
        "output": stand.output,
        "question": stand.question,
        "proposal": _plain.of_proposal(stand.proposal),
        "open_calls": to_json(stand.open_calls).value,
        "unresolved_effects": _plain.of_effects(stand.unresolved),
        "waiting_children": [_plain.of_waiting(one) for one in tree.waiting],
        **_plain.of_spent(stand.spent),
        "limits": _plain_limits(stand.limits),
    }


def _plain_turn(turn: TurnTold) -> JsonObject:
    return {
        "turn": turn.number,
        "agent": turn.agent,
        "notices": _plain.of_records(turn.notices),
        "failed_attempts": _plain.of_records(turn.attempts),
        "decided": None if turn.proposal is None else _plain.of_proposed(turn.proposal),
        "calls": [_plain_call(call) for call in turn.calls.values()],
        "asked": _plain.of_records(turn.asked),
        "answered": _plain.of_records(turn.answered),
        "verified": _plain.of_records(turn.verified),
        "fault": to_json(turn.fault).value,
        "committed": turn.committed,
        "handed_off": None if turn.handed_off is None else _plain.of_record(turn.handed_off),
        "compacted": _plain.of_records(turn.compacted),
        "pauses": _plain.of_records(turn.pauses),
        "limits": _plain_limits(turn.limits),
    }


def _plain_call(told: CallTold) -> JsonObject:
    return {
        "call": to_json(told.call).value,
        "rules": to_json(told.rules).value,
        "dispatched": _plain.of_records(told.dispatched),
        "ran_with": told.ran,
        "result": to_json(told.result).value,
        "results": to_json(told.results).value,
        "found": _plain.of_records(told.found),
    }


def _plain_limits(limits: Iterable[Limit]) -> JsonValue:
    return [to_json(limit._asdict()).value for limit in limits]


# ---------------------------------------------------------------- for people
def explanation(session: Session, told: Explanation, tree: Tree) -> RenderableType:
    """Show an explanation: what was pinned, each turn, and how it came out."""
    started, stand = told.started, told.stand
    rows: list[tuple[str, RenderableType]] = [
        ("invocation", plainly(started.invocation_id)),
        ("agent", plainly(f"{started.agent} {started.agent_version}")),
        ("policy", plainly(started.policy_version)),
        ("goal", plainly(started.goal)),
        ("principal", plainly(principal(started.principal))),
        ("budget", plainly(_views.limits(started.budget))),
    ]
    rows += [("key", plainly(started.key))] if started.key else []
    if started.parent is not None:
        parent = started.parent
        rows.append(("works for", plainly(f"{parent.invocation_id}, call {parent.call_id}")))
    for price in started.prices:
        text = f"{price.model}: ${price.input_mtok} in, ${price.output_mtok} out per million tokens"
        rows.append(("price", plainly(text)))
    parts: list[RenderableType] = [fields(rows), Text()]
    for turn in told.turns:
        parts += _turn(turn)
    why: list[tuple[str, RenderableType]]
    if stand.reason is None:
        why = [("reason", plainly("it still runs", WAITING))]
    else:
        why = [("reason", _views.reason_text(stand.reason))]
        why += [("next", plainly(stand.reason.advice))]
    why += [("cause", plainly(stand.cause))] if stand.cause else []
    why += [("answer", plainly(stand.answer))] if stand.answer else []
    why += [("question", plainly(stand.question))] if stand.question else []
    why.append(("used", plainly(_used(stand.limits) or _views.spent(stand.spent))))
    if stand.open_calls:
        names = [
            f"{call.call_id} ({call.tool_name}{', dispatched' if call.dispatched else ''})"
            for call in stand.open_calls
        ]
        why.append(("open", plainly(", ".join(names))))
    if stand.unresolved:
        why.append(("unresolved", _views.written(stand.unresolved)))
    parts += [Text(), fields(why)]
    if stand.proposal is not None:
        parts += [Text(), proposal(session, started.invocation_id, stand.proposal)]
    return Group(*parts, *_views.of_children(session, tree))


def _turn(turn: TurnTold) -> Iterator[Table]:
    """Tell a turn in the order in which it was journaled."""
    number, told = turn.number, _Told(turn)
    yield line(number, "agent", plainly(turn.agent), "bold")
    ends = [n for n, record in enumerate(turn.records) if isinstance(record, _COUNTED)]
    for n, record in enumerate(turn.records):
        yield from told.record(record)
        if turn.limits and n == ends[-1]:
            yield line(number, "used", plainly(_used(turn.limits), "dim"))
    for call_id, call in turn.calls.items():
        if call.result is None:
            text = Text.assemble(f"{written(call_id)}: ", ("has no result", WAITING))
            yield line(number, call.call.tool_name, text)


_COUNTED = (TurnCommitted, HandedOff)
"""After the last of them it is known what the turn has used."""


class _Told:
    """Tells what each record of a turn means, given those before it."""

    def __init__(self, turn: TurnTold) -> None:
        self._turn = turn
        self._proposal: Proposal | None = None
        self._results: dict[CallId, ToolResult] = {}

    def record(self, record: Record) -> Iterator[Table]:
        """Tell what one record means."""
        number = self._turn.number
        match record:
            case NoticeInjected():
                yield line(number, "notice", plainly(f"{record.notice}: {record.text}"), WAITING)
            case ModelAttempted():
                text = f"attempt {record.attempt} of {record.model}: {record.category}, "
                yield line(number, "no reply", plainly(f"{text}{cut(record.error)}"), WAITING)
            case TurnProposed(proposal=proposal):
                yield from self._proposed(proposal)
            case ApprovalRequested():
                yield line(number, "asked", plainly(_asked(record)), WAITING)
            case ApprovalDecided():
                yield from _answered(number, record)
            case CallDispatched():
                yield _dispatched(number, record)
            case CallCompleted(result=result):
                yield from self._came(result)
            case EffectReconciled():
                yield _settled(number, record)
            case TurnCommitted():
                yield from self._proposed(record.proposal)
                for result in record.results:
                    yield from self._came(result)
                if (fault := record.fault) is not None:
                    yield line(number, "fault", plainly(f"{fault.level}: {fault.problem}"), BAD)
            case AnswerVerified():
                style = GOOD if record.passed else BAD
                passed = "passed" if record.passed else f"failed: {cut(record.reason)}"
                yield line(number, "verified", plainly(f"{record.verifier} {passed}"), style)
            case HandedOff():
                escaped = ", by the runtime" if record.escaped else ""
                text = f"to {record.target}{escaped}: {record.reason}"
                yield line(number, "handed over", plainly(text))
            case ContextCompacted():
                text = f"a summary stands for the turns up to {record.upto}"
                yield line(number, "compacted", plainly(text))
            case Suspended() | Resumed() | CancelRequested() | InvocationEnded():
                yield _pause(number, record)
            case InvocationStarted():
                pass
            case _:
                assert_never(record)

    def _proposed(self, proposal: Proposal) -> Iterator[Table]:
        if proposal == self._proposal:
            return
        self._proposal, number = proposal, self._turn.number
        yield line(number, "decided", plainly(_decided(proposal)))
        yield line(number, "", plainly(_decision(proposal)))
        for call in calls_of(proposal.decision):
            given = arguments(call.arguments) if isinstance(call, ToolCall) else cut(call.problem)
            text = f"{call.call_id}: {call.tool_name}{' ' * bool(given)}{given}"
            yield line(number, "proposed", plainly(text))
        for told in self._turn.calls.values():
            yield from _rules(number, told)

    def _came(self, result: ToolResult) -> Iterator[Table]:
        if result == self._results.get(result.call_id):
            return
        self._results[result.call_id] = result
        yield _result(self._turn.number, self._turn.calls[result.call_id], result)


def _decided(proposal: Proposal) -> str:
    usage = proposal.usage
    tokens = f"{usage.total} tokens{' (estimated)' if usage.estimated else ''}"
    cost = f", ${proposal.cost}" if proposal.cost else ""
    ended = f", ended with {cut(proposal.stop_reason)}" if proposal.stop_reason else ""
    if proposal.by:
        return f"{proposal.decision.kind} by {proposal.by}, in the model's place; {tokens}{cost}"
    model = proposal.model or "the model"
    often = f" at attempt {proposal.attempts}" if proposal.attempts > 1 else ""
    return f"{proposal.decision.kind} by {model}{often}; {tokens}{cost}{ended}"


def _decision(proposal: Proposal) -> str:
    decision = proposal.decision
    match decision:
        case Final(answer=answer, output=output):
            return answer or _plain.line(output)
        case ToolCalls(calls=calls, commentary=commentary):
            return commentary or f"{len(calls)} call{'s' * (len(calls) != 1)}"
        case RequestApproval(reason=reason):
            return f"wants a yes: {reason}"
        case Clarification(question=question):
            return question
        case CannotContinue(code=code, reason=reason):
            return f"{code}: {reason}"
        case Handoff(target=target, reason=reason, progress=note):
            done, left = "; ".join(note.done), "; ".join(note.open)
            return f"to {target}: {reason} (done: {done or '-'}; open: {left or '-'})"
        case Malformed(problem=problem):
            return problem
        case _:
            assert_never(decision)


def _rules(number: int, told: CallTold) -> Iterator[Table]:
    for rule in told.rules:
        why = f": {rule.reason}" if rule.reason else ""
        text = f"{rule.rule or 'a rule'} says {rule.verdict} to call {rule.call_id}{why}"
        yield line(number, "rule", plainly(text), _RULE_STYLES[rule.verdict])


def _asked(asked: ApprovalRequested) -> str:
    calls = ", ".join(f"{ask.call_id} ({ask.reason})" for ask in asked.asks)
    until = "" if asked.expires_at is None else f", until {when(asked.expires_at)}"
    return f"for a yes to {calls}{until}"


def _answered(number: int, answered: ApprovalDecided) -> Iterator[Table]:
    reason = f": {answered.reason}" if answered.reason else ""
    for answer in answered.answers:
        what, style = ("approved", GOOD) if answer.approved else ("denied", BAD)
        if answered.expired:
            what, style = "expired", WAITING
        edited = "" if answer.arguments is None else f", with {arguments(answer.arguments)}"
        text = f"call {answer.call_id}, by {answered.by}{reason}{edited}"
        yield line(number, what, plainly(text), style)


def _result(number: int, told: CallTold, result: ToolResult) -> Table:
    ran = told.ran
    given = "" if ran is None else f"{arguments(ran)} "
    parts: list[str | Text] = [written(f"{result.call_id}: "), given, said(result)]
    if result.attempts > 1:
        parts.append(f", {result.attempts} attempts")
    if (child := result.child) is not None and child.reason.outcome is not Ending.SUSPENDED:
        parts.append(f", child {child.invocation_id} has ended: {child.reason}")
    return line(number, result.tool_name, Text.assemble(*parts))


def _dispatched(number: int, sent: CallDispatched) -> Table:
    what = f"{sent.effect} effect" if sent.reserved is None else "a child under"
    text = f"{sent.call_id}: {what} {sent.effect_key}, attempt {sent.attempt}"
    return line(number, "dispatched", plainly(f"{text}, with {arguments(sent.arguments)}"))


def _settled(number: int, found: EffectReconciled) -> Table:
    text = f"{found.effect_key} {found.found.finding.replace('_', ' ')}, says {found.by}"
    reason = f": {found.found.reason}" if found.found.reason else ""
    style = "" if found.last_word else WAITING
    return line(number, "settled", plainly(f"{text}{reason}"), style)


def _pause(number: int, pause: Pause) -> Table:
    match pause:
        case Suspended(reason=reason, question=question):
            text = f"{reason}{': ' if question else ''}{question}"
            return line(number, "suspended", plainly(text), WAITING)
        case Resumed():
            return line(number, "goes on", plainly(_resumed(pause)))
        case CancelRequested(by=by, reason=reason):
            return line(number, "cancel", plainly(f"{by}: {reason}" if reason else by), WAITING)
        case InvocationEnded(reason=reason, cause=cause):
            good = reason is Reason.COMPLETED
            text = f"{reason}{': ' if cause else ''}{cause or ''}"
            return line(number, "ended", plainly(text), GOOD if good else BAD)
        case _:
            assert_never(pause)


def _resumed(resumed: Resumed) -> str:
    if resumed.answer is not None:
        return f"{resumed.by} answers: {resumed.answer}"
    if resumed.grant is not None:
        # Handoffs are not granted.
        more = _views.limits(replace(resumed.grant, max_handoffs=None))
        return f"{resumed.by} grants {more.removeprefix('at most ')} more"
    return f"by {resumed.by}"


def _used(limits: Iterable[Limit]) -> str:
    return ", ".join(f"{limit.name} {limit.used} of {limit.limit}" for limit in limits)
