"""Conformance of stores: who owns an invocation."""

from __future__ import annotations

import anyio
import pytest

from loopwright.protocol import (
    InvocationId,
    InvocationNotFoundError,
    Lease,
    LeaseHeldError,
    Reason,
)
from loopwright.stores import Store

from ._base import StoreCase, append, created, head, kinds


class OwnershipRules(StoreCase):
    """A live owner keeps its invocation; every other one can be replaced, and is fenced."""

    async def test_every_acquisition_has_the_next_fence(self, store: Store) -> None:
        await store.append([created("a")])
        for fence in (2, 3, 4):
            worker = f"w{fence}"
            lease = await store.acquire(InvocationId("a"), worker)
            assert lease == Lease(InvocationId("a"), worker, fence)
            assert (await store.load(InvocationId("a"))).summary.owner == worker

    async def test_acquiring_an_unknown_invocation_is_an_error(self, store: Store) -> None:
        with pytest.raises(InvocationNotFoundError, match="nobody"):
            await store.acquire(InvocationId("nobody"), "w1")

    async def test_a_live_owner_keeps_its_invocation(self, store: Store) -> None:
        await store.heartbeat("w1", 60)
        await store.append([created("a")])
        with pytest.raises(LeaseHeldError, match="w1"):
            await store.acquire(InvocationId("a"), "w2")
        assert kinds(await store.append([append("a", 2)])) == [None]

    async def test_a_live_owner_may_acquire_again(self, store: Store) -> None:
        await store.heartbeat("w1", 60)
        await store.append([created("a")])
        assert (await store.acquire(InvocationId("a"), "w1")).fence == 2

    async def test_an_owner_that_said_goodbye_is_replaced(self, store: Store) -> None:
        await store.heartbeat("w1", 60)
        await store.append([created("a")])
        await store.heartbeat("w1", 0)
        assert (await store.acquire(InvocationId("a"), "w2")).fence == 2

    async def test_an_owner_whose_heartbeat_ran_out_is_replaced(self, store: Store) -> None:
        await store.heartbeat("w1", 60)
        await store.heartbeat("w1", 0.02)
        await store.append([created("a")])
        with anyio.fail_after(5):
            while (await store.load(InvocationId("a"))).summary.owner_alive:  # noqa: ASYNC110 - its clock is real
                await anyio.sleep(0.01)
        assert (await store.acquire(InvocationId("a"), "w2")).fence == 2

    async def test_the_age_of_a_heartbeat_can_be_judged(self, store: Store) -> None:
        asked = store.now()
        await store.heartbeat("w1", 0.05)
        await store.append([created("a")])
        with anyio.fail_after(5):
            while (await store.load(InvocationId("a"))).summary.owner_alive:  # noqa: ASYNC110 - its clock is real
                await anyio.sleep(0.005)
        assert store.now() - asked >= 0.05

    async def test_a_summary_says_whether_the_owner_is_alive(self, store: Store) -> None:
        await store.append([created("a")])
        assert not (await store.load(InvocationId("a"))).summary.owner_alive
        await store.heartbeat("w1", 60)
        assert (await store.load(InvocationId("a"))).summary.owner_alive
        assert [one.owner_alive for one in await store.invocations()] == [True]
        await store.append([append("a", 2, head=head("ended", reason=Reason.COMPLETED))])
        assert not (await store.load(InvocationId("a"))).summary.owner_alive

    async def test_released_ownership_is_free(self, store: Store) -> None:
        await store.heartbeat("w2", 60)
        await store.append([created("a")])
        lease = await store.acquire(InvocationId("a"), "w2")
        await store.release(lease)
        assert (await store.load(InvocationId("a"))).summary.owner is None
        assert (await store.acquire(InvocationId("a"), "w3")).fence == 3

    async def test_a_lease_that_is_over_releases_nothing(self, store: Store) -> None:
        await store.append([created("a")])
        old = await store.acquire(InvocationId("a"), "w1")
        await store.acquire(InvocationId("a"), "w1")
        await store.release(old)
        await store.release(Lease(InvocationId("a"), "w2", 3))
        await store.release(Lease(InvocationId("nobody"), "w2", 1))
        assert (await store.load(InvocationId("a"))).summary.owner == "w1"

    async def test_of_concurrent_acquisitions_by_live_workers_one_succeeds(
        self, store: Store
    ) -> None:
        await store.append([created("a")])
        leases: list[Lease] = []

        async def acquire(worker: str) -> None:
            await store.heartbeat(worker, 60)
            try:
                leases.append(await store.acquire(InvocationId("a"), worker))
            except LeaseHeldError:
                return

        async with anyio.create_task_group() as tasks:
            for number in range(2, 12):
                tasks.start_soon(acquire, f"w{number}")

        (lease,) = leases
        assert lease.fence == 2
