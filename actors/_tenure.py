"""How long a worker may count on owning what it owns: its heartbeat, and the monotonic clock.

The store says who owns an invocation and refuses what a former owner writes. What it cannot
refuse is a dispatch. So nothing is dispatched unless the last heartbeat is recent enough, by this
process' own monotonic clock, that nobody can have taken over. A worker that has let its time
lapse, because it was stopped or the store was away, never takes it up again: it goes on under a
new name, and whatever the old one owned is free for everybody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from loopwright.protocol import Lease
from loopwright.stores import Store

from ._clock import Clock, sleep
from ._names import new_worker_name
from ._work import described

SAFE_SHARE: Final = 0.8
"""The share of its time after which a worker no longer relies on it."""
BEATS: Final = 3
"""Heartbeats within the time of one."""

logger = logging.getLogger("loopwright.runtime")


class Tenure:
    """One worker's claim to be alive.

    Args:
        store: Where heartbeats go.
        clock: When to report next; how old a heartbeat is, the store's own clock says.
        ttl: Seconds after which the worker may be replaced once it no longer reports.
    """

    def __init__(self, store: Store, clock: Clock, ttl: float) -> None:
        self.worker = new_worker_name()
        self.ttl = ttl
        self._store = store
        self._clock = clock
        self._until = 0.0

    def holds(self, lease: Lease) -> bool:
        """Whether nobody else can own that invocation at this moment."""
        return lease.worker == self.worker and self._store.now() < self._until

    @property
    def safe(self) -> bool:
        """Whether this worker counts as alive at this moment, for everybody."""
        return self._store.now() < self._until

    async def begin(self) -> None:
        """Report for the first time.

        Raises:
            StoreError: If the store fails.
        """
        await self._beat()

    async def keep(self, lapsed: Callable[[str], None]) -> None:
        """Report again and again; call `lapsed` with the old name whenever time has run out."""
        while True:
            await sleep(self._clock, self.ttl / BEATS)
            before = self._until
            if before and self._store.now() < before:
                await self._try()
            # Also where the heartbeat itself took too long: somebody may have been faster.
            if before and self._store.now() >= before:
                former, self.worker = self.worker, new_worker_name()
                logger.warning("This worker, %s, had no heartbeat in time; it starts anew.", former)
                self._until = 0.0
                lapsed(former)
            if not self._until:
                await self._try()

    async def end(self) -> None:
        """Let others take over at once; if they can't be told, they can once the time is over."""
        self._until = 0.0
        try:
            await self._store.heartbeat(self.worker, 0)
        except Exception as error:  # noqa: BLE001 - a store is foreign code
            logger.warning("This worker could not say that it is gone: %s", described(error))

    async def _try(self) -> None:
        try:
            await self._beat()
        except Exception as error:  # noqa: BLE001 - a store is foreign code
            logger.warning("This worker could not report as alive: %s", described(error))

    async def _beat(self) -> None:
        asked = self._store.now()
        await self._store.heartbeat(self.worker, self.ttl)
        self._until = asked + self.ttl * SAFE_SHARE
