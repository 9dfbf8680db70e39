"""A JSON Schema as providers enforce it while they generate."""

from __future__ import annotations

from typing import Final, cast

from loopwright.protocol import JsonObject, JsonValue

_DROPPED: Final = frozenset(
    (
        *("title", "default", "examples", "format", "pattern", "minLength", "maxLength"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minItems", "maxItems", "uniqueItems", "contentEncoding", "contentMediaType"),
        *("minProperties", "maxProperties", "discriminator"),
    )
)
"""What providers do not enforce, or refuse: the runtime checks the value anyway."""
_REFUSED: Final = frozenset(
    ("allOf", "not", "if", "then", "else", "patternProperties", "prefixItems", "dependentSchemas")
)
"""What no provider enforces, and what cannot be left out without losing the shape."""


def strict_schema(schema: JsonObject) -> JsonObject | None:
    """Return the schema in the subset that providers enforce exactly; `None` if it is not in it.

    In that subset objects have only the properties that are listed, and all of them; what was
    optional is then always given, at worst with its default.
    """
    try:
        return _object(schema)
    except _NotStrictError:
        return None


class _NotStrictError(Exception):
    """Raised where a schema says something that the subset cannot say."""


def _strict(value: JsonValue) -> JsonValue:
    if not isinstance(value, dict):
        raise _NotStrictError
    return _object(value)


def _object(schema: JsonObject) -> JsonObject:
    if schema.keys() & _REFUSED or not schema:
        raise _NotStrictError
    if isinstance(schema.get("$ref"), str):
        return {"$ref": schema["$ref"]}  # with anything beside it, it is refused
    strict: JsonObject = {}
    for key, value in schema.items():
        if key in ("properties", "$defs") and isinstance(value, dict):
            strict[key] = {name: _strict(part) for name, part in value.items()}
        elif key == "items":
            strict[key] = _strict(value)
        elif key in ("anyOf", "oneOf") and isinstance(value, list):
            strict["anyOf"] = [_strict(part) for part in value]
        elif key not in _DROPPED and key not in ("required", "additionalProperties"):
            strict[key] = value
    if schema.get("type") == "object":
        if "properties" not in schema or schema.get("additionalProperties", False) is not False:
            raise _NotStrictError
        strict["required"] = list(cast("JsonObject", strict["properties"]))
        strict["additionalProperties"] = False
    elif schema.get("type") == "array" and "items" not in schema:
        raise _NotStrictError
    return strict
