"""What waits for its turn in an executor has not begun: a cancel, or a lost lease, keeps it so."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from loopwright import Agent, Final, ModelReply, ModelRequest, Reason, Run, Runtime, tool
from loopwright.actors import AnyTool, ToolExecutor
from loopwright.protocol import Lease
from loopwright.testing import settle

pytestmark = pytest.mark.anyio


class Pays:
    """A model that has the order of its goal paid, and is done."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        if request.history:
            return ModelReply(Final("done"))
        arguments = {"order": int(request.goal)}
        call = {"call_id": "a", "tool_name": "pay", "arguments": arguments}
        return ModelReply({"kind": "tool_calls", "calls": [call]})


class Till:
    """A tool that pays one order at a time, or in one thread; the first one takes its time."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.free = asyncio.Event()
        self.thread_free = threading.Event()

    def tool(self, *, blocking: bool) -> AnyTool:
        if blocking:

            @tool(effect="manual")
            def pay(order: int) -> str:
                self.begun.append(order)
                self.thread_free.wait(10)
                return "paid"

            return pay

        @tool(effect="manual", max_concurrency=1, name="pay")
        async def pay_async(order: int) -> str:
            self.begun.append(order)
            await self.free.wait()
            return "paid"

        return pay_async

    async def until_begun(self) -> None:
        while not self.begun:  # noqa: ASYNC110 - a thread may begin it
            await asyncio.sleep(0.001)
        await settle()

    def let_go(self) -> None:
        self.free.set()
        self.thread_free.set()


async def begun_and_queued(runtime: Runtime, till: Till) -> tuple[Run, Run]:
    """Start two: the first one is at the till, the second one is announced and waits."""
    one = await runtime.start("desk", "1")
    await till.until_begun()
    two = await runtime.start("desk", "2")
    while (await runtime.state(two.id)).protocol.seq < 3:  # noqa: ASYNC110 - it is in the store
        await asyncio.sleep(0.001)
    await settle()
    return one, two


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_queued_write_never_begins_after_a_cancel(
    blocking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its dispatch is announced, and taken back: `not_started`, and nothing is unresolved."""
    monkeypatch.setattr("loopwright.actors.roles._executor.MAX_THREADS", 1)
    till = Till()
    desk = Agent("desk", model=Pays(), tools=[till.tool(blocking=blocking)])
    async with Runtime([desk]) as runtime:
        one, two = await begun_and_queued(runtime, till)
        two.cancel("enough")
        await settle()
        till.let_go()
        outcome = await two.outcome()
        assert (await one.outcome()).completed
        facts = await runtime.effects(invocation_id=two.id)
    assert till.begun == [1]
    assert outcome.reason is Reason.CANCELLED
    assert [r.status for r in outcome.history[0].results] == ["not_started"]
    assert outcome.tool_calls == 0
    assert outcome.unresolved_effects == ()
    assert [fact.entry.status for fact in facts] == ["not_applied"]


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_queued_write_never_begins_without_its_lease(
    blocking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns it by now decides; this runtime reports `lease_lost` and dispatches nothing."""
    monkeypatch.setattr("loopwright.actors.roles._executor.MAX_THREADS", 1)
    till, held = Till(), [True]
    original: Any = ToolExecutor.__init__

    def holds(lease: Lease) -> bool:
        return held[0] and bool(lease.worker)

    def watched(
        self: ToolExecutor,
        made: AnyTool,
        clock: Any,
        _holds: Any,
        late: Any,
        *rest: Any,
        **named: Any,
    ) -> None:
        original(self, made, clock, holds, late, *rest, **named)

    monkeypatch.setattr(ToolExecutor, "__init__", watched)
    desk = Agent("desk", model=Pays(), tools=[till.tool(blocking=blocking)])
    async with Runtime([desk]) as runtime:
        one, two = await begun_and_queued(runtime, till)
        held[0] = False
        till.let_go()
        outcome = await two.outcome()
        await one.outcome()
    assert till.begun == [1]
    assert outcome.reason is Reason.LEASE_LOST
