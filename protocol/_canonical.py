"""JSON as bytes: our own records, and the one canonical form that digests rest on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from typing import cast
from uuid import UUID

import orjson
from pydantic_core import from_json

from ._json import JsonValue, replace_surrogates


def canonical(value: JsonValue) -> bytes:
    """Write a value so that equal values give equal bytes, whatever the order of their keys.

    As RFC 8785: sorted keys, no whitespace, UTF-8. Unlike it, keys sort by code point, integers
    keep every digit, and ``1`` and ``1.0`` differ. The value must be JSON as `check_json`
    understands it; a NaN would read as null.

    Raises:
        TypeError: If the value is not JSON.
        ValueError: If the value is not JSON.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return _write_slowly(_SORTED, value)


def digest(value: JsonValue) -> str:
    """Return the SHA-256 of the canonical form, in hex.

    Raises:
        TypeError: If the value is not JSON.
        ValueError: If the value is not JSON.
    """
    return sha256(canonical(value)).hexdigest()


def dumps(value: object) -> bytes:
    """Write one of our own records: JSON values, mappings, dataclasses, enums, decimals, times, UUIDs.

    Integers keep every digit, lone surrogates become U+FFFD.

    Raises:
        TypeError: If something in it has no JSON form.
        ValueError: If it is circular.
    """
    try:
        return orjson.dumps(value, _plain)
    except orjson.JSONEncodeError:
        return _write_slowly(_UNSORTED, value)


def loads(raw: bytes) -> JsonValue:
    """Read back what `dumps` or `canonical` wrote; integers keep every digit.

    Raises:
        ValueError: If the bytes are not JSON.
    """
    # orjson would be as fast, but turns integers beyond 64 bits into floats.
    value: JsonValue = from_json(raw, allow_inf_nan=False)
    return value


def _plain(value: object) -> object:
    """Turn into JSON what the encoders do not know; orjson knows all but the first kind itself."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if is_dataclass(value):
        # orjson leaves out fields with a leading underscore: both ways must write the same.
        names = [field.name for field in fields(value) if not field.name.startswith("_")]
        return {name: getattr(value, name) for name in names}
    if isinstance(value, Enum):
        return cast("object", value.value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form; convert it before it is stored")


def _encoder(*, sort_keys: bool) -> json.JSONEncoder:
    return json.JSONEncoder(
        ensure_ascii=False,
        allow_nan=False,
        sort_keys=sort_keys,
        separators=(",", ":"),
        default=_plain,
    )


_SORTED = _encoder(sort_keys=True)
_UNSORTED = _encoder(sort_keys=False)


def _write_slowly(encoder: json.JSONEncoder, value: object) -> bytes:
    """Write what orjson refuses: integers beyond 64 bits, and lone surrogates."""
    return replace_surrogates(encoder.encode(value)).encode()
