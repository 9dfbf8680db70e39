"""What a message is compared with: a value, a type, or some fields; and how a difference is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeGuard

from loopwright.protocol import Commit, bounded, decode_record

_SHOWN: Final = 300
"""Characters of a value that a difference shows."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place at which two values differ."""

    path: str
    """Fields and indexes from the outermost value; empty for the value itself."""
    expected: str
    got: str

    def __str__(self) -> str:
        """Tell it in one line."""
        return f"{self.path or 'message'}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True, slots=True)
class Like:
    """A pattern that looks at a type and at named fields; made by `like`."""

    kind: type
    named: Mapping[str, object]

    def __repr__(self) -> str:
        """Write it as it is made."""
        return _call("like", [self.kind.__name__], self.named)


@dataclass(frozen=True, slots=True)
class CommitOf:
    """A pattern for a `Commit` of certain records; made by `commit_of`."""

    records: tuple[object, ...]

    def __repr__(self) -> str:
        """Write it as it is made."""
        return _call("commit_of", [show(record) for record in self.records], {})


def like(kind: type, **named: object) -> Like:
    """Match any value of this type whose named fields match; the values may be patterns.

    Raises:
        TypeError: If the type has no field of such a name.
    """
    known = _field_names(kind)
    for name in named:
        if known is not None and name not in known:
            msg = f"{kind.__name__} has no field {name!r}; it has: {', '.join(known) or 'none'}"
            raise TypeError(msg)
    return Like(kind, named)


def commit_of(*records: object) -> CommitOf:
    """Match a `Commit` that carries exactly these records; each may be a pattern."""
    return CommitOf(records)


def differences(expected: object, got: object, path: str = "") -> Iterator[Difference]:
    """Compare field by field; nothing comes of values that match.

    Args:
        expected: A value, a type, `like(...)` or `commit_of(...)`, also inside of values.
        got: What came.
        path: Where in the outermost value these two are.
    """
    match expected:
        case Like(kind=kind, named=named):
            if isinstance(got, kind):
                yield from _fields(named, got, path)
            else:
                yield Difference(path, kind.__name__, _show(got))
        case CommitOf(records=records):
            if isinstance(got, Commit):
                carried = tuple(decode_record(line) for line in got.append.lines)
                yield from differences(records, carried, f"{path}records")
            else:
                yield Difference(path, "Commit", _show(got))
        case type():
            if not isinstance(got, expected):
                yield Difference(path, expected.__name__, _show(got))
        case _:
            names = _field_names(type(expected))
            if names is None:
                yield from _plain(expected, got, path)
            elif type(expected) is type(got):
                yield from _fields({name: getattr(expected, name) for name in names}, got, path)
            else:
                # Named tuples of different types may be equal, messages never are.
                yield Difference(path, _show(expected), _show(got))


def _field_names(kind: type[Any]) -> Iterable[str] | None:
    """Name the fields of a dataclass or named tuple; `None` for any other type."""
    of_dataclass: Mapping[str, object] | None = getattr(kind, "__dataclass_fields__", None)
    of_tuple: Iterable[str] | None = getattr(kind, "_fields", None)
    return of_tuple if of_dataclass is None else of_dataclass


def _fields(named: Mapping[str, object], got: object, path: str) -> Iterator[Difference]:
    prefix = f"{path}." if path else ""
    for name, value in named.items():
        yield from differences(value, getattr(got, name), prefix + name)


def _plain(expected: object, got: object, path: str) -> Iterator[Difference]:
    if _is_mapping(expected) and _is_mapping(got):
        yield from _mappings(expected, got, path)
    elif _is_list(expected) and _is_list(got):
        yield from _lists(expected, got, path)
    elif expected != got or isinstance(expected, bool) is not isinstance(got, bool):
        yield Difference(path, _show(expected), _show(got))


def _mappings(
    expected: Mapping[Any, object], got: Mapping[Any, object], path: str
) -> Iterator[Difference]:
    for key in [*expected, *(key for key in got if key not in expected)]:
        place = f"{path}[{key!r}]"
        if key not in got:
            yield Difference(place, _show(expected[key]), "nothing")
        elif key not in expected:
            yield Difference(place, "nothing", _show(got[key]))
        else:
            yield from differences(expected[key], got[key], place)


def _lists(expected: Sequence[object], got: Sequence[object], path: str) -> Iterator[Difference]:
    for index in range(max(len(expected), len(got))):
        place = f"{path}[{index}]"
        if index >= len(got):
            yield Difference(place, show(expected[index]), "nothing")
        elif index >= len(expected):
            yield Difference(place, "nothing", _show(got[index]))
        else:
            yield from differences(expected[index], got[index], place)


def _is_mapping(value: object) -> TypeGuard[Mapping[Any, object]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def show(pattern: object) -> str:
    """Write a pattern or a message for a report."""
    return pattern.__name__ if isinstance(pattern, type) else _show(pattern)


def _show(value: object) -> str:
    return bounded(repr(value.value if isinstance(value, Enum) else value), _SHOWN)


def _call(name: str, arguments: Sequence[str], named: Mapping[str, object]) -> str:
    return f"{name}({', '.join([*arguments, *(f'{k}={show(v)}' for k, v in named.items())])})"
