"""Conformance of stores: the effect ledger and the snapshots that come with appends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from loopwright.protocol import (
    UNSETTLED,
    CallId,
    EffectEntry,
    EffectKey,
    EffectStatus,
    FencedError,
    InvocationId,
    JsonObject,
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

ODD: JsonObject = {
    "big": 10**400,
    "negative": -(2**63) - 1,
    "NUL": "a\x00b",
    "a\x00key": ["\ufffd", "\U0001f600", "\u2028", "'%?;"],
    "float": 0.1,
    "one": 1,
    "one point zero": 1.0,
    "nested": {"empty": {}, "list": [[], None, True, False, ""]},
}
"""What is easily changed on the way to a database and back."""


class EffectRules(StoreCase):
    """Effects are stored with their lines, and found again over all invocations."""

    async def test_the_effects_of_an_append_are_found_again(self, store: Store) -> None:
        entry = EffectEntry(
            effect_key=EffectKey("order 7"),
            tool_name="refund",
            turn=3,
            call_id=CallId("c1"),
            status="dispatched",
            receipt=ODD,
            attempts=2,
            arguments=ODD,
        )
        await store.append([created("a", agent="billing"), append("a", 2, effects=[entry])])
        ((_, fact),) = await store.effects()
        assert fact.entry == entry
        assert (fact.invocation_id, fact.agent) == ("a", "billing")
        assert repr(fact.entry) == repr(entry)  # 1 and 1.0 are equal

    async def test_names_of_effects_come_back_identical(self, store: Store) -> None:
        odd = "a\x00b 'quoted' \U0001f600 %?;"
        await store.append([created("a", effects=[effect(odd, tool=odd)])])
        ((_, fact),) = await store.effects(effect_key=EffectKey(odd), tool_name=odd)
        assert fact.entry == effect(odd, tool=odd)

    async def test_no_receipt_and_no_arguments_stay_none(self, store: Store) -> None:
        await store.append([created("a", effects=[effect("k")])])
        ((_, fact),) = await store.effects()
        assert (fact.entry.receipt, fact.entry.arguments) == (None, None)

    async def test_what_has_taken_effect_is_not_taken_back_by_another_call(
        self, store: Store
    ) -> None:
        done = effect("k", status="committed", receipt="paid")
        await store.append([created("a", effects=[done])])
        again = replace(effect("k", status="rejected"), turn=done.turn + 1)
        await store.append([append("a", 2, effects=[again])])
        ((_, fact),) = await store.effects()
        assert (fact.entry.status, fact.entry.receipt) == ("committed", "paid")
        # Its own call may still say better.
        await store.append([append("a", 3, effects=[replace(done, receipt="r-1")])])
        ((_, fact),) = await store.effects()
        assert fact.entry.receipt == "r-1"

    async def test_an_effect_tells_when_it_changed_by_the_wall_clock(self, store: Store) -> None:
        await store.append([created("a", effects=[effect("k")])])
        ((_, fact),) = await store.effects()
        # Generous, for the clock may be that of another machine.
        assert abs(fact.at - time.time()) < 60

    async def test_a_refused_append_leaves_no_effect_no_delivery_and_no_snapshot(
        self, store: Store
    ) -> None:
        await store.append([created("a"), append("a", 2)])
        refused = append(
            "a",
            3,
            fence=7,
            effects=[effect("k")],
            outbox=[delivery("a", "k")],
            snapshot=Snapshot(2, b"state"),
        )
        assert kinds(await store.append([refused, created("b")])) == [FencedError, None]
        assert list(await store.effects()) == []
        assert list(await store.claim("w1", ["desk"])) == []
        assert (await store.load(InvocationId("a"))).snapshot is None

    async def test_an_append_that_is_stored_already_changes_no_effect(self, store: Store) -> None:
        first = queued("a", 2, delivery("a", "k"))
        first = first._replace(snapshot=Snapshot(1, b"first"))
        later = append("a", 3, effects=[effect("k", "committed")], snapshot=Snapshot(2, b"later"))
        await store.append([created("a"), first, later])
        (claimed,) = await store.claim("w1", ["desk"])
        assert await store.conclude(claimed.number, "w1", "committed", receipt="paid")
        before = await store.effects()

        again = append("a", 2, effects=[effect("other")], outbox=[delivery("a", "other")])
        assert await store.append([first, again, created("a")]) == [None] * 3
        assert list(await store.effects()) == list(before)
        assert list(await store.claim("w2", ["desk"])) == []
        assert (await store.load(InvocationId("a"))).snapshot == Snapshot(2, b"later")

    async def test_an_effect_replaces_the_line_of_its_key(self, store: Store) -> None:
        new = EffectEntry(
            EffectKey("k"), "refund", 4, CallId("c9"), "committed", "paid", 3, {"to": "bob"}
        )
        await store.append([created("a", effects=[effect("k", receipt="x", arguments={"a": 1})])])
        ((number, _),) = await store.effects()
        await store.append([append("a", 2, effects=[new])])
        ((same, fact),) = await store.effects()
        assert fact.entry == new
        assert same == number

    async def test_an_effect_keeps_what_only_the_earlier_line_knows(self, store: Store) -> None:
        given: JsonObject = {"order": 7}
        first = effect("k", attempts=2, arguments=given, receipt="old")
        last = effect("k", "outcome_unknown", attempts=0)
        await store.append([created("a", effects=[first]), append("a", 2, effects=[last])])
        ((_, fact),) = await store.effects()
        assert fact.entry == effect("k", "outcome_unknown", attempts=2, arguments=given)
        assert fact.entry == last.over(first)

    async def test_the_key_of_an_effect_is_one_of_its_invocation(self, store: Store) -> None:
        await store.append(
            [
                created("a", effects=[effect("k")]),
                created("b", effects=[effect("k", "committed")]),
            ]
        )
        found = await store.effects(effect_key=EffectKey("k"))
        assert [(fact.invocation_id, fact.entry.status) for _, fact in found] == [
            ("b", "committed"),
            ("a", "dispatched"),
        ]

    async def test_effects_are_narrowed_by_all_that_is_asked(self, store: Store) -> None:
        await store.append(
            [
                created("a", effects=[effect("k1", "committed"), effect("k2", tool="mail")]),
                created("b", effects=[effect("k3", "prepared"), effect("k1", "rejected")]),
            ]
        )
        assert await self.keys(store) == ["k1", "k3", "k2", "k1"]
        assert await self.keys(store, invocation="a") == ["k2", "k1"]
        assert await self.keys(store, invocation="nobody") == []
        assert await self.keys(store, key="k1") == ["k1", "k1"]
        assert await self.keys(store, tool="mail") == ["k2"]
        assert await self.keys(store, statuses=["rejected", "prepared"]) == ["k1", "k3"]
        assert await self.keys(store, statuses=UNSETTLED) == ["k3", "k2"]
        assert await self.keys(store, statuses=["dispatched"]) == ["k2"]
        assert await self.keys(store, statuses=[]) == []
        assert await self.keys(store, invocation="a", key="k1", statuses=["rejected"]) == []
        assert await self.keys(store, tool="pay", statuses=UNSETTLED) == ["k3"]

    async def test_effects_are_continued_before_the_last_one_seen(self, store: Store) -> None:
        entries = [effect(f"k{number}") for number in range(5)]
        await store.append([created("a"), append("a", 2, effects=entries)])
        # What changes keeps its place: it was announced when it was.
        await store.append([append("a", 3, effects=[effect("k0", "committed")])])
        page = await store.effects(limit=2)
        assert [fact.entry.effect_key for _, fact in page] == ["k4", "k3"]
        page = await store.effects(limit=2, before=page[-1][0])
        assert [fact.entry.effect_key for _, fact in page] == ["k2", "k1"]
        page = await store.effects(limit=2, before=page[-1][0], statuses=["committed"])
        assert [fact.entry.effect_key for _, fact in page] == ["k0"]
        assert list(await store.effects(before=page[-1][0])) == []

    async def test_effects_are_there_after_closing_and_opening(self, store: Store) -> None:
        await store.append([created("a", effects=[effect("k", receipt=ODD)])])
        before = await store.effects()
        await store.close()
        await store.open()
        assert list(await store.effects()) == list(before)

    @pytest.mark.parametrize("key", ["\ud800", "half \udc00"])
    async def test_an_effect_that_cannot_be_kept_is_refused_alone(
        self, store: Store, key: str
    ) -> None:
        bad = [append("a", 2, effects=[effect(key)]), append("a", 2, outbox=[delivery("a", key)])]
        results = await store.append([created("a"), *bad, append("a", 2)])
        assert kinds(results) == [None, StoreError, StoreError, None]

    async def keys(
        self,
        store: Store,
        *,
        invocation: str | None = None,
        key: str | None = None,
        tool: str | None = None,
        statuses: Sequence[EffectStatus] | None = None,
    ) -> list[str]:
        """Give the effect keys of a query."""
        found = await store.effects(
            invocation_id=None if invocation is None else InvocationId(invocation),
            effect_key=None if key is None else EffectKey(key),
            tool_name=tool,
            statuses=statuses,
        )
        return [fact.entry.effect_key for _, fact in found]


class SnapshotRules(StoreCase):
    """The last snapshot comes with the whole journal, which stays whole."""

    async def test_the_whole_journal_comes_with_the_last_snapshot(self, store: Store) -> None:
        await store.append([created("a"), append("a", 2)])
        assert (await store.load(InvocationId("a"))).snapshot is None
        body = b"\x00\xff raw \n" + b"x" * 1_000_000
        await store.append(
            [
                append("a", 3, snapshot=Snapshot(1, b"first")),
                append("a", 4, snapshot=Snapshot(3, body)),
            ]
        )
        stored = await store.load(InvocationId("a"))
        assert stored.snapshot == Snapshot(3, body)
        assert stored.lines == tuple(line("a", seq) for seq in range(1, 5))
        assert (await store.load(InvocationId("a"), after=1)).snapshot is None

    async def test_a_snapshot_does_not_give_way_to_an_earlier_one(self, store: Store) -> None:
        await store.append([created("a"), append("a", 2)])
        await store.append(
            [
                append("a", 3, snapshot=Snapshot(2, b"later")),
                append("a", 4, snapshot=Snapshot(1, b"earlier")),
            ]
        )
        assert (await store.load(InvocationId("a"))).snapshot == Snapshot(2, b"later")

    @pytest.mark.parametrize("seq", [0, 2, 3])
    async def test_a_snapshot_is_of_a_seq_that_is_stored_before(
        self, store: Store, seq: int
    ) -> None:
        bad = append("a", 2, snapshot=Snapshot(seq, b"state"))
        results = await store.append([created("a"), bad, created("b")])
        assert kinds(results) == [None, StoreError, None]

    async def test_a_snapshot_is_there_after_closing_and_opening(self, store: Store) -> None:
        await store.append([created("a"), append("a", 2, snapshot=Snapshot(1, b"state"))])
        await store.close()
        await store.open()
        assert (await store.load(InvocationId("a"))).snapshot == Snapshot(1, b"state")

    async def test_a_summary_is_that_of_the_journal(self, store: Store) -> None:
        first = append("a", 1, b"1", b"2", worker="w7", head=head(key="k", detail="d", at=5.5))
        await store.append([first])
        await store.heartbeat("w7", 60)
        summary = await store.summary(InvocationId("a"))
        assert summary == (await store.load(InvocationId("a"))).summary
        assert (summary.seq, summary.owner, summary.owner_alive) == (2, "w7", True)
