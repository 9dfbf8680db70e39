"""What was replied, as the body of a message: parsed at the edge, and made into a decision."""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, NonNegativeInt, ValidationError

from loopwright.protocol import (
    JsonObject,
    JsonValue,
    ModelError,
    ModelErrorKind,
    ModelReply,
    ModelRequest,
    RemoteProtocolError,
    Usage,
    bounded,
    first_fault,
)

from ..conversation import RawCall, RawReply, decision_of
from ..provider._boundary import Word, clean
from ..provider._replay import places_of
from ._blocks import replay_of_blocks, sendable

_EXPLANATION: Final = 500


class _Counts(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    input_tokens: NonNegativeInt
    """Neither read from a cache nor written to one."""
    output_tokens: NonNegativeInt
    cache_read_input_tokens: NonNegativeInt | None = None
    cache_creation_input_tokens: NonNegativeInt | None = None


def usage_of(counts: object) -> Usage | None:
    """Read what was used; `None` if it cannot be read."""
    try:
        found = _Counts.model_validate(counts)
    except ValidationError:
        return None
    cached, written = found.cache_read_input_tokens or 0, found.cache_creation_input_tokens or 0
    sent = found.input_tokens + cached + written
    return Usage(sent, found.output_tokens, cached_tokens=cached, cache_written_tokens=written)


def _usage(value: object) -> Usage | None:
    return value if isinstance(value, Usage) else usage_of(value)


class Body(BaseModel):
    """A message as the API sends it."""

    model_config = ConfigDict(frozen=True)

    content: tuple[dict[str, Any], ...]
    id: Word = ""
    model: Word = ""
    stop_reason: Word = ""
    stop_details: JsonValue = None
    usage: Annotated[Usage | None, BeforeValidator(_usage)] = None
    container: JsonValue = None

    @property
    def paused(self) -> bool:
        """Whether the model was interrupted while tools of the provider ran, and is to go on."""
        calls = any(block.get("type") == "tool_use" for block in self.content)
        return self.stop_reason == "pause_turn" and not calls


def body_of(message: object) -> Body:
    """Parse a message.

    Raises:
        RemoteProtocolError: If it is none.
    """
    try:
        return Body.model_validate(message)
    except ValidationError as error:
        where, found = first_fault(error, "the reply")
        problem = f"{found}; is the base_url that of a Messages API?"
        raise RemoteProtocolError(where, problem) from None


def joined(before: Body | None, body: Body) -> Body:
    """Put a reply behind the part of it that came before a pause."""
    if before is None:
        return body
    known = before.usage is not None and body.usage is not None
    usage = added(before.usage, body.usage) if known else None
    return body.model_copy(update={"content": before.content + body.content, "usage": usage})


def added(one: Usage | None, other: Usage | None) -> Usage | None:
    """Add what is known."""
    return other if one is None else one if other is None else one + other


def reply_of(body: Body, request: ModelRequest, by: str, after: str) -> ModelReply:
    """Make the reply a message stands for.

    Args:
        body: The message, with all parts of it.
        request: What was asked.
        by: Who has replied.
        after: Digest of what was sent.

    Raises:
        ModelError: If it is a refusal, or ended at the limit of the model's context window.
        RemoteProtocolError: If its content is not what it must be.
    """
    if body.stop_reason == "refusal":
        refused = f"the model refused to answer{_why(body.stop_details)}"
        raise ModelError(refused, kind=ModelErrorKind.REFUSED, usage=body.usage)
    if body.stop_reason == "model_context_window_exceeded":
        full = "the reply did not fit into the model's context window"
        raise ModelError(full, kind=ModelErrorKind.CONTEXT_TOO_LONG, usage=body.usage)
    cut_off = "max_tokens" if body.stop_reason == "max_tokens" else ""
    texts, calls = list[str](), list[RawCall]()
    for index, block in enumerate(body.content):
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "tool_use"}:
                calls.append(RawCall(block.get("id"), block.get("name"), block.get("input")))
            case {"type": str(kind)} if kind != "text":
                pass  # thinking, or what the provider's own tools did
            case _:
                raise RemoteProtocolError(f"the reply.content[{index}]", "is no content block")
    decision = decision_of(RawReply(clean("".join(texts)), calls, cut_off), request)
    places = None if cut_off else places_of(calls)
    replay = replay_of_blocks(body.content, by, after, places)
    return ModelReply(decision, body.usage, body.model, body.id, body.stop_reason, replay)


def _why(details: JsonValue) -> str:
    match details:
        case {"category": str(category), **others}:
            said = others.get("explanation")
            return bounded(f": {category}" + (f" ({said})" if said else ""), _EXPLANATION)
        case _:
            return ""


def goes_on(payload: JsonObject, body: Body) -> JsonObject:
    """Make the request that a paused reply goes on with: its content so far is sent back.

    Args:
        payload: The request it is a reply to.
        body: The reply, so far.
    """
    content: list[JsonValue] = [*sendable(body.content)]
    before = cast("list[JsonValue]", payload["messages"])
    messages: list[JsonValue] = [*before, {"role": "assistant", "content": content}]
    more: JsonObject = {**payload, "messages": messages}
    match body.container:
        case {"id": str(container)}:
            more["container"] = container
        case _:
            pass
    return more
