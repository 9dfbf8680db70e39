"""What the cases share: short ways to say what a model says, and a store that fails on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from loopwright import Agent, Budget, ModelRequest, Outcome, Policy, Runtime
from loopwright.actors import AnyTool, Clock
from loopwright.protocol import (
    Append,
    JsonValue,
    Record,
    ToolResult,
    loads,
)
from loopwright.stores import AppendResult, MemoryStore, Store
from loopwright.testing import ScriptedModel, Step, VirtualClock, WrappedStore

Wire = Mapping[str, object]


def call(call_id: str, tool_name: str, *arguments: object) -> Wire:
    """Write one call as a provider would; arguments may be left out, or be anything."""
    named: dict[str, object] = {"call_id": call_id, "tool_name": tool_name}
    if arguments:
        (named["arguments"],) = arguments
    return named


def batch(*calls: Wire, commentary: str = "") -> Wire:
    """Write a decision for calls as a provider would."""
    return {"kind": "tool_calls", "calls": list(calls), "commentary": commentary}


@dataclass(frozen=True, slots=True)
class Played:
    """A script that was played to its end."""

    outcome: Outcome
    model: ScriptedModel

    @property
    def results(self) -> list[ToolResult]:
        """All results, in order of turns and declaration."""
        return [result for turn in self.outcome.history for result in turn.results]

    @property
    def statuses(self) -> list[str]:
        """The statuses of all results."""
        return [result.status.value for result in self.results]


def tasks() -> set[asyncio.Task[object]]:
    """All tasks of the loop but the relay's looks into the outbox, which come and go with time."""
    return {task for task in asyncio.all_tasks() if task.get_name() not in ("look", "claim")}


def agent(
    model: ScriptedModel,
    *tools: AnyTool,
    policy: Policy | None = None,
    budget: Budget | None = None,
    name: str = "desk",
) -> Agent:
    """Make the agent of a case."""
    return Agent(name, model=model, tools=tools, policy=policy, budget=budget)


async def play(
    steps: Iterable[Step],
    *tools: AnyTool,
    policy: Policy | None = None,
    budget: Budget | None = None,
    store: Store | None = None,
    metadata: JsonValue = None,
) -> Played:
    """Run one invocation to its rest; no time passes."""
    model = ScriptedModel(steps)
    desk = agent(model, *tools, policy=policy, budget=budget)
    async with Runtime([desk], store=store, clock=VirtualClock()) as runtime:
        return Played(await runtime.run("desk", "the goal", metadata=metadata), model)


def shown(request: ModelRequest) -> tuple[object, ...]:
    """What a model is shown, without times: what must be identical between two runs."""
    turns: list[object] = []
    for turn in request.history:
        body = cast("dict[str, object]", loads(turn.body))
        turns.append({k: v for k, v in body.items() if k not in ("at", "active_seconds")})
    return request.goal, request.notice, request.metadata, turns


async def sleep(clock: Clock, seconds: float) -> None:
    """Sleep on a clock: what a tool or a model does in a case about time."""
    over = asyncio.Event()
    timer = clock.call_at(clock.now().monotonic + seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


async def journal(runtime: Runtime, invocation_id: str) -> list[Record]:
    """Read all records of an invocation at rest."""
    return [record async for record in runtime.get(invocation_id).events()]


class FlakyStore(WrappedStore):
    """A store that fails as it is told.

    Args:
        fail: Given the number of an append, from 1, the error to raise instead, if any.
        stored: Whether a failing append is stored all the same.
    """

    def __init__(self, fail: Callable[[int], Exception | None], *, stored: bool = False) -> None:
        super().__init__(MemoryStore())
        self.batches: list[Sequence[Append]] = []
        """Every batch it was given."""
        self._fail = fail
        self._stored = stored

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        self.batches.append(batch)
        error = self._fail(len(self.batches))
        if error is None:
            return await self.inner.append(batch)
        if self._stored:
            await self.inner.append(batch)
        raise error


class ForgetfulStore(WrappedStore):
    """A store that can be emptied, so that a test sees what the runtime alone keeps."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())

    async def empty(self) -> None:
        """Forget everything; nothing may be running."""
        await self.inner.close()
        self.inner = MemoryStore()
        await self.inner.open()
