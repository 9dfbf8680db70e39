"""Conformance of stores: what an append may do, and what becomes of its head."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from loopwright.protocol import (
    Append,
    FencedError,
    InvocationId,
    InvocationNotFoundError,
    JournalConflictError,
    Reason,
    Status,
    StoreError,
)
from loopwright.stores import AppendResult, Store

from ._base import StoreCase, append, created, head, kinds, line


class AppendRules(StoreCase):
    """Appends are taken in order, once, from the owner; a refused one fails alone."""

    async def test_the_first_append_creates_the_invocation_owned_under_fence_1(
        self, store: Store
    ) -> None:
        first = append(
            "a", 1, b"1", b"2", worker="w7", head=head(key="k", goal="g", detail="d", at=5.5)
        )
        assert await store.append([first]) == [None]

        stored = await store.load(InvocationId("a"))
        assert (stored.first_seq, stored.lines) == (1, (b"1", b"2"))
        assert stored.summary.head == first.head
        assert stored.summary.seq == 2
        assert stored.summary.created_at == 5.5
        assert stored.summary.owner == "w7"
        assert kinds(await store.append([append("a", 3, fence=1)])) == [None]

    async def test_appends_of_a_batch_see_one_another(self, store: Store) -> None:
        batch = [created("a", b"1"), created("b", b"x"), append("a", 2, b"2", b"3"), append("a", 4)]
        assert await store.append(batch) == [None] * 4
        assert (await store.load(InvocationId("a"))).summary.seq == 4

    async def test_an_empty_batch_is_fine(self, store: Store) -> None:
        assert list(await store.append([])) == []

    async def test_a_refused_append_fails_alone(self, store: Store) -> None:
        await store.append([created("a"), created("b"), created("c")])
        batch = [
            append("a", 2),
            append("b", 7),
            append("c", 2, fence=3),
            append("nobody", 2),
            append("a", 3),
            created("d"),
        ]
        assert kinds(await store.append(batch)) == [
            None,
            JournalConflictError,
            FencedError,
            JournalConflictError,
            None,
            None,
        ]
        assert (await store.load(InvocationId("a"))).summary.seq == 3
        assert (await store.load(InvocationId("b"))).summary.seq == 1
        assert (await store.load(InvocationId("c"))).summary.seq == 1

    @pytest.mark.parametrize("first_seq", [1, 2, 4])
    async def test_only_the_next_seq_is_taken(self, store: Store, first_seq: int) -> None:
        await store.append([created("a", b"1", b"2")])
        other = append("a", first_seq, b"other", head=head())
        assert kinds(await store.append([other])) == [JournalConflictError]
        assert (await store.load(InvocationId("a"))).lines == (b"1", b"2")

    @pytest.mark.parametrize("fence", [1, 3])
    async def test_only_the_current_fence_is_taken(self, store: Store, fence: int) -> None:
        await store.append([created("a")])
        await store.acquire(InvocationId("a"), "w1")
        assert kinds(await store.append([append("a", 2, fence=fence)])) == [FencedError]
        assert kinds(await store.append([append("a", 2, fence=2)])) == [None]

    async def test_a_former_owner_learns_that_it_is_one_where_others_have_written(
        self, store: Store
    ) -> None:
        await store.append([created("a")])
        lease = await store.acquire(InvocationId("a"), "w2")
        await store.append([append("a", 2, b"new owner", fence=lease.fence)])
        assert kinds(await store.append([append("a", 2, b"old owner")])) == [FencedError]

    async def test_a_creation_starts_under_fence_1(self, store: Store) -> None:
        assert kinds(await store.append([created("a")._replace(fence=2)])) == [FencedError]
        with pytest.raises(InvocationNotFoundError):
            await store.load(InvocationId("a"))

    async def test_an_id_is_created_once(self, store: Store) -> None:
        await store.append([created("a", b"mine")])
        assert kinds(await store.append([created("a", b"yours")])) == [JournalConflictError]

    async def test_a_key_is_used_once_per_agent(self, store: Store) -> None:
        batch = [
            created("a", key="order 7"),
            created("b", key="order 7"),
            created("c", key="order 7", agent="billing"),
            created("d"),
            created("e"),
        ]
        refused = await store.append(batch)
        assert kinds(refused) == [None, JournalConflictError, None, None, None]
        assert "order 7" in str(refused[1])
        with pytest.raises(InvocationNotFoundError):
            await store.load(InvocationId("b"))

    async def test_of_concurrent_creations_under_one_key_one_succeeds(self, store: Store) -> None:
        results: list[AppendResult] = []

        async def create(name: str) -> None:
            results.extend(await store.append([created(name, key="k")]))

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(create, f"i{number}")

        assert sorted(kinds(results), key=str).count(None) == 1
        assert kinds(results).count(JournalConflictError) == 19
        (only,) = await store.invocations()
        assert await store.find("desk", "k") == only.invocation_id

    async def test_a_batch_of_unknown_outcome_can_be_sent_again(self, store: Store) -> None:
        batch = [created("a", b"1", key="k"), append("a", 2, b"2", b"3"), created("b")]
        assert await store.append(batch) == [None] * 3
        assert await store.append(batch) == [None] * 3
        stored = await store.load(InvocationId("a"))
        assert stored.lines == (b"1", b"2", b"3")

    async def test_it_may_be_sent_again_cut_in_other_pieces_or_by_a_former_owner(
        self, store: Store
    ) -> None:
        await store.append([created("a", b"1"), append("a", 2, b"2", b"3")])
        await store.acquire(InvocationId("a"), "w2")
        whole = append("a", 1, b"1", b"2", b"3", head=head())
        again = [append("a", 2, b"2"), append("a", 3, b"3"), whole]
        assert await store.append(again) == [None] * 3

    async def test_sent_again_with_more_lines_it_is_a_conflict(self, store: Store) -> None:
        await store.append([created("a", b"1"), append("a", 2, b"2")])
        more = append("a", 2, b"2", b"3")
        assert kinds(await store.append([more])) == [JournalConflictError]
        assert (await store.load(InvocationId("a"))).summary.seq == 2

    async def test_sent_again_after_the_status_changed_it_changes_nothing(
        self, store: Store
    ) -> None:
        running = append("a", 2, head=head("running", at=2.0))
        ended = append("a", 3, head=head("ended", reason=Reason.COMPLETED, at=3.0))
        await store.append([created("a"), running, ended])
        assert await store.append([running, ended]) == [None] * 2
        assert (await store.load(InvocationId("a"))).summary.head.status == "ended"

    @pytest.mark.parametrize(
        "bad",
        [
            Append(InvocationId("a"), 1, 2, (), "w1"),
            append("a", 2, b"two\nlines"),
            append("a", 0),
            append("new", 1),
            append("a", 2, head=head(detail="\ud800")),
        ],
        ids=["no line", "a line break", "seq 0", "creation without head", "lone surrogate"],
    )
    async def test_what_cannot_be_kept_is_refused_alone(self, store: Store, bad: Append) -> None:
        await store.append([created("a")])
        results = await store.append([bad, created("b")])
        assert kinds(results) == [StoreError, None]

    async def test_200_concurrent_appends_are_all_stored(self, store: Store) -> None:
        results: list[AppendResult] = []

        async def write(number: int) -> None:
            name = f"i{number}"
            for batch in ([created(name)], [append(name, 2)], [append(name, 3)]):
                results.extend(await store.append(batch))

        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(write, number)

        assert results == [None] * 600
        for number in range(0, 200, 17):
            name = f"i{number}"
            stored = await store.load(InvocationId(name))
            assert stored.lines == tuple(line(name, seq) for seq in (1, 2, 3))

    async def test_a_cancelled_append_is_stored_whole_or_not_at_all(self, store: Store) -> None:
        await store.append([created("a")])
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.append([append("a", 2, b"2", b"3")])

        # Whatever became of it, sending it again settles it.
        assert await store.append([append("a", 2, b"2", b"3"), append("a", 4)]) == [None] * 2
        assert (await store.load(InvocationId("a"))).lines[1:3] == (b"2", b"3")


class HeadRules(StoreCase):
    """Heads say what is listed of an invocation, and release its ownership."""

    async def test_a_head_changes_status_reason_detail_and_time(self, store: Store) -> None:
        asked = head("suspended", reason=Reason.APPROVAL_REQUIRED, detail="sha256:1", at=9.0)
        await store.append([created("a", key="k"), append("a", 2, head=asked)])
        summary = (await store.load(InvocationId("a"))).summary
        # What an invocation is, it stays: agent, key and goal are those it was created with.
        assert summary.head == replace(asked, key="k")
        assert summary.created_at == 1.0

    @pytest.mark.parametrize("status", ["suspended", "ended"])
    async def test_leaving_running_releases_the_ownership(
        self, store: Store, status: Status
    ) -> None:
        await store.heartbeat("w1", 60)
        left = append("a", 2, head=head(status, reason=Reason.CANCELLED))
        await store.append([created("a"), left])
        assert (await store.load(InvocationId("a"))).summary.owner is None
        assert (await store.acquire(InvocationId("a"), "w2")).fence == 2

    async def test_a_head_that_keeps_it_running_keeps_the_owner(self, store: Store) -> None:
        await store.append([created("a"), append("a", 2, head=head(at=2.0))])
        assert (await store.load(InvocationId("a"))).summary.owner == "w1"

    async def test_a_suspended_invocation_runs_again(self, store: Store) -> None:
        asked = head("suspended", reason=Reason.APPROVAL_REQUIRED)
        await store.append([created("a"), append("a", 2, head=asked)])
        lease = await store.acquire(InvocationId("a"), "w2")
        resumed = append("a", 3, fence=lease.fence, worker="w2", head=head(at=4.0))
        assert await store.append([resumed]) == [None]
        summary = (await store.load(InvocationId("a"))).summary
        assert (summary.head.status, summary.head.reason) == ("running", None)
        assert (summary.owner, summary.seq) == ("w2", 3)
