"""What OpenAI's two APIs say, for tests that mean the same of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from loopwright import Agent, Budget, Outcome, Policy, Runtime
from loopwright.actors import AnyTool
from loopwright.adapters.openai.chat import OpenAIChatModel
from loopwright.adapters.openai.responses import OpenAIResponsesModel
from loopwright.policy import Retry
from loopwright.stores import Store
from wire.loopback import Answer, Loopback, sse

JSON = dict[str, Any]
KEY: Final = "sk-very-secret-0123456789"
AT_ONCE: Final = Policy(retry=Retry(max_attempts=2, first=0, longest=0))
"""Two attempts, one right behind the other."""


def call(call_id: object, name: object, arguments: object) -> tuple[object, object, object]:
    """Write one call as all three of its parts."""
    return call_id, name, arguments


@dataclass(frozen=True, slots=True)
class Chat:
    """Chat Completions."""

    name = "chat"
    path = "/v1/chat/completions"
    cut_off = "length"
    whole_stop = "stop"

    def model(self, server: Loopback, **options: Any) -> OpenAIChatModel:
        """Make a model that asks a server."""
        options = {"api_key": KEY, "base_url": f"{server.url}/v1", **options}
        return OpenAIChatModel("gpt-test", **options)

    def body(
        self,
        text: str | None = None,
        *calls: tuple[object, object, object],
        stop: str = "",
        refusal: str | None = None,
    ) -> JSON:
        """Write a reply as it comes as a whole."""
        message: JSON = {"role": "assistant", "content": text, "refusal": refusal}
        if calls:
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": given}}
                for id, name, given in calls
            ]
        reason = stop or ("tool_calls" if calls else "stop")
        return {
            "id": "r-1",
            "object": "chat.completion",
            "model": "gpt-test-2026",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {
                "prompt_tokens": 20,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 8},
            },
        }

    def events(self, body: JSON) -> list[str]:
        """Write a reply as it is streamed: two letters of a text, and two of arguments, at once."""
        choice = body["choices"][0]
        message = choice["message"]
        deltas: list[JSON] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in pieces(message["content"] or "")]
        if message["refusal"]:
            deltas.append({"refusal": message["refusal"]})
        for index, one in enumerate(message.get("tool_calls", ())):
            function = one["function"]
            named = {"name": function["name"], "arguments": ""}
            deltas.append({"tool_calls": [{**one, "index": index, "function": named}]})
            deltas += [
                {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
                for piece in pieces(function["arguments"])
            ]
        chunks = [self.chunk(delta) for delta in deltas]
        chunks.append(self.chunk({}, choice["finish_reason"]))
        return self.sent(*chunks, {**self.chunk(), "usage": body["usage"]})

    def sent(self, *chunks: JSON) -> list[str]:
        """Write chunks as they are sent."""
        return sse(*chunks, done=True)

    def chunk(self, delta: JSON | None = None, finish: str | None = None) -> JSON:
        """Write one chunk; one without a delta has no choice either."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        choices = [] if delta is None else [choice]
        return {"id": "r-1", "model": "gpt-test-2026", "choices": choices, "usage": None}

    def results(self, body: JSON) -> list[tuple[str, str]]:
        """Read the results of calls from a request."""
        told = [item for item in body["messages"] if item["role"] == "tool"]
        return [(item["tool_call_id"], item["content"]) for item in told]

    def calls(self, body: JSON) -> list[tuple[str, str, str]]:
        """Read the calls from a request."""
        made = [one for item in body["messages"] for one in item.get("tool_calls", ())]
        return [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in made]

    def tools(self, body: JSON) -> list[str]:
        """Read the names of the tools from a request."""
        return [tool["function"]["name"] for tool in body["tools"]]

    def schema(self, body: JSON) -> JSON:
        """Read how a final answer is held to its schema from a request."""
        return dict(body["response_format"]["json_schema"])


@dataclass(frozen=True, slots=True)
class Responses:
    """The Responses API."""

    name = "responses"
    path = "/v1/responses"
    cut_off = "max_output_tokens"
    whole_stop = "completed"

    def model(self, server: Loopback, **options: Any) -> OpenAIResponsesModel:
        """Make a model that asks a server."""
        options = {"api_key": KEY, "base_url": f"{server.url}/v1", **options}
        return OpenAIResponsesModel("gpt-test", **options)

    def body(
        self,
        text: str | None = None,
        *calls: tuple[object, object, object],
        stop: str = "",
        refusal: str | None = None,
    ) -> JSON:
        """Write a reply as it comes as a whole; a `stop` is why it is incomplete."""
        content: list[JSON] = []
        if text is not None:
            content.append({"type": "output_text", "text": text, "annotations": []})
        if refusal is not None:
            content.append({"type": "refusal", "refusal": refusal})
        output: list[JSON] = []
        if content:
            output.append({"type": "message", "id": "m-1", "role": "assistant", "content": content})
        for id, name, given in calls:
            named = {"call_id": id, "name": name, "arguments": given, "status": "completed"}
            output.append({"type": "function_call", **named})
        return self.response(output, **({"incomplete_details": {"reason": stop}} if stop else {}))

    def response(self, output: Sequence[Mapping[str, Any]], **fields: Any) -> JSON:
        """Write a response."""
        return {
            "id": "r-1",
            "object": "response",
            "model": "gpt-test-2026",
            "status": "incomplete" if fields.get("incomplete_details") else "completed",
            "output": list(output),
            "error": None,
            "usage": {
                "input_tokens": 20,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 8},
            },
            **fields,
        }

    def events(self, body: JSON) -> list[str]:
        """Write a reply as it is streamed."""
        texts = [
            part["text"]
            for item in body["output"]
            for part in item.get("content") or ()
            if part["type"] == "output_text"
        ]
        said = [
            {"type": "response.output_text.delta", "delta": piece}
            for text in texts
            for piece in pieces(text)
        ]
        begun: JSON = {"type": "response.created", "response": {**body, "output": []}}
        end = {"type": f"response.{body['status']}", "response": body}
        return sse(begun, *said, end, names=True)

    def results(self, body: JSON) -> list[tuple[str, str]]:
        """Read the results of calls from a request."""
        told = [item for item in body["input"] if item["type"] == "function_call_output"]
        return [(item["call_id"], item["output"]) for item in told]

    def calls(self, body: JSON) -> list[tuple[str, str, str]]:
        """Read the calls from a request."""
        made = [item for item in body["input"] if item["type"] == "function_call"]
        return [(item["call_id"], item["name"], item["arguments"]) for item in made]

    def tools(self, body: JSON) -> list[str]:
        """Read the names of the tools from a request."""
        return [tool["name"] for tool in body["tools"]]

    def schema(self, body: JSON) -> JSON:
        """Read how a final answer is held to its schema from a request."""
        return dict(body["text"]["format"])


Api = Chat | Responses
CHAT: Final = Chat()
RESPONSES: Final = Responses()


def answer(api: Api, body: JSON, *, stream: bool) -> Answer:
    """Say a reply, as a whole or as a stream."""
    return Answer(api.events(body) if stream else body)


def pieces(text: object) -> list[str]:
    """Cut a text into pieces of two letters."""
    assert isinstance(text, str)
    return [text[start : start + 2] for start in range(0, len(text), 2)]


async def play(
    model: OpenAIChatModel | OpenAIResponsesModel,
    *tools: AnyTool,
    policy: Policy = AT_ONCE,
    budget: Budget | None = None,
    output: Any = None,
    store: Store | None = None,
) -> Outcome:
    """Run one invocation to its rest."""
    desk = Agent("desk", model=model, tools=tools, policy=policy, budget=budget, output=output)
    async with Runtime([desk], store=store) as runtime:
        return await runtime.run("desk", "the goal")
