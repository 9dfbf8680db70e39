"""Strict JSON at the edge: what a model, a file or a caller said, parsed once or refused.

Everything that leaves this module is finite, at most `MAX_DEPTH` deep, free of lone surrogates,
and shares nothing with what came in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ._errors import RemoteProtocolError

if TYPE_CHECKING:
    import pydantic

    JsonValue: TypeAlias = pydantic.JsonValue
else:
    # What has this type has been parsed or checked here, or comes from a JSON decoder: pydantic
    # is not asked to walk through it a second time.
    JsonValue = Any

JsonObject: TypeAlias = dict[str, JsonValue]

MAX_DEPTH = 64
"""Containers inside one another, the outermost counted, that are still accepted."""

MAX_INT_DIGITS = 4_299
"""Digits an integer may have; CPython refuses to convert longer ones by default."""

INT_BOUND = 10**MAX_INT_DIGITS
"""The first integer that is too long."""

_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels; flatten it"
_TOO_LONG = f"an integer has more than {MAX_INT_DIGITS} digits; send it as a string"

_MAX_SHOWN = 40
_KINDS = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean"}
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    """The arguments of one call, and what was forgiven in reading them."""

    value: JsonObject
    normalized: tuple[str, ...] = ()
    """Of ``empty``, ``double_encoded``, ``control_characters``, ``surrogates``."""


def parse_arguments(raw: str | bytes | Mapping[str, object] | None) -> ParsedArguments:
    """Read a call's arguments: a JSON object as text, or a mapping someone has parsed already.

    Absent, blank and ``null`` mean no arguments. One level of double encoding and raw control
    characters are undone, lone surrogates become U+FFFD; `normalized` says which of these
    happened.

    Raises:
        RemoteProtocolError: If it is anything but one strict JSON object.
    """
    if isinstance(raw, (str, bytes)):
        text = _text(raw, "arguments")
        if not text.strip(" \t\n\r"):
            return ParsedArguments({}, ("empty",))
        value, notes = _decode(text, "arguments")
        if isinstance(value, str) and value.lstrip(" \t\n\r").startswith("{"):
            value, notes = _decode_inner(value, notes)
    else:
        value, notes = _copied(raw, "arguments")
    if isinstance(value, dict):
        return ParsedArguments(value, notes)
    if value is None:
        return ParsedArguments({}, ("empty",))
    raise RemoteProtocolError("arguments", f"must be a JSON object, not {_KINDS[type(value)]}")


def parse_json(raw: str | bytes, *, where: str) -> JsonValue:
    """Read one JSON value as strictly as arguments are read; nothing is unwrapped.

    Args:
        raw: The text, or its UTF-8 bytes.
        where: The boundary an error should name.

    Raises:
        RemoteProtocolError: If it is not exactly one strict JSON value.
    """
    value, _ = _decode(_text(raw, where), where)
    return value


def check_json(value: object, *, where: str) -> None:
    """Make sure that a Python object can be stored as JSON and read back equal.

    Args:
        value: What a caller passed.
        where: What the caller knows it as; an error names the path from there.

    Raises:
        RemoteProtocolError: If something in it is not JSON.
    """
    _walk(value, where, _refuse_surrogates)


def replace_surrogates(text: str) -> str:
    """Put U+FFFD for each lone surrogate, which no UTF-8 can hold."""
    return _SURROGATE.sub("\ufffd", text)


# --- text ---------------------------------------------------------------------------------------


def _text(raw: str | bytes, where: str) -> str:
    if isinstance(raw, str):
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not valid UTF-8; send JSON as UTF-8"
        raise RemoteProtocolError(where, problem) from None


def _decode(text: str, where: str) -> tuple[JsonValue, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    try:
        try:
            value: JsonValue = _STRICT.decode(text)
        except json.JSONDecodeError:
            # The decoders differ in raw control characters alone: if this one reads it, it had some.
            value = _LENIENT.decode(text)
            notes = ("control_characters",)
    except RecursionError:
        raise RemoteProtocolError(where, _TOO_DEEP) from None
    except json.JSONDecodeError as error:
        problem = f"not valid JSON ({error}); send one complete JSON value"
        raise RemoteProtocolError(where, problem) from None
    except ValueError as error:
        raise RemoteProtocolError(where, str(error)) from None
    # Without these signs it can be neither too deep nor hold a surrogate, so most texts skip the walk.
    if text.count("[") + text.count("{") > MAX_DEPTH or "\\u" in text or not text.isascii():
        value, surrogates = _copied(value, where)
        notes += surrogates
    return value, notes


def _decode_inner(text: str, outer: tuple[str, ...]) -> tuple[JsonValue, tuple[str, ...]]:
    value, notes = _decode(text, "arguments")
    if "control_characters" in notes:
        problem = "the JSON inside the string holds raw control characters; send a plain object"
        raise RemoteProtocolError("arguments", problem)
    return value, tuple(dict.fromkeys((*outer, "double_encoded", *notes)))


def _object(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(_twice(key))
            seen.add(key)
    return found


def _integer(text: str) -> int:
    if len(text) > MAX_INT_DIGITS and len(text.removeprefix("-")) > MAX_INT_DIGITS:
        raise ValueError(_TOO_LONG)
    return int(text)


def _float(text: str) -> float:
    number = float(text)
    if isfinite(number):
        return number
    raise ValueError(f"the number {_shown(text)} is too large; send it as a string")


def _constant(token: str) -> float:
    raise ValueError(f"{token} is not a JSON number; send a finite number or null")


def _decoder(*, strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_object,
        parse_int=_integer,
        parse_float=_float,
        parse_constant=_constant,
        strict=strict,
    )


_STRICT = _decoder(strict=True)
_LENIENT = _decoder(strict=False)


# --- objects ------------------------------------------------------------------------------------


class _UnfitError(Exception):
    """Raised inside the walk; each container adds its own step to the path on the way out."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps: list[str] = []


class _Repair:
    """Replaces lone surrogates, and remembers whether it had to."""

    def __init__(self) -> None:
        self.used = False

    def __call__(self, text: str) -> str:
        repaired = replace_surrogates(text)
        self.used = self.used or repaired != text
        return repaired


def _refuse_surrogates(text: str) -> str:
    if _SURROGATE.search(text):
        raise _UnfitError("a string holds a lone surrogate; replace it")
    return text


def _copied(value: object, where: str) -> tuple[JsonValue, tuple[str, ...]]:
    repair = _Repair()
    copy = _walk(value, where, repair)
    return copy, ("surrogates",) if repair.used else ()


def _walk(value: object, where: str, clean: Callable[[str], str]) -> JsonValue:
    try:
        return _copy(value, clean, 0)
    except RecursionError:
        raise RemoteProtocolError(where, _TOO_DEEP) from None
    except _UnfitError as error:
        raise RemoteProtocolError(where + "".join(reversed(error.steps)), error.problem) from None


def _copy(value: object, clean: Callable[[str], str], depth: int) -> JsonValue:
    # Exact types: a subclass, such as an enum or a numpy float, would not read back equal.
    if type(value) is str:
        return value if value.isascii() else clean(value)
    if value is None or type(value) is bool:
        return value
    if type(value) is int:
        if abs(value) < INT_BOUND:
            return value
        raise _UnfitError(_TOO_LONG)
    if type(value) is float:
        if isfinite(value):
            return value
        raise _UnfitError(f"{value} is not a JSON number; use a finite number or None")
    if isinstance(value, (dict, Mapping)):
        return _copy_object(cast("Mapping[object, object]", value), clean, depth + 1)
    if isinstance(value, list):
        return _copy_array(cast("list[object]", value), clean, depth + 1)
    name = type(value).__name__
    article = "an" if name[:1] in "aeiouAEIOU" else "a"
    raise _UnfitError(
        f"{article} {name} is not JSON; use str, int, float, bool, None, list and dict only"
    )


def _copy_object(
    value: Mapping[object, object], clean: Callable[[str], str], depth: int
) -> JsonObject:
    if depth > MAX_DEPTH:
        raise RecursionError  # as the decoder does; `_walk` says where
    copy: JsonObject = {}
    for key, item in value.items():
        if type(key) is not str:
            raise _UnfitError(f"a key is a {type(key).__name__}; use str keys only")
        name = key if key.isascii() else clean(key)
        if name in copy:
            raise _UnfitError(_twice(name))
        try:
            copy[name] = _copy(item, clean, depth)
        except _UnfitError as error:
            error.steps.append(_step(name))
            raise
    return copy


def _copy_array(value: list[object], clean: Callable[[str], str], depth: int) -> list[JsonValue]:
    if depth > MAX_DEPTH:
        raise RecursionError
    copy: list[JsonValue] = []
    for index, item in enumerate(value):
        try:
            copy.append(_copy(item, clean, depth))
        except _UnfitError as error:
            error.steps.append(f"[{index}]")
            raise
    return copy


def _step(key: str) -> str:
    plain = key.isidentifier() and key.isascii() and len(key) <= _MAX_SHOWN
    return f".{key}" if plain else f"[{_shown(key)}]"


def _twice(key: str) -> str:
    return f"the key {_shown(key)} appears twice in one object; give each key once"


def _shown(text: str) -> str:
    return ascii(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}...")
