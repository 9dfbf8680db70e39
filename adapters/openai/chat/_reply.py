"""A chat completion as a reply."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BeforeValidator

from loopwright.protocol import (
    JsonObject,
    JsonValue,
    ModelError,
    ModelReply,
    ModelRequest,
    bounded,
)

from ...conversation import RawCall, RawReply, decision_of
from ...provider._boundary import Sent, Word, clean, read, usage_of
from ...provider._failures import error_in_stream, refused, words_of
from ...provider._replay import places_of, replay_of

_FAILED: Final = frozenset(("abort", "error", "insufficient_system_resource"))
"""Words of servers for a reply that they could not finish."""


class Part(Sent):
    """A part of a content that comes in parts."""

    type: Word = ""
    text: object = ""
    refusal: Word = ""


def _parts(value: JsonValue) -> JsonValue:
    """Take a text for the one part of it; most servers send only texts."""
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


Parts = Annotated[list[Part] | None, BeforeValidator(_parts)]


def text_of(content: list[Part] | None) -> str:
    """Join the texts of a content; how a model thinks is none of it.

    The last character may be a half, the rest of which comes in the next chunk.
    """
    texts = [part.text for part in content or () if part.type in ("text", "output_text")]
    return "".join(text for text in texts if isinstance(text, str))


class Function(Sent):
    """What is to be called."""

    name: object = None
    arguments: object = None


class _Call(Sent):
    id: object = None
    function: Function | None = None
    extra_content: JsonValue = None


class _Message(Sent):
    content: Parts = None
    refusal: Word = ""
    tool_calls: list[_Call] | None = None
    function_call: Function | None = None
    reasoning_content: object = None


class _Choice(Sent):
    message: _Message
    finish_reason: Word = ""


class _Completion(Sent):
    id: Word = ""
    model: Word = ""
    choices: list[_Choice] | None = None
    usage: JsonValue = None
    error: JsonValue = None


def reply_of(body: object, request: ModelRequest, by: str) -> ModelReply:
    """Make a reply of a completion.

    Args:
        body: What came, as plain JSON.
        request: What was asked.
        by: Who was asked.

    Raises:
        ModelError: If it is none, or a refusal.
    """
    completion = read(_Completion, body, "chat completion")
    usage = usage_of(
        completion.usage, "prompt_tokens", "completion_tokens", "prompt_tokens_details"
    )
    if completion.error:
        text = f"the server answered with an error: {completion.error}"
        raise error_in_stream(text, words_of(completion.error), usage)
    if not completion.choices:
        raise ModelError("the server sent a chat completion without a choice", usage=usage)
    message, reason = completion.choices[0].message, completion.choices[0].finish_reason
    if reason in _FAILED:
        raise ModelError(f"the server gave its reply up: {bounded(reason)}", usage=usage)
    text, calls = clean(text_of(message.content)), _calls(message)
    refusal = message.refusal or "".join(part.refusal for part in message.content or ())
    if not calls and not text.strip() and (refusal or reason == "content_filter"):
        raise refused(bounded(reason), refusal, usage)
    cut_off = reason if reason in ("length", "content_filter") else ""
    decision = decision_of(RawReply(text, calls, cut_off), request)
    kept = _to_replay(message, [] if cut_off else places_of(calls))
    return ModelReply(decision, usage, completion.model, completion.id, reason, replay_of(by, kept))


def _calls(message: _Message) -> list[RawCall]:
    functions = [(call.id, call.function or Function()) for call in message.tool_calls or ()]
    if message.function_call is not None and not functions:
        functions.append((None, message.function_call))
    return [RawCall(id, function.name, function.arguments) for id, function in functions]


def _to_replay(message: _Message, places: list[int]) -> JsonObject:
    """Keep what some servers insist on seeing again, with the calls it belongs to.

    DeepSeek and Moonshot refuse calls without the thought they were made with, even an empty one;
    Gemini refuses them without its signatures. OpenAI sends neither.
    """
    kept: JsonObject = {}
    if message.tool_calls and isinstance(message.reasoning_content, str):
        kept["reasoning_content"] = clean(message.reasoning_content)
    extras: JsonObject = {}
    for place, call in zip(places, message.tool_calls or (), strict=False):
        if isinstance(call.extra_content, dict):
            extras[str(place)] = call.extra_content
    return {**kept, "calls": extras} if extras else kept
