"""Conformance of stores: two stores of one place, as two processes have them."""

from __future__ import annotations

import anyio
import pytest

from loopwright.protocol import (
    CancelNote,
    Claimed,
    FencedError,
    InvocationId,
    JournalConflictError,
    LeaseHeldError,
    Reason,
)
from loopwright.stores import AppendResult, Store

from ._base import StoreCase, append, created, delivery, effect, head, kinds, queued


class SharingRules(StoreCase):
    """Two stores of one place, as two processes have them, agree on everything."""

    async def test_two_stores_see_each_others_appends(self, store: Store) -> None:
        async with self.second() as other:
            await store.append([created("a", key="k")])
            assert kinds(await other.append([append("a", 2)])) == [None]
            assert kinds(await store.append([append("a", 3)])) == [None]
            assert kinds(await other.append([append("a", 3, b"other")])) == [JournalConflictError]
            assert kinds(await other.append([append("a", 4)])) == [None]
            assert (await store.load(InvocationId("a"))).summary.seq == 4
            assert kinds(await other.append([created("b", key="k")])) == [JournalConflictError]

    async def test_taking_over_fences_the_other_store(self, store: Store) -> None:
        async with self.second() as other:
            await store.append([created("a"), append("a", 2)])
            lease = await other.acquire(InvocationId("a"), "w2")
            assert kinds(await store.append([append("a", 3)])) == [FencedError]
            taken = append("a", 3, fence=lease.fence, worker="w2")
            assert kinds(await other.append([taken])) == [None]

    async def test_a_heartbeat_counts_in_the_other_store(self, store: Store) -> None:
        async with self.second() as other:
            await store.append([created("a")])
            await store.heartbeat("w1", 60)
            with pytest.raises(LeaseHeldError, match="w1"):
                await other.acquire(InvocationId("a"), "w2")
            await other.append([append("a", 2, head=head("suspended"))])
            assert (await other.acquire(InvocationId("a"), "w2")).fence == 2

    async def test_two_stores_write_at_the_same_time(self, store: Store) -> None:
        async with self.second() as other:
            results: list[AppendResult] = []

            async def write(own: Store, name: str) -> None:
                results.extend(await own.append([created(name)]))
                for seq in range(2, 21):
                    results.extend(await own.append([append(name, seq)]))

            async with anyio.create_task_group() as tasks:
                for number in range(4):
                    tasks.start_soon(write, (store, other)[number % 2], f"i{number}")

            assert results == [None] * 80
            assert [one.seq for one in await other.invocations()] == [20] * 4

    async def test_a_cancel_request_reaches_the_owner_in_the_other_store(
        self, store: Store
    ) -> None:
        async with self.second() as other:
            await store.append([created("a")])
            note = CancelNote(InvocationId("a"), "too dear", "ann")
            await other.request_cancel(note)
            assert list(await store.cancel_requests("w1")) == [note]
            assert (await store.summary(InvocationId("a"))).cancel == note

    async def test_effects_are_seen_in_the_other_store(self, store: Store) -> None:
        async with self.second() as other:
            await store.append([created("a", effects=[effect("k")])])
            ((_, fact),) = await other.effects()
            assert fact.entry == effect("k")

    async def test_a_delivery_is_claimed_in_one_store_only(self, store: Store) -> None:
        async with self.second() as other:
            deliveries = [delivery("a", f"k{number}") for number in range(40)]
            await store.append([queued("a", 1, *deliveries, head=head())])
            claims: list[Claimed] = []

            async def claim(own: Store, worker: str) -> None:
                await own.heartbeat(worker, 60)
                while claimed := await own.claim(worker, ["desk"], limit=3):
                    claims.extend(claimed)

            async with anyio.create_task_group() as tasks:
                for number in range(4):
                    tasks.start_soon(claim, (store, other)[number % 2], f"w{number}")

            assert len({one.number for one in claims}) == len(claims) == 40
            assert {one.attempt for one in claims} == {1}

    async def test_a_dead_worker_of_the_other_store_loses_its_claim(self, store: Store) -> None:
        async with self.second() as other:
            await store.append([queued("a", 1, delivery("a", "k"), head=head())])
            await store.heartbeat("w1", 60)
            (mine,) = await store.claim("w1", ["desk"])
            assert list(await other.claim("w2", ["desk"])) == []
            await store.heartbeat("w1", 0)
            (again,) = await other.claim("w2", ["desk"])
            assert (again.number, again.attempt) == (mine.number, 2)
            assert not await store.conclude(mine.number, "w1", "committed")
            assert await other.conclude(again.number, "w2", "committed")

    async def test_what_the_other_store_pruned_is_gone(self, store: Store) -> None:
        async with self.second() as other:
            ended = append("a", 2, head=head("ended", reason=Reason.COMPLETED))
            await store.append([created("a"), ended])
            # Refused, and yet this store may remember what it has seen of the invocation.
            assert kinds(await store.append([append("a", 7)])) == [JournalConflictError]
            assert await other.prune(ended_before=2.0) == 1
            assert await other.append([created("b", b"1")]) == [None]
            assert kinds(await store.append([append("a", 3)])) == [JournalConflictError]
            assert (await store.load(InvocationId("b"))).lines == (b"1",)
