"""Both of OpenAI's APIs over real sockets, with the real SDK, through a whole runtime."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from openai import AsyncAzureOpenAI, AsyncOpenAI
from pydantic import BaseModel
from wire.decisions import request_of
from wire.gpt import CHAT, KEY, RESPONSES, Api, answer, call, play
from wire.loopback import Answer, loopback, sse

from loopwright import Agent, Budget, ModelReply, Outcome, Policy, Reason, Runtime, tool
from loopwright.adapters.openai.chat import OpenAIChatModel
from loopwright.adapters.openai.responses import OpenAIResponsesModel
from loopwright.policy import Retry
from loopwright.protocol import (
    ConfigurationError,
    Final,
    ModelError,
    ModelErrorKind,
    TextDelta,
    Usage,
)

pytestmark = pytest.mark.anyio
apis = pytest.mark.parametrize("api", [CHAT, RESPONSES], ids=lambda api: api.name)
streams = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@tool(effect="read")
async def look(x: int) -> str:
    """Look something up."""
    return f"seen {x}"


class Score(BaseModel):
    points: int


async def failed(api: Api, *answers: Answer, stream: bool = True, **options: Any) -> Outcome:
    """Run with answers of which the first is a failure that is not tried again."""
    async with loopback(answers) as server:
        outcome = await play(api.model(server, stream=stream, **options), look)
        assert len(server.requests) == 1
    return outcome


# ---------------------------------------------------------------- what works
@apis
@streams
async def test_a_text_is_the_final_answer(api: Api, stream: bool) -> None:
    """And the journal has what the provider said of it: its usage, its id and its own words."""
    async with loopback([answer(api, api.body("Hello"), stream=stream)]) as server:
        outcome = await play(api.model(server, stream=stream), look)
        (heard,) = server.requests
    assert outcome.completed
    assert outcome.answer == "Hello"
    assert outcome.usage == Usage(20, 5, cached_tokens=8)
    proposal = outcome.history[0].proposal
    assert (proposal.response_id, proposal.model) == ("r-1", "gpt-test-2026")
    assert proposal.stop_reason == api.whole_stop
    assert proposal.replay is None
    assert heard.path == api.path
    assert heard.headers["authorization"] == f"Bearer {KEY}"
    assert heard.body["model"] == "gpt-test"
    assert heard.body.get("stream", False) is stream
    assert api.tools(heard.body) == ["look", "ask_user", "cannot_continue", "request_approval"]


@apis
@streams
async def test_parallel_calls_run_and_their_results_go_back(api: Api, stream: bool) -> None:
    calls = [call("a", "look", '{"x": 1}'), call("b", "look", '{"x": 2}')]
    script = [api.body("On it.", *calls), api.body("done")]
    async with loopback([answer(api, body, stream=stream) for body in script]) as server:
        outcome = await play(api.model(server, stream=stream), look)
        second = server.requests[1].body
    assert outcome.completed
    assert outcome.tool_calls == 2
    assert api.results(second) == [("a", "seen 1"), ("b", "seen 2")]
    assert [(id, json.loads(given)) for id, _, given in api.calls(second)] == [
        ("a", {"x": 1}),
        ("b", {"x": 2}),
    ]


@apis
@streams
async def test_a_typed_final_is_held_to_its_schema(api: Api, stream: bool) -> None:
    body = api.body('{"answer": "won", "output": {"points": 3}}')
    async with loopback([answer(api, body, stream=stream)]) as server:
        outcome = await play(api.model(server, stream=stream), output=Score)
        (heard,) = server.requests
    assert outcome.output == {"points": 3}
    assert outcome.answer == "won"
    schema = api.schema(heard.body)
    assert schema["strict"] is True
    assert schema["schema"]["required"] == ["answer", "output"]


@apis
async def test_a_schema_no_provider_enforces_exactly_is_sent_all_the_same(api: Api) -> None:
    body = api.body('{"answer": "won", "output": {"a": 3}}')
    async with loopback([answer(api, body, stream=True)]) as server:
        outcome = await play(api.model(server), output=dict[str, int])
        schema = api.schema(server.requests[0].body)
    assert outcome.output == {"a": 3}
    assert schema["strict"] is False
    assert schema["schema"]["properties"]["output"]["additionalProperties"] == {"type": "integer"}


@apis
async def test_without_structured_output_a_typed_final_is_a_call(api: Api) -> None:
    given = json.dumps({"answer": "won", "output": {"points": 3}})
    wrong = json.dumps({"answer": "won", "output": {"points": "many"}})
    script = [
        api.body(None, call("f", "final_answer", wrong)),
        api.body(None, call("f", "final_answer", given)),
    ]
    async with loopback([answer(api, body, stream=True) for body in script]) as server:
        outcome = await play(api.model(server, structured_output=False), output=Score)
        first, second = (heard.body for heard in server.requests)
    assert outcome.output == {"points": 3}
    assert "final_answer" in api.tools(first)
    assert not {"response_format", "text"} & first.keys()
    told = (second.get("messages") or second["input"])[-1]["content"]
    assert "points" in told


@apis
async def test_what_the_budget_leaves_and_the_options_are_sent(api: Api) -> None:
    """Options have the last word; `None` leaves a field out."""
    async with loopback([answer(api, api.body("ok"), stream=True)]) as server:
        options = {"temperature": 0.5, "tools": None}
        await play(api.model(server, options=options), budget=Budget(max_tokens=1_000))
        body = server.requests[0].body
    field = "max_tokens" if api is CHAT else "max_output_tokens"
    assert 16 <= body[field] < 1_000
    assert body["temperature"] == 0.5
    assert "tools" not in body


@apis
async def test_a_stream_is_heard_piece_by_piece(api: Api) -> None:
    async with loopback([answer(api, api.body("Hello"), stream=True)]) as server:
        model = api.model(server)
        assert model.stream is not None
        heard = [piece async for piece in model.stream(request_of([]))]
        await model.aclose()
    assert heard[:-1] == [TextDelta("He"), TextDelta("ll"), TextDelta("o")]
    assert isinstance(heard[-1], ModelReply)


@apis
async def test_a_streaming_model_may_be_asked_for_a_whole_reply(api: Api) -> None:
    async with loopback([answer(api, api.body("Hello"), stream=True)]) as server:
        model = api.model(server)
        reply = await model.decide(request_of([]))
        await model.aclose()
    assert reply.decision == Final("Hello")


# ---------------------------------------------------------------- refusals and statuses
@apis
@streams
async def test_a_refusal_is_the_end(api: Api, stream: bool) -> None:
    """B38: it is not asked again, and what it has cost is charged."""
    body = api.body(None, refusal="I will not.")
    outcome = await failed(api, answer(api, body, stream=stream), stream=stream)
    assert outcome.reason is Reason.MODEL_REFUSED
    assert "I will not." in str(outcome.cause)
    assert outcome.usage.total == 25


@apis
@streams
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"code": "context_length_exceeded", "message": "too long"}, Reason.MODEL_ERROR),
        ({"code": None, "message": "This model's maximum context length is 8"}, Reason.MODEL_ERROR),
        ({"code": "content_filter", "message": "no"}, Reason.MODEL_REFUSED),
        ({"code": "content_policy_violation", "message": "no"}, Reason.MODEL_REFUSED),
        ({"code": "invalid_prompt", "message": "no"}, Reason.MODEL_REFUSED),
        ({"code": "unknown_parameter", "message": "no"}, Reason.MODEL_ERROR),
    ],
)
async def test_a_400_is_not_tried_again(
    api: Api, stream: bool, error: dict[str, object], reason: Reason
) -> None:
    said = {"error": {"type": "invalid_request_error", "param": None, **error}}
    outcome = await failed(api, Answer(said, status=400), stream=stream)
    assert outcome.reason is reason
    assert str(error["message"]) in str(outcome.cause)


@apis
async def test_a_request_that_is_too_long_is_said_to_be(api: Api) -> None:
    """So that a model with a larger window may be asked."""
    said = {"error": {"code": "context_length_exceeded", "message": "too long"}}
    async with loopback([Answer(said, status=400)]) as server:
        model = api.model(server)
        with pytest.raises(ModelError) as raised:
            await model.decide(request_of([]))
        await model.aclose()
    assert raised.value.kind is ModelErrorKind.CONTEXT_TOO_LONG


@apis
async def test_a_401_is_not_tried_again_and_shows_no_key(api: Api) -> None:
    """Even where the server repeats the key that it refuses."""
    said = {"error": {"code": "invalid_api_key", "message": f"Incorrect API key: {KEY}"}}
    outcome = await failed(api, Answer(said, status=401))
    assert outcome.reason is Reason.MODEL_ERROR
    assert "Incorrect API key" in str(outcome.cause)
    assert KEY not in repr(outcome)


@apis
@streams
@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (429, {"retry-after-ms": "20"}),
        (429, {"retry-after": "0"}),
        (500, {}),
        (503, {}),
        (529, {}),
        (408, {}),
    ],
)
async def test_what_may_pass_is_tried_again(
    api: Api, stream: bool, status: int, headers: dict[str, str]
) -> None:
    busy = Answer({"error": {"message": "busy"}}, status=status, headers=headers)
    async with loopback([busy, answer(api, api.body("ok"), stream=stream)]) as server:
        outcome = await play(api.model(server, stream=stream))
    assert outcome.completed
    assert outcome.history[0].proposal.attempts == 2


@apis
@pytest.mark.parametrize("header", [{"retry-after-ms": "90000"}, {"retry-after": "90"}])
async def test_the_wait_that_is_asked_for_is_known(api: Api, header: dict[str, str]) -> None:
    policy = Policy(retry=Retry(first=0, longest=0, patience=60))
    busy = Answer({"error": {"message": "busy"}}, status=429, headers=header)
    async with loopback([busy]) as server:
        outcome = await play(api.model(server), policy=policy)
        assert len(server.requests) == 1
    assert "asks for a wait of 90 s" in str(outcome.cause)


# ---------------------------------------------------------------- lines that break
@apis
@streams
async def test_a_server_that_says_nothing_is_left_after_the_timeout(api: Api, stream: bool) -> None:
    async with loopback([Answer(hang=True)]) as server:
        model = api.model(server, stream=stream, timeout=0.5)
        outcome = await play(model, policy=Policy(retry=Retry(max_attempts=1)))
        await asyncio.wait_for(server.gone.wait(), 5)
    assert outcome.reason is Reason.MODEL_ERROR
    assert "no reply within 0.5 s" in str(outcome.cause)


@apis
@streams
async def test_nobody_there_is_told_as_such(api: Api, stream: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        async with loopback([]) as server:
            outcome = await play(api.model(server, base_url=url, stream=stream))
    assert outcome.reason is Reason.MODEL_ERROR
    assert "connection attempts failed" in str(outcome.cause).lower()


@apis
@streams
@pytest.mark.parametrize(
    "broken",
    [
        Answer("<html>Bad gateway</html>", headers={"content-type": "text/html"}),
        Answer("<html>Bad gateway</html>"),
        Answer('{"choices": [{"mess'),
        Answer("[" * 100_000),
        Answer('"a text"'),
        Answer({"object": "list", "data": []}),
        Answer({"choices": 7, "output": 7}),
        Answer({"choices": [], "output": None}),
        Answer({"choices": [{"message": {"content": {}}}], "output": [7]}),
        Answer({"choices": [{}], "output": [{"type": "message", "content": [7]}]}),
        Answer(None),
        Answer(""),
        Answer(["data: {garbage\n\n"]),
        Answer(["data: 7\n\n"]),
        Answer([": nothing\n\n"]),
    ],
)
async def test_what_is_no_reply_is_tried_again(api: Api, stream: bool, broken: Answer) -> None:
    """A body that is not what it must be is a failure of the server, never a bug in here."""
    async with loopback([broken, answer(api, api.body("ok"), stream=stream)]) as server:
        outcome = await play(api.model(server, stream=stream))
    assert outcome.completed
    assert outcome.history[0].proposal.attempts == 2


@apis
async def test_a_body_that_breaks_off_is_tried_again(api: Api) -> None:
    broken = Answer(api.body("Hello"), cut=True)
    async with loopback([broken, Answer(api.body("ok"))]) as server:
        outcome = await play(api.model(server, stream=False))
    assert outcome.answer == "ok"


@apis
@streams
async def test_the_body_of_an_error_that_breaks_off_is_tried_again(api: Api, stream: bool) -> None:
    broken = Answer({"error": {"message": "busy"}}, status=503, cut=True)
    async with loopback([broken, answer(api, api.body("ok"), stream=stream)]) as server:
        outcome = await play(api.model(server, stream=stream))
    assert outcome.answer == "ok"


@apis
@pytest.mark.parametrize("cut", [True, False], ids=["line lost", "ended"])
@pytest.mark.parametrize("made", ["text", "call"])
async def test_half_a_stream_counts_for_nothing(api: Api, cut: bool, made: str) -> None:
    """Wherever it breaks off, and also where the server ends it as if it were whole."""
    body = api.body("Hello") if made == "text" else api.body("", call("a", "look", '{"x": 1}'))
    whole = api.events(body)
    for length in range(len(whole) - (3 if api is CHAT else 1)):
        half = Answer(whole[:length], cut=cut)
        async with loopback([half, answer(api, api.body("ok"), stream=True)]) as server:
            outcome = await play(api.model(server), look)
        assert (outcome.answer, outcome.tool_calls) == ("ok", 0)


@apis
@pytest.mark.parametrize(
    ("error", "reason", "requests"),
    [
        ({"code": "server_error", "message": "oops"}, Reason.MODEL_ERROR, 2),
        ({"code": "rate_limit_exceeded", "message": "oops"}, Reason.MODEL_ERROR, 2),
        ({"type": "invalid_request_error", "message": "oops"}, Reason.MODEL_ERROR, 1),
        ({"code": 400, "message": "oops"}, Reason.MODEL_ERROR, 1),
        ({"code": 429, "message": "oops"}, Reason.MODEL_ERROR, 2),
        ({"code": "context_length_exceeded", "message": "oops"}, Reason.MODEL_ERROR, 1),
        ({"code": "content_filter", "message": "oops"}, Reason.MODEL_REFUSED, 1),
    ],
)
async def test_an_error_inside_a_stream_is_what_it_says(
    api: Api, error: dict[str, object], reason: Reason, requests: int
) -> None:
    begun = api.events(api.body("Hello"))[:2]
    async with loopback(lambda _: Answer([*begun, *sse({"error": error})])) as server:
        outcome = await play(api.model(server))
        assert len(server.requests) == requests
    assert outcome.reason is reason
    assert "oops" in str(outcome.cause)


@apis
async def test_no_error_shows_the_key(api: Api) -> None:
    """Wherever a server says it."""
    error = {"code": "server_error", "message": f"no such key: {KEY}"}
    body = {**api.body("Hello"), "status": "failed", "error": error}
    event = Answer(sse({"error": error}) if api is CHAT else api.events(body))
    for said, stream in ((event, True), (Answer(body), False)):
        async with loopback([said, said]) as server:
            outcome = await play(api.model(server, stream=stream))
        assert outcome.reason is Reason.MODEL_ERROR
        assert "no such key: …" in str(outcome.cause)
        assert KEY not in repr(outcome)


# ---------------------------------------------------------------- giving up, and closing
@apis
@streams
async def test_a_cancelled_request_leaves_the_server_at_once(api: Api, stream: bool) -> None:
    begun = api.events(api.body("Hello"))[:2] if stream else None
    async with loopback([Answer(begun, hang=True)]) as server:
        model = api.model(server, stream=stream)
        asking = asyncio.create_task(model.decide(request_of([])))
        await asyncio.wait_for(server.asked.wait(), 5)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(server.gone.wait(), 5)
        await model.aclose()


@apis
async def test_a_stream_that_nobody_hears_on_is_closed(api: Api) -> None:
    begun = api.events(api.body("Hello"))[:3]
    async with loopback([Answer(begun, hang=True)]) as server:
        model = api.model(server)
        assert model.stream is not None
        async with aclosing(model.stream(request_of([]))) as stream:
            assert await anext(stream) == TextDelta("He")
        await asyncio.wait_for(server.gone.wait(), 5)
        await model.aclose()


@apis
@pytest.mark.parametrize("lost", [True, False], ids=["lost", "open"])
async def test_what_the_line_does_behind_a_reply_does_not_matter(api: Api, lost: bool) -> None:
    """It is not waited for, and a reply that has come is not given up for it."""
    behind = Answer(api.events(api.body("Hello")), hang=not lost, cut=lost)
    async with loopback([behind]) as server:
        outcome = await play(api.model(server, timeout=30))
        assert len(server.requests) == 1
    assert outcome.answer == "Hello"


@apis
@streams
async def test_a_connection_is_used_again(api: Api, stream: bool) -> None:
    """Opening one takes longer than many a reply."""
    script = [api.body(None, call(str(n), "look", f'{{"x": {n}}}')) for n in range(3)]
    answers = [answer(api, body, stream=stream) for body in [*script, api.body("done")]]
    async with loopback(answers) as server:
        assert (await play(api.model(server, stream=stream), look)).completed
        assert (len(server.requests), server.connections) == (4, 1)


@apis
async def test_a_runtime_may_be_entered_again(api: Api) -> None:
    async with loopback(lambda _: answer(api, api.body("ok"), stream=True)) as server:
        model = api.model(server)
        desk = Agent("desk", model=model)
        for _ in range(2):
            async with Runtime([desk]) as runtime:
                assert (await runtime.run("desk", "the goal")).completed
            await model.aclose()


@pytest.fixture
async def client() -> AsyncGenerator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key=KEY, base_url="http://127.0.0.1:1/v1", max_retries=5) as ours:
        yield ours


@apis
@streams
async def test_a_client_of_the_callers_is_used_and_not_closed(
    api: Api, stream: bool, client: AsyncOpenAI
) -> None:
    """But its own retries are not: a budget counts each of them."""
    busy = Answer({"error": {"message": "busy"}}, status=500)
    async with loopback([busy, answer(api, api.body("ok"), stream=stream)]) as server:
        client.base_url = f"{server.url}/v1"
        model = api.model(server, client=client, stream=stream)
        assert (await play(model)).completed
        await model.aclose()
        assert len(server.requests) == 2
        assert not client.is_closed()


async def test_azure_is_asked_by_its_own_client() -> None:
    async with loopback([answer(CHAT, CHAT.body("ok"), stream=True)]) as server:
        version = "2026-01-01"
        async with AsyncAzureOpenAI(
            azure_endpoint=server.url, api_key=KEY, api_version=version
        ) as azure:
            assert (await play(CHAT.model(server, client=azure))).completed
        (heard,) = server.requests
    assert heard.path == f"/openai/deployments/gpt-test/chat/completions?api-version={version}"
    assert heard.headers["api-key"] == KEY


@apis
async def test_a_key_may_be_asked_for_each_time(api: Api) -> None:
    keys = iter(("first", "second"))

    async def key() -> str:
        return next(keys)

    async with loopback(lambda _: answer(api, api.body("ok"), stream=True)) as server:
        model = api.model(server, api_key=key)
        for _ in range(2):
            assert (await play(model)).completed
        shown = [heard.headers["authorization"] for heard in server.requests]
    assert shown == ["Bearer first", "Bearer second"]


# ---------------------------------------------------------------- how it is set up
MODELS: list[type[OpenAIChatModel | OpenAIResponsesModel]] = [
    OpenAIChatModel,
    OpenAIResponsesModel,
]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_shows_its_name_and_no_key(
    kind: type[OpenAIChatModel | OpenAIResponsesModel],
) -> None:
    model = kind("gpt-test", api_key=KEY, name="mine", context_window=8_000)
    assert (model.name, model.context_window, model.timeout) == ("mine", 8_000, 300.0)
    assert repr(model) == f"<{kind.__name__} mine>"
    assert kind("gpt-test", api_key=KEY).name == "gpt-test"
    assert kind("gpt-test", api_key=KEY, stream=False).stream is None


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("base_url", [None, "https://eu.api.openai.com/v1"])
@pytest.mark.usefixtures("environment")
def test_openai_itself_needs_a_key(
    kind: type[OpenAIChatModel | OpenAIResponsesModel], base_url: str | None
) -> None:
    with pytest.raises(ConfigurationError, match="no key for OpenAI; set OPENAI_API_KEY"):
        kind("gpt-test", base_url=base_url)


@apis
async def test_another_server_is_not_shown_the_key_of_the_environment(
    api: Api, environment: pytest.MonkeyPatch
) -> None:
    """It is sent a placeholder: most of them want no key, and the SDK would refuse to go on."""
    environment.setenv("OPENAI_API_KEY", KEY)
    environment.setenv("OPENAI_ADMIN_KEY", f"{KEY}-admin")
    async with loopback(lambda _: answer(api, api.body("ok"), stream=True)) as server:
        assert (await play(api.model(server, api_key=None))).completed
        environment.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        assert (await play(api.model(server, api_key=None, base_url=None))).completed
        shown = [heard.headers["authorization"] for heard in server.requests]
        assert "-admin" not in str(server.requests)
    assert shown == ["Bearer none", f"Bearer {KEY}"]


@pytest.mark.parametrize("kind", MODELS)
def test_without_the_extra_it_says_what_to_install(
    kind: type[OpenAIChatModel | OpenAIResponsesModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "loopwright.adapters.openai._sdk", raising=False)
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'loopwright\[openai\]'"):
        kind("gpt-test", api_key=KEY)


def test_importing_the_adapters_imports_no_sdk() -> None:
    code = (
        "import sys, loopwright.adapters.openai.chat, loopwright.adapters.openai.responses;"
        "print(*sys.modules)"
    )
    shown = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert "openai" not in shown
