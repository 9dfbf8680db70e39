"""What the Messages API says, at once or as a stream: replies as data."""

from __future__ import annotations

import json
from typing import Any

Block = dict[str, Any]
USAGE = {"input_tokens": 20, "output_tokens": 5}
THOUGHT: Block = {"type": "thinking", "thinking": "a secret plan", "signature": "sig-1"}
REDACTED: Block = {"type": "redacted_thinking", "data": "opaque"}
SEARCH: Block = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "q"},
}
FOUND: Block = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def text(said: str) -> Block:
    return {"type": "text", "text": said}


def use(call_id: object, name: str = "look", arguments: object = None) -> Block:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments or {}}


def message(*content: Block, stop: str | None = "end_turn", **fields: Any) -> dict[str, Any]:
    """Write a message as it comes at once."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test-1",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": dict(USAGE),
        **fields,
    }


def events(body: dict[str, Any], *, size: int = 4) -> list[dict[str, Any]]:
    """Write a message as the events of a stream; texts and arguments in pieces of that size.

    Arguments that are a text are taken to be JSON in writing, whole or not.
    """
    usage = body["usage"]
    begun: dict[str, Any] = {**body, "content": [], "stop_reason": None}
    begun["usage"] = {**usage, "output_tokens": 1} if usage else usage
    found: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(body["content"]):
        at = {"index": index}
        empty, deltas = _pieces(block, size)
        found.append({"type": "content_block_start", **at, "content_block": empty})
        found += [{"type": "content_block_delta", **at, "delta": delta} for delta in deltas]
        found.append({"type": "content_block_stop", **at})
    ended = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    if "stop_details" in body:
        ended["stop_details"] = body["stop_details"]
    counted = {"output_tokens": usage["output_tokens"]} if usage else None
    found.append({"type": "message_delta", "delta": ended, "usage": counted})
    found.append({"type": "message_stop"})
    return found


def _pieces(block: Block, size: int) -> tuple[Block, list[Block]]:
    def cut(whole: str) -> list[str]:
        return [whole[at : at + size] for at in range(0, len(whole), size)]

    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in cut(block["text"])]
            return {**block, "text": ""}, deltas
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": p} for p in cut(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case "tool_use" | "server_tool_use":
            given = block["input"]
            written = given if isinstance(given, str) else json.dumps(given)
            deltas = [{"type": "input_json_delta", "partial_json": p} for p in ("", *cut(written))]
            return {**block, "input": {}}, deltas
        case _:
            return block, []
