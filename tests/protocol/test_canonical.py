"""Bytes of our own: one canonical form for equal values, and records that read back equal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from hashlib import sha256
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.protocol._canonical import canonical, digest, dumps, loads
from loopwright.protocol._json import JsonValue

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


KEY = UUID(int=1)


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Note:
    text: str
    number: int
    colour: Colour = Colour.RED
    when: datetime = datetime(2026, 1, 2, tzinfo=UTC)
    key: UUID = KEY
    _hidden: int = 0


def reordered(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [reordered(item) for item in value]
    return value


@given(values)
def test_the_order_of_keys_does_not_show(value: JsonValue) -> None:
    assert canonical(value) == canonical(reordered(value))


@given(values)
def test_the_canonical_form_reads_back_equal(value: JsonValue) -> None:
    assert loads(canonical(value)) == value
    assert json.loads(canonical(value)) == value


@given(st.dictionaries(text, st.integers() | text | st.none()))
def test_integers_beyond_64_bits_do_not_change_how_the_rest_is_written(
    value: dict[str, JsonValue],
) -> None:
    beside = canonical([value, 2**64])
    assert beside == b"[" + canonical(value) + b",18446744073709551616]"


def test_the_canonical_form_is_compact_sorted_utf8() -> None:
    assert canonical({"b": [1, 2.5], "é": None, "a": "ü\n"}) == (
        '{"a":"ü\\n","b":[1,2.5],"é":null}'.encode()
    )


def test_one_and_true_and_one_point_zero_stay_apart() -> None:
    written = {canonical(1), canonical(1.0), canonical(True), canonical("1")}
    assert len(written) == 4


def test_b28_big_integers_are_exact() -> None:
    for number in (1234567890123456789, 2**64, -(2**64), 10**4298):
        assert canonical({"id": number}) == b'{"id":%s}' % str(number).encode()
        assert loads(dumps({"id": number})) == {"id": number}


def test_lone_surrogates_are_written_as_the_replacement_character() -> None:
    assert canonical({"\ud800": "\udfff", "a": 1}) == '{"a":1,"\ufffd":"\ufffd"}'.encode()
    assert loads(dumps(["x\ud800"])) == ["x\ufffd"]


def test_the_digest_is_the_sha256_of_the_canonical_form() -> None:
    assert digest({"a": 1}) == sha256(b'{"a":1}').hexdigest()
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest([1, 2]) != digest([2, 1])


@given(values)
def test_records_read_back_equal(value: JsonValue) -> None:
    assert loads(dumps(value)) == value


def test_b32_nul_and_its_escape_are_kept() -> None:
    value: JsonValue = {"a\x00b": "a\x00b", "t": "\\u0000"}
    assert loads(dumps(value)) == value


@pytest.mark.parametrize("number", [1, 2**64])
def test_dataclasses_are_written_the_same_with_big_integers_as_without(number: int) -> None:
    written = loads(dumps({"note": Note("é", number), "map": MappingProxyType({"a": 1})}))
    assert written == {
        "note": {
            "text": "é",
            "number": number,
            "colour": "red",
            "when": "2026-01-02T00:00:00+00:00",
            "key": "00000000-0000-0000-0000-000000000001",
        },
        "map": {"a": 1},
    }


@pytest.mark.parametrize("value", [object(), {"a": {1}}, [2**64, object()]])
def test_a_record_without_json_form_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        dumps(value)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"NaN", b"1 2"])
def test_bytes_that_are_not_json_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is pydantic-core's
        loads(raw)
