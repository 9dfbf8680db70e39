"""Claude over real sockets, through the real SDK and a real runtime: all that can come, and go wrong."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import pytest
from pydantic import BaseModel
from wire.claude import FOUND, SEARCH, THOUGHT, events, message, text, use
from wire.decisions import request_of
from wire.loopback import Answer, Heard, Loopback, Script, loopback, sse

from loopwright import Agent, FallbackChain, Final, Outcome, Policy, Reason, Runtime, tool
from loopwright.adapters.anthropic import AnthropicModel
from loopwright.policy import Retry
from loopwright.protocol import (
    ConfigurationError,
    LiveText,
    ModelAttempted,
    ModelError,
    ModelErrorKind,
    ModelReply,
    Record,
    TextDelta,
    ToolCalls,
    TurnCommitted,
    Usage,
    encode_record,
)
from loopwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

SOON = Policy(retry=Retry(max_attempts=3, first=0.001, longest=0.002))
OVER = Answer({"error": {"message": "the script is over"}}, status=418)
BOTH = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@tool(effect="read")
async def look(n: int = 0) -> str:
    return f"seen {n}"


def model(server: Loopback | str, **fields: Any) -> AnthropicModel:
    url = server if isinstance(server, str) else server.url
    fields = {"api_key": "sk-secret", **fields}
    return AnthropicModel("claude-test", base_url=url, **fields)


def said(body: dict[str, Any]) -> Any:
    """Answer in the form that was asked for."""

    def answer(heard: Heard) -> Answer:
        return Answer(sse(*events(body), names=True) if heard.body.get("stream") else body)

    return answer


def script(*answers: Any) -> Script:
    left = iter(answers)

    def next_answer(heard: Heard) -> Answer:
        answer = next(left, OVER)
        return answer if isinstance(answer, Answer) else answer(heard)

    return next_answer


@dataclass(frozen=True, slots=True)
class Played:
    outcome: Outcome
    records: Sequence[Record]
    heard: Sequence[Heard]

    @property
    def attempts(self) -> list[ModelAttempted]:
        return [record for record in self.records if isinstance(record, ModelAttempted)]

    @property
    def turns(self) -> list[TurnCommitted]:
        return [record for record in self.records if isinstance(record, TurnCommitted)]


async def play(*answers: Any, policy: Policy = SOON, output: Any = None, **fields: Any) -> Played:
    """Run one invocation to its rest against a server with a script."""
    async with loopback(script(*answers)) as server:
        desk = Agent(
            "desk",
            instructions="Do it.",
            model=model(server, **fields),
            tools=[look],
            policy=policy,
            output=output,
        )
        async with Runtime([desk]) as runtime:
            outcome = await runtime.run("desk", "the goal")
            records = [r async for r in runtime.get(outcome.invocation_id).events()]
        return Played(outcome, records, tuple(server.requests))


async def failing(*answers: Any, **fields: Any) -> ModelError:
    """Ask once for what cannot be answered."""
    async with loopback(script(*answers)) as server:
        asked = model(server, **fields)
        try:
            with pytest.raises(ModelError) as raised:
                await asked.decide(request_of([]))
        finally:
            await asked.aclose()
    return raised.value


# ---------------------------------------------------------------- replies
@BOTH
async def test_a_call_its_result_and_an_answer(stream: bool) -> None:
    calling = message(text("I look."), use("a", "look", {"n": 3}), stop="tool_use")
    played = await play(said(calling), said(message(text("done"))), stream=stream)
    assert (played.outcome.reason, played.outcome.answer) == (Reason.COMPLETED, "done")
    assert played.outcome.usage == Usage(40, 10)
    first, last = played.turns
    assert (first.proposal.stop_reason, last.proposal.stop_reason) == ("tool_use", "end_turn")
    assert (first.proposal.model, first.proposal.response_id) == ("claude-test-1", "msg_1")
    one, other = played.heard
    assert one.path == "/v1/messages"
    assert one.headers["x-api-key" if "x-api-key" in one.headers else "authorization"]
    assert one.body["model"] == "claude-test"
    assert one.body.get("stream", False) is stream
    assert one.body["system"][0]["text"] == "Do it."
    assistant, user = other.body["messages"][1:]
    assert assistant["content"][1] == use("a", "look", {"n": 3})
    assert user["content"][0]["content"] == "seen 3"


@BOTH
async def test_calls_beside_one_another(stream: bool) -> None:
    calling = message(use("a", "look", {"n": 1}), use("b", "look", {"n": 2}), stop="tool_use")
    played = await play(said(calling), said(message(text("done"))), stream=stream)
    results = played.heard[1].body["messages"][2]["content"]
    assert [(r["tool_use_id"], r["content"]) for r in results] == [("a", "seen 1"), ("b", "seen 2")]


class Settled(BaseModel):
    n: int


@BOTH
@pytest.mark.parametrize("structured", [True, False])
async def test_an_answer_with_a_type(stream: bool, structured: bool) -> None:
    answer = {"answer": "done", "output": {"n": 7}}
    whole = message(text('{"answer": "done", "output": {"n": 7}}'))
    called = message(use("f", "final_answer", answer), stop="tool_use")
    reply = said(whole if structured else called)
    played = await play(reply, output=Settled, stream=stream, structured_output=structured)
    assert (played.outcome.answer, played.outcome.output) == ("done", {"n": 7})
    assert ("output_config" in played.heard[0].body) is structured


@BOTH
async def test_thinking_is_sent_back_and_shown_to_nobody(stream: bool) -> None:
    """It is kept with its turn, for the model alone."""
    calling = message(THOUGHT, use("a", "look", {"n": 1}), stop="tool_use")
    played = await play(said(calling), said(message(text("done"))), stream=stream)
    assert played.heard[1].body["messages"][1]["content"] == [THOUGHT, use("a", "look", {"n": 1})]
    first = played.turns[0]
    assert "secret plan" in encode_record(first).decode()
    assert isinstance(first.proposal.decision, ToolCalls)
    assert "secret plan" not in repr((first.proposal.decision, played.outcome.answer))


async def test_a_reply_is_heard_while_it_comes() -> None:
    async with loopback(script(said(message(THOUGHT, text("Hello, you."))))) as server:
        asked = model(server)
        assert asked.stream is not None
        pieces = [piece async for piece in asked.stream(request_of([]))]
        await asked.aclose()
    *deltas, last = pieces
    assert [d.text for d in deltas if isinstance(d, TextDelta)] == ["Hell", "o, y", "ou."]
    assert isinstance(last, ModelReply)
    assert last.decision == Final("Hello, you.")


async def test_watchers_hear_it_through_the_runtime() -> None:
    listening = asyncio.Event()

    @tool(effect="read")
    async def hold() -> None:
        await listening.wait()

    holding = said(message(use("a", "hold"), stop="tool_use"))
    async with loopback(script(holding, said(message(text("Hello, you."))))) as server:
        desk = Agent("desk", model=model(server), tools=[hold])
        async with Runtime([desk]) as runtime:
            run = await runtime.start("desk", "the goal")
            heard: list[str] = []
            async for event in run.events(live=True):
                listening.set()
                heard += [event.text] if isinstance(event, LiveText) else []
    assert "".join(heard) == "Hello, you."


@BOTH
@pytest.mark.parametrize("stop", ["stop_sequence", "brand_new", None])
async def test_a_reply_stands_whatever_the_word_for_its_end(stream: bool, stop: str | None) -> None:
    played = await play(said(message(text("done"), stop=stop)), stream=stream)
    assert played.outcome.answer == "done"
    assert played.turns[0].proposal.stop_reason == (stop or "")


@BOTH
async def test_a_reply_that_was_cut_off_is_asked_for_again(stream: bool) -> None:
    cut = message(text("The ans"), stop="max_tokens")
    played = await play(said(cut), said(message(text("done"))), stream=stream)
    assert played.outcome.answer == "done"
    *_, last = played.heard[1].body["messages"]
    assert "cut off (max_tokens)" in last["content"][-1]["text"]


@BOTH
async def test_a_refusal_ends_it(stream: bool) -> None:
    played = await play(said(message(stop="refusal")), stream=stream)
    assert played.outcome.reason is Reason.MODEL_REFUSED
    assert len(played.heard) == 1
    assert played.outcome.usage == Usage(20, 5)


@BOTH
async def test_a_full_window_is_left_to_a_larger_one(stream: bool) -> None:
    full = message(text("half"), stop="model_context_window_exceeded")
    async with loopback(script(said(full))) as server:
        large = ScriptedModel([Final("done")])
        large.context_window = 10**6  # type: ignore[attr-defined]
        chain = FallbackChain([model(server, stream=stream, context_window=10_000), large])
        async with Runtime([Agent("desk", model=chain)]) as runtime:
            outcome = await runtime.run("desk", "the goal")
    assert outcome.answer == "done"


# ---------------------------------------------------------------- pauses
@BOTH
async def test_a_paused_reply_goes_on_and_is_charged_as_a_whole(stream: bool) -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    paused = message(text("I search. "), SEARCH, stop="pause_turn", container={"id": "c1"})
    played = await play(
        said(paused),
        said(message(FOUND, text("Found."))),
        stream=stream,
        options={"tools": [search]},
    )
    assert played.outcome.answer == "I search. Found."
    assert played.outcome.usage == Usage(40, 10)
    one, other = played.heard
    assert one.body["tools"][-1] == search
    *before, last = other.body["messages"]
    assert before == one.body["messages"]
    assert last == {"role": "assistant", "content": [text("I search. "), SEARCH]}
    assert other.body["container"] == "c1"
    assert len(played.turns) == 1


@BOTH
async def test_a_reply_that_pauses_for_ever_is_given_up_and_charged(stream: bool) -> None:
    error = await failing(*[said(message(SEARCH, stop="pause_turn"))] * 9, stream=stream)
    assert error.kind is ModelErrorKind.TRANSIENT
    assert error.usage == Usage(180, 45)


@BOTH
async def test_parts_before_a_failure_are_charged(stream: bool) -> None:
    paused = said(message(SEARCH, stop="pause_turn"))
    busy = Answer({"error": {"type": "rate_limit_error"}}, 429, {"retry-after": "7"})
    error = await failing(paused, busy, stream=stream)
    assert error.kind is ModelErrorKind.RATE_LIMITED
    assert (error.retry_after, error.usage) == ("7", Usage(20, 5))
    error = await failing(
        paused, Answer("<html>", headers={"content-type": "text/html"}), stream=stream
    )
    assert (error.kind, error.usage) == (ModelErrorKind.TRANSIENT, Usage(20, 5))


# ---------------------------------------------------------------- failures
def problem(kind: str, about: str = "x") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": about}, "request_id": "r"}


TOO_LONG = problem("invalid_request_error", "prompt is too long: 201000 tokens > 200000 maximum")


@BOTH
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(TOO_LONG, 400), ModelErrorKind.CONTEXT_TOO_LONG),
        (Answer(problem("request_too_large"), 413), ModelErrorKind.CONTEXT_TOO_LONG),
        (Answer(problem("invalid_request_error"), 400), ModelErrorKind.PERMANENT),
        (Answer(problem("authentication_error"), 401), ModelErrorKind.PERMANENT),
        (Answer(problem("permission_error"), 403), ModelErrorKind.PERMANENT),
        (Answer(problem("not_found_error"), 404), ModelErrorKind.PERMANENT),
    ],
    ids=["too long", "413", "400", "401", "403", "404"],
)
async def test_what_another_attempt_would_not_change(
    stream: bool, answer: Answer, kind: ModelErrorKind
) -> None:
    played = await play(answer, stream=stream)
    assert played.outcome.reason is Reason.MODEL_ERROR
    assert len(played.heard) == 1, "the SDK tries nothing again by itself"
    assert [attempt.category for attempt in played.attempts] == [kind]
    assert "sk-secret" not in repr(played.records)


CUT = sse(*events(message(text("Hello, you.")))[:4], names=True)
CUT_CALL = sse(*events(message(use("a", "look", {"n": 12345}), stop="tool_use"))[:5], names=True)
OVERLOADED = sse(
    *events(message(text("Hello")))[:4],
    {"type": "error", **problem("overloaded_error")},
    names=True,
)
LIMITED = sse({"type": "error", **problem("rate_limit_error")}, names=True)
HTML = Answer("<html>Bad Gateway</html>", headers={"content-type": "text/html"})

TRANSIENT: dict[str, tuple[Answer, str]] = {
    "408": (Answer(problem("timeout_error"), 408), "transient"),
    "429 ms": (
        Answer(problem("rate_limit_error"), 429, {"retry-after-ms": "3", "retry-after": "900"}),
        "rate_limited",
    ),
    "429": (Answer(problem("rate_limit_error"), 429, {"retry-after": "0.002"}), "rate_limited"),
    "500": (Answer(problem("api_error"), 500), "transient"),
    "529": (Answer(problem("overloaded_error"), 529), "transient"),
    "503 html": (Answer("<html>", 503, {"content-type": "text/html"}), "transient"),
    "html": (HTML, "transient"),
    "garbage": (Answer('{"id": "msg_1", "content": [{"ty'), "transient"),
    "other json": (Answer({"hello": "you"}), "transient"),
    "half a body": (Answer(message(text("x" * 500)), cut=True), "transient"),
}
IN_STREAM: dict[str, tuple[Answer, str]] = {
    "cut in a text": (Answer(CUT, cut=True), "transient"),
    "ended in a text": (Answer(CUT), "transient"),
    "cut in a call": (Answer(CUT_CALL, cut=True), "transient"),
    "ended in a call": (Answer(CUT_CALL), "transient"),
    "nothing": (Answer([]), "transient"),
    "overloaded": (Answer(OVERLOADED), "transient"),
    "limited": (Answer(LIMITED), "rate_limited"),
    "garbage": (Answer(["event: message_start\ndata: {nope\n\n"]), "transient"),
    "no object": (Answer(["event: message_start\ndata: 5\n\n"]), "transient"),
}


@BOTH
@pytest.mark.parametrize(("answer", "kind"), TRANSIENT.values(), ids=TRANSIENT)
async def test_what_may_work_in_a_moment_is_tried_again(
    stream: bool, answer: Answer, kind: str
) -> None:
    played = await play(answer, said(message(text("done"))), stream=stream)
    assert played.outcome.answer == "done"
    assert [attempt.category for attempt in played.attempts] == [kind]
    assert len(played.heard) == 2


@pytest.mark.parametrize(("answer", "kind"), IN_STREAM.values(), ids=IN_STREAM)
async def test_half_a_stream_is_no_reply(answer: Answer, kind: str) -> None:
    """Nothing of it is run or said; the next attempt begins anew."""
    played = await play(answer, said(message(text("done"))))
    assert played.outcome.answer == "done"
    assert [attempt.category for attempt in played.attempts] == [kind]
    assert len(played.turns) == 1


async def test_what_came_of_half_a_stream_is_charged() -> None:
    for answer in (Answer(CUT, cut=True), Answer(CUT), Answer(OVERLOADED)):
        error = await failing(answer)
        assert (error.kind, error.usage) == (ModelErrorKind.TRANSIENT, Usage(20, 1))


async def test_a_stream_that_is_cut_after_its_end_has_ended() -> None:
    played = await play(Answer(sse(*events(message(text("done"))), names=True), cut=True))
    assert (played.outcome.answer, len(played.heard)) == ("done", 1)


@BOTH
async def test_nobody_listens(stream: bool) -> None:
    async with loopback([]) as server:
        url = server.url
    async with Runtime([Agent("desk", model=model(url, stream=stream), policy=SOON)]) as runtime:
        outcome = await runtime.run("desk", "the goal")
    assert outcome.reason is Reason.MODEL_ERROR
    assert "Connection" in str(outcome.cause)


@pytest.mark.parametrize(
    ("where", "told"), [("HOME", "has no key"), ("ANTHROPIC_CONFIG_DIR", "Config file not found")]
)
def test_without_a_key_it_is_refused_when_it_is_made(
    where: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(where, str(tmp_path))
    with pytest.raises(ConfigurationError, match=told):
        AnthropicModel("claude-test")


async def test_the_key_of_the_environment_is_not_for_a_server_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-somebody")
    played = await play(said(message(text("done"))), api_key=None)
    assert played.outcome.answer == "done"
    assert "sk-of-somebody" not in str(played.heard)


def test_a_url_that_leads_nowhere_is_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigurationError, match="begin it with http"):
        AnthropicModel("claude-test", base_url="127.0.0.1:8000", api_key="k")


HANGS = {
    "silent": (False, Answer(hang=True)),
    "silent stream": (True, Answer(hang=True)),
    "begun": (True, Answer(sse(*events(message(text("Hello")))[:4], names=True), hang=True)),
}


@pytest.mark.parametrize(("stream", "answer"), HANGS.values(), ids=HANGS)
async def test_a_hang_is_left_after_the_timeout(stream: bool, answer: Answer) -> None:
    played = await play(answer, said(message(text("done"))), stream=stream, timeout=0.2)
    assert played.outcome.answer == "done"
    assert [attempt.category for attempt in played.attempts] == ["transient"]


@pytest.mark.parametrize(("stream", "answer"), HANGS.values(), ids=HANGS)
async def test_who_is_cancelled_hangs_up(stream: bool, answer: Answer) -> None:
    """The server sees the client go, and no longer makes what nobody wants."""
    asked_for = asyncio.Event()

    def hang(_: Heard) -> Answer:
        asked_for.set()
        return answer

    async with loopback(hang) as server:
        asked = model(server, stream=stream)
        call = asyncio.create_task(asked.decide(request_of([])))
        await asyncio.wait_for(asked_for.wait(), 5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(server.gone.wait(), 5)
        await asked.aclose()


async def test_who_stops_listening_hangs_up() -> None:
    begun = sse(*events(message(text("Hello, you.")))[:4], names=True)
    async with loopback([Answer(begun, hang=True)]) as server:
        asked = model(server)
        assert asked.stream is not None
        async with aclosing(asked.stream(request_of([]))) as pieces:
            async for piece in pieces:
                assert piece == TextDelta("Hell")
                break
        await asyncio.wait_for(server.gone.wait(), 5)
        await asked.aclose()


# ---------------------------------------------------------------- how it is made
async def test_a_client_of_ones_own_is_used_and_left_open() -> None:
    """It tries nothing again either: that is the runtime's."""
    async with (
        loopback(script(Answer({}, 500), said(message(text("done"))))) as server,
        anthropic.AsyncAnthropic(api_key="mine", base_url=server.url) as client,
    ):
        asked = AnthropicModel("claude-test", client=client)
        with pytest.raises(anthropic.InternalServerError):
            await asked.decide(request_of([]))
        assert (await asked.decide(request_of([]))).decision == Final("done")
        await asked.aclose()
        assert not client.is_closed()
        assert client.max_retries == 2


async def test_a_model_that_was_closed_can_be_asked_again() -> None:
    """As a runtime can be entered again."""
    async with loopback(script(*[said(message(text("done")))] * 2)) as server:
        asked = model(server)
        for _ in range(2):
            assert (await asked.decide(request_of([]))).decision == Final("done")
            await asked.aclose()


def test_what_it_is_says_nothing_secret() -> None:
    made = AnthropicModel("claude-test", api_key="sk-secret", name="mine", context_window=5)
    assert repr(made) == "<AnthropicModel mine>"
    assert (made.name, made.context_window, made.timeout) == ("mine", 5, 300.0)
    assert AnthropicModel("claude-test", api_key="k", stream=False).stream is None


def test_a_limit_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_tokens is 0"):
        AnthropicModel("claude-test", max_tokens=0)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'loopwright\[anthropic\]'"):
        AnthropicModel("claude-test")


def test_importing_it_imports_no_sdk() -> None:
    code = "import sys, loopwright.adapters.anthropic; print(*sys.modules)"
    shown = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {"anthropic", "httpx2", "httpx"} & set(shown)
