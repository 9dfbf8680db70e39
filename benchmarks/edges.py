"""What an adapter adds to a model call: writing a request, and hearing a stream.

    python benchmarks/edges.py [--json]

The floor is what nobody can do without: `json.dumps` of the very payload, and `json.loads` of
each event. A request is written anew at each turn, of all turns before it; "next" is the second
time, when each turn's share is remembered with it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TypeVar

from _floor import median, report

from loopwright.adapters.anthropic._request import prepared
from loopwright.adapters.anthropic._settings import Settings as AnthropicSettings
from loopwright.adapters.anthropic._stream import Building
from loopwright.adapters.openai._model import Settings
from loopwright.adapters.openai.chat._request import payload_of as chat_payload
from loopwright.adapters.openai.chat._stream import Chunks
from loopwright.adapters.openai.responses._request import payload_of as responses_payload
from loopwright.protocol import (
    CallId,
    Effect,
    History,
    InvocationId,
    JsonObject,
    JsonValue,
    ModelRequest,
    Principal,
    Proposal,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolResult,
    ToolSpec,
    Turn,
    TurnCommitted,
    Usage,
    encode_record,
)

T = TypeVar("T")

SAMPLES = 15
TURNS = 100
PIECES = 2_000

OPENAI = Settings("m", "by", True, {}, "max_tokens")
ANTHROPIC = AnthropicSettings("m", 8_192, True, True, {})
WRITERS: dict[str, Callable[[ModelRequest], JsonObject]] = {
    "chat": lambda request: chat_payload(request, OPENAI, stream=True),
    "responses": lambda request: responses_payload(request, OPENAI, stream=True),
    "anthropic": lambda request: prepared(request, ANTHROPIC).payload,
}


def turn(number: int) -> Turn:
    calls = tuple(
        ToolCall(CallId(f"call_{number}_{index}"), "get_weather", {"city": "Paris", "day": number})
        for index in range(2)
    )
    rows: list[JsonValue] = [
        {"hour": hour, "sky": "clear", "degrees": hour / 2} for hour in range(8)
    ]
    results = tuple(
        ToolResult(call.call_id, call.tool_name, ResultStatus.OK, {"rows": rows}) for call in calls
    )
    proposal = Proposal(ToolCalls(calls, "I look it up."), Usage(10, 5))
    return Turn(number, encode_record(TurnCommitted(number, proposal, results, 2, 0.0, 0.0)))


def request() -> ModelRequest:
    city: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
    return ModelRequest(
        InvocationId("i"),
        TURNS + 1,
        "desk",
        "Answer.",
        "How is the weather?",
        History([turn(number) for number in range(1, TURNS + 1)]),
        (ToolSpec("get_weather", "Look up the weather.", city, Effect.READ),),
        Principal(),
    )


def timed(run: Callable[[T], object], given: T) -> float:
    begin = time.perf_counter()
    run(given)
    return (time.perf_counter() - begin) * 1e6


def chat_events() -> list[str]:
    delta = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "word "}}]}
    return [json.dumps(delta)] * PIECES


def anthropic_events() -> list[str]:
    delta = {"type": "text_delta", "text": "word "}
    return [json.dumps({"type": "content_block_delta", "index": 0, "delta": delta})] * PIECES


def hear_chat(events: list[str]) -> None:
    chunks = Chunks()
    for event in events:
        chunks.add(json.loads(event))


def hear_anthropic(events: list[str]) -> None:
    building = Building()
    usage: JsonObject = {"input_tokens": 1, "output_tokens": 1}
    message: JsonObject = {"id": "m", "model": "m", "usage": usage, "content": []}
    text: JsonObject = {"type": "text", "text": ""}
    building.take({"type": "message_start", "message": message})
    building.take({"type": "content_block_start", "index": 0, "content_block": text})
    for event in events:
        building.take(json.loads(event))


def load(events: list[str]) -> None:
    for event in events:
        json.loads(event)


def main() -> None:
    figures: dict[str, float] = {}
    for name, write in WRITERS.items():
        first, again, ratio = list[float](), list[float](), list[float]()
        for _ in range(SAMPLES):
            asked = request()
            first.append(timed(write, asked))
            again.append(timed(write, asked))
            ratio.append(again[-1] / timed(json.dumps, write(asked)))
        figures[f"{name}: a request of {TURNS} turns, the first time, us"] = median(first)
        figures[f"{name}: the next, us"] = median(again)
        figures[f"{name}: the next, over json.dumps of it"] = median(ratio)
    streams = {
        "chat": (chat_events(), hear_chat),
        "anthropic": (anthropic_events(), hear_anthropic),
    }
    for name, (events, hear) in streams.items():
        took, over = list[float](), list[float]()
        for _ in range(SAMPLES):
            took.append(timed(hear, events) / PIECES)
            over.append(took[-1] * PIECES / timed(load, events))
        figures[f"{name}: a piece of a stream, us"] = median(took)
        figures[f"{name}: a piece of a stream, over json.loads of it"] = median(over)
    report(figures)


if __name__ == "__main__":
    main()
