"""What a model wants to be sent again: whose it is, and which calls of the conversation it is about."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from loopwright.protocol import (
    RESERVED_TOOLS,
    JsonObject,
    JsonValue,
    RemoteProtocolError,
    check_json,
)

from ..conversation import RawCall


def replay_of(by: str, kept: JsonObject) -> JsonValue:
    """Make what is kept with the turn; `None` if there is nothing, or if it cannot be kept."""
    replay: JsonObject = {"by": by, **kept}
    try:
        check_json(replay, where="replay")
    except RemoteProtocolError:
        return None
    return replay if kept else None


def ours(replay: JsonValue, by: str) -> JsonObject:
    """Return what was kept, if it is of the same model, asked through the same API."""
    return replay if isinstance(replay, dict) and replay.get("by") == by else {}


def places_of(calls: Sequence[RawCall]) -> list[int]:
    """Say where each call of a reply is shown, so that it can be found again among those.

    That is its place in `Replied.calls`: the call that stands for a decision comes first. Ids and
    names tell nothing: they may be there twice, and a provider may be shown other ones.
    """
    places = count(1 if any(_is_reserved(call.name) for call in calls) else 0)
    return [0 if _is_reserved(call.name) else next(places) for call in calls]


def _is_reserved(name: object) -> bool:
    return isinstance(name, str) and name in RESERVED_TOOLS
