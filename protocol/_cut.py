"""Cutting what is too long to be shown: the whole stays in the journal, a marker says how much it is.

Nothing of what is cut is looked into: whatever a text says, it stays that text, shortened.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from ._canonical import dumps
from ._decisions import (
    BrokenCall,
    Calls,
    CannotContinue,
    Clarification,
    Decision,
    Final,
    Handoff,
    Malformed,
    ProgressNote,
    RequestApproval,
    ToolCall,
    ToolCalls,
)
from ._effects import Reconciled
from ._json import JsonObject, JsonValue
from ._records import TurnCommitted
from ._results import ToolResult

T = TypeVar("T")


def cut_text(text: str, limit: int) -> str:
    """Shorten a text to at most `limit` characters, marker included; `limit` is at least 100.

    The marker says that it was cut, and how long the whole is.
    """
    return text if len(text) <= limit else _cut(text, limit, "characters")


def cut_value(value: JsonValue, limit: int) -> JsonValue:
    """Shorten a JSON value; one that is no text and too long becomes the beginning of its JSON."""
    if isinstance(value, str):
        return cut_text(value, limit)
    written = _written(value)
    return value if len(written) <= limit else _cut(written, limit, "characters of JSON")


def cut_arguments(arguments: JsonObject, limit: int) -> JsonObject:
    """Shorten arguments, which stay an object: of the one key ``cut``, too long ones.

    Tools refuse such a key, so that a model which copies it runs nothing on half of an argument.
    """
    written = _written(arguments)
    if len(written) <= limit:
        return arguments
    # Inside a string, each quote and backslash of the text is escaped: it may double.
    return {"cut": _cut(written, limit // 2 - len('{"cut":""}'), "characters of JSON")}


def cut_finding(found: Reconciled, limit: int) -> Reconciled:
    """Shorten what was found out about a write."""
    receipt, reason = cut_value(found.receipt, limit), cut_text(found.reason, limit)
    return _with(found, receipt=receipt, reason=reason)


def cut_turn(turn: TurnCommitted, limit: int) -> TurnCommitted:
    """Shorten everything in a turn that may be long; a turn without such is returned as it is."""
    decision = _decision(turn.proposal.decision, limit)
    results = _each(turn.results, [_result(result, limit) for result in turn.results])
    fault = turn.fault
    if fault is not None:
        fault = _with(fault, problem=cut_text(fault.problem, limit))
    replay = turn.proposal.replay
    if replay is not None and len(_written(replay)) > limit:
        replay = None  # a part of it is of no use to anybody
    proposal = _with(turn.proposal, decision=decision, replay=replay)
    return _with(turn, proposal=proposal, results=results, fault=fault)


def _cut(text: str, limit: int, of: str) -> str:
    marker = f"… [cut: the whole has {len(text)} {of}]"
    return text[: limit - len(marker)] + marker


def _written(value: JsonValue) -> str:
    return dumps(value).decode()


def _with(whole: T, **parts: object) -> T:
    """Replace parts of a dataclass, if any is another one."""
    if all(getattr(whole, name) is part for name, part in parts.items()):
        return whole
    return replace(whole, **parts)  # type: ignore[type-var]


def _each(before: tuple[T, ...], after: list[T]) -> tuple[T, ...]:
    same = all(a is b for a, b in zip(before, after, strict=True))
    return before if same else tuple(after)


def _result(result: ToolResult, limit: int) -> ToolResult:
    error, arguments = result.error, result.arguments
    if error is not None:
        message, kind = cut_text(error.message, limit), cut_text(error.type, limit)
        error = _with(error, message=message, type=kind)
    if arguments is not None:
        arguments = cut_arguments(arguments, limit)
    output = cut_value(result.output, limit)
    return _with(result, output=output, error=error, arguments=arguments)


def _decision(decision: Decision | Malformed, limit: int) -> Decision | Malformed:
    def text(whole: str) -> str:
        return cut_text(whole, limit)

    match decision:
        case ToolCalls():
            calls, commentary = _calls(decision.calls, limit), text(decision.commentary)
            return _with(decision, calls=calls, commentary=commentary)
        case RequestApproval():
            calls, reason = _calls(decision.calls, limit), text(decision.reason)
            return _with(decision, calls=calls, reason=reason)
        case Handoff():
            calls, reason = _calls(decision.calls, limit), text(decision.reason)
            progress = _note(decision.progress, limit)
            return _with(decision, calls=calls, reason=reason, progress=progress)
        case Final():
            output = cut_value(decision.output, limit)
            return _with(decision, answer=text(decision.answer), output=output)
        case Clarification():
            return _with(decision, question=text(decision.question))
        case CannotContinue():
            return _with(decision, code=text(decision.code), reason=text(decision.reason))
        case Malformed():
            return _with(decision, problem=text(decision.problem), raw=text(decision.raw))


def _calls(calls: Calls, limit: int) -> Calls:
    return _each(calls, [_call(call, limit) for call in calls])


def _call(call: ToolCall | BrokenCall, limit: int) -> ToolCall | BrokenCall:
    if isinstance(call, BrokenCall):
        return _with(call, problem=cut_text(call.problem, limit), raw=cut_text(call.raw, limit))
    return _with(call, arguments=cut_arguments(call.arguments, limit))


def _note(note: ProgressNote, limit: int) -> ProgressNote:
    done = _each(note.done, [cut_text(text, limit) for text in note.done])
    left = _each(note.open, [cut_text(text, limit) for text in note.open])
    return _with(note, done=done, open=left)
