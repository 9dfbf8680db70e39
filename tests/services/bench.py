"""What these tests share: messages with the ids filled in, and an executor with somebody asking."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final

from loopwright.actors import AnyTool, ToolExecutor
from loopwright.actors.kernel import ActorRef, ActorSystem, Request
from loopwright.policy import Breaker, Retry
from loopwright.protocol import (
    Allowance,
    CallId,
    Decide,
    Effect,
    EffectKey,
    Execute,
    Executed,
    Found,
    History,
    Interrupt,
    InvocationId,
    JsonObject,
    JsonValue,
    Lease,
    Price,
    Principal,
    Reconcile,
    Reconciled,
    ToolResult,
    attempt_id,
)
from loopwright.testing import Probe, VirtualClock, settle

INVOCATION: Final = InvocationId("inv-1")
LEASE: Final = Lease(INVOCATION, "w1", 1)
ONCE: Final = Retry(max_attempts=1)
NEVER: Final = Breaker(failures=0)
JITTER: Final = 0.5
"""What the dice say: each wait is half of what it may be."""


def execute(
    tool: AnyTool,
    call_id: str = "c1",
    *,
    attempt: int = 1,
    arguments: JsonObject | None = None,
    until: float | None = None,
) -> Execute:
    """Order one attempt."""
    identity = CallId(call_id)
    return Execute(
        INVOCATION,
        1,
        identity,
        attempt_id(identity, attempt),
        attempt,
        tool.name,
        tool.effect,
        arguments or {},
        None,
        Principal(),
        LEASE,
        until=until,
    )


def decide(
    turn: int = 1,
    *,
    notice: str | None = None,
    context_chars: int = 0,
    allowance: Allowance | None = None,
    prices: tuple[Price, ...] = (),
) -> Decide:
    """Ask for the decision of a turn."""
    return Decide(
        INVOCATION,
        turn,
        "the goal",
        History([]),
        Principal("ann"),
        notice,
        {"ticket": 7},
        context_chars,
        allowance or Allowance(),
        prices,
    )


def held(_lease: Lease) -> bool:
    """Say that a lease is safely held."""
    return True


def unheard(_order: Execute, _output: JsonValue) -> None:
    """Take no notice of a late result."""


class ExecutorBench:
    """One executor, on a clock of its own, and a probe that is told its answers."""

    def __init__(
        self, system: ActorSystem, tool: AnyTool, retry: Retry = ONCE, breaker: Breaker = NEVER
    ) -> None:
        self.tool = tool
        self.clock = VirtualClock()
        self.foreign = contextvars.copy_context()
        self.asker = Probe(system)
        self.held = True
        """Whether the lease is safely held."""
        self.late: list[tuple[Execute, JsonValue]] = []
        """What writes returned after nobody waited any more."""
        self.ref: ActorRef[Any] = system.start(
            ToolExecutor,
            tool,
            self.clock,
            self._holds,
            self._late,
            retry,
            breaker,
            lambda: JITTER,
        )

    def _holds(self, lease: Lease) -> bool:
        assert lease == LEASE
        return self.held

    def _late(self, order: Execute, output: JsonValue) -> None:
        self.late.append((order, output))

    def start(
        self, call_id: str = "c1", *, attempt: int = 1, until: float | None = None, **arguments: Any
    ) -> None:
        """Order an attempt, and don't wait."""
        order = execute(self.tool, call_id, attempt=attempt, arguments=arguments, until=until)
        self.ref.tell(Request(order, self.asker.ref))

    def interrupt(self, call_id: str = "c1", *, attempt: int = 1, begun: bool = True) -> None:
        """Interrupt an attempt, or only see to it that it does not begin."""
        name = attempt_id(CallId(call_id), attempt)
        order = Interrupt(INVOCATION, 1, name, self.tool.name, begun)
        self.ref.tell(Request(order, self.asker.ref))

    def ask(self, call_id: str = "c1", *, attempt: int = 1, key: str = "order:7") -> None:
        """Ask what became of an attempt, and don't wait."""
        identity = CallId(call_id)
        name = attempt_id(identity, attempt)
        order = Reconcile(INVOCATION, 1, identity, name, self.tool.name, EffectKey(key))
        self.ref.tell(Request(order, self.asker.ref, self.foreign))

    async def found(self, call_id: str = "c1", *, attempt: int = 1) -> Reconciled:
        """Ask what became of an attempt; return the one answer."""
        before = len(self.asker.messages)
        self.ask(call_id, attempt=attempt)
        messages = await self.asker.received(before + 1)
        assert len(messages) == before + 1
        found = messages[-1]
        assert isinstance(found, Found)
        assert (found.turn, found.attempt_id) == (1, attempt_id(CallId(call_id), attempt))
        return found.found

    async def run(self, call_id: str = "c1", *, attempt: int = 1, **arguments: Any) -> ToolResult:
        """Run an attempt to its answer; no time passes."""
        before = len(self.asker.messages)
        self.start(call_id, attempt=attempt, **arguments)
        messages = await self.asker.received(before + 1)
        assert len(messages) == before + 1
        executed = messages[-1]
        assert isinstance(executed, Executed)
        return executed.result

    async def results(self, count: int) -> list[ToolResult]:
        """Wait for this many answers, and make sure that there are no more."""
        await self.asker.received(count)
        await settle()
        results = self.answered
        assert len(results) == count
        return results

    @property
    def answered(self) -> list[ToolResult]:
        """The answers so far."""
        return [executed.result for executed in self.asker.messages]

    @property
    def findings(self) -> list[Reconciled]:
        """What was found so far."""
        return [found.found for found in self.asker.messages]

    @property
    def statuses(self) -> list[tuple[str, str]]:
        """Call id and status of the answers so far."""
        return [(result.call_id, result.status.value) for result in self.answered]


@asynccontextmanager
async def executor(
    tool: AnyTool, retry: Retry = ONCE, breaker: Breaker = NEVER
) -> AsyncGenerator[ExecutorBench, None]:
    """Run an executor of this tool; it tries nothing again, and has no breaker, unless told so."""
    async with ActorSystem() as system:
        yield ExecutorBench(system, tool, retry, breaker)


class Gate:
    """Holds bodies back until the test opens it, and knows who has come."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.open = asyncio.Event()

    async def wait(self, who: str) -> str:
        """Wait until it is open."""
        self.came.append(who)
        await self.open.wait()
        return who


def error_type(result: ToolResult) -> str:
    """Name the failure of a result; there is one."""
    assert result.error is not None
    return result.error.type


def effect_of(write: bool) -> Effect:
    """Choose an effect class."""
    return Effect.MANUAL if write else Effect.READ


def escaping(main: Coroutine[Any, Any, None]) -> BaseException | None:
    """Run in a loop of its own, and return what leaves it.

    In a thread, because CPython 3.11 miscounts the depth of a thread's stack when an interrupt
    leaves a loop; and without `asyncio.run`, which would turn one into a cancellation.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_run, main).exception()


def _run(main: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.new_event_loop()
    # That nobody retrieved the interrupt from its task is not told: its traceback would be made
    # whenever the garbage is collected, and CPython 3.11 fails if that happens amid an `ast.parse`.
    loop.set_exception_handler(lambda _loop, _context: None)
    task = loop.create_task(main)
    try:
        loop.run_until_complete(task)
    finally:
        task.cancel()
        loop.run_until_complete(asyncio.wait([task]))
        loop.close()
