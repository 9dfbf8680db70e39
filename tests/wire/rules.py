"""What providers refuse in a request: their rules, as checks that share nothing with the adapters."""

from __future__ import annotations

import json
import re
from typing import Any

JSON = dict[str, Any]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CHAT_ID = re.compile(r".{1,40}", re.DOTALL)
_CLAUDE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ITEM_ID = re.compile(r".{1,64}", re.DOTALL)


def check_chat(body: JSON) -> None:
    """Check a request of Chat Completions: each call is answered at once, by its own id."""
    _writable(body)
    tools = [tool["function"] for tool in body["tools"]]
    _tools([(tool["name"], tool["parameters"]) for tool in tools])
    seen, owed = set[str](), list[str]()
    assert body["messages"]
    for message in body["messages"]:
        role, content = message["role"], message.get("content")
        if role == "tool":
            assert message["tool_call_id"] == owed.pop(0), message
            assert isinstance(content, str)
            continue
        assert not owed, f"calls without a result: {owed}"
        calls = message.get("tool_calls")
        if role == "assistant" and calls:
            assert content is None or content
        else:
            assert isinstance(content, str)
            assert content.strip(), message
        assert calls is None or (calls and role == "assistant")
        for call in calls or ():
            assert _CHAT_ID.fullmatch(call["id"])
            assert call["id"] not in seen
            seen.add(call["id"])
            owed.append(call["id"])
            _call(call["function"]["name"], call["function"]["arguments"])
    assert not owed
    assert body["messages"][-1]["role"] != "system"


def check_responses(body: JSON) -> None:
    """Check a request of Responses: reasoning stands before what it has led to, calls are answered."""
    _writable(body)
    _tools([(tool["name"], tool["parameters"]) for tool in body["tools"]])
    seen, owed, thinks = set[str](), set[str](), False
    assert body["input"]
    for item in body["input"]:
        kind = item["type"]
        if kind == "reasoning":
            thinks = True
            assert isinstance(item["summary"], list)
            assert item.get("encrypted_content") or item.get("content")
            continue
        if thinks:
            assert kind == "function_call" or item.get("role") == "assistant", item
        thinks = False
        if kind == "message":
            assert item["role"] == "assistant" or not owed, f"calls without a result: {owed}"
            assert item["content"] if item["role"] == "assistant" else item["content"].strip()
        elif kind == "function_call":
            assert _ITEM_ID.fullmatch(item["call_id"])
            assert item["call_id"] not in seen
            seen.add(item["call_id"])
            owed.add(item["call_id"])
            _call(item["name"], item["arguments"])
        else:
            assert kind == "function_call_output"
            assert isinstance(item["output"], str)
            owed.remove(item["call_id"])
    assert not owed
    assert not thinks


def check_claude(body: JSON) -> None:
    """Check a request of Messages: turns alternate, results come first, no text is blank."""
    _writable(body)
    assert body["max_tokens"] >= 1
    _tools([(tool["name"], tool["input_schema"]) for tool in body["tools"]])
    for block in body.get("system", ()):
        assert block["text"].strip()
    seen, owed = set[str](), list[str]()
    role = "assistant"
    for message in body["messages"]:
        assert message["role"] != role, "two in a row"
        role, content = message["role"], message["content"]
        assert content
        results = [block for block in content if block["type"] == "tool_result"]
        assert sorted(one["tool_use_id"] for one in results) == sorted(owed)
        assert content[: len(results)] == results
        assert role == "user" or not results
        owed = list[str]()
        for block in content:
            match block["type"]:
                case "text":
                    assert block["text"].strip()
                case "tool_use":
                    assert role == "assistant"
                    assert _CLAUDE_ID.fullmatch(block["id"])
                    assert block["id"] not in seen
                    assert isinstance(block["input"], dict)
                    assert _NAME.fullmatch(block["name"])
                    seen.add(block["id"])
                    owed.append(block["id"])
                case "thinking":
                    assert block["signature"]
                case "tool_result":
                    assert block.get("content", "x").strip()
                case _:
                    assert role == "assistant"
        assert role == "user" or not content[-1]["type"].endswith("thinking")
    assert role == "user"


def _writable(body: JSON) -> None:
    json.dumps(body, allow_nan=False).encode()


def _call(name: str, arguments: str) -> None:
    assert _NAME.fullmatch(name)
    assert isinstance(json.loads(arguments), dict)


def _tools(tools: list[tuple[str, JSON]]) -> None:
    assert tools
    names = [name for name, _ in tools]
    assert len(set(names)) == len(names)
    for name, schema in tools:
        assert _NAME.fullmatch(name)
        assert schema["type"] == "object"
