"""Deliveries on their way: claimed, attempted, and concluded by what the attempt came to.

The store says what may be attempted, and by whom; the tool's executor runs the body, as it does
for a call of a turn, and only while this worker is safely the one it claims to be. Here is what
happens between the two. A claim ends in the store or with its worker, never by being forgotten.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final, NamedTuple

from loopwright.policy import backoff
from loopwright.protocol import (
    Claimed,
    Effect,
    Execute,
    Executed,
    Found,
    Input,
    Lease,
    LoopwrightError,
    Overloaded,
    Reconcile,
    ServiceFailed,
    attempt_id,
)
from loopwright.stores import Store

from .._clock import Clock, sleep
from .._tenure import Tenure
from .._work import described
from ..definitions._agent import Agent
from ..kernel import Actor, ActorDeadError, ActorRef, ActorSystem, Request, SystemClosedError
from ._attempts import Attempted, after_asking, after_executing, failed, left, not_made

CLAIM: Final = 16
"""Deliveries claimed at once."""
IN_HAND: Final = 256
"""Deliveries that may be on their way at once."""
NO_FENCE: Final = 0
"""Stands in the lease of a delivery: it owns its claim, and no invocation."""
STORE_FIRST: Final = 0.5
"""Seconds before the store is told again how an attempt went; doubled for each further time."""
STORE_LONGEST: Final = 10.0

logger = logging.getLogger("loopwright.relay")


class _Claim(NamedTuple):
    worker: str
    claimed: Claimed


class Deliveries:
    """What this runtime delivers, and the executors that do it.

    Args:
        system: Where the deliveries run.
        store: Where the outbox is.
        clock: Time.
        tenure: Under whose name deliveries are claimed.
        agents: Whose deliveries are made here, by name.
        executors: By name of the agent and of the tool.
        concluded: Called after each conclusion: what waited for it may be due.
        hear: What an executor answers passes it first: nothing else is kept or logged.
    """

    def __init__(
        self,
        system: ActorSystem,
        store: Store,
        clock: Clock,
        tenure: Tenure,
        agents: Mapping[str, Agent],
        executors: Mapping[str, Mapping[str, ActorRef[Any]]],
        concluded: Callable[[], None],
        hear: Callable[[Input], Input] | None = None,
    ) -> None:
        self._system = system
        self._store = store
        self._clock = clock
        self._tenure = tenure
        self._agents = agents
        self._executors = executors
        self._concluded = concluded
        self._hear = hear
        self._in_hand: dict[int, _Claim] = {}
        self._left: set[int] = set()
        """What cannot be delivered here as things are, and was said so."""

    async def claim(self) -> bool:
        """Claim what may be attempted, and set it on its way; never fails.

        Returns:
            Whether there may be more.
        """
        room, worker = min(CLAIM, IN_HAND - len(self._in_hand)), self._tenure.worker
        if room <= 0 or not self._tenure.safe:
            return False
        try:
            claims = await self._store.claim(worker, tuple(self._agents), limit=room)
            for claimed in claims:
                self._take(_Claim(worker, claimed))
        except SystemClosedError:
            # Its worker is about to be gone, and the claim with it.
            return False
        except LoopwrightError as error:
            logger.warning("Deliveries could not be claimed: %s", error)
            return False
        except Exception:
            logger.exception("The store failed as deliveries were claimed:")
            return False
        return len(claims) == room

    def _take(self, claim: _Claim) -> None:
        number = claim.claimed.number
        # It may be on its way: this worker had lost its name, and the claim, and got both anew.
        known = number in self._in_hand
        self._in_hand[number] = claim
        if not known:
            self._system.spawn(self._deliver(number), name="delivery")

    async def _deliver(self, number: int) -> None:
        """Attempt a delivery and conclude it; again if it was claimed anew after that."""
        while True:
            claim = self._in_hand[number]
            try:
                came = await self._attempt(claim)
            except SystemClosedError:
                return
            except (ActorDeadError, Overloaded) as error:
                came = not_made(claim.claimed.attempt, str(error))
            except Exception as error:
                logger.exception("A bug in the relay:")
                came = failed(ServiceFailed("Relay", described(error)), claim.claimed.attempt)
            if await self._conclude(number, came) is self._in_hand[number]:
                break
        del self._in_hand[number]
        self._concluded()

    # ------------------------------------------------------------ one attempt
    async def _attempt(self, claim: _Claim) -> Attempted:
        delivery, attempt = claim.claimed.delivery, claim.claimed.attempt
        tool = self._agents[delivery.agent].tools.get(delivery.tool_name)
        if tool is None:
            return left(attempt, f"agent {delivery.agent!r} has no such tool any more")
        effect = delivery.effect.stricter(tool.effect)
        if effect is Effect.MANUAL:
            return left(attempt, "the tool is manual now, and may not be sent again and again")
        executor = self._executors[delivery.agent][delivery.tool_name]
        if attempt > 1 and effect is Effect.RECONCILABLE:
            answer = await self._ask(
                executor,
                Reconcile(
                    delivery.invocation_id,
                    delivery.turn,
                    delivery.call_id,
                    attempt_id(delivery.call_id, attempt - 1),
                    delivery.tool_name,
                    delivery.effect_key,
                ),
            )
            if not isinstance(answer, Found):
                return failed(answer, attempt)
            known = after_asking(answer.found, attempt)
            if known is not None:
                return known
        answer = await self._ask(
            executor,
            Execute(
                delivery.invocation_id,
                delivery.turn,
                delivery.call_id,
                attempt_id(delivery.call_id, attempt),
                attempt,
                delivery.tool_name,
                effect,
                delivery.arguments,
                delivery.effect_key,
                delivery.principal,
                Lease(delivery.invocation_id, claim.worker, NO_FENCE),
            ),
        )
        if isinstance(answer, Executed):
            return after_executing(answer.result, attempt)
        return failed(answer, attempt)

    async def _ask(self, executor: ActorRef[Any], order: Execute | Reconcile) -> Input:
        """Tell an executor something and wait for its answer.

        Raises:
            ActorDeadError: If there is no executor any more.
            SystemClosedError: If the runtime is closing.
        """
        heard: asyncio.Future[Input] = asyncio.get_running_loop().create_future()
        ear = self._system.start(_Ear, heard)
        try:
            executor.tell(Request(order, ear))
            answer = await heard
            return answer if self._hear is None else self._hear(answer)
        finally:
            ear.stop(block=False)

    # ------------------------------------------------------------ what it came to
    async def _conclude(self, number: int, came: Attempted) -> _Claim:
        """Say in the store what an attempt came to, until it is said; return which claim it ends."""
        for told in count(1):
            claim = self._in_hand[number]
            try:
                ours = await self._store.conclude(
                    number, claim.worker, came.status, receipt=came.receipt, retry_in=came.retry_in
                )
            except Exception as error:  # noqa: BLE001 - a store is foreign code, and goes on failing or not
                text = described(error)
                logger.warning("How a delivery went could not be stored (%s); trying again.", text)
                await sleep(self._clock, backoff(told, STORE_FIRST, STORE_LONGEST))
                continue
            if ours:
                self._tell(claim.claimed, came)
                return claim
            if self._in_hand[number] is claim:
                # Another worker has it, which will find out the same; or it was said already.
                logger.info("%s is not this worker's any more.", _named(claim.claimed))
                return claim
        raise AssertionError

    def _tell(self, claimed: Claimed, came: Attempted) -> None:
        number, name = claimed.number, _named(claimed)
        if came.left:
            if number not in self._left:
                self._left.add(number)
                logger.warning("%s stays in the outbox: %s", name, came.why)
            return
        self._left.discard(number)
        if came.status == "rejected":
            logger.warning("%s is rejected: %s", name, came.why)
        elif came.why:
            text = "%s: attempt %s failed (%s); again in %s s."
            logger.warning(text, name, claimed.attempt, came.why, came.retry_in)


class _Ear(Actor):
    """Hears one answer: an executor's answers do not all say what they are about."""

    def __init__(self, heard: asyncio.Future[Input]) -> None:
        super().__init__()
        self._heard = heard

    def on_receive(self, message: Input) -> None:
        """Hand it to who asked, unless nobody waits any more."""
        if not self._heard.done():
            self._heard.set_result(message)


def _named(claimed: Claimed) -> str:
    delivery = claimed.delivery
    return (
        f"The delivery of {delivery.effect_key!r} (invocation {delivery.invocation_id}, "
        f"call {delivery.call_id!r} of {delivery.tool_name!r})"
    )
