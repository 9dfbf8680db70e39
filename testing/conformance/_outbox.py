"""Conformance of stores: what is delivered by the outbox, by whom, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from loopwright.protocol import Claimed, EffectEntry, EffectKey, EffectStatus
from loopwright.stores import Store

from ._base import StoreCase, append, created, delivery, effect, head, queued
from ._effects import ODD


def keys_of(claims: Sequence[Claimed]) -> list[str]:
    """Give the keys of claims."""
    return [one.delivery.effect_key for one in claims]


class OutboxCase(StoreCase):
    """What the tests of the outbox share."""

    async def line(self, store: Store, key: str = "k") -> EffectEntry:
        """Give the only ledger line of a key."""
        ((_, fact),) = await store.effects(effect_key=EffectKey(key))
        return fact.entry

    async def claimed(
        self, store: Store, worker: str = "w1", agents: Sequence[str] = ("desk",), limit: int = 16
    ) -> list[str]:
        """Claim, and give the keys."""
        return keys_of(await store.claim(worker, agents, limit=limit))


class ClaimRules(OutboxCase):
    """A delivery is handed to one live worker at a time, those of one resource in their order."""

    async def test_a_claim_gives_the_delivery_and_says_so_in_the_ledger(self, store: Store) -> None:
        sent = delivery("a", "k", "order:7", "till\x00", arguments=ODD)
        await store.append([queued("a", 1, sent, head=head())])
        assert (await self.line(store)).status == "prepared"
        (claimed,) = await store.claim("w1", ["desk"])
        assert claimed.delivery == sent
        assert repr(claimed.delivery) == repr(sent)
        assert claimed.attempt == 1
        line = await self.line(store)
        assert (line.status, line.attempts) == ("dispatched", 1)

    async def test_claims_come_in_the_order_of_commits(self, store: Store) -> None:
        await store.append(
            [
                queued("b", 1, delivery("b", "k1"), delivery("b", "k2"), head=head()),
                queued("a", 1, delivery("a", "k0"), head=head()),
            ]
        )
        await store.append([queued("b", 2, delivery("b", "k3"))])
        assert await self.claimed(store, limit=1) == ["k1"]
        assert await self.claimed(store, limit=2) == ["k2", "k0"]
        assert await self.claimed(store) == ["k3"]
        assert await self.claimed(store) == []

    async def test_only_deliveries_of_the_agents_are_claimed(self, store: Store) -> None:
        await store.append(
            [
                queued("a", 1, delivery("a", "k1"), head=head()),
                queued("b", 1, delivery("b", "k2", agent="billing"), head=head(agent="billing")),
                queued("c", 1, delivery("c", "k3", agent="mail"), head=head(agent="mail")),
            ]
        )
        assert await self.claimed(store, agents=[]) == []
        assert await self.claimed(store, agents=["nobody"]) == []
        assert await self.claimed(store, agents=["mail", "billing"]) == ["k2", "k3"]
        assert await self.claimed(store) == ["k1"]

    async def test_a_delivery_is_kept_once_per_invocation_and_key(self, store: Store) -> None:
        await store.append([queued("a", 1, delivery("a", "k"), head=head())])
        await store.append([append("a", 2, outbox=[delivery("a", "k", "other")])])
        (claimed,) = await store.claim("w1", ["desk"])
        assert claimed.delivery == delivery("a", "k")
        await store.conclude(claimed.number, "w1", "committed")
        await store.append([append("a", 3, outbox=[delivery("a", "k")])])
        assert await self.claimed(store) == []
        await store.append([queued("b", 1, delivery("b", "k"), head=head())])
        (claimed,) = await store.claim("w1", ["desk"])
        assert claimed.delivery == delivery("b", "k")

    async def test_a_claim_of_a_live_worker_is_not_given_to_another(self, store: Store) -> None:
        await store.append([queued("a", 1, delivery("a", "k"), head=head())])
        await store.heartbeat("w1", 60)
        assert await self.claimed(store, "w1") == ["k"]
        assert await self.claimed(store, "w2") == []

    async def test_a_worker_is_not_given_its_own_claim_again(self, store: Store) -> None:
        # Not even if its heartbeat is late.
        await store.append([queued("a", 1, delivery("a", "k"), head=head())])
        assert await self.claimed(store, "w1") == ["k"]
        assert await self.claimed(store, "w1") == []
        assert (await self.line(store)).attempts == 1

    async def test_a_claim_of_a_dead_worker_is_given_to_another(self, store: Store) -> None:
        await store.append([queued("a", 1, delivery("a", "k"), head=head())])
        await store.heartbeat("w1", 60)
        (first,) = await store.claim("w1", ["desk"])
        await store.heartbeat("w1", 0)
        (second,) = await store.claim("w2", ["desk"])
        assert (first.number, first.attempt) == (second.number, 1)
        assert second.attempt == 2
        line = await self.line(store)
        assert (line.status, line.attempts) == ("dispatched", 2)

    async def test_claims_are_there_after_closing_and_opening(self, store: Store) -> None:
        await store.append([queued("a", 1, delivery("a", "k1"), delivery("a", "k2"), head=head())])
        done, _ = await store.claim("w1", ["desk"])
        await store.conclude(done.number, "w1", "committed")
        await store.close()
        await store.open()
        assert (await self.line(store, "k2")).attempts == 1
        assert await self.claimed(store, "w1") == []
        (again,) = await store.claim("w2", ["desk"])
        assert (again.delivery.effect_key, again.attempt) == ("k2", 2)

    async def test_deliveries_of_one_resource_are_made_one_after_the_other(
        self, store: Store
    ) -> None:
        await store.append(
            [
                queued(
                    "a",
                    1,
                    delivery("a", "k1", "x", "y"),
                    delivery("a", "k2", "y", "z"),
                    delivery("a", "k3", "z"),
                    delivery("a", "k4", "other"),
                    delivery("a", "k5"),
                    head=head(),
                )
            ]
        )
        first = await store.claim("w1", ["desk"])
        # k3 waits for k2, which waits for k1, though nobody is at work on k2.
        assert keys_of(first) == ["k1", "k4", "k5"]
        assert await self.claimed(store, "w2") == ["k1", "k4", "k5"]  # w1 has no heartbeat
        assert await store.conclude(first[0].number, "w2", "committed")
        (second,) = await store.claim("w2", ["desk"])
        assert second.delivery.effect_key == "k2"
        assert await store.conclude(second.number, "w2", "rejected")
        assert await self.claimed(store, "w2") == ["k3"]

    async def test_a_resource_is_the_same_for_all_agents_and_invocations(
        self, store: Store
    ) -> None:
        await store.append(
            [
                queued("a", 1, delivery("a", "k1", "x", agent="mail"), head=head(agent="mail")),
                queued("b", 1, delivery("b", "k2", "x"), head=head()),
            ]
        )
        assert await self.claimed(store) == []
        assert await self.claimed(store, agents=["desk", "mail"]) == ["k1"]

    async def test_what_has_no_resource_waits_for_nothing(self, store: Store) -> None:
        await store.append(
            [queued("a", 1, *(delivery("a", f"k{number}") for number in range(3)), head=head())]
        )
        assert await self.claimed(store) == ["k0", "k1", "k2"]

    async def test_a_resource_named_twice_is_one(self, store: Store) -> None:
        await store.append([queued("a", 1, delivery("a", "k", "x", "x"), head=head())])
        (claimed,) = await store.claim("w1", ["desk"])
        assert await store.conclude(claimed.number, "w1", "committed")
        await store.append([queued("a", 2, delivery("a", "k2", "x"))])
        assert await self.claimed(store) == ["k2"]

    async def test_a_delivery_needs_no_line_of_the_ledger(self, store: Store) -> None:
        await store.append([created("a", outbox=[delivery("a", "k")])])
        (claimed,) = await store.claim("w1", ["desk"])
        assert await store.conclude(claimed.number, "w1", "committed")
        assert list(await store.effects()) == []


class ConcludeRules(OutboxCase):
    """Who has the claim says how the attempt went."""

    @pytest.mark.parametrize("status", ["committed", "rejected", "not_applied"])
    async def test_a_settled_status_concludes_it(self, store: Store, status: EffectStatus) -> None:
        await store.append([queued("a", 1, delivery("a", "k"), head=head())])
        (claimed,) = await store.claim("w1", ["desk"])
        assert await store.conclude(claimed.number, "w1", status, receipt=ODD)
        assert await self.line(store) == effect("k", status, receipt=ODD, attempts=1)
        assert await self.claimed(store, "w2") == []
        assert not await store.conclude(claimed.number, "w1", "prepared")
        assert (await self.line(store)).status == status

    @pytest.mark.parametrize("status", ["prepared", "outcome_unknown"])
    async def test_any_other_status_gives_it_back(self, store: Store, status: EffectStatus) -> None:
        await store.append([queued("a", 1, delivery("a", "k"), head=head())])
        await store.heartbeat("w1", 60)
        (first,) = await store.claim("w1", ["desk"])
        assert await store.conclude(first.number, "w1", status)
        assert await self.line(store) == effect("k", status, attempts=1)
        # It is nobody's now.
        assert not await store.conclude(first.number, "w1", "committed")
        (second,) = await store.claim("w2", ["desk"])
        assert (second.number, second.attempt) == (first.number, 2)
        assert (await self.line(store)).attempts == 2

    async def test_what_was_given_back_is_not_due_before_its_time(self, store: Store) -> None:
        await store.append(
            [queued("a", 1, delivery("a", "k1", "x"), delivery("a", "k2", "x"), head=head())]
        )
        (claimed,) = await store.claim("w1", ["desk"])
        assert await store.conclude(claimed.number, "w1", "prepared", retry_in=60)
        # Nor is what comes behind it: the order of a resource is kept.
        assert await self.claimed(store, "w1") == []
        assert await self.claimed(store, "w2") == []

    async def test_what_was_given_back_is_due_when_its_time_has_come(self, store: Store) -> None:
        await store.append([queued("a", 1, delivery("a", "k"), head=head())])
        (claimed,) = await store.claim("w1", ["desk"])
        assert await store.conclude(claimed.number, "w1", "prepared", retry_in=0.02)
        with anyio.fail_after(5):
            while not await store.claim("w1", ["desk"]):  # noqa: ASYNC110 - its clock is real
                await anyio.sleep(0.01)

    async def test_only_who_has_the_claim_can_conclude(self, store: Store) -> None:
        await store.append([queued("a", 1, delivery("a", "k"), head=head())])
        assert not await store.conclude(1, "w1", "committed")
        (claimed,) = await store.claim("w1", ["desk"])
        before = await self.line(store)
        assert not await store.conclude(claimed.number, "w2", "committed", receipt="paid")
        assert not await store.conclude(claimed.number + 1, "w1", "committed")
        assert await self.line(store) == before
        # A late heartbeat alone takes nothing away: somebody has to have claimed it.
        assert await store.conclude(claimed.number, "w1", "committed", receipt="paid")

    async def test_who_lost_the_claim_cannot_conclude(self, store: Store) -> None:
        await store.append([queued("a", 1, delivery("a", "k"), head=head())])
        (lost,) = await store.claim("w1", ["desk"])
        (kept,) = await store.claim("w2", ["desk"])
        before = await self.line(store)
        assert not await store.conclude(lost.number, "w1", "rejected")
        assert await self.line(store) == before
        assert await store.conclude(kept.number, "w2", "committed")

    async def test_what_a_person_has_concluded_is_handed_out_no_more(self, store: Store) -> None:
        await store.append(
            [queued("a", 1, delivery("a", "k1", "x"), delivery("a", "k2", "x"), head=head())]
        )
        await store.append([queued("b", 1, delivery("b", "k1", "y"), head=head())])
        (claimed, other) = await store.claim("w1", ["desk"])
        said = effect("k1", status="rejected", attempts=0)
        await store.append([append("a", 2, effects=[said], concluded=[EffectKey("k1")])])
        assert not await store.conclude(claimed.number, "w1", "committed", receipt="paid")
        # What waited behind it goes on; the same key of another invocation is another delivery.
        assert await self.claimed(store) == ["k2"]
        assert await store.conclude(other.number, "w1", "committed")
        lines = {
            fact.invocation_id: fact.entry.status
            for _, fact in await store.effects(effect_key=EffectKey("k1"))
        }
        assert lines == {"a": "rejected", "b": "committed"}
