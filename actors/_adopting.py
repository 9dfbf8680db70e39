"""Taking up what a dead owner left: on demand, and for services in the background."""

from __future__ import annotations

import contextvars
import logging
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from loopwright.protocol import (
    NOBODY,
    WAITS_FOR_CHILD,
    ConfigurationError,
    Expire,
    Input,
    InvocationId,
    InvocationNotFoundError,
    InvocationStateError,
    JournalCorruptError,
    LeaseHeldError,
    LoopwrightError,
    Reason,
    Recover,
    StoreError,
    Summary,
    Wake,
)
from loopwright.stores import all_invocations

from ._clock import sleep
from ._engine import Engine

logger = logging.getLogger("loopwright.runtime")


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of looking for invocations that nobody is at work on."""

    taken: tuple[InvocationId, ...]
    """Taken over, and going on here."""
    here: tuple[InvocationId, ...]
    """Were at work in this runtime already, and are left alone."""


class Adopter:
    """Finds invocations of a runtime's agents without a live owner, and goes on with them.

    Args:
        engine: Where they go on.
        max_live: How many may be in memory at once; the others wait for the next look.
    """

    def __init__(self, engine: Engine, max_live: int) -> None:
        self._engine = engine
        self._max_live = max_live
        self._looked = False
        self._expiries: dict[InvocationId, tuple[float, float]] = {}
        """When proposals that wait expire, each as of a change of its head."""

    async def run(self) -> None:
        """Look again and again, as often as a worker may die unnoticed."""
        while True:
            await sleep(self._engine.clock, self._engine.tenure.ttl)
            try:
                found = await self.look()
            except LoopwrightError as error:
                logger.warning("Nothing could be taken over: %s", error)
            except Exception:
                logger.exception("Nothing could be taken over:")
            else:
                for identity in found.taken:
                    logger.info("Invocation %s was without an owner and goes on here.", identity)

    async def look(self) -> Taken:
        """Take over all there are.

        Raises:
            StoreError: If the store fails.
        """
        engine = self._engine
        here = tuple(engine.live)
        taken: list[InvocationId] = []
        for identity in await self._orphans():
            if len(engine.live) >= self._max_live:
                logger.warning("%s invocations are live; the others wait.", self._max_live)
                break
            if identity not in engine.live and await self._take(identity):
                taken.append(identity)
        await self._wake()
        return Taken(tuple(taken), here)

    async def _wake(self) -> None:
        """Wake those whose child has ended, or whose proposal has expired, and nobody told them."""
        engine, seen = self._engine, dict[InvocationId, tuple[float, float]]()
        if self._looked and not (engine.expiring or engine.has_children):
            # Then only people move what sleeps, and there may be very many.
            return
        self._looked = True
        for name in engine.names:
            for summary in await all_invocations(engine.store, status="suspended", agent=name):
                identity, head = summary.invocation_id, summary.head
                if head.detail.startswith(WAITS_FOR_CHILD):
                    child = InvocationId(head.detail.removeprefix(WAITS_FOR_CHILD))
                    await self._tell(identity, Wake(child), child)
                elif head.reason is Reason.APPROVAL_REQUIRED and engine.expiring:
                    seen[identity] = head.at, await self._expires_at(summary)
                    if engine.clock.now().wall >= seen[identity][1]:
                        await self._tell(identity, Expire(NOBODY))
        self._expiries = seen

    async def _expires_at(self, summary: Summary) -> float:
        """Say when its proposal expires, as its journal says; it is read once for each change."""
        known = self._expiries.get(summary.invocation_id)
        if known is not None and known[0] == summary.head.at:
            return known[1]
        try:
            proposal = (await self._engine.state(summary.invocation_id)).proposal()
        except (InvocationNotFoundError, JournalCorruptError):
            return inf
        return inf if proposal is None or proposal.expires_at is None else proposal.expires_at

    async def _tell(
        self, identity: InvocationId, message: Input, after: InvocationId | None = None
    ) -> None:
        engine = self._engine
        try:
            if after is None or (await engine.store.summary(after)).head.status == "ended":
                await engine.command(identity, message, contextvars.copy_context())
        except LoopwrightError as error:
            # Somebody was faster, or it is another worker's; there is a next look.
            logger.debug("Invocation %s is not woken: %s", identity, error)

    async def _orphans(self) -> list[InvocationId]:
        engine = self._engine
        found = [*engine.stranded]
        last: InvocationId | None = None
        with suppress(InvocationNotFoundError):  # where a listing stopped was deleted meanwhile
            while page := await engine.store.orphans(engine.names, after=last):
                last = page[-1].invocation_id
                found += [summary.invocation_id for summary in page]
        return list(dict.fromkeys(found))

    async def _take(self, identity: InvocationId) -> bool:
        engine = self._engine
        try:
            await engine.command(identity, Recover(), contextvars.copy_context())
        except (LeaseHeldError, InvocationStateError, InvocationNotFoundError):
            # Somebody was faster: it goes on there, or has come to rest already.
            engine.drop(identity)
            return False
        except (JournalCorruptError, ConfigurationError) as error:
            logger.error("Invocation %s cannot be recovered: %s", identity, error)
            return False
        except StoreError:
            engine.stranded.setdefault(identity)
            raise
        return True
