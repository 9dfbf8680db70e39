"""One store, one clock, and whom letters are sent to: what the tests of the outbox share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from casebook.desk import batch, call

from loopwright import (
    Agent,
    Policy,
    Runtime,
    ToolContext,
    tool,
)
from loopwright.actors import AnyTool, ToolFailure
from loopwright.protocol import (
    EffectFact,
    StoreError,
)
from loopwright.stores import MemoryStore, Store
from loopwright.testing import (
    ScriptedModel,
    Step,
    VirtualClock,
)

LETTER = {"to": "ana", "text": "hello"}
BAD_LINE = ToolFailure("the line is bad", category="transient", retryable=True)


class Post:
    """Whom letters are sent to; its replies are errors to raise, or functions to call."""

    def __init__(self, clock: VirtualClock, *replies: Exception | None) -> None:
        self.clock = clock
        self.start = clock.now().monotonic
        self.replies = list(replies)
        self.sent: list[str] = []
        """Texts, in the order in which they were attempted."""
        self.times: list[float] = []
        self.contexts: list[ToolContext] = []
        self.gate: asyncio.Event | None = None
        """What every attempt waits for, if there is one."""

    async def take(self, text: str, context: ToolContext) -> str:
        self.sent.append(text)
        self.times.append(self.clock.now().monotonic - self.start)
        self.contexts.append(context)
        if self.gate is not None:
            await self.gate.wait()
        reply = self.replies.pop(0) if self.replies else None
        if reply is not None:
            raise reply
        return f"receipt of {text}"

    def tool(self, *, timeout: float | None = 60.0, effect: str = "idempotent") -> AnyTool:
        """Make the tool that sends letters: in order for each addressee."""

        @tool(
            effect=effect,
            dispatch="outbox",
            timeout=timeout,
            writes=lambda a: [f"box:{a.to}"],
            effect_key=lambda a: f"letter:{a.to}:{a.text}",
        )
        async def letter(to: str, text: str, context: ToolContext) -> str:
            """Send a letter."""
            return await self.take(text, context)

        return letter


class Office:
    """One store and one clock; runtimes come and go."""

    def __init__(self, wrap: Callable[[Store], Store] = lambda store: store) -> None:
        self.clock = VirtualClock()
        self.memory = MemoryStore(clock=lambda: self.clock.now().monotonic)
        self.store = wrap(self.memory)

    @asynccontextmanager
    async def runtime(
        self, *tools: AnyTool, steps: Sequence[Step] = (), policy: Policy | None = None
    ) -> AsyncGenerator[Runtime]:
        desk = Agent("desk", model=ScriptedModel(steps), tools=tools, policy=policy)
        async with (
            asyncio.timeout(20),
            Runtime([desk], store=self.store, clock=self.clock, lease_ttl=15.0) as runtime,
        ):
            yield runtime

    async def ledger(self) -> list[EffectFact]:
        """The effect ledger, first announced first; also while no runtime is there."""
        try:
            return [fact for _, fact in reversed(await self.memory.effects())]
        except StoreError:
            await self.memory.open()
            found = await self.ledger()
            await self.memory.close()
            return found

    async def statuses(self) -> list[str]:
        return [fact.entry.status for fact in await self.ledger()]

    async def reached(self, *statuses: str) -> None:
        """Wait for threads, which no virtual time holds up."""
        while await self.statuses() != [*statuses]:  # noqa: ASYNC110 - it is in the store
            await asyncio.sleep(0.001)


def letters(*texts: str, to: str = "ana") -> Step:
    """One turn with a letter each."""
    return batch(*(call(text, "letter", {"to": to, "text": text}) for text in texts))
