"""A tool's return value as JSON: encoded if it has a form, named by its type if it has none.

The tool has run by then, so nothing here raises: a value without a JSON form is a fact about the
result, never a failure of the call.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import TypeAlias, cast
from uuid import UUID

from pydantic import BaseModel

from ._canonical import canonical
from ._json import INT_BOUND, MAX_DEPTH, JsonObject, JsonValue, replace_surrogates

_Parents: TypeAlias = tuple[object, ...]
_MAX_NAME = 100
_SMALL = 2**63


@dataclass(frozen=True, slots=True)
class Encoded:
    """A JSON value, and whether it stands for one that has no JSON form."""

    value: JsonValue
    unserializable: bool = False


def to_json(value: object) -> Encoded:
    """Give a tool's return value its JSON form.

    Decimal, UUID, path → string; date and time → ISO 8601; bytes → base64; set → list in
    canonical order; enum → its value; dataclass, pydantic model, mapping → object; lone surrogates
    → U+FFFD. If any part has no form, the whole becomes ``{"unserializable": "<type>"}``.
    """
    try:
        return Encoded(_flat(value) or _encoded(value, ()))
    except _NoFormError as error:
        name = error.name
    except Exception:  # noqa: BLE001 - the tool has run: whatever goes wrong here is no failure
        # Plain containers can fail too: one that changes in another thread, or a full stack.
        name = _type_name(value)
    return Encoded({"unserializable": name}, unserializable=True)


def _flat(value: object) -> JsonObject | None:
    """Copy a plain object of plain texts and small numbers, which is what most tools return."""
    if type(value) is not dict:
        return None
    flat: JsonObject = {}
    for key, item in cast("dict[object, object]", value).items():
        if type(key) is not str or not key.isascii():
            return None
        if (
            item is None
            or type(item) is bool
            or (type(item) is str and item.isascii())
            or (type(item) is int and -_SMALL < item < _SMALL)
        ):
            flat[key] = item
        else:
            return None
    return flat


class _NoFormError(Exception):
    """Raised inside the walk when a part has no JSON form; `name` says which type."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _encoded(value: object, parents: _Parents) -> JsonValue:
    if type(value) is str:
        return value if value.isascii() else replace_surrogates(value)
    if value is None or type(value) is bool:
        return value
    if type(value) is int:
        if abs(value) < INT_BOUND:
            return value
        raise _NoFormError("int (too long)")
    if type(value) is float:
        if isfinite(value):
            return value
        raise _NoFormError(f"float {value}")
    if type(value) is dict:
        return _object(cast("dict[object, object]", value), _within(cast("object", value), parents))
    if type(value) is list or type(value) is tuple:
        inside = _within(cast("object", value), parents)
        return [_encoded(item, inside) for item in cast("list[object]", value)]
    try:
        return _special(value, parents)
    except _NoFormError:
        raise
    except Exception:  # noqa: BLE001 - its own iterator, property or serializer may raise anything
        raise _NoFormError(_type_name(value)) from None


def _within(value: object, parents: _Parents) -> _Parents:
    if len(parents) < MAX_DEPTH:
        return (*parents, value)
    # A circle always ends up here, so looking for one earlier would only cost.
    circular = any(parent is value for parent in parents)
    why = "circular" if circular else f"nested deeper than {MAX_DEPTH}"
    raise _NoFormError(f"{_type_name(value)} ({why})")


def _special(value: object, parents: _Parents) -> JsonValue:
    match value:
        case type():
            raise _NoFormError("type")
        case Enum():
            return _encoded(value.value, parents)
        case str():
            return _encoded(str.__str__(value), parents)
        case int():
            return _encoded(int.__int__(value), parents)
        case float():
            return _encoded(float.__float__(value), parents)
        case Decimal() | UUID() | PurePath():
            return _encoded(str(value), parents)
        case datetime() | date() | time():
            return _encoded(value.isoformat(), parents)
        case bytes() | bytearray() | memoryview():
            return b64encode(cast("bytes", value)).decode()
        case Mapping():
            mapping = cast("Mapping[object, object]", value)
            return _object(mapping, _within(mapping, parents))
        case list() | tuple():
            array = cast("list[object]", value)
            inside = _within(array, parents)
            return [_encoded(item, inside) for item in array]
        case set() | frozenset():
            unordered = cast("set[object]", value)
            inside = _within(unordered, parents)
            return sorted((_encoded(item, inside) for item in unordered), key=canonical)
        case BaseModel():
            return _model(value, parents)
        case _ if is_dataclass(value):
            parts: dict[object, object] = {p.name: getattr(value, p.name) for p in fields(value)}
            return _object(parts, _within(value, parents))
        case _:
            raise _NoFormError(_type_name(value))


def _object(value: Mapping[object, object], inside: _Parents) -> JsonObject:
    encoded: JsonObject = {}
    for key, item in value.items():
        name = key if type(key) is str and key.isascii() else _key(key, inside)
        if name in encoded:
            raise _NoFormError(f"{_type_name(value)} (two keys become the same text)")
        encoded[name] = _encoded(item, inside)
    return encoded


def _key(key: object, inside: _Parents) -> str:
    name = _encoded(key, inside)
    if isinstance(name, str):
        return name
    if isinstance(name, (dict, list)):
        raise _NoFormError(f"{_type_name(key)} (as a key)")
    return canonical(name).decode()


def _model(model: BaseModel, parents: _Parents) -> JsonValue:
    try:
        return _encoded(model.model_dump(warnings=False), parents)
    except _NoFormError:
        # Some fields, such as a URL or a secret, have only pydantic's own JSON form.
        return _encoded(model.model_dump(mode="json", warnings=False), parents)


def _type_name(value: object) -> str:
    try:
        return str(type(value).__name__)[:_MAX_NAME]
    except Exception:  # noqa: BLE001 - a metaclass may answer for the name, and fail
        return "object"
