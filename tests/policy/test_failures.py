"""What kind of failure a model call met, and how long to wait: whatever anybody raises or says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime, formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright import Usage
from loopwright.policy import Failure, classify, seconds_after
from loopwright.protocol import ModelError, ModelErrorKind

NOW = 1_800_000_000.0
PERMANENT = Failure(ModelErrorKind.PERMANENT)
TRANSIENT = Failure(ModelErrorKind.TRANSIENT, counts=True)


@dataclass
class Response:
    headers: Mapping[str, object] | None = field(default_factory=dict[str, object])
    status_code: object = None


class StatusError(Exception):
    """As the SDKs of providers raise it."""

    def __init__(self, status: object = None, response: object = None) -> None:
        super().__init__("the provider said no")
        self.status_code = status
        self.response = response


class SpitefulError(Exception):
    @property
    def status_code(self) -> int:
        raise RuntimeError("not even that")


def raised_from(error: Exception, *causes: Exception) -> Exception:
    """Chain exceptions as `raise … from …` does."""
    link = error
    for cause in causes:
        link.__cause__, link = cause, cause
    return error


@pytest.mark.parametrize("kind", list(ModelErrorKind))
def test_a_model_error_says_itself_what_it_is(kind: ModelErrorKind) -> None:
    error = ModelError("no", kind=kind, retry_after="7", usage=Usage(3, 1))
    counts = kind is ModelErrorKind.TRANSIENT
    assert classify(error) == Failure(kind, "7", Usage(3, 1), counts)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "permanent"), (401, "permanent"), (403, "permanent"), (404, "permanent"),
        (408, "transient"), (409, "transient"), (413, "permanent"), (422, "permanent"),
        (429, "rate_limited"), (499, "permanent"), (500, "transient"), (503, "transient"),
        (529, "transient"), (599, "transient"),
    ],
)  # fmt: skip
def test_a_status_decides(status: int, kind: str) -> None:
    """Also where only the response has it, and also of an OSError, as `requests` raises it."""
    expected = Failure(ModelErrorKind(kind), counts=status >= 500)
    assert classify(StatusError(status)) == expected
    assert classify(StatusError(response=Response(status_code=status))) == expected
    of_requests = OSError("as requests does it")
    of_requests.response = Response(status_code=status)  # type: ignore[attr-defined]
    assert classify(of_requests) == expected


@pytest.mark.parametrize("status", [None, "503", 200, 302, 600, 0, True, 503.0])
def test_what_is_no_status_of_an_error_decides_nothing(status: object) -> None:
    assert classify(StatusError(status)) == PERMANENT


@pytest.mark.parametrize(
    "error",
    [TimeoutError(), ConnectionError(), ConnectionResetError(), BrokenPipeError(), OSError("dns")],
    ids=repr,
)
def test_a_dead_line_may_live_again(error: Exception) -> None:
    assert classify(error) == TRANSIENT


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        KeyError("usage"),
        SystemExit(3),
        GeneratorExit(),
        SpitefulError(),
        TypeError(),
    ],
    ids=repr,
)
def test_anything_else_is_a_bug_in_the_model_object(error: BaseException) -> None:
    """To ask again would not mend it."""
    assert classify(error) == PERMANENT


def test_an_error_is_known_by_what_it_was_raised_from() -> None:
    """SDKs wrap a dead line in exceptions of their own, often twice."""
    assert classify(raised_from(ValueError(), KeyError(), ConnectionResetError())) == TRANSIENT
    limited = classify(raised_from(RuntimeError(), StatusError(429)))
    assert limited.kind is ModelErrorKind.RATE_LIMITED
    nearest = classify(raised_from(StatusError(400), TimeoutError()))
    assert nearest == PERMANENT


def test_a_chain_without_end_has_one() -> None:
    error = ValueError()
    error.__cause__ = error
    assert classify(error) == PERMANENT


def test_a_model_error_that_was_tampered_with_is_permanent() -> None:
    error = ModelError("no")
    error.kind = "whatever"  # type: ignore[assignment]
    assert classify(error) == PERMANENT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": 7}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": formatdate(NOW + 7, usegmt=True)}, 7.0),
        ({"retry-after": b"7"}, None),
        ({"retry-after": None}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_header_is_found(headers: Mapping[str, object] | None, seconds: float | None) -> None:
    failure = classify(StatusError(429, Response(headers)))
    assert failure.kind is ModelErrorKind.RATE_LIMITED
    assert seconds_after(failure.retry_after, NOW) == seconds


class Hostile:
    def get(self, name: str) -> object:
        raise RuntimeError(name)


def test_headers_that_cannot_be_read_are_nobodys_crash() -> None:
    response = Response()
    response.headers = Hostile()  # type: ignore[assignment]
    assert classify(StatusError(429, response)) == Failure(ModelErrorKind.RATE_LIMITED)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0), (" 7.5 ", 7.5), (7, 7.0), (0.25, 0.25), ("0", 0.0), (0, 0.0),
        (formatdate(NOW + 7, usegmt=True), 7.0),
        (format_datetime(datetime.fromtimestamp(NOW + 7, UTC)), 7.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", None), (formatdate(NOW - 7, usegmt=True), None),
        ("Fri, 15 Jan 2027 08:00:07", 7.0), ("Fri, 15 Jan 2027 09:00:07 +0100", 7.0),
        ("-5", None), (-5, None), ("abc", None), ("NaN", None), ("inf", None), ("-inf", None),
        (float("nan"), None), (float("inf"), None), ("", None), (None, None), ("9" * 5_000, None),
        ("Fri, 99 Jan 2027 08:00:07 GMT", None), ("Fri, 15 Jan 99999999999 08:00:07 GMT", None),
        (10**400, None),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date_and_garbage_is_ignored(
    value: Any, seconds: float | None
) -> None:
    """B99: and no value makes a negative or an endless wait."""
    assert seconds_after(value, NOW) == seconds


@given(
    st.text()
    | st.floats()
    | st.integers()
    | st.none()
    | st.from_regex(r"\w{3}, \d{1,3} \w{3} \d{1,12} \d\d:\d\d:\d\d( [+-]\d{1,9}| GMT)?")
)
def test_no_value_raises_or_makes_a_wait_that_is_none(value: Any) -> None:
    seconds = seconds_after(value, NOW)
    assert seconds is None or 0 <= seconds < float("inf")
