"""A request as the payload of a response: items of input, in the order in which they came."""

from __future__ import annotations

from typing import Final

from loopwright.protocol import JsonObject, JsonValue, ModelRequest, ToolSpec, dumps

from ...conversation import Entry, Replied, Returned, Said, WireCall, conversation
from ...provider._replay import ours
from .._model import Settings

_LEAST: Final = 16
"""The API refuses to be given fewer tokens for a reply."""


def payload_of(request: ModelRequest, settings: Settings, *, stream: bool) -> JsonObject:
    """Write what is asked as one request."""
    items: list[JsonValue] = []
    for entry in conversation(request, final_calls=settings.final_calls(request)):
        items += _items(entry, settings.by)
    payload: JsonObject = {
        "model": settings.model,
        "input": items,
        "tools": [_tool(spec) for spec in settings.tools(request)],
        # Nothing is kept at the provider: what it has thought is sent back by us.
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    if request.instructions:
        payload["instructions"] = request.instructions
    final = settings.final_format(request)
    if final is not None:
        payload["text"] = {"format": {"type": "json_schema", **final}}
    if request.max_output_tokens is not None:
        payload[settings.limit] = max(_LEAST, request.max_output_tokens)
    if stream:
        payload["stream"] = True
    return settings.merged(payload)


def _tool(spec: ToolSpec) -> JsonObject:
    # Without a word on it the API takes every schema to be strict, and refuses most.
    tool: JsonObject = {"type": "function", "name": spec.name, "parameters": spec.parameters}
    return {**tool, "description": spec.description, "strict": False}


def _items(entry: Entry, by: str) -> list[JsonValue]:
    match entry:
        case Said(text):
            return [_message("user", text)]
        case Replied():
            return _again(entry, by) or _plain(entry)
        case Returned(results):
            return [
                {"type": "function_call_output", "call_id": result.id, "output": result.text}
                for result in results
            ]


def _plain(entry: Replied) -> list[JsonValue]:
    text = [_message("assistant", entry.text)] if entry.text or not entry.calls else []
    return [*text, *map(_call, entry.calls)]


def _again(entry: Replied, by: str) -> list[JsonValue]:
    """Write a reply with its reasoning, each in front of what it has led to.

    Nothing, if what is shown of the reply is not what came: the API refuses reasoning without the
    item behind it.
    """
    kept = ours(entry.replay, by).get("items")
    calls, text = dict(enumerate(entry.calls)), entry.text
    items: list[JsonValue] = []
    for item in kept if isinstance(kept, list) else ():
        if not isinstance(item, dict):
            return []
        place = item.get("call")
        if isinstance(place, int):
            if place not in calls:
                return []
            items.append(_call(calls.pop(place)))
        elif "message" in item:
            if not text:
                return []
            message = _message("assistant", text)
            items.append(message if item["message"] is None else {**message, **_phase(item)})
            text = ""
        else:
            items.append(item)
    return [] if calls or text else items


def _phase(item: JsonObject) -> JsonObject:
    return {"phase": item["message"]}


def _message(role: str, text: str) -> JsonObject:
    return {"type": "message", "role": role, "content": text}


def _call(call: WireCall) -> JsonObject:
    arguments = dumps(call.arguments).decode()
    named: JsonObject = {"type": "function_call", "call_id": call.id, "name": call.name}
    return {**named, "arguments": arguments}
