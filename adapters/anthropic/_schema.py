"""Which schemas the API can enforce while it generates."""

from __future__ import annotations

from typing import Final, cast

from loopwright.protocol import JsonObject, JsonValue, ModelRequest, final_schema

from ..provider._schema import strict_schema

_ROOT: Final = "#"


def enforceable(request: ModelRequest) -> JsonObject | None:
    """Return the schema of a final answer as the API can enforce it; `None` if it cannot.

    Unlike others it refuses schemas that lead back to themselves.
    """
    schema = strict_schema(final_schema(request))
    return None if schema is None or _is_recursive(schema) else schema


def _is_recursive(schema: JsonObject) -> bool:
    definitions = cast("JsonObject", schema.get("$defs", {}))
    leads = {name: _references(part) for name, part in definitions.items()}
    leads[_ROOT] = _references({key: part for key, part in schema.items() if key != "$defs"})
    while leads:
        # Whatever leads to nothing that is left is no part of a circle.
        ends = [name for name, to in leads.items() if not to & leads.keys()]
        if not ends:
            return True
        for name in ends:
            del leads[name]
    return False


def _references(value: JsonValue) -> set[str]:
    if isinstance(value, list):
        return set[str]().union(*map(_references, value))
    if not isinstance(value, dict):
        return set()
    found = set[str]().union(*map(_references, value.values()))
    reference = value.get("$ref")
    return found | {reference.removeprefix("#/$defs/")} if isinstance(reference, str) else found
