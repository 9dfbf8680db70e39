"""What the tests of the Verifier share: a claim, verifiers, and somebody asking."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from loopwright import Claim, Principal, Verification, passed
from loopwright.actors import Verifier
from loopwright.actors.definitions._verifiers import AnyVerifier
from loopwright.actors.kernel import ActorRef, ActorSystem, Request
from loopwright.protocol import (
    CallId,
    CancelVerify,
    EffectEntry,
    EffectKey,
    History,
    Verified,
    Verify,
)
from loopwright.testing import Probe, VirtualClock, settle
from services.bench import INVOCATION

PAID = EffectEntry(EffectKey("refund:7"), "refund", 1, CallId("c1"), "committed", {"id": "r-1"}, 1)
CLAIM = Claim(
    INVOCATION,
    "desk",
    "Refund order 7",
    "Refunded",
    {"id": "r-1"},
    History([]),
    (PAID,),
    Principal("ann"),
    {"ticket": 7},
)


class Bench:
    """A Verifier, on a clock of its own, and a probe that is told its answers."""

    def __init__(self, system: ActorSystem, verifiers: tuple[AnyVerifier, ...]) -> None:
        self.clock = VirtualClock()
        self.foreign = contextvars.copy_context()
        self.asker = Probe(system)
        self.ref: ActorRef[Any] = system.start(Verifier, verifiers, self.clock)

    def ask(self, number: int = 0, *, turn: int = 1, claim: Claim = CLAIM) -> None:
        """Have a claim looked at, and don't wait."""
        order = Verify(claim.invocation_id, turn, number, claim)
        self.ref.tell(Request(order, self.asker.ref, self.foreign))

    def cancel(self, *, turn: int = 1) -> None:
        """Take the question of a turn back."""
        self.ref.tell(Request(CancelVerify(INVOCATION, turn), self.asker.ref, self.foreign))

    async def verified(self, number: int = 0, *, turn: int = 1, claim: Claim = CLAIM) -> Verified:
        """Have a claim looked at; return the one answer. No time passes."""
        before = len(self.asker.messages)
        self.ask(number, turn=turn, claim=claim)
        messages = await self.asker.received(before + 1)
        await settle()
        assert len(messages) == before + 1
        answered: Verified = messages[-1]
        return answered

    @property
    def answers(self) -> list[tuple[int, bool, str]]:
        """Turn, verdict and reason of the answers so far."""
        return [
            (said.turn, said.verification.passed, said.verification.reason)
            for said in self.asker.messages
        ]


@asynccontextmanager
async def bench(*verifiers: Any) -> AsyncGenerator[Bench, None]:
    async with ActorSystem() as system:
        yield Bench(system, verifiers)


def verifier(say: Callable[[], object], *, sync: bool) -> AnyVerifier:
    """Make a verifier named `checks` of what it says or raises."""

    async def asynchronous(_: Claim) -> object:
        return say()

    def blocking(_: Claim) -> object:
        return say()

    made: Any = blocking if sync else asynchronous
    made.__name__ = "checks"
    return cast("AnyVerifier", made)


async def verdict(say: Callable[[], object], *, sync: bool) -> Verification:
    async with bench(verifier(say, sync=sync)) as opened:
        return (await opened.verified()).verification


def ok(_: Claim) -> Verification:
    return passed()


async def ok_too(_: Claim) -> Verification:
    return passed()
