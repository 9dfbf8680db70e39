"""A request as the payload of a chat completion."""

from __future__ import annotations

from typing import Final

from loopwright.protocol import JsonObject, JsonValue, ModelRequest, ToolSpec, dumps

from ...conversation import Entry, Replied, Returned, Said, WireCall, conversation
from ...provider._replay import ours
from .._model import Settings

_THOUGHT: Final = "reasoning_content"


def payload_of(request: ModelRequest, settings: Settings, *, stream: bool) -> JsonObject:
    """Write what is asked as one request."""
    messages: list[JsonValue] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    entries = conversation(request, final_calls=settings.final_calls(request))
    # Who wants thoughts wants one with all calls: blank with those that were made without, by
    # another model or in a turn that was cut.
    thought = "" if any(_THOUGHT in _replayed(entry, settings.by) for entry in entries) else None
    for entry in entries:
        messages += _messages(entry, settings.by, thought)
    payload: JsonObject = {
        "model": settings.model,
        "messages": messages,
        "tools": [_tool(spec) for spec in settings.tools(request)],
    }
    final = settings.final_format(request)
    if final is not None:
        payload["response_format"] = {"type": "json_schema", "json_schema": final}
    if request.max_output_tokens is not None:
        payload[settings.limit] = request.max_output_tokens
    if stream:
        payload |= {"stream": True, "stream_options": {"include_usage": True}}
    return settings.merged(payload)


def _tool(spec: ToolSpec) -> JsonObject:
    function: JsonObject = {"name": spec.name, "parameters": spec.parameters}
    if spec.description:
        function["description"] = spec.description
    return {"type": "function", "function": function}


def _replayed(entry: Entry, by: str) -> JsonObject:
    return ours(entry.replay, by) if isinstance(entry, Replied) else {}


def _messages(entry: Entry, by: str, thought: str | None) -> list[JsonValue]:
    match entry:
        case Said(text):
            return [{"role": "user", "content": text}]
        case Replied():
            return [_replied(entry, by, thought)]
        case Returned(results):
            return [
                {"role": "tool", "tool_call_id": result.id, "content": result.text}
                for result in results
            ]


def _replied(entry: Replied, by: str, thought: str | None) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": entry.text}
    if not entry.calls:
        return message
    message["content"] = entry.text or None
    kept = _replayed(entry, by)
    if thought is not None:
        message[_THOUGHT] = kept.get(_THOUGHT, thought)
    given = kept.get("calls")
    extras = given if isinstance(given, dict) else {}
    message["tool_calls"] = [
        _call(call, extras.get(str(place))) for place, call in enumerate(entry.calls)
    ]
    return message


def _call(call: WireCall, extra: JsonValue) -> JsonObject:
    function: JsonObject = {"name": call.name, "arguments": dumps(call.arguments).decode()}
    written: JsonObject = {"id": call.id, "type": "function", "function": function}
    return written if extra is None else {**written, "extra_content": extra}
