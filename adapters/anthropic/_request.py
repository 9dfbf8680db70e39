"""What is asked, as a request of the Messages API: pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from loopwright.protocol import (
    JsonObject,
    ModelRequest,
    ToolSpec,
    digest,
    reserved_tools,
)

from ..conversation import Entry, Replied, Returned, Said, conversation
from ._blocks import is_thinking, reply_blocks, result_block, text_block
from ._schema import enforceable
from ._settings import Settings

_GO_ON: Final = "Go on."
_CACHED: Final[JsonObject] = {"type": "ephemeral"}

_Role: TypeAlias = Literal["user", "assistant"]
_Thinking: TypeAlias = Literal["bound", "manual", "off"]
"""Sent again behind what it was bound to; sent again always, and asked for; or neither."""


class Prepared(NamedTuple):
    """A request, ready to be sent."""

    payload: JsonObject
    after: str
    """Digest of all of it that thinking is bound to."""


class _Message(NamedTuple):
    role: _Role
    content: list[JsonObject]


def prepared(request: ModelRequest, settings: Settings) -> Prepared:
    """Translate what is asked.

    Args:
        request: The goal, and what is committed.
        settings: Of the model that is asked.
    """
    schema = None
    if request.output_schema is not None and settings.structured_output:
        schema = enforceable(request)
    final_calls = request.output_schema is not None and schema is None
    payload = settings.merged(_head(request, settings, schema, final_calls=final_calls))
    entries = conversation(request, final_calls=final_calls)
    thinking = _thinking(payload, settings)
    messages, after = _messages(entries, settings.by, payload, thinking)
    if thinking == "manual" and _lacks_thinking(messages):
        thinking = "off"
        messages, after = _messages(entries, settings.by, payload, thinking)
    if thinking == "off":
        payload["thinking"] = {"type": "disabled"}
    if settings.cache:
        _mark(payload, messages)
    payload["messages"] = [{"role": role, "content": [*content]} for role, content in messages]
    return Prepared(payload, after)


def _head(
    request: ModelRequest, settings: Settings, schema: JsonObject | None, *, final_calls: bool
) -> JsonObject:
    limit = settings.max_tokens
    if request.max_output_tokens is not None:
        limit = min(limit, request.max_output_tokens)
    payload: JsonObject = {"model": settings.model, "max_tokens": limit}
    if request.instructions.strip():
        payload["system"] = [text_block(request.instructions)]
    reserved = reserved_tools(request, final_answer=final_calls)
    payload["tools"] = [_tool(spec) for spec in (*request.tools, *reserved)]
    if schema is not None:
        payload["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return payload


def _tool(spec: ToolSpec) -> JsonObject:
    tool: JsonObject = {"name": spec.name, "input_schema": spec.parameters}
    return {**tool, "description": spec.description} if spec.description.strip() else tool


def _thinking(payload: JsonObject, settings: Settings) -> _Thinking:
    match payload.get("thinking"), payload["max_tokens"]:
        case {"type": "disabled"}, _:
            return "off"
        case {"type": "enabled", "budget_tokens": int(budget)}, int(limit):
            # The reply must have room for more than thinking. A budget may have left too little.
            return "off" if limit <= budget and limit < settings.max_tokens else "manual"
        case {"type": "enabled"}, _:
            return "manual"
        case _:
            return "bound"


def _messages(
    entries: Sequence[Entry], by: str, payload: JsonObject, thinking: _Thinking
) -> tuple[list[_Message], str]:
    """Write the conversation, and tell the digest of it and what stands before it.

    What the user's side says at a time is one message: results of calls first, as they come
    directly behind those, then texts.
    """
    messages: list[_Message] = []
    after = digest([payload.get("system"), payload.get("tools")])
    for entry in entries:
        role, content = _message(entry, by, {"bound": after, "manual": "", "off": None}[thinking])
        if messages and messages[-1].role == role:
            messages[-1].content.extend(content)
        elif content:
            messages.append(_Message(role, content))
        after = digest([after, role, [*content]])
    if messages[-1].role == "assistant":
        # The API would take it for the beginning of the reply, or refuse it.
        messages.append(_Message("user", [text_block(_GO_ON)]))
        # It is in no journal, so that no thinking can be bound to it.
        after = digest([after, _GO_ON])
    return messages, after


def _message(entry: Entry, by: str, after: str | None) -> tuple[_Role, list[JsonObject]]:
    match entry:
        case Replied():
            return "assistant", reply_blocks(entry, by, after)
        case Returned(results=results):
            return "user", [result_block(result) for result in results]
        case Said(text=text):
            return "user", [text_block(text)]


def _lacks_thinking(messages: list[_Message]) -> bool:
    """Whether results are sent to a model that seems not to have thought before its calls.

    A loop of calls and results is one turn for the API: where thinking is asked for, it refuses
    such a turn unless that begins with thinking. Another model may have begun it, or it was cut.
    """
    at = len(messages) - 1
    if messages[at].content[0]["type"] != "tool_result":
        return False
    at -= 2
    while all(block["type"] == "tool_result" for block in messages[at].content):
        at -= 2
    return not is_thinking(messages[at + 1].content[0])


def _mark(payload: JsonObject, messages: list[_Message]) -> None:
    """Say up to where the request is worth caching: the next one begins with the same.

    The API looks for what it has no more than 20 blocks before a mark; so the place of the mark
    before is marked as well.
    """
    for key in ("system", "tools"):
        match payload.get(key):
            case [*before, dict(last)]:
                payload[key] = [*before, {**last, "cache_control": _CACHED}]
                break
            case _:
                continue
    for _, content in messages[-1:-4:-2]:
        content[-1] = {**content[-1], "cache_control": _CACHED}
