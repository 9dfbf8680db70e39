"""What is wrong in the middle of the night: keys, options, servers that are gone, broken bodies."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import httpx2
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from wire import claude
from wire.decisions import request_of
from wire.gpt import AT_ONCE, CHAT, KEY, RESPONSES, Api
from wire.loopback import Answer, Heard, Loopback, loopback, sse

from loopwright import Agent, Runtime, ToolCalls, tool
from loopwright.adapters import AnthropicModel, OpenAIChatModel, OpenAIResponsesModel
from loopwright.adapters.provider._schema import strict_schema
from loopwright.protocol import (
    BrokenCall,
    ConfigurationError,
    Final,
    JsonObject,
    ModelError,
    ModelErrorKind,
    ModelReply,
    Reason,
    calls_of,
)

pytestmark = pytest.mark.anyio
AnyModel: TypeAlias = OpenAIChatModel | OpenAIResponsesModel | AnthropicModel
Make: TypeAlias = Callable[..., AnyModel]


def claude_model(server: Loopback, **options: Any) -> AnthropicModel:
    options = {"api_key": KEY, "base_url": server.url, **options}
    return AnthropicModel("m", **options)


MAKES: list[Make] = [CHAT.model, RESPONSES.model, claude_model]
CALLS = [("c1", "pay", '{"n": "ü🎉"}'), ("c2", "pay", "{}")]


def said(make: Make, text: str, calls: list[tuple[str, str, str]]) -> str:
    """Write a reply as its stream, characters unescaped."""
    if make is claude_model:
        uses = [claude.use(*call) for call in calls]
        events = sse(*claude.events(claude.message(claude.text(text), *uses), size=9), names=True)
    else:
        api: Api = CHAT if make is MAKES[0] else RESPONSES
        events = api.events(api.body(text, *calls))
    lines = "".join(events).split("\n")
    return "\n".join(
        f"data: {json.dumps(json.loads(line[6:]), ensure_ascii=False)}"
        if line.startswith("data: {")
        else line
        for line in lines
    )


# ---------------------------------------------------------------- keys
@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("end", ["", "\n", " "])
async def test_a_key_is_in_no_error_whoever_repeats_it(make: Make, end: str) -> None:
    """A server that refuses it, or a client that cannot send it; files end in a line break."""
    refused = Answer({"error": {"message": f"no such key: {KEY}"}}, status=401)
    async with loopback([refused]) as server:
        model = make(server, api_key=KEY + end)
        with pytest.raises(Exception, match="no such key: …") as caught:
            await model.decide(request_of([]))
        await model.aclose()
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("make", MAKES[::2])
async def test_a_key_of_a_clients_own_is_in_no_error_either(make: Make) -> None:
    """Also one that cannot be sent: the HTTP client says the whole header."""
    bad = f"{KEY}\n"
    async with loopback([]) as server:
        client: Any = (
            AsyncAnthropic(api_key=bad, base_url=server.url)
            if make is claude_model
            else AsyncOpenAI(api_key=bad, base_url=server.url)
        )
        model = make(server, api_key=None, client=client)
        with pytest.raises(ModelError, match="Illegal header value") as caught:
            await model.decide(request_of([]))
        await client.close()
    assert KEY not in "".join(traceback.format_exception(caught.value))


async def test_a_key_that_is_asked_for_is_in_no_error() -> None:
    async def key() -> str:
        return KEY

    async with loopback([Answer({"error": {"message": f"no {KEY}"}}, status=401)]) as server:
        model = CHAT.model(server, api_key=key)
        with pytest.raises(Exception, match="no …"):
            await model.decide(request_of([]))
        await model.aclose()


@pytest.mark.parametrize("key", ["sk-ü", "sk-a\x00b"])
def test_a_key_that_cannot_be_sent_is_refused_at_once(key: str) -> None:
    with pytest.raises(ConfigurationError, match="characters that cannot be sent"):
        OpenAIChatModel("m", api_key=key)


# ---------------------------------------------------------------- options
@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("name", ["model", "stream", "conversation"])
async def test_what_is_the_runtimes_is_no_option(make: Make, name: str) -> None:
    """A stream that nobody reads as one, or a conversation that is not the journal's."""
    if name == "conversation":
        name = "input" if make is MAKES[1] else "messages"
    async with loopback([]) as server:
        with pytest.raises(ConfigurationError, match=f"the option '{name}', which is none"):
            make(server, options={name: None})
        if make is claude_model:
            with pytest.raises(ConfigurationError, match="cannot leave out max_tokens"):
                make(server, options={"max_tokens": None})


@pytest.mark.parametrize("make", MAKES)
async def test_tools_of_the_provider_are_added_to_those_of_the_agent(make: Make) -> None:
    """They would otherwise take the place of all of them, decisions included."""
    async with loopback([Answer([said(make, "done", [])])]) as server:
        model = make(server, options={"tools": [{"type": "web_search"}]})
        assert (await model.decide(request_of([]))).decision == Final("done")
        await model.aclose()
    tools = server.requests[0].body["tools"]
    assert tools[-1]["type"] == "web_search"
    assert len(tools) > 2


# ---------------------------------------------------------------- who may be sent what
async def test_encrypted_reasoning_goes_back_only_to_the_account_it_came_from() -> None:
    """The same model elsewhere cannot read it, and refuses the request: the end of a fallback."""

    thought: JsonObject = {"type": "reasoning", "summary": [], "encrypted_content": "e"}
    call: JsonObject = {"type": "function_call", "call_id": "a", "name": "look"}
    body = RESPONSES.response([thought, {**call, "arguments": "{}"}])

    async def kept_by(server: Loopback, name: str) -> object:
        model = RESPONSES.model(server, name=name, stream=False)
        reply = await model.decide(request_of([]))
        await model.aclose()
        return cast("Any", reply.replay)["by"]

    async with loopback(lambda _: Answer(body)) as here, loopback(lambda _: Answer(body)) as there:
        by = await kept_by(here, "one")
        assert by == await kept_by(here, "one")
        assert by != await kept_by(there, "one")
        assert by != await kept_by(here, "the other account")


# ---------------------------------------------------------------- schemas
def test_a_reference_stands_alone() -> None:
    """Providers refuse anything beside it, and pydantic writes descriptions there."""
    part: JsonObject = {"$ref": "#/$defs/Part", "description": "A part.", "default": None}
    schema: JsonObject = {"type": "object", "properties": {"part": part}}
    strict = cast("Any", strict_schema(schema))
    assert strict["properties"] == {"part": {"$ref": "#/$defs/Part"}}


# ---------------------------------------------------------------- lines
@pytest.mark.parametrize("seconds", [300.0, 2.0])
async def test_a_machine_that_is_gone_is_not_waited_for_as_for_a_reply(seconds: float) -> None:
    """A chain has to get to its next model while somebody still waits."""
    found = list[Any]()

    def asked(request: httpx2.Request) -> httpx2.Response:
        found.append(request.extensions["timeout"])
        return httpx2.Response(500)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(asked)) as http:
        openai = AsyncOpenAI(api_key="k", http_client=http)
        anthropic = AsyncAnthropic(api_key="k", http_client=http)
        models: list[Any] = [
            OpenAIChatModel("m", client=openai, timeout=seconds),
            OpenAIResponsesModel("m", client=openai, timeout=seconds, stream=False),
            AnthropicModel("m", client=anthropic, timeout=seconds),
            AnthropicModel("m", client=anthropic, timeout=seconds, stream=False),
        ]
        for model in models:
            with pytest.raises(Exception, match="500"):
                await model.decide(request_of([]))
    assert [(one["connect"], one["read"]) for one in found] == [(min(seconds, 10), seconds)] * 4


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("dropped", [False, True])
async def test_a_stream_that_ends_at_any_byte_is_the_whole_reply_or_none(
    make: Make, dropped: bool
) -> None:
    """Whether the line drops or is closed in order: never half a decision."""
    body = said(make, "hü🎉", CALLS).encode()
    ends = [*range(0, len(body), 37), len(body)]
    at = iter(ends)

    def answer(_: Heard) -> Answer:
        # Whatever is cut in the middle of a character is no UTF-8.
        text = body[: next(at)].decode("utf-8", "ignore")
        return Answer([text] if text else [": \n"], cut=dropped)

    replies = list[ModelReply]()
    async with loopback(answer) as server:
        model = make(server)
        for _ in ends[:-1]:
            try:
                replies.append(await model.decide(request_of([])))
            except ModelError as error:
                assert error.kind is ModelErrorKind.TRANSIENT  # noqa: PT017 - or none is raised
        if not dropped:
            replies.append(await model.decide(request_of([])))
        await model.aclose()
    for reply in replies:
        assert isinstance(reply.decision, ToolCalls)
        assert [call.call_id for call in calls_of(reply.decision)] == ["c1", "c2"]
        assert not any(isinstance(call, BrokenCall) for call in reply.decision.calls)


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("how", ["crlf", "comments", "many lines", "one by one"])
async def test_a_stream_may_be_written_in_any_way(make: Make, how: str) -> None:
    """Line ends, comments, events in several lines, pieces of one character."""
    text = said(make, "hü🎉", CALLS)
    pieces = [text]
    match how:
        case "crlf":
            pieces = [text.replace("\n", "\r\n")]
        case "comments":
            pieces = [text.replace("\n\n", "\n\n: hm\n\n")]
        case "many lines":
            pieces = [text.replace("data: {", "data: {\ndata: ")]
        case _:
            pieces = list(text)
    async with loopback([Answer(pieces)]) as server:
        model = make(server)
        reply = await model.decide(request_of([]))
        await model.aclose()
    assert isinstance(reply.decision, ToolCalls)
    assert reply.decision.commentary == "hü🎉"
    assert [cast("Any", call).arguments for call in reply.decision.calls] == [{"n": "ü🎉"}, {}]


async def test_the_halves_of_a_character_may_come_in_two_chunks() -> None:
    """Servers that cut a text as JavaScript has it."""
    halves = [CHAT.chunk({"content": "a\ud83d"}), CHAT.chunk({"content": "\ude00"})]
    async with loopback([Answer(CHAT.sent(*halves, CHAT.chunk({}, "stop")))]) as server:
        model = CHAT.model(server)
        assert (await model.decide(request_of([]))).decision == Final("a😀")
        await model.aclose()


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("value", ["9" * 5_000, "[" * 100_000 + "]" * 100_000])
async def test_json_that_cannot_be_read_is_a_failed_attempt(
    make: Make, stream: bool, value: str
) -> None:
    """Not a bug of the model object, which would end the chain."""
    body = f'{{"type":"message_start","message":{value}}}'
    answer = Answer([f"event: message_start\ndata: {body}\n\n"] if stream else body)
    async with loopback([answer]) as server:
        model = make(server, stream=stream)
        with pytest.raises(ModelError) as caught:
            await model.decide(request_of([]))
        await model.aclose()
    assert caught.value.kind is ModelErrorKind.TRANSIENT


async def test_a_reply_that_is_cut_inside_a_call_of_the_providers_own_is_cut_off() -> None:
    """And no broken stream, which would be asked for, and paid, again and again."""
    search = {**claude.SEARCH, "input": '{"query": "q'}
    body = claude.message(claude.text("I look"), search, stop="max_tokens")
    async with loopback([Answer(sse(*claude.events(body), names=True))]) as server:
        model = claude_model(server)
        reply = await model.decide(request_of([]))
        await model.aclose()
    assert "was cut off (max_tokens)" in cast("Any", reply.decision).problem


@pytest.mark.parametrize("make", MAKES)
async def test_one_model_object_serves_many_invocations_at_once(make: Make) -> None:
    """Nothing of one gets into another, and its connections are closed with the runtime."""

    @tool(effect="read")
    async def pay(n: str = "") -> str:
        return n

    def answer(heard: Heard) -> Answer:
        sent = json.dumps(heard.body)
        goal = sent[sent.index("goal-") :].split('"')[0]
        paid = "c1" in sent
        calls = [] if paid else [("c1", "pay", json.dumps({"n": goal}))]
        return Answer([said(make, goal if paid else "", calls)])

    async with loopback(answer) as server:
        desk = Agent("desk", model=make(server), tools=[pay], policy=AT_ONCE)
        async with Runtime([desk]) as runtime:
            runs = [await runtime.start("desk", f"goal-{n}") for n in range(40)]
            outcomes = [await run.outcome() for run in runs]
    assert {outcome.reason for outcome in outcomes} == {Reason.COMPLETED}
    assert [outcome.answer for outcome in outcomes] == [f"goal-{n}" for n in range(40)]
    assert [outcome.history[0].results[0].output for outcome in outcomes] == [
        f"goal-{n}" for n in range(40)
    ]
