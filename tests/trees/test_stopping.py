"""Stopping a tree: a cancel reaches everybody in it, and a lost lease nobody but its owner."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress

import pytest
from casebook.desk import batch, call, sleep

from loopwright import Agent, Final, ModelRequest, Reason, Runtime
from loopwright.protocol import (
    Append,
    InvocationId,
    InvocationStateError,
    ResultStatus,
    StoreError,
)
from loopwright.stores import AppendResult, MemoryStore
from loopwright.testing import ScriptedModel, Step, VirtualClock
from trees.lines import PAY, TO_CLERK, TO_MIDDLE, Shared, Till, opened

pytestmark = pytest.mark.anyio
QUESTION: Step = {"kind": "clarification", "question": "which order?"}


async def reasons(runtime: Runtime) -> dict[str, Reason | None]:
    return {s.head.agent: s.head.reason for s in await runtime.invocations()}


@pytest.mark.parametrize("clerk", [PAY, QUESTION], ids=["pays", "asks"])
async def test_a_cancel_at_every_turn_of_the_loop_ends_the_whole_line(clerk: Step) -> None:
    """Wherever it finds a parent, its child and its grandchild; no model is asked afterwards."""
    turns, late = 0, 0
    found: set[tuple[str, ...]] = set()
    while late < 3:
        line, waited = await _cancelled_after(turns, clerk)
        late += line[0] == "completed" or waited
        found.add(line)
        turns += 1
    assert ("cancelled",) * 3 in found
    assert len(found) >= 2, "it was cancelled in several places"


async def _cancelled_after(turns: int, clerk: Step) -> tuple[tuple[str, ...], bool]:
    """Cancel a line of three after so many turns of the loop.

    Returns:
        How each has ended, and whether they had all come to wait for a person by then.
    """
    till, clock, asked = Till(), VirtualClock(), list[str]()

    def step(name: str, first: Step, last: str) -> Step:
        async def decide(request: ModelRequest) -> Step:
            asked.append(name)
            await asyncio.sleep(0)
            return Final(last) if request.history else first

        return decide

    agents = till.line([], [], [], asks=False)
    said = (TO_MIDDLE, "done"), (TO_CLERK, "had it paid"), (clerk, "paid")
    for agent, (first, last) in zip(agents, said, strict=True):
        agent.model = ScriptedModel([step(agent.name, first, last)] * 2)
    async with Runtime(agents, clock=clock) as runtime:
        run = await runtime.start("boss", "go")
        for _ in range(turns):
            await asyncio.sleep(0)
        waited = (await runtime.invocations())[-1].head.status == "suspended"
        cancel = asyncio.create_task(_cancel(runtime, run.id))
        for _ in range(200):
            await asyncio.sleep(0)
        before = [*asked]
        await clock.advance(20)
        await cancel
        assert runtime.statistics()[0] == 0
        assert asked == before
        listed = [*reversed(await runtime.invocations())]
        assert (await run.outcome()).usage.total <= 15 * len(asked)
    ends = tuple(str(summary.head.reason) for summary in listed)
    # Those that were done before the cancel stay so; above them everybody is cancelled.
    firsts = [*itertools.takewhile(lambda end: end == "cancelled", ends)]
    assert {*ends[len(firsts) :]} <= {"completed"}
    return ends, waited


async def _cancel(runtime: Runtime, invocation_id: InvocationId) -> None:
    with suppress(InvocationStateError):
        await runtime.cancel(invocation_id, "enough", by="ana")


async def test_a_parent_that_is_cancelled_while_it_asks_after_its_child_has_it_stopped() -> None:
    """It has been taken over, and follows a child that was at work all along."""
    clock, till = VirtualClock(), Till()

    async def slow(_: ModelRequest) -> Step:
        await sleep(clock, 3600)
        return Final("never")

    store = await opened(clock)
    async with Runtime(till.line(clerk=[slow]), store=Shared(store), clock=clock) as runtime:
        run = await runtime.start("boss", "go")
        await clock.advance(1)
        assert len(await runtime.invocations()) == 3
    async with Runtime(till.line([], [], [slow]), store=Shared(store), clock=clock) as runtime:
        await runtime.recover()
        await clock.advance(1)
        run = runtime.get(run.id)
        run.cancel("enough")
        await clock.advance(1)
        assert await reasons(runtime) == dict.fromkeys(
            ("boss", "middle", "clerk"), Reason.CANCELLED
        )


@pytest.mark.parametrize("hard", [False, True])
async def test_a_cancel_reaches_those_that_wait_beside_those_that_work(hard: bool) -> None:
    """One child has a question, the other one is at work: both end with their parent."""
    clock = VirtualClock()

    async def slow(_: ModelRequest) -> Step:
        await sleep(clock, 3600)
        return Final("never")

    one = Agent("one", model=ScriptedModel([QUESTION]))
    two = Agent("two", model=ScriptedModel([slow]))
    both = batch(call("1", "one", {"goal": "x"}), call("2", "two", {"goal": "y"}))
    boss = Agent("boss", model=ScriptedModel([both]), tools=[one.as_tool(), two.as_tool()])
    async with Runtime([boss, one, two], clock=clock) as runtime:
        run = await runtime.start("boss", "go")
        await clock.advance(1)
        assert (await reasons(runtime))["one"] is Reason.CLARIFICATION_REQUIRED
        run.cancel("enough", hard=hard)
        await clock.advance(10)
        assert await reasons(runtime) == dict.fromkeys(("boss", "one", "two"), Reason.CANCELLED)
        if not hard:
            # It was waited for, and what it has used is known.
            (turn,) = (await run.outcome()).history
            assert [result.status for result in turn.results] == [ResultStatus.CANCELLED] * 2


async def test_a_hard_cancel_of_those_that_wait_leaves_nobody_waiting() -> None:
    """Nobody is waited for, but everybody is told."""
    clock = VirtualClock()
    async with Runtime(Till().line(), clock=clock) as runtime:
        asked = await runtime.run("boss", "go")
        assert asked.reason is Reason.APPROVAL_REQUIRED
        outcome = await runtime.cancel(asked.invocation_id, "enough", by="ana", hard=True)
        assert outcome.reason is Reason.CANCELLED
        await clock.advance(1)
        assert {*(await reasons(runtime)).values()} == {Reason.CANCELLED}


async def test_a_cancel_reaches_a_child_at_another_worker() -> None:
    """Its worker died, and two others took it and its parent up: the cancel is kept for that one."""
    clock, till = VirtualClock(), Till()

    async def slow(_: ModelRequest) -> Step:
        await sleep(clock, 3600)
        return Final("never")

    store = await opened(clock)
    async with Runtime(till.line(middle=[slow]), store=Shared(store), clock=clock) as runtime:
        run = await runtime.start("boss", "go")
        await clock.advance(1)
    below = till.line([], [slow], [])[1:]
    async with (
        Runtime(below, store=Shared(store), clock=clock) as one,
        Runtime(till.line([], [], []), store=Shared(store), clock=clock) as two,
    ):
        assert len(await one.recover()) == 1
        assert len(await two.recover()) == 1
        await clock.advance(1)
        two.get(run.id).cancel("enough")
        await clock.advance(3)
        assert await reasons(two) == dict.fromkeys(("boss", "middle"), Reason.CANCELLED)
        assert (await two.outcome(run.id)).history[0].results[0].status is ResultStatus.CANCELLED


@pytest.mark.parametrize("working", [False, True])
async def test_a_child_can_be_cancelled_by_itself(working: bool) -> None:
    """Its parent sees that it was, and goes on; also one that waited with it."""
    clock = VirtualClock()

    async def slow(_: ModelRequest) -> Step:
        await sleep(clock, 3600)
        return Final("never")

    agents = Till().line(middle=[slow if working else QUESTION])
    async with Runtime(agents, clock=clock) as runtime:
        run = await runtime.start("boss", "go")
        await clock.advance(1)
        child = (await runtime.invocations())[0].invocation_id
        cancel = asyncio.create_task(runtime.cancel(child, "not this one", by="ana"))
        await clock.advance(2)
        await cancel
        outcome = await run.outcome()
    assert outcome.completed
    assert outcome.history[0].results[0].status is ResultStatus.CANCELLED


class Deaf(Shared):
    """A line that no heartbeat goes through any more, once it is cut."""

    cut = False

    async def heartbeat(self, worker: str, ttl: float) -> None:
        """Say that a worker is alive, unless the line is cut."""
        if self.cut:
            raise StoreError("the line is cut")
        await super().heartbeat(worker, ttl)


async def test_a_worker_that_lapses_stops_nobody_below() -> None:
    """Parent and child are given up, not cancelled: the next worker goes on with both."""
    clock, till = VirtualClock(), Till()

    async def slow(_: ModelRequest) -> Step:
        await sleep(clock, 300)
        return Final("had it paid")

    store = await opened(clock)
    line = Deaf(store)
    async with (
        Runtime(till.line(middle=[slow]), store=line, clock=clock) as one,
        Runtime(till.line([Final("done")], [slow], []), store=Shared(store), clock=clock) as two,
    ):
        run = await one.start("boss", "go")
        await clock.advance(1)
        line.cut = True
        await clock.advance(40)
        assert (await run.outcome()).reason is Reason.LEASE_LOST
        assert len(await two.recover()) == 2
        await clock.advance(400)
        outcome = await two.outcome(run.id)
        assert outcome.completed
        assert outcome.history[0].results[0].output == "had it paid"
        assert len(await two.invocations()) == 2


async def test_a_child_goes_on_where_only_its_parent_was_lost() -> None:
    """The new owner finds it at work elsewhere, waits for it, and takes its result."""
    clock = VirtualClock()

    def office(*boss: Step) -> list[Agent]:
        async def slow(_: ModelRequest) -> Step:
            await sleep(clock, 30)
            return Final("slowly done")

        async def soon(_: ModelRequest) -> Step:
            await sleep(clock, 1)
            return Final("soon done")

        quick = Agent("quick", model=ScriptedModel([soon]))
        patient = Agent("patient", model=ScriptedModel([slow]))
        tools = [quick.as_tool(), patient.as_tool()]
        return [Agent("boss", model=ScriptedModel(boss), tools=tools), quick, patient]

    both = batch(call("q", "quick", {"goal": "x"}), call("p", "patient", {"goal": "y"}))
    store = await opened(clock)
    first = Shared(store)
    async with (
        Runtime(office(both), store=first, clock=clock) as one,
        Runtime(office(Final("done")), store=Shared(store), clock=clock) as two,
    ):
        run = await one.start("boss", "go")
        owner = (await store.summary(run.id)).owner
        assert owner is not None
        # Somebody takes it over; the first owner hears of it with its next commit.
        await clock.advance(0.5)
        assert len(await one.invocations()) == 3
        await store.release(await store.acquire(run.id, owner))
        await clock.advance(1)
        assert (await run.outcome()).reason is Reason.LEASE_LOST
        assert len(await two.recover()) == 1
        await clock.advance(1)
        found = await reasons(two)
        assert found == {"boss": None, "quick": Reason.COMPLETED, "patient": None}
        await clock.advance(40)
        outcome = await two.outcome(run.id)
        assert outcome.completed
        outputs = [result.output for result in outcome.history[0].results]
        assert outputs == ["soon done", "slowly done"]
        assert len(await two.invocations()) == 3


class Deafened(Shared):
    """A line on which one invocation cannot say any more that it is to stop."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.mute: InvocationId | None = None

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Store what others have to say."""
        kept = [append for append in batch if append.invocation_id != self.mute]
        results = iter(await super().append(kept) if kept else ())
        return [
            StoreError("disk full") if append.invocation_id == self.mute else next(results)
            for append in batch
        ]


async def test_a_child_of_a_parent_that_is_over_is_not_taken_up_to_work() -> None:
    """Its process died with the parent's end durable, and the child's not: nobody wants it."""
    clock, till = VirtualClock(), Till()

    async def slow(_: ModelRequest) -> Step:
        await sleep(clock, 3600)
        return Final("never")

    store = await opened(clock)
    line = Deafened(store)
    async with Runtime(till.line(middle=[slow]), store=line, clock=clock) as runtime:
        run = await runtime.start("boss", "go")
        await clock.advance(1)
        line.mute = (await runtime.invocations())[0].invocation_id
        run.cancel("enough", hard=True)
        await clock.advance(10)
        assert (await run.outcome()).reason is Reason.CANCELLED
        assert await reasons(runtime) == {"boss": Reason.CANCELLED, "middle": None}
    model = ScriptedModel([Final("for nobody")])
    agents = till.line([], [], [])
    agents[1].model = model
    async with Runtime(agents, store=Shared(store), clock=clock) as runtime:
        await runtime.recover()
        await clock.advance(1)
        assert await reasons(runtime) == dict.fromkeys(("boss", "middle"), Reason.CANCELLED)
    assert not model.calls


async def test_an_end_of_a_child_that_could_not_be_stored_is_none() -> None:
    """What it has used is not known yet: it goes on from what is durable, and ends but once."""
    clock, till = VirtualClock(), Till()
    store = await opened(clock)
    line = Deafened(store)

    async def first(_: ModelRequest) -> Step:
        line.mute = (await runtime.invocations())[0].invocation_id
        return Final("said, and not stored")

    async def second(_: ModelRequest) -> Step:
        return Final("had it paid")

    async with Runtime(till.line(middle=[first, second]), store=line, clock=clock) as runtime:
        run = await runtime.start("boss", "go")
        await clock.advance(0.1)
        line.mute = None
        await clock.advance(1)
        outcome = await run.outcome()
        assert outcome.completed
        assert outcome.history[0].results[0].output == "had it paid"
        assert await reasons(runtime) == dict.fromkeys(("boss", "middle"), Reason.COMPLETED)


async def test_a_child_that_cannot_be_stored_is_left_to_a_person() -> None:
    """Its parent does not know how it stands; a resume asks after it again."""
    clock, till = VirtualClock(), Till()
    store = await opened(clock)
    line = Deafened(store)

    async def mute(_: ModelRequest) -> Step:
        line.mute = (await runtime.invocations())[0].invocation_id
        return Final("said, and not stored")

    agents = till.line(middle=[mute, mute, Final("had it paid")])
    async with Runtime(agents, store=line, clock=clock) as runtime:
        run = await runtime.start("boss", "go")
        await clock.advance(5)
        outcome = await run.outcome()
        assert outcome.reason is Reason.RECONCILIATION_REQUIRED
        line.mute = None
        resumed = asyncio.create_task(runtime.resume(run.id))
        await clock.advance(5)
        assert (await resumed).completed
        assert len(await runtime.invocations()) == 2
