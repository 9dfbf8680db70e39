"""What a provider replied, as a decision: texts, calls, and why it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final as Constant
from typing import NamedTuple, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from loopwright.protocol import (
    RESERVED_TOOLS,
    AnyCall,
    BrokenCall,
    CallId,
    CannotContinue,
    Clarification,
    Decision,
    Final,
    Handoff,
    JsonValue,
    Malformed,
    ModelRequest,
    ProgressNote,
    RemoteProtocolError,
    RequestApproval,
    ToolCall,
    ToolCalls,
    bounded,
    first_fault,
    parse_call,
    parse_json,
    raw_text,
)

T = TypeVar("T")

_EXACT: Constant = ConfigDict(extra="forbid")
CUT_OFF: Constant = "the reply was cut off ({why}) and nothing of it was run; say it again, shorter"


class RawCall(NamedTuple):
    """A call as a provider sent it; nothing about it is taken for granted."""

    id: object
    name: object
    arguments: object


class RawReply(NamedTuple):
    """A reply: what was said, what is to be called, and whether that is all of it."""

    text: str = ""
    calls: Sequence[RawCall] = ()
    cut_off: str = ""
    """Why the rest is missing, such as the provider's stop reason; blank if nothing is."""


def decision_of(spoken: RawReply, request: ModelRequest) -> Decision | Malformed:
    """Make the decision a reply stands for.

    Nothing of a reply that was cut off is a decision: its calls are broken ones, each of which
    gets a result that says so, and its text is no answer.

    Args:
        spoken: The reply.
        request: What was asked: the schema of a final answer's output, and the turn.
    """
    calls = [_call(call, request.turn, index) for index, call in enumerate(spoken.calls)]
    if spoken.cut_off:
        problem = CUT_OFF.format(why=bounded(spoken.cut_off))
        if not calls:
            return Malformed(problem, raw_text(spoken.text))
        return ToolCalls(tuple(_cut(call, problem) for call in calls), spoken.text)
    reserved = [call for call in calls if call.tool_name in RESERVED_TOOLS]
    others = tuple(call for call in calls if call.tool_name not in RESERVED_TOOLS)
    try:
        if len(reserved) > 1:
            names = ", ".join(call.tool_name for call in reserved)
            raise RemoteProtocolError("decision", f"says {names} at once; decide on one of them")
        if reserved:
            return _reserved(reserved[0], others, request)
        if others:
            return ToolCalls(others, spoken.text)
        return _final(spoken.text, request)
    except RemoteProtocolError as error:
        said = spoken.text or ", ".join(raw_text(call.arguments) for call in spoken.calls)
        return Malformed(str(error), raw_text(said))


def _call(call: RawCall, turn: int, index: int) -> AnyCall:
    name = call.name if isinstance(call.name, str) else ""
    given = call.id
    # Some servers have no ids of their own, and send none, or the function's name each time.
    if not isinstance(given, str) or not given.strip() or given == name:
        given = f"call_{turn}_{index}"
    return parse_call(given, name, call.arguments)


def _cut(call: AnyCall, problem: str) -> BrokenCall:
    raw = call.raw if isinstance(call, BrokenCall) else raw_text(call.arguments)
    return BrokenCall(call.call_id, call.tool_name, problem, raw)


def _final(text: str, request: ModelRequest) -> Final:
    if request.output_schema is None or not text.strip():
        return Final(text)
    value = parse_json(text, where="the final answer")
    return _final_of(value)


def _final_of(value: JsonValue) -> Final:
    final = _parsed(_answers, value, "the final answer")
    return Final(final.answer, final.output)


def _reserved(call: AnyCall, others: tuple[AnyCall, ...], request: ModelRequest) -> Decision:
    name = call.tool_name
    if isinstance(call, BrokenCall):
        raise RemoteProtocolError(name, call.problem)
    given = call.arguments
    if name == "request_approval":
        if not others:
            problem = "comes without the calls that it is about; send them in the same reply"
            raise RemoteProtocolError(name, problem)
        return RequestApproval(others, _parsed(_approvals, given, name).reason)
    if name == "hand_over":
        to = _parsed(_handovers, given, name)
        evidence = tuple(CallId(call_id) for call_id in to.evidence)
        note = ProgressNote(to.done, to.open, evidence)
        return Handoff(to.target, to.reason, note, others)
    if others:
        problem = "comes together with other calls, of which none was run; do one or the other"
        raise RemoteProtocolError(name, problem)
    return _alone(call)


def _alone(call: ToolCall) -> Decision:
    name, given = call.tool_name, call.arguments
    if name == "ask_user":
        return Clarification(_parsed(_questions, given, name).question)
    if name == "cannot_continue":
        why = _parsed(_ends, given, name)
        return CannotContinue(why.code, why.reason)
    return _final_of(given)


@dataclass(config=_EXACT, frozen=True)
class _Question:
    question: str


@dataclass(config=_EXACT, frozen=True)
class _End:
    code: str
    reason: str


@dataclass(config=_EXACT, frozen=True)
class _Approval:
    reason: str = ""


@dataclass(config=_EXACT, frozen=True)
class _Handover:
    target: str
    reason: str = ""
    done: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


@dataclass(config=_EXACT, frozen=True)
class _Answer:
    answer: str = ""
    output: JsonValue = None


_questions = TypeAdapter(_Question)
_ends = TypeAdapter(_End)
_approvals = TypeAdapter(_Approval)
_handovers = TypeAdapter(_Handover)
_answers = TypeAdapter(_Answer)


def _parsed(adapter: TypeAdapter[T], value: JsonValue, where: str) -> T:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise RemoteProtocolError(*first_fault(error, where)) from None
