"""The committed turns as a conversation: what was said, what the model replied, what came of it.

Every call that is shown has exactly one result, in declared order, right behind it: no provider
accepts anything else. What a tool returned stays in the place of results, as one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final as Constant
from typing import NamedTuple, TypeAlias

from loopwright.protocol import (
    AnyCall,
    BrokenCall,
    Calls,
    CannotContinue,
    Clarification,
    Final,
    Handoff,
    JsonObject,
    JsonValue,
    Malformed,
    ModelRequest,
    Proposed,
    RequestApproval,
    ReservedName,
    ResultStatus,
    ToolCalls,
    ToolResult,
    Turn,
    digest,
    dumps,
)

_USABLE: Constant = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Call ids that every provider takes back."""
_NAME: Constant = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Tool names that every provider takes back."""
_NO_RESULT: Constant = "It was not run."
_NOT_USED: Constant = "That reply could not be used: {problem}"
_NOTHING: Constant = "(no text)"


class Said(NamedTuple):
    """What is said to the model: by the user, a verifier, or the runtime."""

    text: str


class WireCall(NamedTuple):
    """A call as a provider knows it."""

    id: str
    """Unique in the conversation. The call id, unless no provider would take it or it is taken."""
    name: str
    arguments: JsonObject


class Replied(NamedTuple):
    """What the model replied."""

    text: str
    calls: tuple[WireCall, ...] = ()
    replay: JsonValue = None
    """What the provider wants to see again; see `Proposal.replay`."""


class WireResult(NamedTuple):
    """What came of a call."""

    id: str
    name: str
    text: str
    failed: bool = False
    """Whether the call did not do what it was made for; what its text says decides nothing."""


class Returned(NamedTuple):
    """What came of the calls of the reply before it, in their order."""

    results: tuple[WireResult, ...]


Entry: TypeAlias = Said | Replied | Returned


class _Memo(NamedTuple):
    key: tuple[object, ...]
    """What of the turn may be another one at the next step."""
    entries: tuple[Entry, ...]


def conversation(request: ModelRequest, *, final_calls: bool = False) -> tuple[Entry, ...]:
    """Tell what was committed, and what is asked now, as entries of a conversation.

    Args:
        request: What the model is asked.
        final_calls: Whether final answers are calls of `final_answer`, not texts.
    """
    said: list[Entry] = [_said(request.goal)]
    if request.summary:
        said.append(Said(f"What happened before, in short:\n{request.summary}"))
    taken = set[str]()
    for turn in request.history:
        entries = _told(turn, final_calls=final_calls)
        if not taken.isdisjoint(_ids(entries)):
            entries = tuple(_turn(turn, taken, final_calls=final_calls))
        taken.update(_ids(entries))
        said.extend(entries)
    if request.notice:
        said.append(Said(request.notice))
    return tuple(said)


def shown(result: ToolResult, proposed: JsonObject | None = None) -> str:
    """Write what came of a call as the one text a model gets: its output, or what went wrong.

    Args:
        result: What came of it.
        proposed: The arguments as the model knows them: it is told where a person has had it run
            with others.
    """
    edited = proposed is not None and result.arguments not in (None, proposed)
    if result.ok and not edited:
        output = result.output
        return output if isinstance(output, str) else dumps(output).decode()
    told: JsonObject = {"status": str(result.status)}
    if edited:
        told["arguments"] = result.arguments
    if result.error is not None:
        told["error"] = {
            "type": result.error.type,
            "category": str(result.error.category),
            "message": result.error.message,
            "retryable": result.error.retryable,
        }
    if result.ok or result.output is not None:
        told["output"] = result.output
    return dumps(told).decode()


def _told(turn: Turn, *, final_calls: bool) -> tuple[Entry, ...]:
    """Tell a turn by itself; that is kept with it, for it is told again at every step."""
    key = final_calls, turn.answer, turn.found
    memo = turn.memo
    if not isinstance(memo, _Memo) or memo.key != key:
        turn.memo = memo = _Memo(key, tuple(_turn(turn, set(), final_calls=final_calls)))
    return memo.entries


def _ids(entries: tuple[Entry, ...]) -> Iterator[str]:
    return (call.id for entry in entries if isinstance(entry, Replied) for call in entry.calls)


def _turn(turn: Turn, taken: set[str], *, final_calls: bool) -> Iterator[Entry]:
    """Tell a turn, with call ids that are not taken yet."""
    record = turn.record
    decision, problem = record.proposal.decision, record.fault.problem if record.fault else None
    if turn.notice:
        yield Said(turn.notice)
    calls = [*_reserved(decision, final_calls=final_calls), *_calls(decision)]
    wire: list[WireCall] = []
    for index, (call_id, name, arguments) in enumerate(calls):
        wire.append(WireCall(_wire_id(call_id, turn.number, index, taken), name, arguments))
    text = _text(decision, final_calls=final_calls)
    if not wire and not text.strip():
        text = _NOTHING
    yield Replied(text, tuple(wire), record.proposal.replay)
    about = _NO_RESULT if problem is None else _NOT_USED.format(problem=problem)
    told: list[tuple[str, bool]] = []
    if wire:
        told += [_about(decision, turn, about)] * (len(calls) - len(_calls(decision)))
        told += _results(decision, turn.results, about)
        yield Returned(
            tuple(
                WireResult(call.id, call.name, text, failed)
                for call, (text, failed) in zip(wire, told, strict=True)
            )
        )
    if record.fault is not None and record.fault.level != "call" and (about, True) not in told:
        yield Said(about)
    if turn.answer is not None and not isinstance(decision, Clarification):
        yield _said(turn.answer)


def _said(text: str) -> Said:
    """Say what may be blank; most providers refuse a message that says nothing."""
    return Said(text if text.strip() else _NOTHING)


def _text(decision: Proposed, *, final_calls: bool) -> str:
    match decision:
        case ToolCalls(commentary=commentary):
            return commentary
        case Final(answer=answer, output=None):
            return "" if final_calls else answer
        case Final(answer=answer, output=output):
            return "" if final_calls else dumps({"answer": answer, "output": output}).decode()
        case Malformed(raw=raw):
            return raw.strip()
        case _:
            return ""


def _reserved(
    decision: Proposed, *, final_calls: bool
) -> list[tuple[str, ReservedName, JsonObject]]:
    """Say by which call a decision of another kind is told, if by one."""
    match decision:
        case Clarification(question=question):
            return [("", "ask_user", {"question": question})]
        case CannotContinue(code=code, reason=reason):
            return [("", "cannot_continue", {"code": code, "reason": reason})]
        case RequestApproval(reason=reason):
            return [("", "request_approval", {"reason": reason})]
        case Handoff(target=target, reason=reason, progress=note):
            told: JsonObject = {"target": target, "reason": reason}
            told |= {"done": list(note.done), "open": list(note.open)}
            return [("", "hand_over", {**told, "evidence": list(note.evidence)})]
        case Final(answer=answer, output=output) if final_calls:
            final: JsonObject = {"answer": answer}
            return [("", "final_answer", final if output is None else {**final, "output": output})]
        case _:
            return []


def _calls(decision: Proposed) -> list[tuple[str, str, JsonObject]]:
    calls: Calls = ()
    if isinstance(decision, ToolCalls | RequestApproval | Handoff):
        calls = decision.calls
    return [(call.call_id, _name(call), _arguments(call)) for call in calls]


def _name(call: AnyCall) -> str:
    """Give a name a provider takes back; the result says which one was meant."""
    return call.tool_name if _NAME.fullmatch(call.tool_name) else "unusable_name"


def _arguments(call: AnyCall) -> JsonObject:
    # Providers take back only objects; what was written instead is in the result's text.
    return {} if isinstance(call, BrokenCall) else call.arguments


def _wire_id(call_id: str, turn: int, index: int, taken: set[str]) -> str:
    if _USABLE.fullmatch(call_id) and call_id not in taken:
        taken.add(call_id)
        return call_id
    # Its place tells it apart from every other one that a provider has not made.
    return f"t{turn}c{index}_{digest(call_id)[:12]}"


def _about(decision: Proposed, turn: Turn, otherwise: str) -> tuple[str, bool]:
    """Tell what came of a decision that was said as a call."""
    fault = turn.fault
    if fault is not None and fault.level != "call":
        return otherwise, True
    match decision:
        case Clarification():
            return (turn.answer, False) if turn.answer is not None else ("Nobody answered.", True)
        case CannotContinue():
            return "The task was taken up again.", False
        case RequestApproval():
            return "A person was asked; see what came of each call.", False
        case Handoff():
            return "The task was handed over.", False
        case _:
            return "Noted.", False


def _results(
    decision: Proposed, results: tuple[ToolResult, ...], otherwise: str
) -> list[tuple[str, bool]]:
    calls = _calls(decision)
    if len(results) != len(calls):
        return [(otherwise, True)] * len(calls)
    return [
        (shown(result, arguments), result.status is not ResultStatus.OK)
        for (_, _, arguments), result in zip(calls, results, strict=True)
    ]
