"""Content blocks of the Messages API, and what of a reply is kept to be sent again.

Thinking is signed: it comes back as it was, where it was, or not at all. Newer models check more,
that nothing before it has changed since: instructions, tools, messages. So it is kept with a digest
of all that, and sent again only behind the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loopwright.protocol import JsonObject, JsonValue

from ..conversation import Replied, WireCall, WireResult
from ..provider._replay import ours, replay_of

THINKING: Final = ("thinking", "redacted_thinking")


def text_block(text: str) -> JsonObject:
    """Write a text, which must not be blank."""
    return {"type": "text", "text": text}


def call_block(call: WireCall) -> JsonObject:
    """Write a call."""
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}


def result_block(result: WireResult) -> JsonObject:
    """Write what came of a call; a blank text is no text for the API."""
    block: JsonObject = {"type": "tool_result", "tool_use_id": result.id}
    if result.text.strip():
        block["content"] = result.text
    if result.failed:
        block["is_error"] = True
    return block


def is_thinking(block: JsonObject) -> bool:
    """Whether it is thinking, in the open or not."""
    return block.get("type") in THINKING


def sendable(content: Sequence[JsonObject]) -> list[JsonObject]:
    """Leave out of a reply's content what the API sends, but does not take back."""
    return [block for block in content if _is_whole(block)]


def replay_of_blocks(
    content: Sequence[JsonObject], by: str, after: str, places: Sequence[int] | None
) -> JsonValue:
    """Say what has to be sent again of a reply: all of it as it came, but for the calls.

    Those are the decision's, and only their places are kept. A reply of texts and calls alone
    needs none of that.

    Args:
        content: Its blocks.
        by: Who has replied.
        after: Digest of what it was a reply to.
        places: Of its calls. `None` if the reply was cut off: then tools of the provider may have
            no result, and its calls are none.
    """
    items: list[JsonValue] = []
    calls = iter(places or ())
    for block in sendable(content):
        if block["type"] == "tool_use":
            items.append({"call": next(calls, None)})
        elif block["type"] == "text" or is_thinking(block) or places is not None:
            items.append(block)
    plain = all(isinstance(item, dict) and item.get("type", "text") == "text" for item in items)
    return replay_of(by, {} if plain else {"after": after, "items": items})


def reply_blocks(reply: Replied, by: str, after: str | None) -> list[JsonObject]:
    """Write a reply as it is sent back; nothing, if it has said nothing.

    Args:
        reply: The reply.
        by: Who is asked.
        after: Digest of what is sent before it, for its thinking; blank: thinking comes in any
            case, `None`: none does.
    """
    replay = ours(reply.replay, by)
    same = after is not None and after in ("", replay.get("after"))
    items, calls = replay.get("items"), dict(enumerate(reply.calls))
    blocks: list[JsonObject] = []
    for item in items if isinstance(items, list) else ():
        match item:
            case {"call": int(place)}:
                blocks += [call_block(calls.pop(place))] if place in calls else []
            case dict(block) if "type" in block and (same or not is_thinking(block)):
                blocks.append(block)
            case _:
                pass
    if all(map(is_thinking, blocks)) and reply.text.strip():
        blocks.append(text_block(reply.text))
    blocks += map(call_block, calls.values())
    while blocks and is_thinking(blocks[-1]):
        blocks.pop()  # the API refuses a message that ends in it
    return blocks


def _is_whole(block: JsonObject) -> bool:
    match block:
        case {"type": "text", "text": str(text)}:
            return bool(text.strip())
        case {"type": "thinking"}:
            # One that was cut off has no signature, and counts as a forgery.
            return bool(block.get("signature"))
        case _:
            return True
