"""The Verifier: a question that is taken back has no answer, for any answer would be a verdict."""

from __future__ import annotations

import asyncio

import pytest

from loopwright import Claim, Verification, failed, passed
from loopwright.actors.kernel import ActorSystem
from loopwright.protocol import (
    InvocationId,
    ServiceFailed,
)
from loopwright.testing import settle
from services.bench import Gate, escaping
from services.verifying import CLAIM, Bench, bench, ok, verifier

pytestmark = pytest.mark.anyio


async def test_a_cancelled_question_has_no_answer() -> None:
    """Any answer would be a verdict; the verifier is interrupted, also before it has begun."""
    gate, ended = Gate(), list[str]()

    async def wait(_: Claim) -> Verification:
        try:
            await gate.wait("wait")
        finally:
            ended.append("ended")
        return passed()

    async with bench(wait) as opened:
        opened.cancel()
        opened.ask()
        await settle()
        opened.cancel(turn=2)
        await settle()
        assert ended == []
        opened.cancel()
        opened.cancel()
        await settle()
        assert ended == ["ended"]
        opened.ask()
        opened.cancel()
        await opened.clock.advance(100)
        assert opened.answers == []
        gate.open.set()
        assert (await opened.verified()).verification.passed


async def test_one_that_outlives_its_cancel_decides_nothing() -> None:
    """Not even once the same claim is looked at again: each question has its own answer."""
    gates, asked = [Gate(), Gate()], list[int]()

    async def stubborn(_: Claim) -> Verification:
        mine = len(asked)
        asked.append(mine)
        while not gates[mine].open.is_set():
            try:
                await gates[mine].open.wait()
            except asyncio.CancelledError:
                continue
        return failed(f"answer {mine}")

    async with bench(stubborn) as opened:
        opened.ask()
        await settle()
        opened.ask()
        await settle()
        for gate in gates:
            gate.open.set()
            await settle()
        assert opened.answers == [(1, False, "answer 1")]


async def test_invocations_do_not_hold_up_each_other() -> None:
    """Questions of different invocations are open at the same time, and cancelled apart."""
    gate = Gate()

    async def wait(claim: Claim) -> Verification:
        await gate.wait(claim.invocation_id)
        return passed()

    async with bench(wait) as opened:
        opened.ask()
        opened.ask(claim=CLAIM._replace(invocation_id=InvocationId("inv-2")))
        await settle()
        assert gate.came == ["inv-1", "inv-2"]
        opened.cancel()
        gate.open.set()
        await settle()
        assert opened.answers == [(1, True, "")]


async def test_closing_says_nothing() -> None:
    """A claim that was being looked at is looked at again by whoever goes on."""
    gate = Gate()

    async def wait(_: Claim) -> Verification:
        await gate.wait("wait")
        return passed()

    async with ActorSystem() as system:
        opened = Bench(system, (wait,))
        opened.ask()
        await settle()
        opened.ref.stop(block=False)
        await settle()
        await opened.clock.advance(100)
        assert opened.answers == []


async def test_a_number_without_a_verifier_is_a_crash() -> None:
    """A bug of ours, told to whoever asked; the claim has not passed."""
    async with bench(ok) as opened:
        opened.ask(1)
        (said,) = await opened.asker.received()
    assert said == ServiceFailed("Verifier", "IndexError: tuple index out of range")


@pytest.mark.parametrize("sync", [False, True])
def test_a_keyboard_interrupt_is_the_processs(sync: bool) -> None:
    """It is meant for the process, and is no verdict."""
    told: list[Bench] = []

    def interrupt() -> object:
        raise KeyboardInterrupt("stop")

    async def main() -> None:
        async with bench(verifier(interrupt, sync=sync)) as opened:
            told.append(opened)
            opened.ask()
            await asyncio.Event().wait()

    assert isinstance(escaping(main()), KeyboardInterrupt)
    assert told[0].answers == []
