"""Bugs of our own: a Supervisor, a service actor or a store that breaks strands nobody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from loopwright import Agent, Final, Outcome, Policy, Reason, Runtime, tool
from loopwright.actors import Instant, Machine, ProgressTracker, Validator
from loopwright.protocol import Answer, Decided, Executed, Input, Output, Rested, StoreError
from loopwright.stores import MemoryStore, SQLiteStore
from loopwright.testing import FailingStore, ScriptedModel

pytestmark = pytest.mark.anyio
BATCH: dict[str, object] = {
    "kind": "tool_calls",
    "calls": [{"call_id": "a", "tool_name": "pay", "arguments": {}}],
}


class Shop:
    """Counts what was really done, by effect key."""

    def __init__(self) -> None:
        self.paid: dict[str, int] = {}

    def agent(self) -> Agent:
        @tool(effect="idempotent", effect_key=lambda _: "refund:7")
        async def pay() -> str:
            """Pay."""
            self.paid["refund:7"] = self.paid.get("refund:7", 0) + 1
            return "paid"

        return Agent("desk", model=ScriptedModel([BATCH, Final("done")]), tools=[pay])


def broken_on(kind: type[Input], times: int) -> Callable[..., tuple[Output, ...]]:
    """Make a machine that has a bug in what it does with one kind of message."""
    original, left = Machine.on, [times]

    def on(self: Machine, message: Input, now: Instant) -> tuple[Output, ...]:
        if isinstance(message, kind) and left[0]:
            left[0] -= 1
            raise KeyError("a bug")
        return original(self, message, now)

    return on


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Crashes are logged with their traceback; here they are meant."""
    caplog.set_level(logging.CRITICAL + 1)


async def run(agent: Agent) -> Outcome:
    async with Runtime([agent]) as runtime, asyncio.timeout(5):
        return await runtime.run("desk", "go")


async def test_a_crashed_supervisor_is_rebuilt_from_the_journal_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It goes on where the journal says, here: the write is sent again under its key."""
    shop = Shop()
    monkeypatch.setattr(Machine, "on", broken_on(Executed, 1))
    outcome = await run(shop.agent())
    assert outcome.completed
    assert shop.paid == {"refund:7": 2}
    assert outcome.history[0].results[0].attempts == 2


async def test_a_supervisor_that_crashes_again_ends_the_invocation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`internal_error`, with the bug as the cause; a resume can go on once it is mended."""
    monkeypatch.setattr(Machine, "on", broken_on(Executed, 2))
    shop = Shop()
    async with Runtime([shop.agent()]) as runtime, asyncio.timeout(5):
        outcome = await runtime.run("desk", "go")
        assert (outcome.reason, outcome.cause) == (Reason.INTERNAL_ERROR, "KeyError: 'a bug'")
        assert runtime.statistics()[0] == 0
        assert (await runtime.resume(outcome.invocation_id)).completed


async def test_a_crash_after_the_end_was_durable_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stored outcome is what everybody gets."""
    original, crashed = Machine.on, [False]

    def on(self: Machine, message: Input, now: Instant) -> tuple[Output, ...]:
        out = original(self, message, now)
        if not crashed[0] and any(isinstance(output, Rested) for output in out):
            crashed[0] = True
            raise KeyError("a bug")
        return out

    monkeypatch.setattr(Machine, "on", on)
    outcome = await run(Shop().agent())
    assert outcome.completed
    assert crashed == [True]


async def test_a_start_that_crashes_is_told_to_who_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody waits for an invocation that could not even be rebuilt."""

    def on(self: Machine, message: Input, now: Instant) -> tuple[Output, ...]:
        raise KeyError("a bug")

    monkeypatch.setattr(Machine, "on", on)
    async with Runtime([Shop().agent()]) as runtime, asyncio.timeout(5):
        with pytest.raises(Exception, match=r"."):
            await runtime.start("desk", "go")
        assert runtime.statistics()[0] == 0


@pytest.mark.parametrize("service", [Validator, ProgressTracker])
async def test_a_service_actor_that_crashes_ends_what_it_worked_for(
    service: type[Validator | ProgressTracker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The invocation ends in order, with who failed and how; the next one is served again."""
    original, left = service.serve, [1]

    def serve(self: object, request: object) -> None:
        if left[0]:
            left[0] -= 1
            raise KeyError("a bug")
        original(self, request)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - as the original is called

    monkeypatch.setattr(service, "serve", serve)
    shop = Shop()
    agent = shop.agent()
    agent.model = ScriptedModel([BATCH, BATCH, Final("done")])
    async with Runtime([agent]) as runtime, asyncio.timeout(5):
        outcome = await runtime.run("desk", "go")
        assert outcome.reason is Reason.INTERNAL_ERROR
        assert outcome.cause == f"{service.__name__} failed: KeyError: 'a bug'"
        assert (await runtime.run("desk", "go")).completed


async def test_a_store_that_breaks_for_good_ends_it_with_checkpoint_failed() -> None:
    """No dispatch the store does not know of; once it works again, a resume goes on."""
    shop, store = Shop(), FailingStore(MemoryStore())
    agent = shop.agent()

    async def decide(_: object) -> dict[str, object]:
        store.fail_next(StoreError("disk full"))
        return BATCH

    agent.model = ScriptedModel([decide, BATCH, Final("done")])
    async with Runtime([agent], store=store) as runtime, asyncio.timeout(5):
        outcome = await runtime.run("desk", "go")
        assert (outcome.reason, outcome.cause) == (Reason.CHECKPOINT_FAILED, "disk full")
        assert shop.paid == {}
        assert (await runtime.resume(outcome.invocation_id)).completed
    assert shop.paid == {"refund:7": 1}


async def test_a_start_that_is_not_durable_did_not_happen() -> None:
    store = FailingStore(MemoryStore())
    async with Runtime([Shop().agent()], store=store) as runtime, asyncio.timeout(5):
        store.fail_next(StoreError("disk full"))
        with pytest.raises(StoreError, match="does not exist: disk full"):
            await runtime.start("desk", "go")
        assert await runtime.invocations() == []


async def test_a_worker_that_was_replaced_stops_and_says_so(tmp_path: Path) -> None:
    """Its next commit is refused: `lease_lost`, nothing dispatched, the new owner goes on."""
    path, shop = tmp_path / "store.db", Shop()
    agent = shop.agent()
    other = SQLiteStore(path)
    await other.open()

    async def decide(request: object) -> dict[str, object]:
        (summary,) = await other.invocations()
        assert summary.owner is not None
        await other.acquire(summary.invocation_id, summary.owner)
        return BATCH

    agent.model = ScriptedModel([decide])
    async with Runtime([agent], store=SQLiteStore(path)) as runtime, asyncio.timeout(5):
        outcome = await runtime.run("desk", "go")
    assert outcome.reason is Reason.LEASE_LOST
    assert shop.paid == {}
    (summary,) = await other.invocations()
    assert summary.head.status == "running"
    await other.close()


async def test_decisions_of_a_crashed_life_are_not_heard_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rebuilt invocation asks its model anew; what the old question brings is late."""
    monkeypatch.setattr(Machine, "on", broken_on(Decided, 1))
    agent = Agent("desk", model=ScriptedModel([Final("lost"), Final("kept")]), policy=Policy())
    outcome = await run(agent)
    assert outcome.answer == "kept"
    assert outcome.steps == 1


async def test_a_bug_over_a_command_strands_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked is told; the invocation is rebuilt, and can be spoken to again."""
    question: dict[str, object] = {"kind": "clarification", "question": "?"}
    model = ScriptedModel([question, Final("done")])
    async with Runtime([Agent("desk", model=model)]) as runtime, asyncio.timeout(5):
        asked = await runtime.run("desk", "go")
        monkeypatch.setattr(Machine, "on", broken_on(Answer, 1))
        with pytest.raises(KeyError):
            await runtime.answer(asked.invocation_id, "blue", by="bo")
        while runtime.statistics()[0]:  # noqa: ASYNC110 - it is rebuilt in the background
            await asyncio.sleep(0)
        run = await runtime.answer(asked.invocation_id, "blue", by="bo")
        assert (await run.outcome()).completed
