"""Messages made of nothing but types: every text that somebody may have said is a secret."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from itertools import zip_longest
from typing import Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

from loopwright.protocol import Ask, PlannedCall

SECRET: Final = "hunter2"

STRUCTURE: Final = {
    *("response_id", "context_digest", "key", "agent", "agent_version", "policy_version"),
    *("tool_name", "model", "endpoint", "verifier", "service", "rule", "signal", "type", "target"),
    *("stop_reason", "by", "actor", "tenant", "roles", "capabilities", "normalized", "child"),
}
"""Texts that are ids and names, beside those whose type says so: they hold the protocol together."""
_DERIVED: Final = {(PlannedCall, "arguments"), (PlannedCall, "outbox"), (Ask, "arguments")}
"""Made by the runtime of arguments that have passed: policy has judged exactly these."""


def messages(kind: Any) -> list[Any]:
    """Make messages of a type in which every alternative of every field occurs at least once."""
    return list(_values(kind, secret=True))


def structure(value: Any, path: str = "") -> Iterator[tuple[str, object]]:
    """List everything in a message that is not a text somebody may have said."""
    for name, held in _parts(value):
        here = f"{path}.{name}"
        if isinstance(held, str):
            if held != SECRET and SECRET not in held:
                yield here, held
        elif _parts(held):
            yield from structure(held, here)
        elif not isinstance(held, dict | list):
            yield here, held


def _parts(value: Any) -> list[tuple[str, Any]]:
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    if hasattr(value, "_fields"):
        return [(name, getattr(value, name)) for name in value._fields]
    if isinstance(value, tuple):
        held = cast("tuple[object, ...]", value)
        return [(str(index), item) for index, item in enumerate(held)]
    return []


def _values(kind: Any, *, secret: bool) -> Iterator[Any]:
    origin, of = get_origin(kind), get_args(kind)
    if kind is Any:
        yield {"a": [SECRET, {"b": SECRET}], SECRET: 1} if secret else {"a": 1}
        yield SECRET if secret else "text"
    elif hasattr(kind, "__supertype__"):
        yield "id"
    elif origin is Literal:
        yield from of
    elif origin in (Union, types.UnionType):
        for one in of:
            yield from _values(one, secret=secret)
    elif hasattr(kind, "__metadata__"):
        yield from _values(kind.__origin__, secret=secret)
    elif origin is tuple:
        inner = of[:1] if of[1:] == (...,) else of
        yield from (tuple(row) for row in _rows([list(_values(o, secret=secret)) for o in inner]))
    elif origin is frozenset:
        yield frozenset(_values(of[0], secret=secret))
    elif origin in (dict, Mapping) or getattr(origin, "__name__", "") == "Mapping":
        if of[1] is Any:
            yield {"a": [SECRET, {"b": SECRET}], SECRET: 1} if secret else {"a": 1}
        else:
            yield {"id": next(_values(of[1], secret=secret))}
    else:
        yield from _plain(kind, secret=secret)


def _plain(kind: Any, *, secret: bool) -> Iterator[Any]:
    if kind is str:
        yield f"it is {SECRET}, you know" if secret else "text"
    elif kind is type(None):
        yield None
    elif kind is bool:
        yield from (True, False)
    elif kind in (int, float, Decimal):
        yield kind(0)
    elif kind is datetime:
        yield datetime(2026, 1, 1, tzinfo=UTC)
    elif isinstance(kind, type) and issubclass(kind, Enum):
        yield next(iter(kind))
    else:
        yield from _objects(kind, secret=secret)


def _objects(kind: Any, *, secret: bool) -> Iterator[Any]:
    make, hints = kind, get_type_hints(kind, include_extras=True)
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else list(kind._fields)
    columns: list[list[Any]] = []
    for name in names:
        said = name not in STRUCTURE and (kind, name) not in _DERIVED
        columns.append(list(_values(hints[name], secret=secret and said)))
    yield from (make(*row) for row in _rows(columns))


def _rows(columns: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """Combine so that each alternative occurs, without multiplying them."""
    for row in zip_longest(*columns):
        yield tuple(
            column[0] if cell is None and None not in column else cell
            for cell, column in zip(row, columns, strict=True)
        )
