"""The Committer: one transaction for all that has gathered, and an answer whatever the store does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from loopwright.actors import Committer
from loopwright.actors.kernel import ActorRef, ActorSystem, Request
from loopwright.protocol import (
    Append,
    Commit,
    CommitFailed,
    Committed,
    FencedError,
    InvocationId,
    JournalConflictError,
    StoreError,
)
from loopwright.stores import AppendResult, MemoryStore
from loopwright.testing import Probe, VirtualClock, WrappedStore, settle

pytestmark = pytest.mark.anyio

Does = Callable[[Sequence[Append]], Any]


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class OddError(BaseException):
    """Neither an Exception nor anything Python knows."""


def fine(batch: Sequence[Append]) -> Sequence[AppendResult]:
    return [None] * len(batch)


def raises(error: BaseException) -> Does:
    def do(_: Sequence[Append]) -> Sequence[AppendResult]:
        raise error

    return do


def gives(results: object) -> Does:
    def do(_: Sequence[Append]) -> object:
        return results

    return do


class Scripted(WrappedStore):
    """A store that does what it is told for each append, and is fine from then on."""

    def __init__(self, *does: Does) -> None:
        super().__init__(MemoryStore())
        self._does = list(does)
        self.batches: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        self.batches.append([append.invocation_id for append in batch])
        await self.gate.wait()
        does = self._does.pop(0) if self._does else fine
        return cast("Sequence[AppendResult]", does(batch))


class AtOnce(Scripted):
    """A store that can also append without waiting, if it wants to."""

    def __init__(self, *now: Does) -> None:
        super().__init__()
        self._now = list(now)
        self.at_once: list[list[str]] = []

    def append_nowait(self, batch: Sequence[Append]) -> Sequence[AppendResult] | None:
        self.at_once.append([append.invocation_id for append in batch])
        return cast("Sequence[AppendResult] | None", self._now.pop(0)(batch))


class CommitterBench:
    """A Committer on a clock of its own, and a probe that is told its answers."""

    def __init__(self, system: ActorSystem, store: WrappedStore) -> None:
        self.clock = VirtualClock()
        self.asker = Probe(system)
        self.ref: ActorRef[Any] = system.start(Committer, store, self.clock)

    def commit(self, *names: str, seq: int = 1) -> None:
        for name in names:
            append = Append(InvocationId(name), 1, seq, (b"{}",), "w")
            self.ref.tell(Request(Commit(append), self.asker.ref))

    async def answers(self, count: int) -> list[Committed | CommitFailed]:
        answers = await self.asker.received(count)
        await settle()
        assert len(self.asker.messages) == count
        return answers


@asynccontextmanager
async def committer(store: WrappedStore) -> AsyncGenerator[CommitterBench, None]:
    async with ActorSystem() as system:
        yield CommitterBench(system, store)


async def test_what_has_gathered_is_one_transaction() -> None:
    """Also what comes while a transaction is under way: it is the next one, in order."""
    store = Scripted()
    store.gate.clear()
    async with committer(store) as bench:
        bench.commit("a", "b")
        await settle()
        bench.commit("c")
        bench.commit("d", "a")
        await settle()
        assert store.batches == [["a", "b"]]
        store.gate.set()
        assert await bench.answers(5) == [Committed(1)] * 5
        bench.commit("e", seq=7)
        assert (await bench.answers(6))[5] == Committed(7)

    assert store.batches == [["a", "b"], ["c", "d", "a"], ["e"]]


async def test_a_refused_append_fails_alone() -> None:
    """Being fenced is told apart: another worker is the owner now."""

    def refuse(_: Sequence[Append]) -> Sequence[AppendResult]:
        return [None, FencedError("taken over"), JournalConflictError("not next")]

    async with committer(Scripted(refuse)) as bench:
        bench.commit("a", "b", "c")
        answers = await bench.answers(3)

    assert answers == [
        Committed(1),
        CommitFailed(1, "taken over", fenced=True),
        CommitFailed(1, "not next"),
    ]


async def test_a_busy_store_is_asked_again() -> None:
    """Five times, each after twice the time of the one before; the batch is the same."""
    busy = raises(StoreError("locked", transient=True))
    store = Scripted(*[busy] * 5)
    async with committer(store) as bench:
        bench.commit("a", "b")
        tries: list[int] = []
        for pause in (0.02, 0.04, 0.08, 0.16, 0.32):
            await bench.clock.advance(pause * 0.9)
            tries.append(len(store.batches))
            await bench.clock.advance(pause * 0.1 + 1e-9)
        assert tries == [1, 2, 3, 4, 5]
        assert await bench.answers(2) == [Committed(1)] * 2

    assert store.batches == [["a", "b"]] * 6


async def test_a_store_that_stays_busy_has_failed() -> None:
    """After the last try everybody is told; what has gathered meanwhile is tried afresh."""
    store = Scripted(*[raises(StoreError("locked", transient=True))] * 6)
    async with committer(store) as bench:
        bench.commit("a", "b")
        await settle()
        bench.commit("c")
        await bench.clock.advance(1)
        answers = await bench.answers(3)

    assert answers == [CommitFailed(1, "locked")] * 2 + [Committed(1)]
    assert store.batches == [["a", "b"]] * 6 + [["c"]]


async def test_a_permanent_failure_is_not_repeated() -> None:
    """Everybody of the group is told at once."""
    store = Scripted(raises(StoreError("disk full")))
    async with committer(store) as bench:
        bench.commit("a", "b")
        assert await bench.answers(2) == [CommitFailed(1, "disk full")] * 2

    assert len(store.batches) == 1


@pytest.mark.parametrize(
    ("does", "error"),
    [
        (raises(ZeroDivisionError("0")), "ZeroDivisionError: 0"),
        (raises(MuteError()), "MuteError: <its text cannot be read>"),
        (raises(OddError("odd")), "OddError: odd"),
        (raises(asyncio.CancelledError("own")), "CancelledError: own"),
        (gives(None), "TypeError: object of type 'NoneType' has no len()"),
        (gives([]), "the store gave 0 results for 2 appends"),
        (gives([None] * 3), "the store gave 3 results for 2 appends"),
        (gives([MuteError()] * 2), "<its text cannot be read>"),
    ],
)
async def test_a_store_may_do_anything(does: Does, error: str) -> None:
    """Everybody who waits is told, and the next group is written."""
    async with committer(Scripted(does)) as bench:
        bench.commit("a", "b")
        assert await bench.answers(2) == [CommitFailed(1, error)] * 2
        bench.commit("c")
        assert (await bench.answers(3))[2] == Committed(1)


async def test_closing_ends_a_write_that_hangs() -> None:
    """The cancellation of the runtime is not mistaken for one of the store."""
    store = Scripted()
    store.gate.clear()
    async with committer(store) as bench:
        bench.commit("a")
        await settle()

    assert bench.asker.messages == []


async def test_closing_does_not_wait_out_a_busy_store() -> None:
    """Between two tries there is nothing to finish."""
    store = Scripted(raises(StoreError("locked", transient=True)))
    async with committer(store) as bench:
        bench.commit("a")
        await settle()

    assert (bench.asker.messages, len(store.batches)) == ([], 1)


async def test_a_store_that_can_append_at_once_does() -> None:
    """No task is needed then; what comes in one go is still one transaction."""
    store = AtOnce(fine, fine)
    async with committer(store) as bench:
        bench.commit("a", "b")
        await bench.answers(2)
        bench.commit("c")
        assert await bench.answers(3) == [Committed(1)] * 3

    assert (store.at_once, store.batches) == ([["a", "b"], ["c"]], [])


@pytest.mark.parametrize(
    "now",
    [
        gives(None),
        gives([]),
        gives(7),
        raises(StoreError("locked", transient=True)),
        raises(ZeroDivisionError()),
    ],
)
async def test_where_it_cannot_the_waiting_way_is_taken(now: Does) -> None:
    """It declines, fails or does not do what it says: the same batch is appended with waiting."""
    store = AtOnce(now, fine)
    async with committer(store) as bench:
        bench.commit("a", "b")
        assert await bench.answers(2) == [Committed(1)] * 2
        bench.commit("c")
        await bench.answers(3)

    assert (store.at_once, store.batches) == ([["a", "b"], ["c"]], [["a", "b"]])


async def test_a_waiter_that_is_gone_is_not_missed() -> None:
    """The others of its group are told."""
    async with committer(Scripted()) as bench:
        gone = Probe(bench.ref.cell.system)
        append = Append(InvocationId("x"), 1, 1, (b"{}",), "w")
        bench.ref.tell(Request(Commit(append), gone.ref))
        gone.ref.kill()
        bench.commit("a")
        assert await bench.answers(1) == [Committed(1)]
