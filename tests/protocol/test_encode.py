"""What a tool returned always gets a JSON form, and encoding it never raises."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr, field_serializer

from loopwright.protocol._canonical import dumps, loads
from loopwright.protocol._encode import Encoded, to_json
from loopwright.protocol._json import JsonValue, check_json


def encode(value: object) -> bytes:
    return dumps(to_json(value).value)


class Pair(NamedTuple):
    a: int
    b: int


class Plain(Enum):
    RED = ("r", 1)


class Word(StrEnum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError


@dataclass
class Point:
    x: int
    tags: set[str] = field(default_factory=set[str])
    _inner: bytes = b""


class Model(BaseModel):
    price: Decimal
    raw: bytes = b"\xff"
    tags: frozenset[str] = frozenset({"b", "a"})


class Secretive(BaseModel):
    password: SecretStr


class BadModel(BaseModel):
    x: int = 1

    @field_serializer("x")
    def fail(self, _: int) -> int:
        raise RuntimeError


class Hostile:
    """Fails in every method it can."""

    def _fail(self, *_: object) -> Any:
        raise RuntimeError

    __eq__ = __str__ = __repr__ = __iter__ = __len__ = __getattr__ = _fail  # pyright: ignore[reportAssignmentType] - on purpose
    __class__ = property(_fail)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride] - on purpose
    __hash__ = object.__hash__


class HostileMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise RuntimeError

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError


class HostileList(list[int]):
    def __iter__(self) -> Iterator[int]:
        raise RuntimeError


class HostileMeta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride] - on purpose
        raise RuntimeError


class Nameless(metaclass=HostileMeta):
    pass


@dataclass
class HostileField:
    x: int = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "x":
            raise RuntimeError
        return super().__getattribute__(name)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({2, 1}, [1, 2]),
        ({"b", 10, "a", 9}, ["a", "b", 10, 9]),
        (frozenset({(1, 2)}), [[1, 2]]),
        (Decimal("1.50"), "1.50"),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4), "03:04:00"),
        (b"\xff", "/w=="),
        (bytearray(b"ab"), "YWI="),
        (memoryview(b"ab"), "YWI="),
        (Plain.RED, ["r", 1]),
        (Word.RED, "red"),
        (Number.ONE, 1),
        (Text("t"), "t"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/a/b"), "/a/b"),
        ((1, (2,)), [1, [2]]),
        (Pair(1, 2), [1, 2]),
        (Point(1, {"b", "a"}), {"x": 1, "tags": ["a", "b"], "_inner": ""}),
        (Model(price=Decimal("1.50")), {"price": "1.50", "raw": "/w==", "tags": ["a", "b"]}),
        (Secretive(password=SecretStr("p")), {"password": "**********"}),
        (OrderedDict({"b": 1, "a": 2}), {"b": 1, "a": 2}),
        (MappingProxyType({"a": Decimal(1)}), {"a": "1"}),
        (
            {1: "a", None: "b", "x": "c", 1.5: "d"},
            {"1": "a", "null": "b", "x": "c", "1.5": "d"},
        ),
        ({False: 0, Word.RED: 1, date(2026, 1, 2): 2}, {"false": 0, "red": 1, "2026-01-02": 2}),
        ("a\x00b", "a\x00b"),
        (["x\ud800", {"\ud800": 1}], ["x\ufffd", {"\ufffd": 1}]),
        (2**70, 2**70),
    ],
)
def test_b58_each_kind_has_its_encoding(value: object, expected: JsonValue) -> None:
    assert to_json(value) == Encoded(expected, unserializable=False)
    assert loads(encode(value)) == expected


def circular(kind: str) -> object:
    if kind == "dict":
        mapping: dict[str, object] = {}
        mapping["a"] = [mapping]
        return mapping
    array: list[object] = []
    array.append(array)
    return array


def deep(levels: int) -> object:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


WITHOUT_FORM: list[tuple[object, str]] = [
    (object(), "object"),
    (object, "type"),
    (Plain, "type"),
    (float("nan"), "float nan"),
    (float("-inf"), "float -inf"),
    (circular("list"), "list (circular)"),
    (circular("dict"), "dict (circular)"),
    (deep(65), "list (nested deeper than 64)"),
    (10**5_000, "int (too long)"),
    ({(1, 2): 3}, "tuple (as a key)"),
    ({1: "a", "1": "b"}, "dict (two keys become the same text)"),
    (1j, "complex"),
    (len, "builtin_function_or_method"),
    (iter([1]), "list_iterator"),
    (Hostile(), "Hostile"),
    (HostileMapping(), "HostileMapping"),
    (HostileList([1]), "HostileList"),
    (HostileField(), "HostileField"),
    (BadModel(), "BadModel"),
    (Nameless(), "object"),
    ({Hostile()}, "Hostile"),
]


@pytest.mark.parametrize(
    ("value", "name"),
    WITHOUT_FORM,
    ids=[name for _, name in WITHOUT_FORM],  # pytest cannot name all of them by their value
)
def test_b58_what_has_no_form_names_its_type(value: object, name: str) -> None:
    marker: JsonValue = {"unserializable": name}
    for wrapped in (value, [1, {"a": value}]):
        encoded = to_json(wrapped)
        assert encoded.unserializable
        assert "0x" not in str(encoded.value)
        assert loads(encode(wrapped)) == encoded.value
    assert to_json(value).value == marker


def test_b58_64_levels_have_a_form() -> None:
    assert to_json(deep(64)) == Encoded(deep(64))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - lists of lists


def test_b58_a_leaf_is_no_level() -> None:
    value: object = Decimal(1)
    for _ in range(64):
        value = [value]
    assert not to_json(value).unserializable


def test_a_value_that_only_looks_unserializable_is_not_flagged() -> None:
    assert not to_json({"unserializable": "object"}).unserializable


def test_the_form_shares_nothing_with_what_the_tool_returned() -> None:
    inner = [1]
    encoded = to_json({"a": inner})
    inner.append(2)
    assert encoded.value == {"a": [1]}


anything: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.decimals()
    | st.datetimes()
    | st.uuids()
    | st.sampled_from([object(), Word.RED, Plain.RED, BadModel(), int])
    | st.builds(Hostile),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(st.characters()) | st.integers() | st.floats(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(anything)
def test_whatever_is_returned_becomes_storable_json(value: object) -> None:
    """Encoding never raises, and what it gives passes the check every stored value must pass."""
    encoded = to_json(value)
    check_json(encoded.value, where="output")
    assert loads(encode(value)) == encoded.value


@given(st.sets(st.integers() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_set_is_written_the_same_whatever_its_order(value: set[object]) -> None:
    assert encode(value) == encode({*reversed([*value])})
    assert len(json.loads(encode(value))) == len(value)
