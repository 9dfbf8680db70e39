"""Two providers whose model is the refund desk's rules: what they are sent is all they know.

They read the conversation back from the wire, by code that shares nothing with the adapters.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from loopwright.examples.refund_desk.model import next_step
from loopwright.protocol import (
    CallId,
    CannotContinue,
    Clarification,
    Decision,
    ErrorCategory,
    Final,
    History,
    JsonValue,
    Proposal,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolError,
    ToolResult,
    Turn,
    TurnCommitted,
    Usage,
    encode_record,
)

Say: TypeAlias = Callable[[str, list[tuple[str, str, dict[str, Any]]]], dict[str, Any]]
"""Makes the provider's reply of a text and of calls: id, name and arguments."""


class _Read:
    """What was read of a conversation so far."""

    def __init__(self) -> None:
        self.goal: str | None = None
        self.turns: list[Turn] = []
        self._names: dict[str, str] = {}

    def said(self, text: str) -> None:
        if self.goal is None:
            self.goal = text

    def called(self, call_id: str, name: str) -> None:
        self._names[call_id] = name

    def returned(self, results: list[tuple[str, str]]) -> None:
        """Take what came of the calls of one reply: ids and texts."""
        asked = [text for call_id, text in results if self._names[call_id] == "ask_user"]
        found = tuple(
            _result(call_id, self._names[call_id], text)
            for call_id, text in results
            if self._names[call_id] != "ask_user"
        )
        number = len(self.turns) + 1
        record = TurnCommitted(number, Proposal(Final(""), Usage()), found, 0, 0.0, 0.0)
        answer = asked[0] if asked else None
        self.turns.append(Turn(number, encode_record(record), None, answer))

    def next(self, say: Say) -> dict[str, Any]:
        assert self.goal is not None
        return _reply(next_step(self.goal, History(self.turns)), len(self.turns), say)


def chat(body: dict[str, Any]) -> dict[str, Any]:
    """Reply to a request of OpenAI's Chat Completions."""
    read = _Read()
    waiting: list[tuple[str, str]] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            waiting.append((message["tool_call_id"], message["content"]))
            continue
        if waiting:
            read.returned(waiting)
            waiting = []
        if message["role"] == "user":
            read.said(message["content"])
        for call in message.get("tool_calls") or ():
            read.called(call["id"], call["function"]["name"])
    if waiting:
        read.returned(waiting)
    return read.next(_say_chat)


def messages(body: dict[str, Any]) -> dict[str, Any]:
    """Reply to a request of Anthropic's Messages."""
    read = _Read()
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results: list[tuple[str, str]] = []
        for block in blocks:
            if block["type"] == "text" and message["role"] == "user":
                read.said(block["text"])
            elif block["type"] == "tool_use":
                read.called(block["id"], block["name"])
            elif block["type"] == "tool_result":
                results.append((block["tool_use_id"], _text(block["content"])))
        if results:
            read.returned(results)
    return read.next(_say_messages)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _result(call_id: str, name: str, text: str) -> ToolResult:
    value: JsonValue = json.loads(text)
    held = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if held.keys() != {"status", "error"}:
        return ToolResult(CallId(call_id), name, ResultStatus.OK, value)
    told: dict[str, Any] = held["error"]
    error = ToolError(
        ErrorCategory(told["category"]), told["type"], told["message"], told["retryable"]
    )
    return ToolResult(CallId(call_id), name, ResultStatus(held["status"]), None, error)


def _reply(decision: Decision, turns: int, say: Say) -> dict[str, Any]:
    match decision:
        case Final(answer=answer, output=output):
            return say(json.dumps({"answer": answer, "output": output}), [])
        case ToolCalls(calls=calls):
            found = [call for call in calls if isinstance(call, ToolCall)]
            return say("", [(c.call_id, c.tool_name, c.arguments) for c in found])
        case Clarification(question=question):
            return say("", [(f"ask{turns}", "ask_user", {"question": question})])
        case CannotContinue(code=code, reason=reason):
            return say("", [("end", "cannot_continue", {"code": code, "reason": reason})])
        case _:
            raise AssertionError(decision)


def _say_chat(text: str, calls: list[tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if calls:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for call_id, name, arguments in calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "rules",
        "choices": [choice],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }


def _say_messages(text: str, calls: list[tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        for call_id, name, arguments in calls
    ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "rules",
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }
