"""What a tool says of its progress: told to who watches, bounded, never late and never kept."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from math import inf, nan

import pytest
from casebook.desk import batch, call, journal

from loopwright import Agent, Final, Policy, Runtime, ToolContext, ToolFailure, tool
from loopwright.actors import AnyTool, TraceEvent
from loopwright.actors.roles._progress import AT_ONCE, PER_SECOND
from loopwright.policy import Redactor, Retry
from loopwright.protocol import JsonObject
from loopwright.testing import ScriptedModel, Step, VirtualClock, settle

pytestmark = pytest.mark.anyio


def desk(*tools: AnyTool, policy: Policy | None = None) -> Agent:
    """Make an agent whose model calls its first tool, once."""
    steps: list[Step] = [batch(call("c", tools[0].name)), Final("done")]
    return Agent("desk", model=ScriptedModel(steps), tools=tools, policy=policy)


def told(events: list[TraceEvent]) -> list[JsonObject]:
    return [event.data for event in events if event.name == "tool_progress"]


async def test_progress_is_traced_between_start_and_end() -> None:
    events = list[TraceEvent]()

    @tool(effect="read")
    async def count(ctx: ToolContext) -> None:
        ctx.progress("begun")
        ctx.progress("half", done=1, total=2)

    async with Runtime([desk(count)], observers=[events.append]) as runtime:
        outcome = await runtime.run("desk", "the goal")
        records = await journal(runtime, outcome.invocation_id)
    names = [event.name for event in events]
    at = names.index("tool_progress")
    assert names.index("tool_call_requested") < at < names.index("tool_call_finished")
    assert told(events) == [
        {"attempt": "c#1", "tool": "count", "message": "begun", "done": None, "total": None},
        {"attempt": "c#1", "tool": "count", "message": "half", "done": 1, "total": 2},
    ]
    assert events[at].invocation_id == outcome.invocation_id
    assert events[at].turn == 1
    assert "half" not in repr(records)


async def test_a_thread_may_report_and_observers_see_the_context_of_the_caller() -> None:
    seen, events, who = list[str](), list[TraceEvent](), ContextVar("who", default="nobody")

    @tool(effect="read")
    def count(ctx: ToolContext) -> None:
        who.set("the tool")
        ctx.progress("from a thread")

    def watch(event: TraceEvent) -> None:
        if event.name == "tool_progress":
            assert threading.current_thread() is threading.main_thread()
            seen.append(who.get())
            events.append(event)

    async with Runtime([desk(count)], observers=[watch]) as runtime:
        who.set("the caller")
        await runtime.run("desk", "the goal")
    assert [data["message"] for data in told(events)] == ["from a thread"]
    assert seen == ["the caller"]


async def test_nobody_is_told_where_nobody_watches() -> None:
    reports = list[object]()

    @tool(effect="read")
    async def count(ctx: ToolContext) -> None:
        reports.append(ctx.report)
        ctx.progress("unheard")

    async with Runtime([desk(count)]) as runtime:
        assert (await runtime.run("desk", "the goal")).completed
    assert reports == [None]


async def test_too_much_is_dropped() -> None:
    """A burst, and a few a second after that; texts are cut, and no number is not a number."""
    events, clock = list[TraceEvent](), VirtualClock()

    @tool(effect="read")
    async def chatter(ctx: ToolContext) -> None:
        for _ in range(1_000):
            ctx.progress("x" * 10_000, done=nan, total=inf)
        await clock.advance(2.5 / PER_SECOND)
        for n in range(1_000):
            ctx.progress(str(n))

    async with Runtime([desk(chatter)], observers=[events.append], clock=clock) as runtime:
        await runtime.run("desk", "the goal")
    data = told(events)
    assert len(data) == AT_ONCE + 2
    assert len(str(data[0]["message"])) <= 330
    assert (data[0]["done"], data[0]["total"]) == (None, None)
    assert [one["message"] for one in data[-2:]] == ["0", "1"]


async def test_a_number_that_no_float_holds_fails_no_tool() -> None:
    """What is said of progress is never why a call fails."""
    events = list[TraceEvent]()

    @tool(effect="read")
    async def count(ctx: ToolContext) -> None:
        ctx.progress(done=10**400, total=-1)

    async with Runtime([desk(count)], observers=[events.append]) as runtime:
        outcome = await runtime.run("desk", "the goal")
    assert [result.status for result in outcome.history[0].results] == ["ok"]
    (data,) = told(events)
    assert (data["done"], data["total"]) == (None, -1)


async def test_what_comes_late_is_dropped() -> None:
    """Of a try that was given up, of one that failed and is tried again, and of one that is over."""
    events, kept = list[TraceEvent](), list[ToolContext]()
    clock, let_go = VirtualClock(), asyncio.Event()

    @tool(effect="read", timeout=1)
    async def count(ctx: ToolContext) -> str:
        kept.append(ctx)
        if len(kept) == 1:
            raise ToolFailure("not yet", category="transient", retryable=True)
        kept[0].progress("of the first try")
        ctx.progress("of the second")
        try:
            await let_go.wait()
        finally:
            ctx.progress("as it was given up")
        return "never"

    policy = Policy(tool_retry=Retry(max_attempts=2, first=0))
    agent = desk(count, policy=policy)
    async with Runtime([agent], observers=[events.append], clock=clock) as runtime:
        run = await runtime.start("desk", "the goal")
        await settle()
        await clock.advance(1)
        await run.outcome()
        for ctx in kept:
            ctx.progress("as it was over")
        await settle()
    assert [(one["message"], one["attempt"]) for one in told(events)] == [("of the second", "c#1")]


async def test_it_is_redacted_as_all_that_is_said() -> None:
    events = list[TraceEvent]()

    @tool(effect="read")
    async def count(ctx: ToolContext) -> None:
        ctx.progress("order ORD-77 is next")

    redact = Redactor(patterns=(r"ORD-\d+",))
    async with Runtime([desk(count)], observers=[events.append], redact=redact) as runtime:
        await runtime.run("desk", "the goal")
    (data,) = told(events)
    assert "ORD-77" not in str(data["message"])


async def test_an_observer_that_fails_disturbs_no_tool(caplog: pytest.LogCaptureFixture) -> None:
    @tool(effect="read")
    async def count(ctx: ToolContext) -> str:
        ctx.progress("on it")
        return "done"

    def watch(event: TraceEvent) -> None:
        if event.name == "tool_progress":
            raise RuntimeError("no room")

    async with Runtime([desk(count)], observers=[watch]) as runtime:
        outcome = await runtime.run("desk", "the goal")
    assert outcome.history[0].results[0].output == "done"
    assert "An observer failed on tool_progress" in caplog.text
