"""Conformance of stores: what somebody has to take up, and what somebody wants to stop."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from loopwright.protocol import Append, CancelNote, InvocationId, InvocationNotFoundError, Reason
from loopwright.stores import Store

from ._base import StoreCase, append, created, head


def suspended(name: str, seq: int = 2) -> Append:
    """Make the append that suspends an invocation."""
    return append(name, seq, head=head("suspended", reason=Reason.APPROVAL_REQUIRED))


def ended(name: str, seq: int = 2) -> Append:
    """Make the append that ends an invocation."""
    return append(name, seq, head=head("ended", reason=Reason.COMPLETED))


def note(name: str, reason: str = "too dear", by: str = "ann") -> CancelNote:
    """Make a wish to stop."""
    return CancelNote(InvocationId(name), reason, by)


class OrphanRules(StoreCase):
    """What runs without a live owner is listed, and what is suspended and shall be cancelled."""

    async def test_an_invocation_without_a_live_owner_is_an_orphan(self, store: Store) -> None:
        await store.heartbeat("alive", 60)
        await store.heartbeat("gone", 60)
        await store.append(
            [
                created("owned", worker="alive"),
                created("left", worker="gone"),
                created("silent", worker="never heard of"),
                created("taken", worker="gone"),
                created("released", worker="alive"),
            ]
        )
        await store.acquire(InvocationId("taken"), "gone")
        lease = await store.acquire(InvocationId("released"), "alive")
        assert await self.orphans(store) == ["silent"]
        await store.release(lease)
        await store.heartbeat("gone", 0)
        assert await self.orphans(store) == ["left", "silent", "taken", "released"]
        await store.acquire(InvocationId("taken"), "alive")
        assert await self.orphans(store) == ["left", "silent", "released"]

    async def test_an_orphan_is_listed_with_its_summary(self, store: Store) -> None:
        await store.append([created("a"), created("b"), suspended("b")])
        await store.request_cancel(note("b"))
        assert list(await store.orphans(["desk"])) == [
            await store.summary(InvocationId("a")),
            await store.summary(InvocationId("b")),
        ]

    async def test_what_is_suspended_or_ended_is_no_orphan(self, store: Store) -> None:
        await store.append([created("a"), suspended("a"), created("b"), ended("b")])
        assert await self.orphans(store) == []

    async def test_what_is_suspended_and_shall_be_cancelled_is_to_be_taken_up(
        self, store: Store
    ) -> None:
        await store.append([created("a"), suspended("a"), created("b"), suspended("b")])
        await store.request_cancel(note("b"))
        assert await self.orphans(store) == ["b"]
        await store.append([ended("b", 3)])
        assert await self.orphans(store) == []

    async def test_a_wish_to_cancel_makes_no_orphan_of_what_has_a_live_owner(
        self, store: Store
    ) -> None:
        await store.heartbeat("w1", 60)
        await store.append([created("a")])
        await store.request_cancel(note("a"))
        assert await self.orphans(store) == []

    async def test_orphans_are_those_of_the_agents(self, store: Store) -> None:
        await store.append(
            [
                created("a"),
                created("b", agent="billing"),
                created("c", agent="mail"),
                suspended("c"),
            ]
        )
        await store.request_cancel(note("c"))
        assert await self.orphans(store, agents=[]) == []
        assert await self.orphans(store, agents=["nobody"]) == []
        assert await self.orphans(store, agents=["mail"]) == ["c"]
        assert await self.orphans(store, agents=["mail", "billing", "desk"]) == ["a", "b", "c"]

    async def test_orphans_are_listed_oldest_first_and_continued(self, store: Store) -> None:
        for number in range(6):
            await store.append([created(f"i{number}")])
        await store.append([suspended("i2"), suspended("i4")])
        await store.request_cancel(note("i2"))
        assert await self.orphans(store) == ["i0", "i1", "i2", "i3", "i5"]
        assert await self.orphans(store, limit=2) == ["i0", "i1"]
        assert await self.orphans(store, limit=2, after="i1") == ["i2", "i3"]
        # It continues behind what is no orphan any more, or never was.
        assert await self.orphans(store, limit=2, after="i4") == ["i5"]
        assert await self.orphans(store, after="i5") == []
        with pytest.raises(InvocationNotFoundError, match="nobody"):
            await store.orphans(["desk"], after=InvocationId("nobody"))

    async def orphans(
        self,
        store: Store,
        *,
        agents: Sequence[str] = ("desk",),
        limit: int = 100,
        after: str | None = None,
    ) -> list[str]:
        """Give the ids of a listing."""
        last = None if after is None else InvocationId(after)
        summaries = await store.orphans(agents, limit=limit, after=last)
        return [summary.invocation_id for summary in summaries]


class CancelRules(StoreCase):
    """A wish to stop is kept until the invocation has ended, and reaches whoever owns it."""

    async def test_a_note_reaches_the_owner(self, store: Store) -> None:
        await store.append([created("a"), created("b"), created("c", worker="w2")])
        assert list(await store.cancel_requests("w1")) == []
        odd = "a\x00b 'quoted' \U0001f600 %?;"
        await store.request_cancel(note("b", odd, odd))
        await store.request_cancel(note("c", "", ""))
        assert list(await store.cancel_requests("w1")) == [note("b", odd, odd)]
        assert list(await store.cancel_requests("w2")) == [note("c", "", "")]
        assert list(await store.cancel_requests("w3")) == []

    async def test_a_summary_has_the_note(self, store: Store) -> None:
        await store.append([created("a")])
        assert (await store.summary(InvocationId("a"))).cancel is None
        await store.request_cancel(note("a"))
        assert (await store.summary(InvocationId("a"))).cancel == note("a")
        assert [one.cancel for one in await store.invocations()] == [note("a")]

    async def test_the_first_note_stays(self, store: Store) -> None:
        await store.append([created("a")])
        await store.request_cancel(note("a", "first"))
        await store.request_cancel(note("a", "second", "bob"))
        assert list(await store.cancel_requests("w1")) == [note("a", "first")]

    async def test_cancelling_an_unknown_invocation_is_an_error(self, store: Store) -> None:
        with pytest.raises(InvocationNotFoundError, match="nobody"):
            await store.request_cancel(note("nobody"))

    async def test_a_note_for_what_has_ended_changes_nothing(self, store: Store) -> None:
        await store.append([created("a"), ended("a")])
        await store.request_cancel(note("a"))
        assert (await store.summary(InvocationId("a"))).cancel is None

    async def test_a_note_reaches_whoever_follows(self, store: Store) -> None:
        await store.append([created("a")])
        await store.request_cancel(note("a"))
        await store.acquire(InvocationId("a"), "w2")
        assert list(await store.cancel_requests("w1")) == []
        assert list(await store.cancel_requests("w2")) == [note("a")]

    async def test_a_note_for_what_is_suspended_waits_until_it_runs(self, store: Store) -> None:
        await store.append([created("a"), suspended("a")])
        await store.request_cancel(note("a"))
        lease = await store.acquire(InvocationId("a"), "w2")
        assert list(await store.cancel_requests("w2")) == []
        await store.append([append("a", 3, fence=lease.fence, worker="w2", head=head())])
        assert list(await store.cancel_requests("w2")) == [note("a")]

    async def test_what_has_ended_is_not_asked_to_stop(self, store: Store) -> None:
        await store.append([created("a")])
        await store.request_cancel(note("a"))
        await store.append([ended("a")])
        assert list(await store.cancel_requests("w1")) == []

    async def test_a_note_is_not_meant_for_what_is_resumed_after_its_end(
        self, store: Store
    ) -> None:
        await store.append([created("a")])
        await store.request_cancel(note("a"))
        await store.append([ended("a")])
        assert (await store.summary(InvocationId("a"))).cancel is None
        lease = await store.acquire(InvocationId("a"), "w2")
        await store.append([append("a", 3, fence=lease.fence, worker="w2", head=head())])
        assert list(await store.cancel_requests("w2")) == []

    async def test_a_note_stands_in_nobodys_way(self, store: Store) -> None:
        await store.append([created("a")])
        await store.request_cancel(note("a"))
        assert await store.append([append("a", 2)]) == [None]
        assert (await store.acquire(InvocationId("a"), "w2")).fence == 2

    async def test_a_note_is_there_after_closing_and_opening(self, store: Store) -> None:
        await store.append([created("a")])
        await store.request_cancel(note("a"))
        await store.close()
        await store.open()
        assert list(await store.cancel_requests("w1")) == [note("a")]
