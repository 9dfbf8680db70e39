"""What a model has replied, checked at the edge: nothing about it is taken for granted."""

from __future__ import annotations

from typing import TypeGuard

from loopwright.policy import CHARS_PER_TOKEN
from loopwright.protocol import (
    Decision,
    Malformed,
    ModelReply,
    RawDecision,
    RemoteProtocolError,
    Usage,
    parse_decision,
    raw_text,
)


def checked(said: object) -> ModelReply:
    """Take what a model returned, all of which goes into the journal.

    Raises:
        TypeError: If it is not what its annotations say; but for the usage, which is estimated.
    """
    if not isinstance(said, ModelReply):
        msg = f"the model returned {type(said).__name__}; decide() must return a ModelReply"
        raise TypeError(msg)
    if not _are_texts(said.model, said.response_id):
        msg = (
            f"the model replied with model={said.model!r}, response_id={said.response_id!r}; "
            "give texts"
        )
        raise TypeError(msg)
    return said


def decision_of(raw: RawDecision) -> Decision | Malformed:
    """Parse a decision strictly; what cannot be used is kept, with what is wrong with it."""
    try:
        return parse_decision(raw)
    except RemoteProtocolError as error:
        return Malformed(str(error), raw_text(raw))


def is_usage(usage: object) -> TypeGuard[Usage]:
    """Whether it can be charged: counts from 0 up, and not more of it cached than was sent."""
    if not isinstance(usage, Usage):
        return False
    sent, cached = usage.input_tokens, usage.cached_tokens
    counts = _is_count(sent) and _is_count(cached) and _is_count(usage.output_tokens)
    return counts and cached <= sent and _is_flag(usage.estimated)


def estimated(input_tokens: int, raw: RawDecision) -> Usage:
    """Estimate what a reply has used whose usage cannot be charged; never 0."""
    size = len(raw) if isinstance(raw, str | bytes) else len(repr(raw))
    return Usage(input_tokens, size // CHARS_PER_TOKEN + 1, estimated=True)


def _are_texts(one: object, other: object) -> bool:
    return isinstance(one, str) and isinstance(other, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0
