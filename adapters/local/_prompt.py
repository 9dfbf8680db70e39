"""What a small model is shown: what it may decide, in few tokens, and the conversation.

No text that is not ours can end the message it stands in: what would open a token of the chat
template is written otherwise. Calls and results are JSON, where an escape means the same.
"""

from __future__ import annotations

from typing import TypedDict

from loopwright.protocol import JsonObject, JsonValue, ModelRequest, ToolSpec, dumps

from ..conversation import Entry, Replied, Returned, Said, conversation
from ._grammar import decisions


class Message(TypedDict):
    """One message, as chat templates know it."""

    role: str
    content: str


def messages(request: ModelRequest) -> list[Message]:
    """Write a request as messages."""
    entries = conversation(request, final_calls=True)
    return [_message("system", _system(request)), *map(_written, entries)]


def _system(request: ModelRequest) -> str:
    lines = [_line(tool) for tool in decisions(request)]
    reply = 'Reply with one call, as JSON: {"tool": NAME, "arguments": {...}}. You may call:'
    return "\n".join(filter(None, (_plain(request.instructions), reply, *lines)))


def _line(tool: ToolSpec) -> str:
    return _plain(f"- {tool.name} {_sketch(tool.parameters)}: {tool.description}")


def _written(entry: Entry) -> Message:
    match entry:
        case Said(text):
            return _message("user", _plain(text))
        case Replied(text, calls):
            lines = [_json({"tool": call.name, "arguments": call.arguments}) for call in calls]
            return _message("assistant", "\n".join(filter(None, (_plain(text), *lines))))
        case Returned(results):
            lines = [
                _json({"tool": result.name, "ok": not result.failed, "result": result.text})
                for result in results
            ]
            return _message("tool", "\n".join(lines))


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _plain(text: str) -> str:
    return text.replace("<|", "< |")


def _json(value: JsonObject) -> str:
    return dumps(value).decode().replace("<", "\\u003c")


def _sketch(schema: JsonValue) -> str:
    """Write a schema as a person would jot it down: a tenth of its tokens."""
    if not isinstance(schema, dict):
        return "any"
    if isinstance(options := schema.get("enum"), list):
        return "|".join(dumps(option).decode() for option in options)
    if isinstance(options := schema.get("anyOf"), list):
        return "|".join(map(_sketch, options))
    if isinstance(properties := schema.get("properties"), dict):
        parts = (f'"{name}": {_sketch(part)}' for name, part in properties.items())
        return f"{{{', '.join(parts)}}}"
    if "items" in schema:
        return f"[{_sketch(schema['items'])}]"
    kind = schema.get("type")
    return kind if isinstance(kind, str) else "any"
