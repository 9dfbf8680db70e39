"""Leases, adoption and cancels across runtimes of one store, on virtual time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from loopwright import Agent, Final, Outcome, Reason, Run, Runtime, tool
from loopwright.protocol import (
    CancelNote,
    CancelRequested,
    InvocationId,
    RuntimeClosedError,
    StoreError,
    decode_record,
)
from loopwright.stores import MemoryStore
from loopwright.testing import ScriptedModel, Step, VirtualClock, WrappedStore

pytestmark = pytest.mark.anyio

LOOK: Step = {"kind": "tool_calls", "calls": [{"call_id": "a", "tool_name": "look"}]}
TTL = 15.0


class Flaky(WrappedStore):
    """A store whose heartbeats can be made to fail; closing it closes nothing, for it is shared."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.broken = False

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return

    async def heartbeat(self, worker: str, ttl: float) -> None:
        if self.broken:
            raise StoreError("the disk is gone")
        await super().heartbeat(worker, ttl)


class Place:
    """Two runtimes that share a store, and a tool that returns when it is let."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.memory = MemoryStore(clock=lambda: self.clock.now().monotonic)
        self.over = asyncio.Event()
        self.ran = 0

    def desk(self, *steps: Step) -> Agent:
        @tool(effect="read", timeout=None)
        async def look() -> str:
            self.ran += 1
            await self.over.wait()
            return "seen"

        return Agent("desk", model=ScriptedModel(steps or [LOOK, Final("done")]), tools=[look])

    def store(self) -> Flaky:
        return Flaky(self.memory)

    def runtime(self, *steps: Step, store: Flaky | None = None, adopt: bool = False) -> Runtime:
        return Runtime(
            [self.desk(*steps)],
            store=store or self.store(),
            clock=self.clock,
            lease_ttl=TTL,
            adopt=adopt,
        )


@pytest.fixture
async def place() -> Place:
    made = Place()
    await made.memory.open()
    return made


async def test_a_worker_without_a_heartbeat_in_time_gives_up_what_it_owns(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Long before anybody may replace it, by its own monotonic clock; then it starts anew."""
    caplog.set_level(logging.WARNING)
    store = place.store()
    async with place.runtime(store=store) as runtime:
        run = await runtime.start("desk", "go")
        before = (await store.summary(run.id)).owner
        await place.clock.advance(60)
        assert (await store.summary(run.id)).owner_alive

        store.broken = True
        await place.clock.advance(TTL)
        outcome = await run.outcome()
        assert outcome.reason is Reason.LEASE_LOST
        assert "had no heartbeat in time" in (outcome.cause or "")
        seq = (await store.summary(run.id)).seq

        # The store is back: what was given up is there to be taken up, under another name.
        store.broken = False
        await place.clock.advance(TTL)
        assert (await store.summary(run.id)).seq == seq
        (again,) = await runtime.recover()
        place.over.set()
        assert (await again.outcome()).completed
        assert again.id == run.id
        assert before not in {s.owner for s in await runtime.invocations()}
    assert any("starts anew" in message for message in caplog.messages)


async def test_a_heartbeat_that_takes_too_long_is_a_lapse(place: Place) -> None:
    """It may have arrived after somebody else was faster."""

    class Slow(Flaky):
        entered: asyncio.Event | None = None
        leave: asyncio.Event | None = None

        async def heartbeat(self, worker: str, ttl: float) -> None:
            if self.leave is not None:
                await self.leave.wait()
            await super().heartbeat(worker, ttl)

    store = Slow(place.memory)
    async with place.runtime(store=store) as runtime:
        run = await runtime.start("desk", "go")
        store.leave = asyncio.Event()
        await place.clock.advance(TTL)
        assert runtime.statistics()[0] == 1
        store.leave.set()
        await place.clock.advance(0)
        assert (await run.outcome()).reason is Reason.LEASE_LOST


def heir_of(place: Place, how: str) -> Runtime:
    return place.runtime(Final("done"), adopt=how == "adopt")


@pytest.mark.parametrize("how", ["recover", "adopt"])
async def test_what_a_dead_worker_left_is_taken_up(place: Place, how: str) -> None:
    """On demand, or by a service that looks all the time; never while its owner is alive."""
    store = place.store()
    async with place.runtime(store=store) as dead, heir_of(place, how) as heir:
        run = await dead.start("desk", "go")
        await place.clock.advance(4 * TTL)
        assert len(await heir.recover()) == 0
        assert heir.statistics()[0] == 0
        store.broken = True
        await place.clock.advance(3 * TTL)
        if how == "recover":
            assert [taken.id for taken in await heir.recover()] == [run.id]
        assert heir.statistics()[0] == 1
        place.over.set()
        assert (await heir.outcome(run.id)).completed
        store.broken = False
    assert place.ran == 2


async def begun(runtime: Runtime, place: Place) -> Run:
    run = await runtime.start("desk", "go")
    await place.clock.advance(0.1)
    assert place.ran == 1
    return run


async def test_a_cancel_reaches_the_worker_that_owns_it(place: Place) -> None:
    """From another runtime of the same store: the owner ends it, and both hear how."""
    async with place.runtime() as owner, place.runtime() as other:
        run = await begun(owner, place)
        cancelling = asyncio.ensure_future(other.cancel(run.id, "enough", by="bo"))
        await place.clock.advance(3)
        outcome = await cancelling
        assert outcome.reason is Reason.CANCELLED
        assert await run.outcome() == outcome
        stored = await place.memory.load(run.id)
    (requested,) = [r for r in map(decode_record, stored.lines) if isinstance(r, CancelRequested)]
    assert (requested.reason, requested.by) == ("enough", "bo")


async def test_a_cancel_of_what_a_dying_worker_owns_is_carried_out_by_the_one_who_wants_it(
    place: Place,
) -> None:
    """The owner never hears of it: once its lease is over, the canceller takes over and ends it."""
    store = place.store()
    async with place.runtime(store=store) as owner, place.runtime() as other:
        run = await begun(owner, place)
        owned = owner.store
        assert isinstance(owned, Flaky)
        owned.broken = True

        async def deaf(worker: str) -> list[CancelNote]:
            raise StoreError("the disk is gone")

        owned.cancel_requests = deaf  # type: ignore[method-assign]  # it can't be reached any more
        cancelling = asyncio.ensure_future(other.cancel(run.id, "enough"))
        await place.clock.advance(3 * TTL)
        assert (await cancelling).reason is Reason.CANCELLED
        owned.broken = False


@pytest.mark.parametrize("suspended", [False, True])
async def test_a_cancel_that_nobody_was_left_to_hear_is_found_at_recovery(
    place: Place, suspended: bool
) -> None:
    """K12: whoever takes it up ends it, and dispatches nothing."""
    question: Step = {"kind": "clarification", "question": "?"}
    async with place.runtime(*([question] if suspended else [])) as owner:
        if suspended:
            identity = (await owner.run("desk", "go")).invocation_id
        else:
            identity = (await begun(owner, place)).id
    await place.memory.request_cancel(CancelNote(InvocationId(identity), "enough", "bo"))
    ran = place.ran
    async with place.runtime() as heir:
        (run,) = await heir.recover()
        outcome = await run.outcome()
        assert outcome.reason is Reason.CANCELLED
        assert (await heir.recover()).runs == ()
    assert place.ran == ran


async def test_an_answer_comes_too_late_for_what_is_to_be_cancelled(place: Place) -> None:
    """A note that was left while it was owned comes before what is said afterwards."""
    question: Step = {"kind": "clarification", "question": "?"}
    async with place.runtime(question) as runtime:
        asked = await runtime.run("desk", "go")
        await place.memory.request_cancel(CancelNote(asked.invocation_id, "enough", "bo"))
        with pytest.raises(Exception, match=r"is over \(cancelled\)"):
            await runtime.answer(asked.invocation_id, "blue", by="cy")
        assert await ended(runtime, asked) is Reason.CANCELLED


async def ended(runtime: Runtime, before: Outcome) -> Reason:
    return (await runtime.outcome(before.invocation_id)).reason


async def test_who_waits_for_a_cancel_elsewhere_hears_that_the_runtime_is_closed(
    place: Place,
) -> None:
    """The cancel itself is kept: the owner, or whoever follows, carries it out."""
    async with place.runtime() as owner:
        run = await begun(owner, place)
        async with place.runtime() as other:
            cancelling = asyncio.ensure_future(other.cancel(run.id, "enough"))
            await place.clock.advance(0.05)
        await place.clock.advance(0.2)
        with pytest.raises(RuntimeClosedError):
            await cancelling
        await place.clock.advance(3)
        assert (await run.outcome()).reason is Reason.CANCELLED
