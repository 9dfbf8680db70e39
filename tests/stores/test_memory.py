"""MemoryStore keeps the promises of the Store Protocol, and keeps lines without copying them."""

from __future__ import annotations

import pytest

from loopwright.protocol import InvocationId
from loopwright.stores import MemoryStore, Store
from loopwright.testing import WrappedStore
from loopwright.testing.conformance._base import append, created
from loopwright.testing.conformance._suite import StoreConformance


class TestMemoryStore(StoreConformance):
    async def make_store(self) -> Store:
        return MemoryStore()


class TestWrappedStore(StoreConformance):
    """What hands everything on keeps every promise as well."""

    async def make_store(self) -> Store:
        return WrappedStore(MemoryStore())


@pytest.mark.anyio
async def test_lines_are_the_ones_that_were_handed_in() -> None:
    store = MemoryStore()
    await store.open()
    line = b"a line of some length"
    await store.append([created("a"), append("a", 2, line)])
    assert (await store.load(InvocationId("a"))).lines[1] is line


def test_an_append_never_suspends() -> None:
    store = MemoryStore()
    with pytest.raises(StopIteration):
        store.open().send(None)
    with pytest.raises(StopIteration):
        store.append([created("a")]).send(None)


@pytest.mark.anyio
async def test_a_heartbeat_runs_out_by_the_clock_handed_in() -> None:
    now = 100.0
    store = MemoryStore(clock=lambda: now)
    await store.open()
    await store.append([created("a")])
    await store.heartbeat("w1", 10)
    assert (await store.load(InvocationId("a"))).summary.owner_alive
    now = 110.0
    assert not (await store.load(InvocationId("a"))).summary.owner_alive
