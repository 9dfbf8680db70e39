"""The outbox of a store in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import final

from loopwright.protocol import (
    UNSETTLED,
    Claimed,
    Delivery,
    EffectEntry,
    EffectKey,
    EffectStatus,
    InvocationId,
    JsonValue,
)

from ._effects import EffectLedger


@dataclass(slots=True)
class _Item:
    number: int
    invocation_id: InvocationId
    delivery: Delivery
    due: float | None = None
    """`None`: at once."""
    worker: str | None = None
    attempts: int = 0


@final
class Outbox:
    """What is to be delivered, and who is at it.

    Args:
        effects: The ledger that tells of it.
    """

    def __init__(self, effects: EffectLedger) -> None:
        self._effects = effects
        self._known: set[tuple[InvocationId, EffectKey]] = set()
        """Concluded ones too, so that none is added again."""
        self._items: dict[int, _Item] = {}
        """What is not concluded, in the order of commits."""
        self._last = 0

    def put(self, invocation_id: InvocationId, delivery: Delivery) -> None:
        """Add a delivery, unless it was added before."""
        key = invocation_id, delivery.effect_key
        if key not in self._known:
            self._known.add(key)
            self._last += 1
            self._items[self._last] = _Item(self._last, invocation_id, delivery)

    def claim(
        self,
        worker: str,
        agents: Sequence[str],
        limit: int,
        *,
        now: float,
        alive: Callable[[str], bool],
    ) -> list[Claimed]:
        """Claim what can be claimed, in the order of commits."""
        claimed: list[Claimed] = []
        earlier: set[str] = set()
        for item in self._items.values():
            if len(claimed) == limit:
                break
            holder = item.worker
            free = holder is None or (holder != worker and not alive(holder))
            due = item.due is None or item.due <= now
            ours = item.delivery.agent in agents
            if free and due and ours and earlier.isdisjoint(item.delivery.resources):
                item.worker = worker
                item.attempts += 1
                self._effects.change(item.invocation_id, item.delivery.effect_key, _dispatched)
                claimed.append(Claimed(item.number, item.attempts, item.delivery))
            earlier.update(item.delivery.resources)

        return claimed

    def conclude(
        self, number: int, worker: str, status: EffectStatus, receipt: JsonValue, due: float
    ) -> bool:
        """Say how an attempt went; false, and nothing done, if this worker has no such claim."""
        item = self._items.get(number)
        if item is None or item.worker != worker:
            return False

        if status in UNSETTLED:
            item.worker = None
            item.due = due
        else:
            del self._items[number]

        self._effects.change(
            item.invocation_id,
            item.delivery.effect_key,
            lambda entry: replace(entry, status=status, receipt=receipt),
        )
        return True

    def drop(self, invocation_id: InvocationId, keys: Sequence[EffectKey]) -> None:
        """Deliver these no more, whoever has claimed them."""
        if not keys:
            return
        for item in tuple(self._items.values()):
            if item.invocation_id == invocation_id and item.delivery.effect_key in keys:
                del self._items[item.number]

    def unconcluded(self) -> set[InvocationId]:
        """Tell which invocations have something that is not delivered."""
        return {item.invocation_id for item in self._items.values()}

    def forget(self, invocations: AbstractSet[InvocationId]) -> None:
        """Forget what was delivered for these invocations."""
        self._known = {key for key in self._known if key[0] not in invocations}


def _dispatched(entry: EffectEntry) -> EffectEntry:
    return replace(entry, status="dispatched", attempts=entry.attempts + 1)
