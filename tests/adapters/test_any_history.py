"""Whatever a journal holds, and whoever is asked next: each request is one its provider takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st
from wire import claude
from wire.decisions import request_of, turn_of
from wire.gpt import AT_ONCE, CHAT, RESPONSES
from wire.loopback import Answer, Heard, Loopback, loopback, sse
from wire.rules import check_chat, check_claude, check_responses

from loopwright import Agent, Clarification, FallbackChain, Runtime, ToolCalls, tool
from loopwright.adapters import AnthropicModel
from loopwright.adapters.anthropic._reply import body_of
from loopwright.adapters.anthropic._reply import reply_of as claude_reply
from loopwright.adapters.anthropic._request import prepared
from loopwright.adapters.anthropic._settings import Settings as ClaudeSettings
from loopwright.adapters.openai._model import Settings
from loopwright.adapters.openai.chat._reply import reply_of as chat_reply
from loopwright.adapters.openai.chat._request import payload_of as chat_payload
from loopwright.adapters.openai.responses._reply import reply_of as responses_reply
from loopwright.adapters.openai.responses._request import payload_of as responses_payload
from loopwright.protocol import (
    ErrorCategory,
    Fault,
    Final,
    JsonObject,
    JsonValue,
    Malformed,
    ModelError,
    ModelReply,
    ModelRequest,
    Proposal,
    Reason,
    ResultStatus,
    ToolError,
    ToolResult,
    Turn,
    TurnCommitted,
    Usage,
    calls_of,
    parse_call,
)
from loopwright.stores import SQLiteStore

CHAT_BY, RESPONSES_BY, CLAUDE_BY = "openai_chat:m", "openai_responses:m", "anthropic:m"
IDS = st.sampled_from(
    ["a", "b", "", "look", "call_1", "x" * 40, "x" * 41, "with space", "ü", "\n", None, 5]
)
NAMES = st.sampled_from(
    [
        *("look", "look", "write", "no name!", "n" * 65, "", None),
        *("ask_user", "cannot_continue", "request_approval", "hand_over", "final_answer"),
    ]
)
ARGUMENTS = st.sampled_from(
    [
        *("{}", '{"n":1}', '{"question":"?"}', '{"reason":"r"}', '{"code":"c","reason":"r"}'),
        *('{"target":"billing"}', '{"answer":"a","output":{"n":1}}', '{"a":', "", "null", "[1]"),
    ]
)
TEXTS = st.sampled_from(["", "  ", "\n", "hi", '{"answer":"x","output":{"n":1}}', "ü\u2028"])
CALLS = st.lists(st.tuples(IDS, NAMES, ARGUMENTS), max_size=3)
THOUGHT: dict[str, Any] = {"type": "reasoning", "summary": [], "encrypted_content": "e"}


def use(call: tuple[object, object, object]) -> claude.Block:
    call_id, name, arguments = call
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


@st.composite
def replies(draw: st.DrawFn, request: ModelRequest) -> ModelReply:
    """Draw what one of three providers, or a model of somebody's own, replies."""
    calls, text = draw(CALLS), draw(TEXTS)
    cut, thinks = draw(st.booleans()), draw(st.booleans())
    try:
        match draw(st.sampled_from(("chat", "responses", "claude", "own"))):
            case "chat":
                body = CHAT.body(text, *calls, stop="length" if cut else "")
                message = body["choices"][0]["message"]
                if thinks:
                    message["reasoning_content"] = "hm"
                    for call in message.get("tool_calls", ()):
                        call["extra_content"] = {"signed": 1}
                return chat_reply(body, request, CHAT_BY)
            case "responses":
                items = RESPONSES.body(text, *calls)["output"]
                items = [*draw(st.permutations(items)), *([THOUGHT] if thinks else [])]
                at = draw(st.integers(0, len(items)))
                items.insert(at, {**THOUGHT, "id": "rs"})
                why = {"incomplete_details": {"reason": "max_output_tokens"}} if cut else {}
                return responses_reply(RESPONSES.response(items, **why), request, RESPONSES_BY)
            case "claude":
                blocks = [claude.text(text), *(use(call) for call in calls)]
                if thinks:
                    blocks = [claude.THOUGHT, *blocks, claude.SEARCH, claude.FOUND, claude.THOUGHT]
                body = claude.message(*blocks, stop="max_tokens" if cut else "end_turn")
                return claude_reply(body_of(body), request, CLAUDE_BY, "")
            case _:
                made = tuple(parse_call(str(c[0]), str(c[1]), c[2]) for c in calls)
                return ModelReply(ToolCalls(made, text) if made else Final(text))
    except ModelError:
        return ModelReply(Malformed("a refusal", text))


@st.composite
def histories(draw: st.DrawFn, *, output: bool) -> list[Turn]:
    """Draw turns as the runtime commits them."""
    found: list[Turn] = []
    for number in range(1, draw(st.integers(1, 5)) + 1):
        reply = draw(replies(request_of(found, output=output)))
        decision = cast("Any", reply.decision)
        ids = [call.call_id for call in calls_of(decision)]
        fault, results = None, list[ToolResult]()
        blank = isinstance(decision, Final) and not decision.answer.strip()
        if isinstance(decision, Malformed) or blank or len(set(ids)) < len(ids):
            fault = Fault("decision", "no")
        elif isinstance(decision, Final):
            fault = Fault("answer", "no")
        else:
            fault = Fault("call", "no") if draw(st.booleans()) else None
            for call in calls_of(decision):
                error = draw(st.none() | st.just(ToolError(ErrorCategory.INTERNAL, "K", "")))
                status = ResultStatus.OK if error is None else ResultStatus.ERROR
                outputs: list[JsonValue] = ["", " ", "x", {"a": 1}]
                value = None if error is not None else draw(st.sampled_from(outputs))
                results.append(ToolResult(call.call_id, call.tool_name, status, value, error))
        proposal = Proposal(decision, Usage(1, 1), replay=reply.replay)
        record = TurnCommitted(number, proposal, tuple(results), 0, 0.0, 0.0, fault)
        asked = isinstance(decision, Clarification) and fault is None
        answer = draw(st.sampled_from([None, "", "yes"])) if asked else None
        found.append(turn_of(record, draw(st.sampled_from([None, "soon"])), answer))
    return found


@limits(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.booleans(), st.booleans())
def test_every_provider_takes_what_any_history_is_told_as(
    data: st.DataObject, output: bool, bare: bool
) -> None:
    """Odd and repeated ids, names and decisions, cut and refused replies, of whichever provider."""
    history = data.draw(histories(output=output))
    request = request_of(history, output=output)
    if bare:
        request = replace(request, tools=(), goal=" ", notice="Stop.")
    for structured in (True, False):
        settings = Settings("m", CHAT_BY, structured, {}, "n")
        check_chat(chat_payload(request, settings, stream=True))
        settings = Settings("m", RESPONSES_BY, structured, {}, "n")
        check_responses(responses_payload(request, settings, stream=True))
        for kind in ("adaptive", "enabled"):
            thinking: JsonObject = {"type": kind, "budget_tokens": 1_024}
            own = ClaudeSettings("m", 8_192, structured, options={"thinking": thinking})
            check_claude(prepared(request, own).payload)


def test_a_provider_is_shown_all_calls_of_a_reply_whatever_they_are_named() -> None:
    """A cut reply may have two calls of one reserved name; both have results (B24)."""
    asked = ('{"question":"A?"}', '{"question":"B?"}')
    uses = [claude.use(f"c{index}", "ask_user", text) for index, text in enumerate(asked)]
    reply = claude_reply(
        body_of(claude.message(*uses, stop="max_tokens")), request_of([]), CLAUDE_BY, ""
    )
    assert isinstance(reply.decision, ToolCalls)
    results = tuple(
        ToolResult(call.call_id, call.tool_name, ResultStatus.INVALID_ARGUMENTS)
        for call in reply.decision.calls
    )
    proposal = Proposal(reply.decision, Usage(1, 1), replay=reply.replay)
    turn = turn_of(TurnCommitted(1, proposal, results, 0, 0.0, 0.0))
    payload = prepared(request_of([turn]), ClaudeSettings("m", 100)).payload
    check_claude(payload)
    shown = cast("Any", payload["messages"])[1]["content"]
    assert [block["id"] for block in shown] == ["c0", "c1"]


# ---------------------------------------------------------------- real runs
@tool(effect="read")
async def look(n: int = 0) -> str:
    """Look."""
    return f"seen {n}"


@tool(effect="read")
async def fail() -> str:
    """Fail."""
    raise ValueError("no")


STEPS: list[tuple[str, list[tuple[object, object, object]]]] = [
    ("", [("look", "look", '{"n":1}'), ("look", "look", '{"n":2}')]),
    ("Hm.", [("x" * 60, "look", "{}"), ("", "fail", "{}")]),
    (" ", [("a", "look", '{"n":'), ("b", "nothing", "{}")]),
    ("", [("a", "look", "{}"), ("c", "hand_over", '{"target":"other","reason":"r"}')]),
    ("", [("a", "look", "{}")]),
    ("", [("a", "ask_user", '{"question":"?"}')]),
    ("", [("a", "look", "{}")]),
    ("done", []),
]


class Providers:
    """Three of them behind one server: whoever is up decides the next step, the others are down."""

    def __init__(self) -> None:
        self.step = 0
        self.sent: list[str] = []
        """What was asked, in writing, each once it was checked."""

    def __call__(self, heard: Heard) -> Answer:
        kind, check = KINDS[heard.path]
        check(heard.body)
        if kind != ("chat", "claude", "responses")[self.step % 3]:
            return Answer({"error": {"message": "down"}}, status=503)
        self.sent.append(json.dumps(heard.body))
        text, calls = STEPS[self.step]
        self.step += 1
        if kind == "claude":
            uses = map(use, calls)
            body = claude.message(claude.THOUGHT, claude.text(text), *uses)
            return Answer(sse(*claude.events(body), names=True))
        if kind == "chat":
            return Answer(CHAT.events(CHAT.body(text, *calls)))
        body = RESPONSES.body(text, *calls)
        return Answer(RESPONSES.events({**body, "output": [THOUGHT, *body["output"]]}))


KINDS: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    CHAT.path: ("chat", check_chat),
    RESPONSES.path: ("responses", check_responses),
    "/v1/messages": ("claude", check_claude),
}


def agents(server: Loopback) -> list[Agent]:
    chain = FallbackChain(
        [
            CHAT.model(server, name="one"),
            AnthropicModel("m", api_key="k", base_url=server.url, name="two"),
            RESPONSES.model(server, name="three"),
        ]
    )
    first = Agent("desk", model=chain, tools=[look, fail], handoffs=["other"], policy=AT_ONCE)
    return [first, Agent("other", model=chain, tools=[look], policy=AT_ONCE)]


@pytest.mark.anyio
async def test_a_chain_goes_from_provider_to_provider_in_the_middle_of_a_task(
    tmp_path: Path,
) -> None:
    """Every request on the way is one its provider takes; who resumes elsewhere sends the same."""
    path = tmp_path / "agents.db"
    providers = Providers()
    async with loopback(providers) as server:
        async with Runtime(agents(server), store=SQLiteStore(path)) as runtime:
            outcome = await runtime.run("desk", "the goal")
            assert outcome.reason is Reason.CLARIFICATION_REQUIRED
        async with Runtime(agents(server), store=SQLiteStore(path)) as runtime:
            run = await runtime.answer(outcome.invocation_id, "yes", by="ana")
            outcome = await run.outcome()
    assert outcome.reason is Reason.COMPLETED
    assert outcome.answer == "done"
    before, after = json.loads(providers.sent[3]), json.loads(providers.sent[6])
    assert after["messages"][1 : len(before["messages"])] == before["messages"][1:]
