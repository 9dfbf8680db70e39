"""The Relay: one per runtime. It looks when there may be something to deliver from the outbox.

What is in the outbox is durable, so it may look as often as it likes and miss nothing: it is told
when a commit has put something there, and looks by itself now and then, for what was given back
and for what a dead worker has left.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NamedTuple

from .._clock import Clock, Timer
from ..kernel import Actor, ActorDeadError, ActorRef, SystemClosedError
from ._deliveries import Deliveries

LOOK_EVERY: Final = 1.0
"""Seconds between two looks that nobody has asked for."""


class Deliver(NamedTuple):
    """There may be something to deliver: look."""


class Relay(Actor):
    """Looks into the outbox; what it finds is on its way without it.

    So a crash of it costs one look: what is being claimed or delivered goes on.

    Args:
        deliveries: Claims what there is, and sees it through.
        clock: Time.
    """

    def __init__(self, deliveries: Deliveries, clock: Clock) -> None:
        super().__init__()
        self._deliveries = deliveries
        self._clock = clock
        self._wanted = False
        self._looking = False
        self._timer: Timer | None = None

    def on_start(self) -> None:
        """Begin with what others have left."""
        self._look_by_itself()

    def on_receive(self, message: Deliver) -> None:
        """Look, or look once more after the look that is under way."""
        self._wanted = True
        if not self._looking:
            self._looking = True
            self.spawn(self._look(), name="look")

    def on_stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the timer to whoever follows."""
        self.on_stop()

    def _look_by_itself(self) -> None:
        self._timer = self._clock.call_at(
            self._clock.now().monotonic + LOOK_EVERY, self._look_by_itself
        )
        poke(self.actor_ref)

    async def _look(self) -> None:
        try:
            # The system is closing: there is another runtime to deliver it.
            with suppress(SystemClosedError):
                while self._wanted:
                    self._wanted = False
                    # Not a task of this actor: what it claims must not be forgotten with it.
                    claiming = self.system.spawn(self._deliveries.claim(), name="claim")
                    await asyncio.wait({claiming})
                    self._wanted |= not claiming.cancelled() and claiming.result()
        finally:
            self._looking = False


def poke(relay: ActorRef[Any]) -> None:
    """Tell a relay to look; if it is gone, another runtime's will."""
    with suppress(ActorDeadError):
        relay.tell(Deliver())
