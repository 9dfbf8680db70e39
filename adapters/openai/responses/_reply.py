"""A response as a reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loopwright.protocol import (
    JsonObject,
    JsonValue,
    ModelError,
    ModelErrorKind,
    ModelReply,
    ModelRequest,
)

from ...conversation import RawCall, RawReply, decision_of
from ...provider._boundary import Sent, Word, read, usage_of
from ...provider._failures import error_in_stream, refused
from ...provider._replay import places_of, replay_of

_UNFINISHED: Final = {
    "cancelled": ModelErrorKind.TRANSIENT,
    "queued": ModelErrorKind.PERMANENT,
    "in_progress": ModelErrorKind.PERMANENT,
}
"""Statuses of a response that is none yet: asked again in the background, it never is one."""


class _Part(Sent):
    type: Word = ""
    text: Word = ""
    refusal: Word = ""


class _Item(Sent):
    type: Word = ""
    status: Word = ""
    content: list[_Part] | None = None
    phase: Word = ""
    call_id: object = None
    name: object = None
    arguments: object = None

    @property
    def text(self) -> str:
        """What a message says."""
        texts = [part.text for part in self.content or () if part.type == "output_text"]
        return "".join(texts) if self.type == "message" else ""


class _Details(Sent):
    reason: Word = ""


class _Error(Sent):
    code: Word = ""
    message: Word = ""


class _Response(Sent):
    id: Word = ""
    model: Word = ""
    status: Word = ""
    output: list[JsonObject]
    incomplete_details: _Details | None = None
    error: _Error | None = None
    usage: JsonValue = None


def reply_of(body: object, request: ModelRequest, by: str) -> ModelReply:
    """Make a reply of a response.

    Args:
        body: What came, as plain JSON.
        request: What was asked.
        by: Who was asked.

    Raises:
        ModelError: If it is none, one that has failed, or a refusal.
    """
    response = read(_Response, body, "response")
    usage = usage_of(response.usage, "input_tokens", "output_tokens", "input_tokens_details")
    status = response.status
    if status == "failed" or response.error is not None:
        error = response.error or _Error()
        text = f"the response has failed: {error.code} {error.message}"
        raise error_in_stream(text, {error.code}, usage)
    if status in _UNFINISHED:
        text = f"the response is {status}; leave `background` out of the options"
        raise ModelError(text, kind=_UNFINISHED[status], usage=usage)
    items = [_item(item) for item in response.output]
    said = _said(items)
    text = "".join(items[index].text for index in said)
    calls = [
        RawCall(item.call_id, item.name, item.arguments)
        for item in items
        if item.type == "function_call"
    ]
    why = response.incomplete_details.reason if response.incomplete_details else ""
    cut_off = (why or status) if status == "incomplete" else ""
    if not cut_off and any(item.status == "incomplete" for item in items):
        cut_off = "incomplete"
    refusal = "".join(part.refusal for item in items for part in item.content or ())
    if not calls and not text.strip() and (refusal or cut_off == "content_filter"):
        raise refused(cut_off or status, refusal, usage)
    decision = decision_of(RawReply(text, calls, cut_off), request)
    kept: list[JsonValue] = []
    if not cut_off:
        kept = _to_replay(response.output, items, said, places_of(calls))
    return ModelReply(
        decision,
        usage,
        response.model,
        response.id,
        cut_off or status,
        replay_of(by, {"items": kept} if kept else {}),
    )


def _item(item: JsonObject) -> _Item:
    # Only what a message holds is used; other items hold what they like.
    used = item if item.get("type") == "message" else {**item, "content": None}
    return read(_Item, used, "item of a response")


def _said(items: Sequence[_Item]) -> list[int]:
    """Choose the messages that count: beside an answer, comments on the work are none of it."""
    said = [index for index, item in enumerate(items) if item.text]
    if any(item.type == "function_call" for item in items):
        return said
    return [index for index in said if items[index].phase == "final_answer"] or said


def _to_replay(
    output: Sequence[JsonObject],
    items: Sequence[_Item],
    said: Sequence[int],
    places: Sequence[int],
) -> list[JsonValue]:
    """Keep the reasoning, and the places of what it has led to; all texts are one message.

    Reasoning without something behind it is left out: the API would refuse it. Nothing is kept
    of a reply that has neither reasoning nor a phase.
    """
    kept: list[JsonValue] = []
    thoughts: list[JsonObject] = []
    left = iter(places)
    for index, item in enumerate(items):
        if item.type == "reasoning":
            thoughts += _thought(output[index])
        elif item.type == "function_call":
            kept.extend([*thoughts, {"call": next(left)}])
            thoughts = []
        elif item.type == "message":
            if said and index == said[-1]:
                kept.extend([*thoughts, {"message": item.phase or None}])
            thoughts = []
    worth = [item for item in kept if isinstance(item, dict) and _is_worth(item)]
    return kept if worth else []


def _is_worth(item: JsonObject) -> bool:
    return "type" in item or bool(item.get("message"))


def _thought(item: JsonObject) -> list[JsonObject]:
    """Take what can be sent again without being stored: what is encrypted, or else its text."""
    thought: JsonObject = {"type": "reasoning", "summary": item.get("summary") or []}
    if isinstance(item.get("id"), str):
        thought["id"] = item["id"]
    for key in ("encrypted_content", "content"):
        if item.get(key):
            return [{**thought, key: item[key]}]
    return []
