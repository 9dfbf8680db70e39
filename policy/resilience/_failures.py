"""What kind of failure a model call met, and how long the provider asks to be left alone.

An exception of somebody else's library is known by what it carries, not by its class: a status,
headers, what it was raised from. None of that is trusted to be what it looks like.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC
from typing import Any, Final, NamedTuple, TypeAlias

from loopwright.protocol import ModelError, ModelErrorKind, Usage

RetryAfter: TypeAlias = str | float | None
"""As it came: seconds, an HTTP date, or nothing."""

_RETRIED: Final = (408, 409)
"""Client errors by number, which a second attempt may not meet."""
_DEPTH: Final = 8
"""Exceptions that are looked at, each raised from the next."""


class Failure(NamedTuple):
    """What became of a model call that gave no reply."""

    kind: ModelErrorKind
    retry_after: RetryAfter = None
    """What the provider said, as it came; see `seconds_after`."""
    usage: Usage | None = None
    """What it charges all the same, where it says; nobody has checked it."""
    counts: bool = False
    """Whether it says that the endpoint is not well; then its breaker counts it."""


def classify(error: BaseException) -> Failure:
    """Say what kind of failure an exception stands for; whatever it is, this does not raise.

    A `ModelError` says it itself. Otherwise the status decides that it, or its `response`, has as
    `status_code`; then whether it is a time-out, a dead line or another error of the system; then
    the same of what it was raised from. Anything else is a bug in the model object: permanent.
    """
    try:
        for link in _chain(error):
            failure = _read(link)
            if failure is not None:
                return failure
    except Exception:  # noqa: BLE001 - its attributes may be properties: foreign code
        return Failure(ModelErrorKind.PERMANENT)
    return Failure(ModelErrorKind.PERMANENT)


def seconds_after(value: RetryAfter, wall: float) -> float | None:
    """Read a `Retry-After`: how many seconds from now; `None` for what cannot be meant.

    Args:
        value: Seconds or an HTTP date, as it came.
        wall: Now, seconds since the epoch.
    """
    seconds = _number(value)
    if seconds is None and isinstance(value, str):
        seconds = _until(value, wall)
    return seconds if seconds is not None and 0 <= seconds < math.inf else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(_DEPTH):
        if link is None:
            return
        yield link
        link = link.__cause__


def _read(error: BaseException) -> Failure | None:
    if isinstance(error, ModelError):
        kind = ModelErrorKind(error.kind)
        counts = kind is ModelErrorKind.TRANSIENT
        return Failure(kind, error.retry_after, error.usage, counts)
    response: object = getattr(error, "response", None)
    for holder in (error, response):
        status: object = getattr(holder, "status_code", None)
        if isinstance(status, int) and 400 <= status < 600:
            return Failure(_kind(status), _asked(response), counts=status >= 500)
    if isinstance(error, OSError):  # TimeoutError and ConnectionError are such
        return Failure(ModelErrorKind.TRANSIENT, counts=True)
    return None


def _kind(status: int) -> ModelErrorKind:
    if status == 429:
        return ModelErrorKind.RATE_LIMITED
    if status >= 500 or status in _RETRIED:
        return ModelErrorKind.TRANSIENT
    return ModelErrorKind.PERMANENT


def _asked(response: object) -> RetryAfter:
    """Read the header, in milliseconds where it is given so; a failure without one is one too."""
    try:
        headers: Any = getattr(response, "headers", None) or {}
        milliseconds = _number(headers.get("retry-after-ms"))
        if milliseconds is not None:
            return milliseconds / 1000
        # A plain mapping tells upper case from lower.
        value: object = headers.get("retry-after") or headers.get("Retry-After")
    except Exception:  # noqa: BLE001 - foreign code
        return None
    return value if isinstance(value, str | int | float) else None


def _number(value: object) -> float | None:
    if not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _until(date: str, wall: float) -> float | None:
    # It is slow to import, and hardly ever needed.
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(date)
        # HTTP knows only GMT, also where a date says of no zone.
        return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp() - wall
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
