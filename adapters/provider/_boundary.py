"""What a provider sent, taken apart: lenient about what is unknown, strict about what is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from loopwright.protocol import ModelError, ModelErrorKind, Usage, bounded, first_fault


class Sent(BaseModel):
    """A part of what a provider sent."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


S = TypeVar("S", bound=Sent)


def _word(value: object) -> str:
    return clean(value) if isinstance(value, str) else ""


Word = Annotated[str, BeforeValidator(_word)]
"""A text that nothing depends on, such as an id: blank where there is none."""


def clean(text: str) -> str:
    """Join the halves of characters that came apart, and put U+FFFD for what is only half."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read(kind: type[S], raw: object, what: str) -> S:
    """Read what a provider sent.

    Args:
        kind: What it must be.
        raw: Plain JSON.
        what: What it is called in an error.

    Raises:
        ModelError: If it is something else.
    """
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        path, found = first_fault(error)
        problem = bounded(f"{path}: {found}" if path else found, 300)
    msg = f"the server sent something that is no {what} ({problem}); is the base_url right?"
    raise ModelError(msg, kind=ModelErrorKind.TRANSIENT)


def usage_of(raw: object, sent: str, made: str, details: str) -> Usage | None:
    """Read a usage; `None` if any of it cannot be meant.

    Args:
        raw: What the provider counted.
        sent: The field with all tokens that were sent.
        made: The field with those that came back.
        details: The field that says which of those sent have met a cache.
    """
    counts = _fields(raw)
    caches = _fields(counts.get(details))
    cached, written = (caches.get(key) or 0 for key in ("cached_tokens", "cache_write_tokens"))
    found = [counts.get(sent), counts.get(made), cached, written]
    numbers = [value for value in found if type(value) is int and value >= 0]
    if len(numbers) < len(found) or numbers[2] + numbers[3] > numbers[0]:
        return None
    return Usage(numbers[0], numbers[1], False, numbers[2], numbers[3])


def _fields(raw: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", raw) if isinstance(raw, Mapping) else {}
