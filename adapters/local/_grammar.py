"""The JSON Schema that a reply is held to while it is generated.

The engine refuses keywords that it does not know, and a weak model fills without end whatever
has none. So only the shape is kept, and texts and lists are bounded. What is left out, the
runtime checks anyway.
"""

from __future__ import annotations

from typing import Final

from loopwright.protocol import JsonObject, JsonValue, ModelRequest, ToolSpec, reserved_tools

MAX_TEXT: Final = 240
"""Characters of one text."""
MAX_ITEMS: Final = 8
"""Items of one list, or of a mapping."""

_BOUNDS: Final = (("string", "maxLength", MAX_TEXT), ("array", "maxItems", MAX_ITEMS))
_KEPT: Final = ("type", "enum", "const")
_ROOT: Final = "#/$defs/"
_COMPACT: Final[JsonObject] = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
"""Otherwise a weak model is free to write blanks until it is cut off."""


def decisions(request: ModelRequest) -> tuple[ToolSpec, ...]:
    """List what a model may decide, each as a call.

    A reply is one call. To have a person look at other calls of the same reply is none of them.
    """
    reserved = reserved_tools(request, final_answer=True)
    return (*request.tools, *(tool for tool in reserved if tool.name != "request_approval"))


def grammar(request: ModelRequest) -> JsonObject:
    """Make the schema of one reply: a decision's name, and what that takes."""
    definitions: JsonObject = {}
    choices: list[JsonValue] = []
    for index, tool in enumerate(decisions(request)):
        # Each schema refers to its own definitions.
        own = f"{_ROOT}{index}_"
        definitions |= {
            f"{index}_{name}": _shape(part, own)
            for name, part in _parts(tool.parameters.get("$defs")).items()
        }
        choices.append(_call(tool.name, _shape(tool.parameters, own)))
    return {"anyOf": choices, "$defs": definitions, "x-guidance": _COMPACT}


def _call(name: str, arguments: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": {"tool": {"const": name}, "arguments": arguments},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


def _shape(schema: JsonValue, own: str) -> JsonObject:
    """Keep the shape; what is not understood may be anything."""
    if not isinstance(schema, dict):
        return {}
    kept: JsonObject = {key: schema[key] for key in _KEPT if key in schema}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_ROOT):
        return {"$ref": own + reference.removeprefix(_ROOT)}
    for key in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(key), list):
            kept["anyOf"] = [_shape(option, own) for option in options]
    if isinstance(first := schema.get("prefixItems"), list):
        kept["prefixItems"] = [_shape(item, own) for item in first]
    if "items" in schema:
        kept["items"] = _shape(schema["items"], own)
    if "properties" in schema:
        parts = _parts(schema["properties"])
        kept["properties"] = {name: _shape(part, own) for name, part in parts.items()}
        kept["required"] = schema.get("required", [])
        kept["additionalProperties"] = False
    elif (others := schema.get("additionalProperties")) is not None:
        kept["additionalProperties"] = _shape(others, own) if others else False
        kept["maxProperties"] = MAX_ITEMS
    return _bounded(kept, schema)


def _bounded(kept: JsonObject, schema: JsonObject) -> JsonObject:
    kinds = kept.get("type")
    for kind, key, most in _BOUNDS:
        if kind == kinds or (isinstance(kinds, list) and kind in kinds):
            given = schema.get(key)
            kept[key] = min(given, most) if isinstance(given, int) else most
    return kept


def _parts(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
