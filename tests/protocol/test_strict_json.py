"""Strict JSON at the edge: what is refused, what is forgiven, and that nothing else happens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from loopwright.protocol._errors import RemoteProtocolError
from loopwright.protocol._json import (
    JsonObject,
    JsonValue,
    ParsedArguments,
    check_json,
    parse_arguments,
    parse_json,
)

MAX_DEPTH = 64
TOO_MANY_DIGITS = 4_300

scalars: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(names, values, max_size=4)


def refusal(raw: Any) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        parse_arguments(raw)
    return caught.value


def nested(depth: int) -> str:
    return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


@pytest.mark.parametrize("raw", ["", "   ", "\n\t", "null", " null ", None, b"", b"null"])
def test_b20_blank_null_and_absent_arguments_are_the_empty_object(raw: str | bytes | None) -> None:
    assert parse_arguments(raw) == ParsedArguments({}, ("empty",))


def test_b20_an_empty_object_is_not_normalized() -> None:
    assert parse_arguments("{}") == ParsedArguments({}, ())


def test_b20_each_empty_object_is_its_own() -> None:
    parse_arguments("").value["x"] = 1
    assert parse_arguments("").value == {}


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ("[]", "array"),
        ("5", "number"),
        ('"text"', "string"),
        ("true", "boolean"),
        ("0.5", "number"),
    ],
)
def test_b21_anything_but_an_object_is_refused(raw: str, kind: str) -> None:
    error = refusal(raw)
    assert error.where == "arguments"
    assert kind in error.problem


@pytest.mark.parametrize("raw", [[], [1], 5, 0, True, False, {1}])
def test_b21_a_parsed_non_object_is_refused(raw: object) -> None:
    refusal(raw)


def test_b22_one_level_of_double_encoding_is_undone() -> None:
    raw = json.dumps(json.dumps({"n": 2}))
    assert parse_arguments(raw) == ParsedArguments({"n": 2}, ("double_encoded",))


def test_b22_a_string_field_stays_a_string() -> None:
    assert parse_arguments('{"note":"{\\"n\\":2}"}').value == {"note": '{"n":2}'}


@pytest.mark.parametrize(
    "inner",
    [
        '{"a":1,"a":2}',
        '{"a":NaN}',
        '{"a":1} {}',
        '{"a":1',
        "[]",
        "5",
        "null",
        "",
        "text",
        nested(65),
    ],
)
def test_b22_what_is_inside_must_strictly_be_an_object(inner: str) -> None:
    refusal(json.dumps(inner))


def test_b22_twice_double_encoded_is_refused() -> None:
    refusal(json.dumps(json.dumps(json.dumps({"n": 2}))))


def test_b22_control_characters_inside_double_encoding_are_refused() -> None:
    refusal(json.dumps('{"t":"a\tb"}'))


def test_b22_every_normalization_is_recorded() -> None:
    raw = '"{\\"a\\":\n\\"\\\\ud800\\"}"'
    assert parse_arguments(raw) == ParsedArguments(
        {"a": "\ufffd"}, ("control_characters", "double_encoded", "surrogates")
    )


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 400 + ".0"]
)
def test_b25_numbers_that_are_not_finite_are_refused(number: str) -> None:
    refusal(f'{{"amount":{number}}}')
    refusal(f'{{"a":[{{"amount":{number}}}]}}')


def test_b25_the_text_nan_is_only_text() -> None:
    assert parse_arguments('{"amount":"NaN"}').value == {"amount": "NaN"}


@pytest.mark.parametrize("number", [1234567890123456789, 9007199254740993, 2**64, -(2**200)])
def test_b28_integers_keep_every_digit(number: int) -> None:
    assert parse_arguments(f'{{"id":{number}}}').value == {"id": number}
    assert parse_arguments({"id": number}).value == {"id": number}


@pytest.mark.parametrize("digits", [TOO_MANY_DIGITS, 5_000, 100_000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_b28_an_integer_too_long_to_read_is_refused(digits: int, sign: str) -> None:
    error = refusal(f'{{"id":{sign}{"1" * digits}}}')
    assert "digits" in error.problem
    assert len(error.problem) < 200


def test_b28_the_longest_integer_is_read() -> None:
    text = "9" * (TOO_MANY_DIGITS - 1)
    assert parse_arguments(f'{{"id":-{text}}}').value == {"id": -int(text)}


def test_b28_an_object_holding_a_too_long_integer_is_refused() -> None:
    assert refusal({"id": 10 ** (TOO_MANY_DIGITS - 1)}).where == "arguments.id"
    assert parse_arguments({"id": 10 ** (TOO_MANY_DIGITS - 1) - 1}).normalized == ()


def test_b30_raw_control_characters_in_strings_are_kept_and_recorded() -> None:
    parsed = parse_arguments('{"t":"a\tb\nc"}')
    assert parsed == ParsedArguments({"t": "a\tb\nc"}, ("control_characters",))


def test_b30_whitespace_between_tokens_is_no_control_character() -> None:
    assert parse_arguments('{\n\t"t": "a"\r\n}').normalized == ()


@pytest.mark.parametrize("raw", ['{\x00"t":1}', '{"t":1\x01}', '{"t":"a\tb'])
def test_b30_control_characters_elsewhere_are_refused(raw: str) -> None:
    refusal(raw)


@pytest.mark.parametrize(
    "raw", ['{"a":1,"a":1}', '{"x":{"a":1,"a":2}}', '{"x":[0,{"b":0,"a":1,"\\u0061":2}]}']
)
def test_a_duplicate_key_is_refused_by_name(raw: str) -> None:
    assert "'a'" in refusal(raw).problem


def test_keys_that_differ_only_in_lone_surrogates_are_duplicates() -> None:
    refusal('{"\\ud800":1,"\\udfff":2}')
    refusal(dict.fromkeys(("\ud800", "\udfff"), 1))


def test_a_long_key_is_named_in_part_and_escaped() -> None:
    key = "é" * 5_000
    problem = refusal(f'{{"{key}":1,"{key}":2}}').problem
    assert problem.isascii()
    assert len(problem) < 400


def test_nesting_ends_at_64() -> None:
    value: object = parse_arguments(nested(MAX_DEPTH)).value
    assert json.dumps(value, separators=(",", ":")) == nested(MAX_DEPTH)
    assert parse_arguments(json.loads(nested(MAX_DEPTH))).normalized == ()
    for raw in (nested(MAX_DEPTH + 1), json.loads(nested(MAX_DEPTH + 1)), nested(100_000)):
        assert "nested" in refusal(raw).problem
    assert "nested" in refusal('{"a":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}").problem


def test_many_brackets_side_by_side_or_in_text_are_not_depth() -> None:
    assert parse_arguments('{"a":[' + "[]," * 100 + "[]]}").value == {"a": [[]] * 101}
    assert parse_arguments({"a": "[{" * 100}).value == {"a": "[{" * 100}


@pytest.mark.parametrize(
    "raw",
    [
        '{"a":1}{"b":2}',
        '{"a":1} x',
        '{"path":"a.txt","text":"hel',
        '{"a":',
        "{",
        "{'a':1}",
        '{"a":01}',
        '{"a":1,}',
        '\ufeff{"a":1}',
        b'{"a":"\xff"}',
        b"\xff",
        '{"a":"\\x"}',
        '{"a":"\\u12"}',
    ],
)
def test_trailing_text_truncation_and_malformed_text_are_refused(raw: str | bytes) -> None:
    assert refusal(raw).where == "arguments"


@pytest.mark.parametrize("raw", ['{"a":"x\\ud800y"}', '{"a":"x\ud800y"}', {"a": "x\ud800y"}])
def test_lone_surrogates_become_the_replacement_character(raw: str | Mapping[str, object]) -> None:
    assert parse_arguments(raw) == ParsedArguments({"a": "x\ufffdy"}, ("surrogates",))


@pytest.mark.parametrize("raw", ['{"é":"\\ud83d\\ude00"}', '{"é":"😀"}', '{"é":"😀"}'.encode()])
def test_surrogate_pairs_are_characters(raw: str | bytes) -> None:
    assert parse_arguments(raw) == ParsedArguments({"é": "😀"}, ())


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        ({"a": {"b": [0, 1, float("nan")]}}, "arguments.a.b[2]"),
        ({"a": [float("-inf")]}, "arguments.a[0]"),
        ({"a": {1: 2}}, "arguments.a"),
        ({"a b": {1}}, "arguments['a b']"),
        ({"d": Decimal(1)}, "arguments.d"),
        ({"t": (1,)}, "arguments.t"),
        ({1: 2}, "arguments"),
        ({"é": {"k" * 50: {1}}}, "arguments['\\xe9']['" + "k" * 40 + "...']"),
        ({"a": [[dict.fromkeys(("\ud800", "\udbff"))]]}, "arguments.a[0][0]"),
    ],
)
def test_what_is_not_json_in_a_parsed_object_is_refused_by_path(raw: Any, where: str) -> None:
    assert refusal(raw).where == where


def test_a_parsed_object_is_copied() -> None:
    inner = [1]
    given_object = {"a": inner}
    parsed = parse_arguments(given_object)
    inner.append(2)
    given_object["b"] = []
    assert parsed.value == {"a": [1]}


def test_any_mapping_is_an_object() -> None:
    raw = MappingProxyType({"a": MappingProxyType({"b": 1})})
    assert parse_arguments(raw) == ParsedArguments({"a": {"b": 1}}, ())


def test_a_circular_object_is_refused() -> None:
    circle: dict[str, object] = {}
    circle["a"] = circle
    assert "nested" in refusal(circle).problem


@pytest.mark.parametrize("raw", ["5", b"[1]", "null", '"text"', '{"a":"b\tc"}'])
def test_parse_json_reads_any_value(raw: str | bytes) -> None:
    assert parse_json(raw, where="decision") == json.loads(raw, strict=False)


@pytest.mark.parametrize("raw", ["", "NaN", '{"a":1,"a":2}', "[" * 65 + "]" * 65, "1 2", b"\xff"])
def test_parse_json_is_as_strict_and_names_the_boundary(raw: str | bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        parse_json(raw, where="decision")
    assert caught.value.where == "decision"


def test_parse_json_unwraps_nothing() -> None:
    assert parse_json('"{}"', where="decision") == "{}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"s": {1}}, "metadata.s: a set is not JSON"),
        ({"d": Decimal("0.10")}, "metadata.d: a Decimal is not JSON"),
        ({"x": [{"b": b"\x00"}]}, "metadata.x[0].b: a bytes is not JSON"),
        ({"o": object()}, "metadata.o: an object is not JSON"),
        ({"n": type("", (), {})()}, "metadata.n: "),
        ({"u": ["\udfff"]}, "metadata.u[0]: a string holds a lone surrogate"),
        ({"k": {None: 1}}, "metadata.k: a key is a NoneType"),
    ],
)
def test_b59_what_cannot_be_stored_is_refused_by_path(value: object, message: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        check_json(value, where="metadata")
    assert str(caught.value).startswith(message)


@given(values)
def test_check_json_passes_all_json(value: JsonValue) -> None:
    check_json(value, where="metadata")


@given(objects)
def test_objects_survive_as_text_and_as_mappings(value: JsonObject) -> None:
    for raw in (json.dumps(value), json.dumps(value, ensure_ascii=False).encode(), value):
        assert parse_arguments(raw) == ParsedArguments(value, ())


json_like = st.text('{}[]":,0123456789.eE+-\\utrfalsn \n\t\x00\ud800é', max_size=40)


@given(json_like | st.text() | json_like.map(lambda text: f'{{"a":{text}}}'))
def test_accepted_text_reads_as_json_does_and_the_rest_is_refused_by_type(text: str) -> None:
    """Arbitrary text never gets anything else out of the parser than an object or its refusal."""
    try:
        parsed = parse_arguments(text)
    except RemoteProtocolError:
        return
    if parsed.normalized == ("empty",):
        assert text.strip() in {"", "null"}
        return
    plain = json.loads(text, strict=False)
    if "double_encoded" in parsed.normalized:
        plain = json.loads(plain)
    if "surrogates" not in parsed.normalized:
        assert parsed.value == plain


@given(st.binary(max_size=60) | json_like.map(lambda text: text.encode(errors="surrogatepass")))
def test_arbitrary_bytes_are_read_or_refused(raw: bytes) -> None:
    with suppress(RemoteProtocolError):
        parse_arguments(raw)


@given(objects, st.lists(st.sampled_from(["list", "dict"]), max_size=5), names)
def test_a_duplicate_is_found_anywhere(value: JsonObject, wraps: list[str], key: str) -> None:
    shown = json.dumps(key)
    text = f"{{{shown}:1,{shown}:{json.dumps(value)}}}"
    for wrap in wraps:
        text = f"[0,{text}]" if wrap == "list" else f'{{"w":{text}}}'
    refusal(f'{{"top":{text}}}')


def test_the_aliases_serve_pydantic() -> None:
    assert TypeAdapter(JsonObject).validate_python({"a": [1, None]}) == {"a": [1, None]}
