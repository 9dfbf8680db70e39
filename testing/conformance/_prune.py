"""Conformance of stores: what ended long ago can be deleted, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from math import nan
from typing import cast

import pytest

from loopwright.protocol import (
    UNSETTLED,
    Append,
    EffectStatus,
    InvocationId,
    InvocationNotFoundError,
    JournalConflictError,
    Reason,
    Snapshot,
    StoreError,
)
from loopwright.stores import Store

from ._base import (
    StoreCase,
    append,
    created,
    delivery,
    effect,
    head,
    kinds,
    line,
    queued,
)


def ended(name: str, seq: int = 2, *, at: float = 2.0) -> Append:
    """Make the append that ends an invocation."""
    return append(name, seq, head=head("ended", reason=Reason.COMPLETED, at=at))


class PruneRules(StoreCase):
    """Pruning deletes whole invocations that ended long ago and left nothing open."""

    async def test_what_ended_before_is_deleted(self, store: Store) -> None:
        await store.append(
            [
                created("a"),
                ended("a", at=10.0),
                created("b"),
                ended("b", at=20.0),
                created("c"),
                ended("c", at=5.0),
            ]
        )
        assert await store.prune(ended_before=5.0) == 0
        assert await store.prune(ended_before=20.0) == 2
        assert await store.prune(ended_before=20.0) == 0
        assert [one.invocation_id for one in await store.invocations()] == ["b"]

    @pytest.mark.parametrize("time", ["2026-01-01", None, datetime(2026, 1, 1, tzinfo=UTC), nan])
    async def test_nothing_is_deleted_by_a_time_that_is_none(
        self, store: Store, time: object
    ) -> None:
        await store.append([created("a"), ended("a")])
        with pytest.raises(StoreError, match=r"ended_before is .* seconds since the epoch"):
            await store.prune(ended_before=cast("float", time))
        assert len(await store.invocations()) == 1

    @pytest.mark.parametrize("limit", [-1, 1.5, None])
    async def test_nothing_is_deleted_by_a_limit_that_is_none(
        self, store: Store, limit: object
    ) -> None:
        await store.append([created("a"), ended("a")])
        with pytest.raises(StoreError, match=r"limit is .* at most"):
            await store.prune(ended_before=1_000.0, limit=cast("int", limit))
        assert len(await store.invocations()) == 1

    async def test_what_has_not_ended_stays(self, store: Store) -> None:
        asked = head("suspended", reason=Reason.APPROVAL_REQUIRED)
        await store.append([created("a"), created("b"), append("b", 2, head=asked)])
        assert await store.prune(ended_before=1_000.0) == 0
        assert len(await store.invocations()) == 2

    async def test_nothing_is_left_of_what_is_deleted(self, store: Store) -> None:
        await store.append(
            [
                created("a", key="k"),
                append("a", 2, effects=[effect("k", "committed")], snapshot=Snapshot(1, b"x")),
                ended("a", 3),
            ]
        )
        assert await store.prune(ended_before=3.0) == 1
        with pytest.raises(InvocationNotFoundError, match="'a'"):
            await store.load(InvocationId("a"))
        with pytest.raises(InvocationNotFoundError, match="'a'"):
            await store.summary(InvocationId("a"))
        assert await store.find("desk", "k") is None
        assert list(await store.invocations()) == []
        assert list(await store.effects()) == []

    async def test_id_and_key_of_what_is_deleted_can_be_used_again(self, store: Store) -> None:
        first = queued("a", 1, delivery("a", "k"), head=head(key="k"))
        await store.append([first])
        (claimed,) = await store.claim("w1", ["desk"])
        await store.conclude(claimed.number, "w1", "committed")
        await store.append([append("a", 2, snapshot=Snapshot(1, b"x")), ended("a", 3)])
        assert await store.prune(ended_before=3.0) == 1

        assert await store.append([first, append("a", 2, b"new")]) == [None] * 2
        stored = await store.load(InvocationId("a"))
        assert stored.lines == (line("a", 1), b"new")
        assert stored.snapshot is None
        assert await store.find("desk", "k") == "a"
        (claimed,) = await store.claim("w1", ["desk"])
        assert claimed.attempt == 1
        ((_, fact),) = await store.effects()
        assert fact.entry.attempts == 1

    async def test_what_is_created_after_pruning_is_apart_from_what_was_before(
        self, store: Store
    ) -> None:
        await store.append([created("a"), created("b"), ended("b")])
        # Sent again: a store may remember what it looked up for this.
        await store.append([ended("b")])
        assert await store.prune(ended_before=3.0) == 1
        assert await store.append([created("c"), append("c", 2), append("a", 2)]) == [None] * 3
        assert (await store.load(InvocationId("c"))).lines == (line("c", 1), line("c", 2))
        assert (await store.load(InvocationId("a"))).lines == (line("a", 1), line("a", 2))
        assert kinds(await store.append([append("b", 3)])) == [JournalConflictError]
        assert (await store.load(InvocationId("c"))).summary.seq == 2
        with pytest.raises(InvocationNotFoundError):
            await store.load(InvocationId("b"))

    @pytest.mark.parametrize("status", UNSETTLED)
    async def test_what_has_an_unsettled_effect_stays(
        self, store: Store, status: EffectStatus
    ) -> None:
        settled = effect("k1", "committed")
        await store.append([created("a", effects=[settled, effect("k2", status)]), ended("a")])
        assert await store.prune(ended_before=3.0) == 0
        assert len(await store.effects()) == 2
        assert (await store.load(InvocationId("a"))).lines == (line("a", 1), line("a", 2))

    async def test_what_has_only_settled_effects_goes(self, store: Store) -> None:
        effects = [
            effect("k1", "committed"),
            effect("k2", "rejected"),
            effect("k3", "not_applied"),
        ]
        await store.append([created("a", effects=effects), ended("a")])
        assert await store.prune(ended_before=3.0) == 1

    async def test_what_is_not_delivered_yet_stays(self, store: Store) -> None:
        # Also where the ledger knows nothing of it.
        await store.append([created("a", outbox=[delivery("a", "k")]), ended("a")])
        assert await store.prune(ended_before=3.0) == 0
        (claimed,) = await store.claim("w1", ["desk"])
        assert await store.prune(ended_before=3.0) == 0
        await store.conclude(claimed.number, "w1", "committed")
        assert await store.prune(ended_before=3.0) == 1

    async def test_the_oldest_go_first(self, store: Store) -> None:
        for number in range(5):
            name = f"i{number}"
            await store.append([created(name), ended(name, at=float(10 - number))])
        assert await store.prune(ended_before=100.0, limit=2) == 2
        assert [one.invocation_id for one in await store.invocations()] == ["i4", "i3", "i2"]
        assert await store.prune(ended_before=100.0, limit=10) == 3

    async def test_what_stays_is_untouched(self, store: Store) -> None:
        await store.append(
            [
                created("a", key="k", effects=[effect("k", "committed")]),
                append("a", 2, snapshot=Snapshot(1, b"x")),
                created("b"),
                ended("b"),
            ]
        )
        before = await store.load(InvocationId("a"))
        assert await store.prune(ended_before=3.0) == 1
        assert await store.load(InvocationId("a")) == before
        assert len(await store.effects()) == 1
        assert await store.find("desk", "k") == "a"
