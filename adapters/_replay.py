"""What a model wants to be sent again: whose it is, and which calls of the conversation it is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopwright.protocol import (
    RESERVED_TOOLS,
    Decision,
    JsonObject,
    JsonValue,
    Malformed,
    RemoteProtocolError,
    calls_of,
    check_json,
)

from .conversation import RawCall, WireCall


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


def marks_of(calls: Sequence[RawCall], decision: Decision | Malformed) -> list[str]:
    """Mark the calls of a reply, of which nothing was cut off, so that they can be found again.

    A call that stands for a decision is known by its name: it has no id in the journal.
    """
    ids = iter([call.call_id for call in calls_of(decision)])
    return [_reserved(call.name) or next(ids, "") for call in calls]


def marked(calls: Iterable[WireCall]) -> dict[str, WireCall]:
    """Find the calls of a conversation by the marks they had in the reply."""
    return {_reserved(call.name) or call.id: call for call in calls}


def _reserved(name: object) -> str:
    return name if isinstance(name, str) and name in RESERVED_TOOLS else ""
