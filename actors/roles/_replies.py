"""What a model has replied, checked at the edge: nothing about it is taken for granted."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final, TypeGuard

from loopwright.policy import CHARS_PER_TOKEN
from loopwright.protocol import (
    Decision,
    JsonValue,
    Malformed,
    ModelReply,
    RawDecision,
    RemoteProtocolError,
    Usage,
    bounded,
    check_json,
    dumps,
    parse_decision,
    raw_text,
)

WORD_LIMIT: Final = 1_000
"""Characters that are kept of an id, a name or a stop reason."""
MOST_TOKENS: Final = 10**9
"""No request has more, and no reply: a larger count is not meant, such as a -1 without its sign."""
REPLAY_LIMIT: Final = 1_000_000
"""Bytes that are kept of what a model wants to see again."""

logger = logging.getLogger("loopwright.runtime")


def checked(said: object) -> ModelReply:
    """Take what a model returned, all of which goes into the journal.

    Raises:
        TypeError: If it is not what its annotations say; but for the usage, which is estimated.
    """
    if not isinstance(said, ModelReply):
        msg = f"the model returned {type(said).__name__}; decide() must return a ModelReply"
        raise TypeError(msg)
    if not _are_texts(said.model, said.response_id, said.stop_reason):
        msg = (
            f"the model replied with model={said.model!r}, response_id={said.response_id!r}, "
            f"stop_reason={said.stop_reason!r}; give texts"
        )
        raise TypeError(msg)
    words = said.model, said.response_id, said.stop_reason
    model, response_id, stop_reason = (bounded(word, WORD_LIMIT) for word in words)
    if words == (model, response_id, stop_reason):
        return said
    return replace(said, model=model, response_id=response_id, stop_reason=stop_reason)


def heard_of(text: object) -> str:
    """Take what is heard of a reply.

    Raises:
        TypeError: If it is no text.
    """
    if isinstance(text, str):
        return text
    msg = f"the model gave a TextDelta of {type(text).__name__}; give texts"
    raise TypeError(msg)


def checked_replay(replay: JsonValue) -> JsonValue:
    """Take what the provider wants to see again; what could not be kept is left out.

    Without it, the model loses a thought. That is no reason to lose the turn.
    """
    if replay is None:
        return None
    try:
        check_json(replay, where="replay")
        size = len(dumps(replay))
    except (RemoteProtocolError, TypeError, ValueError):
        logger.warning("What a model wants to see again is not JSON, and is not kept.")
        return None
    if size > REPLAY_LIMIT:
        logger.warning("What a model wants to see again has %d bytes, and is not kept.", size)
        return None
    return replay


def decision_of(raw: RawDecision) -> Decision | Malformed:
    """Parse a decision strictly; what cannot be used is kept, with what is wrong with it."""
    if isinstance(raw, Malformed):
        return Malformed(raw_text(raw.problem), raw_text(raw.raw))
    try:
        return parse_decision(raw)
    except RemoteProtocolError as error:
        return Malformed(str(error), raw_text(raw))


def is_usage(usage: object) -> TypeGuard[Usage]:
    """Whether it can be charged: counts as there are, no more of it in a cache than was sent."""
    if not isinstance(usage, Usage):
        return False
    sent, cached, written = usage.input_tokens, usage.cached_tokens, usage.cache_written_tokens
    counts = all(map(_is_count, (sent, cached, written, usage.output_tokens)))
    return counts and cached + written <= sent and _is_flag(usage.estimated)


def estimated(input_tokens: int, raw: RawDecision) -> Usage:
    """Estimate what a reply has used whose usage cannot be charged; never 0."""
    size = len(raw) if isinstance(raw, str | bytes) else len(repr(raw))
    return Usage(input_tokens, size // CHARS_PER_TOKEN + 1, estimated=True)


def _are_texts(one: object, other: object, third: object) -> bool:
    return isinstance(one, str) and isinstance(other, str) and isinstance(third, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= MOST_TOKENS
