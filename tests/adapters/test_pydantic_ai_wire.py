"""The bridge to `pydantic-ai` over real sockets, with one of its real providers, through a runtime."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from contextlib import aclosing
from queue import Queue
from threading import Thread
from typing import Any, Final

import pytest
from pydantic import BaseModel

pytest.importorskip("pydantic_ai", reason="needs the extra `pydantic-ai`")
pytest.importorskip("openai", reason="needs the extra `openai`")

from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from wire.decisions import request_of
from wire.gpt import CHAT, JSON, KEY, RESPONSES, answer, call
from wire.loopback import Answer, Loopback, loopback, sse

from loopwright import Agent, Budget, ModelReply, Outcome, Policy, Reason, Runtime, tool
from loopwright.adapters.pydantic_ai import PydanticAIModel
from loopwright.policy import Retry
from loopwright.protocol import ModelError, ModelErrorKind, TextDelta, Usage

pytestmark = pytest.mark.anyio
streams = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])

AT_ONCE: Final = Policy(retry=Retry(max_attempts=2, first=0, longest=0))


@tool(effect="read")
async def look(x: int) -> str:
    """Look something up."""
    return f"seen {x}"


class Score(BaseModel):
    points: int


def said(body: JSON, *, stream: bool) -> Answer:
    """Say a reply, with all that `pydantic-ai` insists on."""
    usage = body["usage"] and {**body["usage"], "total_tokens": 0}
    return answer(CHAT, {**body, "created": 1, "usage": usage}, stream=stream)


def bridge(server: Loopback, **options: Any) -> PydanticAIModel:
    provider = OpenAIProvider(base_url=f"{server.url}/v1", api_key=KEY)
    return PydanticAIModel(OpenAIChatModel("gpt-test", provider=provider), **options)


async def play(model: PydanticAIModel, **fields: Any) -> Outcome:
    fields = {"policy": AT_ONCE, **fields}
    desk = Agent("desk", model=model, tools=[look], **fields)
    async with Runtime([desk]) as runtime:
        return await runtime.run("desk", "the goal")


async def failed(*answers: Answer, stream: bool = True, **options: Any) -> Outcome:
    """Run with answers of which the first is a failure that is not tried again."""
    async with loopback(answers) as server:
        outcome = await play(bridge(server, stream=stream, **options))
        assert len(server.requests) == 1
    return outcome


# ---------------------------------------------------------------- what works
@streams
async def test_a_text_is_the_final_answer(stream: bool) -> None:
    """And the journal has what the provider said of it: its usage, its id and its own words."""
    async with loopback([said(CHAT.body("Hello"), stream=stream)]) as server:
        outcome = await play(bridge(server, stream=stream))
        (heard,) = server.requests
    assert outcome.completed
    assert outcome.answer == "Hello"
    assert outcome.usage == Usage(20, 5, cached_tokens=8)
    proposal = outcome.history[0].proposal
    assert (proposal.response_id, proposal.model) == ("r-1", "gpt-test-2026")
    assert proposal.stop_reason == "stop"
    assert proposal.replay is None
    assert heard.headers["authorization"] == f"Bearer {KEY}"
    assert CHAT.tools(heard.body) == ["look", "ask_user", "cannot_continue", "request_approval"]


@streams
async def test_parallel_calls_run_and_their_results_go_back(stream: bool) -> None:
    calls = [call("a", "look", '{"x": 1}'), call("b", "look", '{"x": 2}')]
    script = [CHAT.body("On it.", *calls), CHAT.body("done")]
    async with loopback([said(body, stream=stream) for body in script]) as server:
        outcome = await play(bridge(server, stream=stream))
        second = server.requests[1].body
    assert outcome.completed
    assert outcome.tool_calls == 2
    assert CHAT.results(second) == [("a", "seen 1"), ("b", "seen 2")]
    assert [(id, json.loads(given)) for id, _, given in CHAT.calls(second)] == [
        ("a", {"x": 1}),
        ("b", {"x": 2}),
    ]


@streams
async def test_a_typed_final_is_a_call_that_must_be_made(stream: bool) -> None:
    """Every provider that knows tools can be held to it; a wrong one is told what is wrong."""
    wrong = json.dumps({"answer": "won", "output": {"points": "many"}})
    given = json.dumps({"answer": "won", "output": {"points": 3}})
    script = [
        CHAT.body(None, call("f", "final_answer", wrong)),
        CHAT.body(None, call("f", "final_answer", given)),
    ]
    async with loopback([said(body, stream=stream) for body in script]) as server:
        outcome = await play(bridge(server, stream=stream), output=Score)
        first, second = (heard.body for heard in server.requests)
    assert outcome.output == {"points": 3}
    assert outcome.answer == "won"
    assert first["tool_choice"] == "required"
    assert "final_answer" in CHAT.tools(first)
    assert "points" in second["messages"][-1]["content"]


async def test_what_the_budget_leaves_and_the_options_are_sent() -> None:
    async with loopback([said(CHAT.body("ok"), stream=True)]) as server:
        model = bridge(server, options={"temperature": 0.5, "max_tokens": None, "seed": 7})
        await play(model, budget=Budget(max_tokens=50_000))
        plain = server.requests[0].body
    assert plain["temperature"] == 0.5
    assert plain["seed"] == 7
    assert "max_completion_tokens" not in plain
    async with loopback([said(CHAT.body("ok"), stream=True)]) as server:
        await play(bridge(server), budget=Budget(max_tokens=50_000))
        assert 0 < server.requests[0].body["max_completion_tokens"] < 50_000


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 0, "completion_tokens": 0}])
async def test_a_usage_that_is_not_told_is_estimated(usage: object) -> None:
    body = {**CHAT.body("ok"), "usage": usage}
    async with loopback([said(body, stream=False)]) as server:
        outcome = await play(bridge(server, stream=False))
    assert outcome.completed
    assert outcome.usage.estimated
    assert outcome.usage.input_tokens > 0


async def test_pieces_of_a_text_are_heard_before_the_reply() -> None:
    async with loopback([said(CHAT.body("Hello"), stream=True)]) as server:
        model = bridge(server)
        assert model.stream is not None
        pieces = [piece async for piece in model.stream(request_of([]))]
        await model.aclose()
    assert [piece.text for piece in pieces if isinstance(piece, TextDelta)] == ["He", "ll", "o"]
    assert isinstance(pieces[-1], ModelReply)


async def test_reasoning_is_sent_again_with_the_call_it_led_to() -> None:
    """As it came, encrypted and with its id: OpenAI's other API refuses a call without it."""
    rest: JSON = {"created_at": 1, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    usage: JSON = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}
    usage |= {"input_tokens_details": {"cached_tokens": 8}}
    usage |= {"output_tokens_details": {"reasoning_tokens": 3}}
    thought: JSON = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "ENC"}
    made = {"call_id": "a", "name": "look", "arguments": '{"x": 1}', "status": "completed"}
    text: JSON = {"type": "output_text", "text": "done", "annotations": []}
    told = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    script = [
        RESPONSES.response([thought, {"type": "function_call", "id": "fc", **made}]),
        RESPONSES.response([{**told, "content": [text]}]),
    ]
    async with loopback([Answer({**body, **rest, "usage": usage}) for body in script]) as server:
        provider = OpenAIProvider(base_url=f"{server.url}/v1", api_key=KEY)
        model = OpenAIResponsesModel("gpt-5", provider=provider)
        outcome = await play(PydanticAIModel(model, stream=False))
        second = server.requests[1].body
    assert outcome.answer == "done"
    assert outcome.usage == Usage(40, 10, cached_tokens=16)
    reasoning, called = second["input"][1:3]
    assert (reasoning["id"], reasoning["encrypted_content"]) == ("rs", "ENC")
    assert (called["id"], called["call_id"]) == ("fc", "a")


# ---------------------------------------------------------------- how replies end
@streams
async def test_nothing_of_a_reply_that_was_cut_off_is_run(stream: bool) -> None:
    """B24: no call of it, though it can be read; the model is told."""
    script = [
        CHAT.body("so", call("a", "look", '{"x": 1}'), stop="length"),
        CHAT.body("done"),
    ]
    async with loopback([said(body, stream=stream) for body in script]) as server:
        outcome = await play(bridge(server, stream=stream))
        (told,) = CHAT.results(server.requests[1].body)
    assert outcome.completed
    assert outcome.tool_calls == 0
    assert "cut off" in told[1]
    assert outcome.history[0].proposal.stop_reason == "length"


@streams
@pytest.mark.parametrize(
    "body",
    [
        CHAT.body(None, refusal="I will not."),
        CHAT.body("half a", stop="content_filter"),
    ],
    ids=["refusal", "content_filter"],
)
async def test_a_refusal_is_no_answer_and_is_charged(body: JSON, stream: bool) -> None:
    outcome = await failed(said(body, stream=stream), stream=stream)
    assert outcome.reason is Reason.MODEL_REFUSED
    assert outcome.usage == Usage(20, 5, cached_tokens=8)


# ---------------------------------------------------------------- errors
def error(status: int, code: str = "", message: str = "no", **headers: str) -> Answer:
    body = {"error": {"message": message, "code": code or None, "type": "error"}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(body, status=status, headers=named)


@streams
@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (error(400, "context_length_exceeded"), ModelErrorKind.CONTEXT_TOO_LONG),
        (error(400, message="maximum context length is 10"), ModelErrorKind.CONTEXT_TOO_LONG),
        (error(400, "content_policy_violation"), ModelErrorKind.REFUSED),
        (error(400, "content_filter"), ModelErrorKind.REFUSED),
        (error(400, "bad"), ModelErrorKind.PERMANENT),
        (error(401, "invalid_api_key", f"wrong key {KEY}"), ModelErrorKind.PERMANENT),
        (error(400, "bad_request", f"of key {KEY}"), ModelErrorKind.PERMANENT),
        (error(500, "server_error", f"for key {KEY}"), ModelErrorKind.TRANSIENT),
        (error(402), ModelErrorKind.PERMANENT),
        (error(403), ModelErrorKind.PERMANENT),
        (error(404, "model_not_found"), ModelErrorKind.PERMANENT),
        (error(429, "insufficient_quota"), ModelErrorKind.PERMANENT),
        (error(408), ModelErrorKind.TRANSIENT),
        (error(409), ModelErrorKind.TRANSIENT),
        (error(429), ModelErrorKind.RATE_LIMITED),
        (error(500), ModelErrorKind.TRANSIENT),
        (error(503), ModelErrorKind.TRANSIENT),
        (error(529), ModelErrorKind.TRANSIENT),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Answer) else None,
)
async def test_a_status_says_what_kind_of_failure_it_is(
    told: Answer, kind: ModelErrorKind, stream: bool
) -> None:
    """And the SDK does not try again by itself: there is one request."""
    async with loopback([told]) as server:
        model = bridge(server, stream=stream)
        with pytest.raises(ModelError) as caught:
            await ask(model)
        await model.aclose()
        assert len(server.requests) == 1
    assert caught.value.kind is kind
    assert KEY not in str(caught.value)


async def ask(model: PydanticAIModel) -> ModelReply:
    """Ask as the runtime does."""
    if model.stream is None:
        return await model.decide(request_of([]))
    async with aclosing(model.stream(request_of([]))) as pieces:
        async for piece in pieces:
            if isinstance(piece, ModelReply):
                return piece
    raise AssertionError("no reply")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry_after_ms": "1500"}, 1.5), ({"retry_after": "7"}, 7.0), ({}, None)],
)
async def test_what_the_provider_asks_to_wait_is_told(
    headers: dict[str, str], seconds: float | None
) -> None:
    async with loopback([error(429, **headers)]) as server:
        model = bridge(server)
        with pytest.raises(ModelError) as caught:
            await ask(model)
        await model.aclose()
    assert caught.value.retry_after == seconds


@streams
async def test_a_failure_that_may_pass_is_tried_again_by_the_runtime(stream: bool) -> None:
    script = [error(500), said(CHAT.body("ok"), stream=stream)]
    async with loopback(script) as server:
        outcome = await play(bridge(server, stream=stream))
    assert outcome.completed
    assert outcome.history[0].proposal.attempts == 2


HTML: Final = "<html>not here</html>"


@streams
@pytest.mark.parametrize(
    "told",
    [
        Answer(HTML, headers={"content-type": "text/html"}),
        Answer('{"id": "r", "choices"'),
        Answer(CHAT.body("Hello"), cut=True),
    ],
    ids=["html", "garbage", "cut"],
)
async def test_what_cannot_be_read_is_a_failure_and_nothing_else(
    told: Answer, stream: bool
) -> None:
    async with loopback([told, told]) as server:
        outcome = await play(bridge(server, stream=stream))
    assert outcome.reason is Reason.MODEL_ERROR
    assert outcome.steps == 0


@pytest.mark.parametrize("pieces", [3, 6])
async def test_half_a_stream_is_no_reply(pieces: int) -> None:
    """Whether the line went dead in the middle of the text, or of a call."""
    events = CHAT.events(CHAT.body("Hello", call("a", "look", '{"x": 1}')))[:pieces]
    script = [Answer(events, cut=True), said(CHAT.body("ok"), stream=True)]
    async with loopback(script) as server:
        outcome = await play(bridge(server))
    assert outcome.answer == "ok"
    assert outcome.tool_calls == 0
    assert outcome.history[0].proposal.attempts == 2


async def test_a_stream_without_an_end_is_no_reply_where_the_provider_always_sends_one() -> None:
    """Some servers never say why a reply ended, so `pydantic-ai` has to be told that this one does."""
    begun = Answer(CHAT.events(CHAT.body("Hello"))[:3])
    strict: Any = {"openai_chat_streaming_requires_finish_reason": True}
    async with loopback([begun, said(CHAT.body("ok"), stream=True)]) as server:
        provider = OpenAIProvider(base_url=f"{server.url}/v1", api_key=KEY)
        model = OpenAIChatModel("gpt-test", provider=provider, profile=strict)
        outcome = await play(PydanticAIModel(model))
    assert outcome.answer == "ok"


async def test_an_error_inside_a_stream_is_a_failure() -> None:
    begun = CHAT.events(CHAT.body("Hello"))[:3]
    fault = {"error": {"message": "overloaded", "type": "server_error", "code": None}}
    async with loopback(
        [Answer([*begun, *sse(fault)]), said(CHAT.body("ok"), stream=True)]
    ) as server:
        outcome = await play(bridge(server))
    assert outcome.answer == "ok"


async def test_a_server_that_says_nothing_is_left_in_time() -> None:
    async with loopback([Answer(hang=True), Answer(hang=True)]) as server:
        outcome = await play(bridge(server, timeout=0.2))
        async with asyncio.timeout(5):
            await server.gone.wait()
    assert outcome.reason is Reason.MODEL_ERROR


async def test_a_server_that_is_not_there_is_a_failure() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = Loopback([])
        nowhere.url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        outcome = await play(bridge(nowhere))
    assert outcome.reason is Reason.MODEL_ERROR
    assert outcome.cause is not None
    assert KEY not in outcome.cause


# ---------------------------------------------------------------- connections
@streams
async def test_a_cancelled_request_closes_its_connection(stream: bool) -> None:
    body: Any = CHAT.events(CHAT.body("Hello"))[:3] if stream else None
    asked = asyncio.Event()

    def hang(_: object) -> Answer:
        asked.set()
        return Answer(body, hang=True)

    async with loopback(hang) as server, asyncio.timeout(10):
        model = bridge(server, stream=stream)
        asking = asyncio.create_task(ask(model))
        await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.gone.wait()
        await model.aclose()


def test_it_works_in_one_loop_after_another() -> None:
    """The client that `pydantic-ai` makes belongs to a loop: it is renewed with the runtime."""
    opened, done = Queue[tuple[Loopback, asyncio.AbstractEventLoop]](), asyncio.Event()

    async def serve() -> None:
        async with loopback(lambda _: said(CHAT.body("ok"), stream=True)) as server:
            opened.put((server, asyncio.get_running_loop()))
            await done.wait()

    serving = Thread(target=asyncio.run, args=(serve(),))
    serving.start()
    server, loop = opened.get(timeout=5)
    try:
        model = bridge(server)
        for _ in range(3):
            assert asyncio.run(play(model)).answer == "ok"
    finally:
        loop.call_soon_threadsafe(done.set)
        serving.join()


async def test_a_client_that_was_given_stays_open() -> None:
    async with (
        loopback([said(CHAT.body("ok"), stream=True)]) as server,
        AsyncOpenAI(api_key=KEY, base_url=f"{server.url}/v1") as client,
    ):
        provider = OpenAIProvider(openai_client=client)
        await play(PydanticAIModel(OpenAIChatModel("gpt-test", provider=provider)))
        assert not client.is_closed()


# ---------------------------------------------------------------- without the extra
def test_importing_the_bridge_imports_no_sdk() -> None:
    code = "import sys, loopwright.adapters.pydantic_ai; print(*sys.modules)"
    shown = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {"pydantic_ai", "openai"} & set(shown)
