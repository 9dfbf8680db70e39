"""`FailingStore` fails exactly the appends it was told to, and is otherwise the store it wraps."""

from __future__ import annotations

import pytest

from loopwright.protocol import Append, Head, InvocationId, StoreError
from loopwright.stores import MemoryStore, Store
from loopwright.testing import FailingStore, StoreConformance

pytestmark = pytest.mark.anyio

FIRST = Append(InvocationId("a"), 1, 1, (b"{}",), "w", Head("desk", "running", None, 0.0))


class TestItIsAStore(StoreConformance):
    """Unless told to fail, it is as good a store as the one it wraps."""

    async def make_store(self) -> Store:
        return FailingStore(MemoryStore())


async def test_a_transient_failure_is_raised_once() -> None:
    store = FailingStore(MemoryStore())
    await store.open()
    store.fail_next(StoreError("busy", transient=True))
    assert store.failures_left == 1
    with pytest.raises(StoreError, match="busy"):
        await store.append([FIRST])
    assert store.failures_left == 0
    assert await store.append([FIRST]) == [None]


async def test_any_other_failure_refuses_the_whole_batch() -> None:
    store = FailingStore(MemoryStore())
    await store.open()
    store.fail_next(StoreError("disk full"))
    refused = await store.append([FIRST, FIRST])
    assert [str(error) for error in refused] == ["disk full", "disk full"]
    assert await store.append([FIRST]) == [None]
