"""A runtime with a redactor: what it masks is in no file, trace, log or outcome, nor is a model shown it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import cast

import anyio
import pytest

from loopwright import (
    Agent,
    Clarification,
    Final,
    ModelReply,
    ModelRequest,
    Outcome,
    Policy,
    Runtime,
    ToolCall,
    ToolCalls,
    ToolFailure,
    tool,
)
from loopwright.actors import AnyTool, JsonLines, RunObserver
from loopwright.policy import Access, Ask, Deny, Judgement, Place, Redactor, Retry
from loopwright.protocol import (
    UNSETTLED,
    CallId,
    JsonObject,
    JsonValue,
    ModelError,
    RawDecision,
    Reason,
    Usage,
)
from loopwright.stores import SQLiteStore
from loopwright.testing import VirtualClock, settle

SECRET = "hunter2"
CARD = "4111 1111 1111 1111"


def mask(value: JsonValue, place: Place) -> JsonValue:
    if isinstance(value, str):
        return value.replace(SECRET, "***")
    if isinstance(value, list):
        return [mask(item, place) for item in value]
    if isinstance(value, dict):
        return {cast("str", mask(key, place)): mask(item, place) for key, item in value.items()}
    return value


class Model:
    """Replies with these decisions; raises an exception among them. Keeps what it was shown."""

    def __init__(self, *steps: RawDecision | Exception) -> None:
        self._steps = list(steps)
        self.shown: list[str] = []

    async def decide(self, request: ModelRequest) -> ModelReply:
        turns = [turn.body.decode() for turn in request.history]
        self.shown.append(repr((request.goal, request.metadata, request.notice, turns)))
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return ModelReply(step, Usage(1, 1))


@tool(effect="read")
def look(where: str) -> JsonObject:
    """Look something up."""
    return {"found": f"{SECRET} in {where}", SECRET: [SECRET]}


@tool(effect="read")
def fail() -> None:
    """Fail."""
    raise ToolFailure(f"no access with {SECRET}")


@tool(effect="idempotent")
def write() -> str:
    """Write."""
    return f"written with {SECRET}"


@tool(effect="idempotent", dispatch="outbox")
def send() -> str:
    """Send."""
    return f"sent with {SECRET}"


@tool(effect="manual")
def wipe() -> None:
    """Wipe."""


def rules(access: Access) -> Judgement | None:
    if access.tool == "wipe":
        return Deny(f"nobody but {SECRET} may")
    return Ask(f"is it {SECRET}?") if access.tool == "write" else None


def call(name: str, **arguments: JsonValue) -> ToolCall:
    return ToolCall(CallId(name), name, arguments)


def make(*steps: RawDecision | Exception) -> tuple[Agent, Model]:
    model = Model(*steps)
    policy = Policy(rules=[rules], retry=Retry(first=0))
    tools: list[AnyTool] = [look, fail, write, send, wipe]
    return Agent("desk", model=model, tools=tools, policy=policy), model


def files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


async def delivered(runtime: Runtime, clock: VirtualClock) -> None:
    while await runtime.effects(statuses=UNSETTLED):
        await clock.advance(1)


async def everything(agent: Agent, path: Path, lines: RunObserver) -> list[Outcome]:
    """Have every kind of text said in one invocation, and cancel another one."""
    clock = VirtualClock()
    store = SQLiteStore(path)
    async with Runtime(
        [agent], store=store, clock=clock, observers=[lines], redact=mask
    ) as runtime:
        outcomes = [await runtime.run("desk", f"use {SECRET}", metadata={"of": [SECRET]})]
        identity, proposal = outcomes[0].invocation_id, outcomes[0].proposal
        assert proposal is not None
        await runtime.approve(identity, proposal.digest, by="ana")
        outcomes.append(await runtime.outcome(identity))
        await runtime.answer(identity, f"it is {SECRET}", by="ana")
        outcomes.append(await runtime.outcome(identity))
        await delivered(runtime, clock)
        waiting = await runtime.run("desk", f"again {SECRET}")
        outcomes.append(await runtime.cancel(waiting.invocation_id, f"{SECRET} is out", by="bo"))
        logging.getLogger("loopwright.runtime").warning("It was %s.", SECRET)
        await settle()
    return outcomes


STEPS: tuple[RawDecision | Exception, ...] = (
    ModelError(f"503 for {SECRET}"),
    ToolCalls((call("look", where="here"), call("fail"), call("wipe")), f"with {SECRET}"),
    f'{{"kind": "{SECRET}"}}',
    ToolCalls((call("write"),), f"now {SECRET}"),
    ToolCalls((call("send"),)),
    Clarification(f"which {SECRET}?"),
    Final(f"done with {SECRET}"),
    Clarification(f"which {SECRET}?"),
)


@pytest.mark.anyio
async def test_what_is_masked_is_written_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in any byte of the store, not in the trace, an outcome, a log, nor what a model is shown."""
    kept, traced = tmp_path / "kept", tmp_path / "trace.jsonl"
    kept.mkdir()
    agent, model = make(*STEPS)
    with JsonLines(traced) as lines, caplog.at_level(logging.DEBUG):
        outcomes = await everything(agent, kept / "store.db", lines)

    assert [outcome.reason for outcome in outcomes] == [
        Reason.APPROVAL_REQUIRED,
        Reason.CLARIFICATION_REQUIRED,
        Reason.COMPLETED,
        Reason.CANCELLED,
    ]
    assert outcomes[2].answer == "done with ***"
    stored = files(kept)
    for text in (b"use ***", b"found", b"written with ***", b"sent with ***", b"503 for ***"):
        assert text in stored
    assert SECRET.encode() not in stored
    assert SECRET not in traced.read_text(encoding="utf-8")
    assert SECRET not in repr(outcomes)
    for outcome in outcomes:
        assert all(SECRET.encode() not in turn.body for turn in outcome.history)
    assert SECRET not in "".join(model.shown)
    assert SECRET not in caplog.text
    assert "It was ***." in caplog.text


@pytest.mark.anyio
async def test_a_cancel_for_another_worker_is_redacted_before_it_is_kept(tmp_path: Path) -> None:
    """It reaches the store before it reaches the invocation."""
    path, clock = tmp_path / "store.db", VirtualClock()
    agent, _ = make(Clarification("which?"))
    async with Runtime([agent], store=SQLiteStore(path), clock=clock, redact=mask) as runtime:
        waiting = await runtime.run("desk", "go")
        store = SQLiteStore(path)
        await store.open()
        await store.heartbeat("other", 60)
        await store.acquire(waiting.invocation_id, "other")
        async with anyio.create_task_group() as group:
            group.start_soon(runtime.cancel, waiting.invocation_id, f"{SECRET} is out")
            while (await store.summary(waiting.invocation_id)).cancel is None:
                await clock.advance(0.1)
            group.cancel_scope.cancel()
        note = (await store.summary(waiting.invocation_id)).cancel
        await store.close()
    assert note is not None
    assert note.reason == "*** is out"


@pytest.mark.anyio
async def test_arguments_that_are_masked_are_masked_for_all() -> None:
    """Policy judges, a human sees, the journal holds and the tool gets one and the same object."""
    seen: list[object] = []

    @tool(effect="manual")
    def pay(card: str) -> None:
        seen.append(card)

    def rule(access: Access) -> Judgement:
        seen.append(access.arguments["card"])
        return Ask("pay?")

    model = Model(ToolCalls((call("pay", card=CARD),)), Final("paid"))
    agent = Agent("desk", model=model, tools=[pay], policy=Policy(rules=[rule]))
    async with Runtime([agent], redact=Redactor(arguments=True)) as runtime:
        asked = await runtime.run("desk", "go")
        assert asked.proposal is not None
        seen.append(asked.proposal.asks[0].arguments["card"])
        await runtime.approve(asked.invocation_id, asked.proposal.digest, by="ana")
        done = await runtime.outcome(asked.invocation_id)
    seen.append(done.effects[0].arguments)
    assert set(map(str, seen)) == {"[redacted]", "{'card': '[redacted]'}"}


@pytest.mark.anyio
async def test_the_built_in_redactor_leaves_arguments_to_the_tool() -> None:
    got: list[str] = []

    @tool(effect="read")
    def pay(card: str) -> str:
        got.append(card)
        return f"paid with {card}"

    model = Model(ToolCalls((call("pay", card=CARD),)), Final(f"paid with {CARD}"))
    agent = Agent("desk", model=model, tools=[pay])
    async with Runtime([agent], redact=Redactor()) as runtime:
        done = await runtime.run("desk", f"pay with {CARD}")
    assert got == [CARD]
    assert done.answer == "paid with [redacted]"
    assert done.history[0].results[0].output == "paid with [redacted]"
    assert "pay with [redacted]" in model.shown[0]


@pytest.mark.anyio
async def test_edits_are_redacted_before_they_are_judged() -> None:
    """What policy has judged is what runs."""
    seen: list[object] = []

    @tool(effect="manual")
    def pay(note: str) -> None:
        seen.append(note)

    def rule(access: Access) -> Judgement:
        seen.append(access.arguments["note"])
        return Ask("pay?")

    model = Model(ToolCalls((call("pay", note="x"),)), Final("paid"))
    agent = Agent("desk", model=model, tools=[pay], policy=Policy(rules=[rule]))
    async with Runtime([agent], redact=mask) as runtime:
        asked = await runtime.run("desk", "go")
        assert asked.proposal is not None
        digest, edits = asked.proposal.digest, {"pay": cast("JsonObject", {"note": SECRET})}
        await runtime.approve(asked.invocation_id, digest, by="ana", edits=edits)
        await runtime.outcome(asked.invocation_id)
    assert set(seen) == {"x", "***"}
