"""The redactor that comes with loopwright: what it masks, what it leaves, and what it costs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.policy import BEARER_TOKENS, EMAILS, Redactor, card_numbers
from loopwright.protocol import ConfigurationError, JsonValue, check_json

MASK = "[redacted]"
CARD = "4111 1111 1111 1111"
redact = Redactor(patterns=(BEARER_TOKENS, card_numbers, EMAILS))


@pytest.mark.parametrize(
    "name",
    ["password", "PASSWORD", "user_password", "Access-Token", "apiKey", "X-API-Key", "api key"],
)
def test_what_stands_under_such_a_name_is_masked_whatever_it_is(name: str) -> None:
    """At any depth, whatever the case and however the words of the name are joined."""
    secrets: list[JsonValue] = ["hunter2", 7, True, ["hunter2"], {"is": "hunter2"}]
    for secret in secrets:
        held: JsonValue = {"a": [{name: secret, "id": 7}]}
        assert redact(held, "output") == {"a": [{name: MASK, "id": 7}]}


def test_names_that_only_begin_alike_are_left_alone() -> None:
    held: JsonValue = {"tokens": 15, "secretary": "Ana", "password": None}
    assert redact(held, "output") == held


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("password: hunter2 was refused", f"password: {MASK} was refused"),
        ("GET /?access_token=abc then", f"GET /?access_token={MASK} then"),
        ('{"api-key": "a b\\"c", "id": 7}', f'{{"api-key": {MASK}, "id": 7}}'),
        ("{'secret': 'a b', 'id': 7}", f"{{'secret': {MASK}, 'id': 7}}"),
        (r"{\"token\": \"abc\"} and more", rf"{{\"token\": {MASK}"),
        ("Authorization: Basic dXNlcjpw\nHost: x", f"Authorization: {MASK}\nHost: x"),
        ("sent Bearer abcdefghijklmnop.q-r_s=", f"sent {MASK}"),
        (f"card {CARD}, thanks", f"card {MASK}, thanks"),
        ("order 12 4111-1111-1111-1111", f"order 12 {MASK}"),
        (f"{CARD} {CARD}", f"{MASK} {MASK}"),
        ("write to a.b+c@shop.example.com!", f"write to {MASK}!"),
    ],
)
def test_secrets_in_texts_are_masked(text: str, left: str) -> None:
    assert redact(text, "error") == left


@pytest.mark.parametrize(
    "text",
    [
        "the bearer of bad news",
        "15 tokens; the secret is out",
        "order 1700000000000",  # a time in milliseconds
        "4111 1111 1111 1112",  # its sum is wrong
        "41111111111111111111111111111111",  # too long for a card
        "a@b and @nobody",
    ],
)
def test_what_only_looks_alike_is_left(text: str) -> None:
    assert redact(text, "text") == text


def test_a_card_number_is_one_as_a_number_or_as_a_key_too() -> None:
    held: JsonValue = {"card": 4111111111111111, "id": 4111111111111112, CARD: 1, f"{CARD}.": 2}
    assert redact(held, "output") == {"card": MASK, "id": 4111111111111112, MASK: 1, f"{MASK}.": 2}


def test_keys_that_are_masked_alike_stay_apart() -> None:
    held: JsonValue = {CARD: 1, CARD.replace(" ", ""): 2}
    left: Any = redact(held, "output")
    assert sorted(left.values()) == [1, 2]


def test_arguments_are_left_alone_unless_it_is_told() -> None:
    """What is masked in them is masked for their tools."""
    held: JsonValue = {"password": "hunter2"}
    assert redact(held, "arguments") == held
    assert Redactor(arguments=True)(held, "arguments") == {"password": MASK}


def test_patterns_and_keys_can_be_ones_own() -> None:
    def spans(text: str) -> list[tuple[int, int]]:
        return [(0, 3)] if text.startswith("abc") else []

    own = Redactor(patterns=(r"ORD-\d+", re.compile("(?i)ana"), spans), keys=("iban",), mask="***")
    assert own("abcd: ORD-77 of ANA, iban: X1, password: y", "text") == (
        "***d: *** of ***, iban: *** password: y"
    )
    assert Redactor(keys=(), patterns=())({"password": "x"}, "output") == {"password": "x"}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(
        [CARD, "password: x", "Bearer abcdefghijklmnopqrst", "a@b.cd", "token=token:"]
    )
    | st.from_regex(r"(?:[ \"'\\:=]|token|4111|1111|bearer|@a\.b){0,12}", fullmatch=True),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.sampled_from(["token", CARD]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_redacting_again_changes_nothing_and_json_stays_json(value: JsonValue) -> None:
    once = redact(value, "output")
    check_json(once, where="redacted")
    assert redact(once, "output") == once


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a",
            "a@",
            "a.",
            "a@b.",
            "1",
            "4 ",
            "4-",
            f"{CARD} ",
            "bearer ",
            "bearer\t\t\t",
            "password",
        ),
        *("password=", "token:token ", "secret   ", "password:'\\", 'password:"\\', "api key="),
    ],
)
@pytest.mark.timeout(30)
def test_hostile_text_does_not_hang_the_redactor(unit: str) -> None:
    """What is quadratic would take minutes for each of these: the time limit is no measurement."""
    text = unit * (200_000 // len(unit))
    assert isinstance(redact(text, "output"), str)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"patterns": ["("]}, "no regular expression"),
        ({"patterns": [re.compile(b"x")]}, "no regular expression"),
        ({"patterns": ["a*"]}, "where nothing is"),
        ({"patterns": [7]}, "give a regular expression"),
        ({"patterns": ["red"]}, "give another mask"),
        ({"patterns": "abc"}, "put one in a tuple"),
        ({"keys": "password"}, "put one in a tuple"),
        ({"keys": [" - "]}, "give the name"),
        ({"keys": [7]}, "give the name"),
        ({"mask": "not shown"}, "without blanks"),
        ({"mask": ""}, "without blanks"),
        ({"mask": 7}, "without blanks"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(part)):
        Redactor(**options)
