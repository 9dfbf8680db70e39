"""The conformance suite of the `Store` Protocol: what every store must do, as tests."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from loopwright.protocol import CancelNote, InvocationId, Lease, StoreError
from loopwright.stores import AppendResult, Store

from ._append import AppendRules, HeadRules
from ._base import StoreCase, append, created, kinds
from ._cancel import CancelRules, OrphanRules
from ._effects import EffectRules, SnapshotRules
from ._outbox import ClaimRules, ConcludeRules
from ._own import OwnershipRules
from ._payloads import PayloadRules
from ._prune import PruneRules
from ._read import ReadRules
from ._share import SharingRules


class LifeRules(StoreCase):
    """A store is opened, used, closed, and opened again."""

    async def test_an_open_store_cannot_be_opened(self, store: Store) -> None:
        with pytest.raises(StoreError, match="open"):
            await store.open()

    async def test_closing_twice_is_fine(self, store: Store) -> None:
        await store.close()
        await store.close()

    async def test_a_closed_store_refuses_every_use(self, store: Store) -> None:
        await store.close()
        with pytest.raises(StoreError, match="not open"):
            await store.append([created("a")])
        with pytest.raises(StoreError, match="not open"):
            await store.load(InvocationId("a"))
        with pytest.raises(StoreError, match="not open"):
            await store.find("desk", "k")
        with pytest.raises(StoreError, match="not open"):
            await store.invocations()
        with pytest.raises(StoreError, match="not open"):
            await store.acquire(InvocationId("a"), "w1")
        with pytest.raises(StoreError, match="not open"):
            await store.release(Lease(InvocationId("a"), "w1", 1))
        with pytest.raises(StoreError, match="not open"):
            await store.heartbeat("w1", 60)
        with pytest.raises(StoreError, match="not open"):
            await store.summary(InvocationId("a"))
        with pytest.raises(StoreError, match="not open"):
            await store.orphans(["desk"])
        with pytest.raises(StoreError, match="not open"):
            await store.request_cancel(CancelNote(InvocationId("a"), "why", "ann"))
        with pytest.raises(StoreError, match="not open"):
            await store.cancel_requests("w1")
        with pytest.raises(StoreError, match="not open"):
            await store.effects()
        with pytest.raises(StoreError, match="not open"):
            await store.claim("w1", ["desk"])
        with pytest.raises(StoreError, match="not open"):
            await store.conclude(1, "w1", "committed")
        with pytest.raises(StoreError, match="not open"):
            await store.prune(ended_before=1.0)

    async def test_what_was_stored_is_there_after_closing_and_opening(self, store: Store) -> None:
        await store.append([created("a", b"1", b"2")])
        await store.close()
        await store.open()
        assert (await store.load(InvocationId("a"))).lines == (b"1", b"2")
        assert kinds(await store.append([append("a", 3)])) == [None]

    async def test_another_store_of_the_same_place_finds_it(self, store: Store) -> None:
        await store.append([created("a", b"1", b"2", key="k")])
        before = await store.load(InvocationId("a"))
        await store.close()
        async with self.second() as other:
            assert await other.load(InvocationId("a")) == before
            assert await other.find("desk", "k") == "a"

    async def test_close_finishes_what_was_begun(self, store: Store) -> None:
        results: list[AppendResult] = []

        async def write(name: str) -> None:
            results.extend(await store.append([created(name)]))

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(write, f"i{number}")
            await checkpoint()
            await store.close()

        assert results == [None] * 20
        await store.open()
        assert len(await store.invocations()) == 20


class StoreConformance(
    LifeRules,
    AppendRules,
    HeadRules,
    PayloadRules,
    EffectRules,
    SnapshotRules,
    ReadRules,
    OwnershipRules,
    OrphanRules,
    CancelRules,
    ClaimRules,
    ConcludeRules,
    PruneRules,
    SharingRules,
):
    """Every promise of the `Store` Protocol, as tests.

    Subclass it in a test module, name the subclass `Test…`, and say how a store is made::

        class TestMyStore(StoreConformance):
            durable = True

            @pytest.fixture(autouse=True)
            def place(self, tmp_path: Path) -> None:
                self.path = tmp_path / "store"

            async def make_store(self) -> Store:
                return MyStore(self.path)

    Every test makes one store, two where `durable` is set, and closes them. It needs pytest with
    anyio's plugin; nothing sleeps but the two tests that let a heartbeat or a delay run out.
    """
