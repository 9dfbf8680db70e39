"""What a model of `pydantic-ai` wants to see again: its thinking, and what hangs on other parts.

Texts and arguments are not kept a second time: they are those of the decision, which may have
been redacted. What is kept of such a part is where it stood, and what the provider said about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

from loopwright.protocol import JsonObject, JsonValue

from ..conversation import RawCall, Replied, WireCall
from ..provider._replay import ours, places_of, replay_of

_NOTHING: Final = "(no text)"


class _Part(BaseModel):
    """What is kept of a part."""

    model_config = ConfigDict(frozen=True, strict=True)

    call: int | None = None
    """Which call it is; see `places_of`."""
    thinking: str | None = None
    signature: str | None = None
    id: str | None = None
    provider_name: str | None = None
    provider_details: JsonObject | None = None

    @property
    def says(self) -> bool:
        """Whether it says more than where a part stood."""
        return self.thinking is not None or self.id is not None or bool(self.provider_details)


class _Replay(BaseModel):
    """What is kept of a reply."""

    model_config = ConfigDict(frozen=True)

    provider_name: str | None = None
    provider_url: str | None = None
    canonical_system: str | None = None
    parts: list[_Part] = []


def replay_of_response(response: ModelResponse, calls: Sequence[RawCall], by: str) -> JsonValue:
    """Say what to keep of a reply; `None` if its decision says it all.

    Args:
        response: The reply, nothing of which is missing.
        calls: Its calls, in order.
        by: Who has replied.
    """
    places = iter(places_of(calls))
    parts = [
        _part(part, next(places) if isinstance(part, ToolCallPart) else None)
        for part in response.parts
        if isinstance(part, TextPart | ThinkingPart | ToolCallPart)
    ]
    if not any(part.says for part in parts):
        return None
    kept = _Replay(
        provider_name=response.provider_name,
        provider_url=response.provider_url,
        canonical_system=response.canonical_system,
        parts=parts,
    )
    return replay_of(by, kept.model_dump(exclude_none=True))


def response_of(reply: Replied, by: str) -> ModelResponse:
    """Write a reply of the conversation as `pydantic-ai` sends it back.

    Args:
        reply: The reply.
        by: Who is asked: of another model's, only what was decided is told.
    """
    try:
        kept = _Replay.model_validate(ours(reply.replay, by))
    except ValidationError:
        kept = _Replay()
    return ModelResponse(
        parts=[*_parts(reply, kept.parts)] or [TextPart(_NOTHING)],
        provider_name=kept.provider_name,
        provider_url=kept.provider_url,
        canonical_system=kept.canonical_system,
    )


def _part(part: TextPart | ThinkingPart | ToolCallPart, place: int | None) -> _Part:
    thinking = part if isinstance(part, ThinkingPart) else None
    # What a provider says is not taken for JSON: whether it is, is looked at as a whole.
    details = cast("JsonObject | None", part.provider_details)
    return _Part.model_construct(
        call=place,
        thinking=None if thinking is None else thinking.content,
        signature=None if thinking is None else thinking.signature,
        id=part.id,
        provider_name=part.provider_name,
        provider_details=details,
    )


def _parts(reply: Replied, kept: Sequence[_Part]) -> Iterator[ModelResponsePart]:
    text, calls = reply.text, dict(enumerate(reply.calls))
    for part in kept:
        if part.thinking is not None:
            yield ThinkingPart(
                part.thinking,
                id=part.id,
                signature=part.signature,
                provider_name=part.provider_name,
                provider_details=_details(part),
            )
        elif part.call is None:
            if text:
                yield _text(text, part)
            text = ""
        elif part.call in calls:
            yield _call(calls.pop(part.call), part)
    if text:
        yield _text(text, _Part())
    for call in calls.values():
        yield _call(call, _Part())


def _text(text: str, kept: _Part) -> TextPart:
    return TextPart(
        text,
        id=kept.id,
        provider_name=kept.provider_name,
        provider_details=_details(kept),
    )


def _call(call: WireCall, kept: _Part) -> ToolCallPart:
    return ToolCallPart(
        call.name,
        dict(call.arguments),
        call.id,
        id=kept.id,
        provider_name=kept.provider_name,
        provider_details=_details(kept),
    )


def _details(kept: _Part) -> dict[str, object] | None:
    details: Mapping[str, object] | None = kept.provider_details
    return None if details is None else dict(details)
