"""What a model may say: a closed, versioned union, and the one place where it is parsed.

Provider formats never get past an adapter; it builds these types, or hands the model's own
JSON to `parse_decision`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias, cast
from typing import Final as Constant

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ._errors import RemoteProtocolError, first_fault
from ._ids import CallId
from ._json import JsonObject, JsonValue, check_json, parse_arguments, parse_json

NAME_LIMIT: Constant = 128
RAW_LIMIT: Constant = 2_000


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One requested call whose arguments are a JSON object."""

    call_id: CallId
    tool_name: str
    arguments: JsonObject
    normalized: tuple[str, ...] = ()
    """How the arguments' text had to be read to be an object; see `parse_arguments`."""


@dataclass(frozen=True, slots=True)
class BrokenCall:
    """One requested call whose arguments could not be parsed.

    It is a type of its own so that no policy and no approver is ever given arguments that
    the model did not write.
    """

    call_id: CallId
    tool_name: str
    problem: str
    raw: str
    """The text as it came, bounded."""


AnyCall: TypeAlias = ToolCall | BrokenCall
Calls: TypeAlias = tuple[Annotated[ToolCall | BrokenCall, Field(union_mode="left_to_right")], ...]


@dataclass(frozen=True, slots=True)
class Final:
    """The model claims to be done."""

    answer: str = ""
    output: JsonValue = None
    """A JSON value instead of a text, checked against the agent's output type."""
    kind: Literal["final"] = "final"
    schema_version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """The model asks for a batch of calls."""

    calls: Calls
    commentary: str = ""
    kind: Literal["tool_calls"] = "tool_calls"
    schema_version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class RequestApproval:
    """The model itself asks for a human's yes before its calls run."""

    calls: Calls
    reason: str
    kind: Literal["request_approval"] = "request_approval"
    schema_version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Clarification:
    """The model needs an answer from the user."""

    question: str
    kind: Literal["clarification"] = "clarification"
    schema_version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class CannotContinue:
    """The model gives up, with a code for machines and a reason for people."""

    code: str
    reason: str
    kind: Literal["cannot_continue"] = "cannot_continue"
    schema_version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class ProgressNote:
    """What whoever takes over has to know; the evidence is call ids of committed turns."""

    done: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    evidence: tuple[CallId, ...] = ()


@dataclass(frozen=True, slots=True)
class Handoff:
    """The model hands the invocation to another agent, once its calls are finished."""

    target: str
    """Name of the agent."""
    reason: str
    progress: ProgressNote
    calls: Calls = ()
    """What is to be finished before."""
    kind: Literal["handoff"] = "handoff"
    schema_version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Malformed:
    """What came instead of a decision: how a fault is kept, and how an adapter says of one."""

    problem: str
    raw: str
    kind: Literal["malformed"] = "malformed"
    schema_version: Literal[1] = 1


Decision: TypeAlias = Final | ToolCalls | RequestApproval | Clarification | CannotContinue | Handoff
"""What a model may say."""

Proposed: TypeAlias = Annotated[Decision | Malformed, Field(discriminator="kind")]
"""What is stored of a model's reply: a decision, or the fault that came in its place."""

_adapter: TypeAdapter[Decision] = TypeAdapter(
    Annotated[Decision, Field(discriminator="kind")],
    config=ConfigDict(extra="forbid", defer_build=True),
)


def calls_of(decision: Decision | Malformed) -> Calls:
    """Return the calls of a decision, whatever kind it is of."""
    return decision.calls if isinstance(decision, ToolCalls | RequestApproval | Handoff) else ()


def bounded(text: str, limit: int = NAME_LIMIT) -> str:
    """Cut and escape a text a model wrote, so that it can be echoed safely."""
    shown = text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)


def parse_call(call_id: str, tool_name: str, arguments: object = None) -> AnyCall:
    """Build a call from what a provider sent; arguments may be text, bytes, an object or absent.

    Never raises: what cannot be parsed becomes a `BrokenCall`, which gets its own result.
    """
    identity = CallId(call_id)
    if arguments is not None and not isinstance(arguments, str | bytes | Mapping):
        problem = f"the arguments must be a JSON object, not {type(arguments).__name__}"
        return BrokenCall(identity, tool_name, problem, raw_text(arguments))
    given = cast("str | bytes | Mapping[str, object] | None", arguments)
    try:
        parsed = parse_arguments(given)
    except RemoteProtocolError as error:
        return BrokenCall(identity, tool_name, str(error), raw_text(given))
    return ToolCall(identity, tool_name, parsed.value, parsed.normalized)


def parse_decision(raw: object) -> Decision:
    """Parse a model's decision from JSON text, a mapping, or an already typed decision.

    Calls inside may carry their arguments as text, as an object, or not at all.

    Raises:
        RemoteProtocolError: For an unknown kind, field or version, or anything that is not a
            decision; `where` is the path.
    """
    if isinstance(
        raw, Final | ToolCalls | RequestApproval | Clarification | CannotContinue | Handoff
    ):
        return _checked(raw)
    value: object = raw
    if isinstance(raw, str | bytes):
        value = parse_json(raw, where="decision")
    if not isinstance(value, Mapping):
        problem = f"must be a JSON object with a `kind`, not {type(value).__name__}"
        raise RemoteProtocolError("decision", problem)
    fields = dict(cast("Mapping[str, object]", value))
    if isinstance(fields.get("calls"), list | tuple):
        fields["calls"] = tuple(
            _wire_call(call, f"decision.calls[{index}]")
            for index, call in enumerate(cast("list[object]", fields["calls"]))
        )
    for name in ("output", "progress"):
        if name in fields:
            check_json(fields[name], where=f"decision.{name}")
    for name, text in fields.items():
        if isinstance(text, str):
            _check_text(text, f"decision.{bounded(str(name))}")
    try:
        return _adapter.validate_python(fields)
    except ValidationError as error:
        path, problem = first_fault(error, "decision")
        raise RemoteProtocolError(bounded(path), problem) from None


def raw_text(raw: object) -> str:
    """Keep a bounded text of a reply, or of arguments, that cannot be parsed."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    try:
        shown = text if isinstance(text, str) else repr(text)
    except Exception:  # noqa: BLE001 - nested without end, or with a repr of its own
        shown = f"<{type(raw).__name__}>"
    return bounded(shown, RAW_LIMIT)


def _checked(decision: Decision) -> Decision:
    """Give typed decisions the same strictness: somebody built them, types are not enforced."""
    if isinstance(decision, Handoff):
        _check_handoff(decision)
    if isinstance(decision, ToolCalls | RequestApproval | Handoff):
        calls: list[AnyCall] = []
        changed = type(decision.calls) is not tuple
        for index, call in enumerate(decision.calls):
            checked = _wire_call(call, f"decision.calls[{index}]")
            changed = changed or checked is not call
            calls.append(checked)
        return replace(decision, calls=tuple(calls)) if changed else decision
    match decision:
        case Final(answer=answer, output=output):
            check_json(output, where="decision.output")
            texts = {"answer": answer}
        case Clarification(question=question):
            texts = {"question": question}
        case CannotContinue(code=code, reason=reason):
            texts = {"code": code, "reason": reason}
    for name, text in texts.items():
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - see above
            problem = f"must be a text, not {type(text).__name__}"
            raise RemoteProtocolError(f"decision.{name}", problem)
        _check_text(text, f"decision.{name}")
    return decision


def _check_handoff(decision: Handoff) -> None:
    note = decision.progress
    if type(note) is not ProgressNote:
        raise RemoteProtocolError("decision.progress", "must be a progress note: done, open")
    texts = {"target": (decision.target,), "reason": (decision.reason,)}
    for name, words in {
        **texts,
        "progress.done": note.done,
        "progress.open": note.open,
        "progress.evidence": note.evidence,
    }.items():
        if type(words) is not tuple or not all(type(word) is str for word in words):
            raise RemoteProtocolError(f"decision.{name}", "must be text")
        for word in words:
            _check_text(word, f"decision.{name}")


def _recheck(call: ToolCall | BrokenCall, where: str) -> AnyCall:
    if not (type(call.call_id) is str and type(call.tool_name) is str):
        raise RemoteProtocolError(where, "needs a text `call_id` and a text `tool_name`")
    _check_text(call.call_id, where)
    _check_text(call.tool_name, where)
    if isinstance(call, BrokenCall) or _is_plain(call.arguments):
        return call
    parsed = parse_call(call.call_id, call.tool_name, call.arguments)
    if isinstance(parsed, ToolCall) and call.normalized:
        return ToolCall(parsed.call_id, parsed.tool_name, parsed.arguments, call.normalized)
    return parsed


def _is_plain(arguments: object) -> bool:
    """Whether it is what most calls have: an object of ASCII texts, which needs no closer look."""
    if type(arguments) is not dict:
        return False
    for key, value in cast("dict[object, object]", arguments).items():
        if not (type(key) is str and type(value) is str and key.isascii() and value.isascii()):
            return False
    return True


def _wire_call(call: object, where: str) -> AnyCall:
    if isinstance(call, ToolCall | BrokenCall):
        return _recheck(call, where)
    if not isinstance(call, Mapping):
        raise RemoteProtocolError(where, f"must be an object, not {type(call).__name__}")
    fields = cast("Mapping[str, object]", call)
    unknown = set(fields) - {"call_id", "tool_name", "arguments"}
    if unknown:
        raise RemoteProtocolError(where, f"has the unknown field {bounded(min(unknown))!r}")
    call_id, tool_name = fields.get("call_id"), fields.get("tool_name")
    if not isinstance(call_id, str) or not isinstance(tool_name, str):
        raise RemoteProtocolError(where, "needs a text `call_id` and a text `tool_name`")
    _check_text(call_id, where)
    _check_text(tool_name, where)
    return parse_call(call_id, tool_name, fields.get("arguments"))


def _check_text(text: str, where: str) -> None:
    if not text.isascii():
        check_json(str(text), where=where)
