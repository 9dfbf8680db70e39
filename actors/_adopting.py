"""Taking up what a dead owner left: on demand, and for services in the background."""

from __future__ import annotations

import contextvars
import logging
from contextlib import suppress
from dataclasses import dataclass

from loopwright.protocol import (
    ConfigurationError,
    InvocationId,
    InvocationNotFoundError,
    InvocationStateError,
    JournalCorruptError,
    LeaseHeldError,
    LoopwrightError,
    Recover,
    StoreError,
)

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
        return Taken(tuple(taken), here)

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
