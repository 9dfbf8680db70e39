"""A probe records everything, and answers as the actor it stands in for would."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from trajectories.notation import turn_of

from loopwright.actors.kernel import ActorSystem, Request
from loopwright.protocol import Assess, Assessed, Observe, Tick, calls_of
from loopwright.testing import Probe

pytestmark = pytest.mark.anyio


def successor(number: int) -> int:
    return number + 1


def assessed(assess: Assess) -> Assessed:
    return Assessed(assess.turn)


async def test_it_records_what_it_is_told_in_order() -> None:
    async with ActorSystem() as system:
        probe = Probe(system)
        probe.ref.tell(Tick())
        probe.ref.tell("more")
        assert await probe.received(2) == [Tick(), "more"]
        assert probe.messages == [Tick(), "more"]


async def test_received_waits_for_messages_still_to_come() -> None:
    async with ActorSystem() as system, anyio.create_task_group() as group:
        probe = Probe(system)
        got: list[object] = []

        async def wait() -> None:
            got.extend(await probe.received(2))

        group.start_soon(wait)
        probe.ref.tell("a")
        await anyio.lowlevel.checkpoint()
        assert got == []
        probe.ref.tell("b")
        with anyio.fail_after(5):
            while not got:
                await anyio.lowlevel.checkpoint()
        assert got == ["a", "b"]


async def test_it_answers_by_type_with_a_value_or_a_function() -> None:
    async with ActorSystem() as system:
        probe = Probe(system, {str: "text", int: successor})
        assert await probe.ref.ask("x", block=False) == "text"
        assert await probe.ref.ask(4, block=False) == 5
        assert await probe.ref.ask(1.5, block=False) is None
        assert probe.messages == ["x", 4, 1.5]


async def test_it_answers_in_turn_and_then_is_silent() -> None:
    async with ActorSystem() as system:
        probe = Probe(system, ["first", "second"])
        assert [await probe.ref.ask(n, block=False) for n in range(3)] == ["first", "second", None]


async def test_it_stands_in_for_a_service_actor() -> None:
    """Requests are recorded unwrapped, and their answers told to the reply address."""
    async with ActorSystem() as system:
        asker = Probe(system)
        tracker = Probe(system, {Assess: assessed})
        ran = turn_of(3, "look(at=a) -> 1")
        calls = calls_of(ran.proposal.decision)
        tracker.ref.tell(Request(Assess(3, calls), asker.ref))
        tracker.ref.tell(Request(Observe(3, ran), asker.ref))
        assert await asker.received() == [Assessed(3)]
        assert await tracker.received(2) == [Assess(3, calls), Observe(3, ran)]
