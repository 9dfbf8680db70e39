"""A heartbeat agent: each beat is one bounded invocation, and there is no other unless it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from loopwright import (
    Agent,
    Budget,
    CannotContinue,
    Clarification,
    ConfigurationError,
    Final,
    ModelReply,
    ModelRequest,
    Reason,
    Runtime,
)
from loopwright.examples.patterns import Beat, Heart, Pace, heartbeat
from loopwright.examples.patterns.__main__ import main
from loopwright.protocol import JsonValue
from loopwright.stores import MemoryStore, SQLiteStore
from loopwright.testing import ScriptedModel, Step, VirtualClock

pytestmark = pytest.mark.anyio

LONGEST = 120.0
PACE = Pace(max_beats=5, shortest=10, longest=LONGEST, grace=30)


def again(seconds: JsonValue, note: str = "") -> Final:
    return Final(output={"note": note, "next_in": seconds})


ENOUGH = Final(output={})


class Watch:
    """An agent that says what it is told, on a clock and a store of its own."""

    def __init__(self, *steps: Step) -> None:
        self.clock = VirtualClock()
        self.model = ScriptedModel(steps)
        budget = Budget(max_steps=3)
        self.agent = Agent("watch", model=self.model, output=Beat, budget=budget)
        self.store = MemoryStore()
        self.runtime = Runtime([self.agent], store=self.store, clock=self.clock)

    async def beat(self, pace: Pace = PACE) -> Heart:
        return await heartbeat(
            self.runtime, self.agent, "go", name="w", pace=pace, clock=self.clock
        )

    async def beating(self, *seconds: float) -> Heart | None:
        """Let it beat while that time passes, and leave it there."""
        async with self.runtime:
            beating = asyncio.create_task(self.beat())
            for each in seconds:
                await self.clock.advance(each)
            if not beating.done():
                beating.cancel()
                await asyncio.wait([beating])
            return None if beating.cancelled() else beating.result()


def numbers(heart: Heart | None) -> int:
    assert heart is not None
    return len(heart.beats)


# ---------------------------------------------------------------- it stops
async def test_it_stops_by_default() -> None:
    watch = Watch(ENOUGH)
    heart = await watch.beating(LONGEST)
    assert heart is not None
    assert (numbers(heart), heart.stopped) == (1, "not_asked")


async def test_it_beats_so_often_and_no_more() -> None:
    watch = Watch(*[again(10)] * 9)
    heart = await watch.beating(*[10] * 9)
    assert heart is not None
    assert (numbers(heart), heart.stopped, watch.model.calls) == (5, "max_beats", 5)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (CannotContinue("gone", "there is nothing to watch"), Reason.CANNOT_CONTINUE),
        (Clarification("What shall I watch?"), Reason.CLARIFICATION_REQUIRED),
    ],
)
async def test_a_beat_without_an_answer_is_the_last_one(step: Step, reason: Reason) -> None:
    watch = Watch(again(10), step, ENOUGH)
    heart = await watch.beating(10, LONGEST)
    assert heart is not None
    assert (numbers(heart), heart.stopped) == (2, "failed")
    assert heart.beats[-1].reason is reason


@pytest.mark.parametrize("wanted", [0, -5, "soon", "10", True, [10]])
async def test_what_is_no_time_is_no_wish(wanted: JsonValue) -> None:
    """It is refused as an output, may be repaired as any other, and schedules nothing."""
    watch = Watch(again(wanted), again(wanted))
    heart = await watch.beating(LONGEST)
    assert heart is not None
    assert (numbers(heart), heart.stopped) == (1, "failed")
    assert heart.beats[0].reason is Reason.INVALID_DECISION


# ---------------------------------------------------------------- it goes on
@pytest.mark.parametrize(
    ("wanted", "pause"), [(60.0, 60.0), (0.001, PACE.shortest), (1e12, PACE.longest)]
)
async def test_the_next_beat_comes_when_it_asked_for_it_within_limits(
    wanted: float, pause: float
) -> None:
    watch = Watch(again(wanted), ENOUGH)
    async with watch.runtime:
        beating = asyncio.create_task(watch.beat())
        await watch.clock.advance(pause - 0.5)
        assert watch.model.calls == 1
        await watch.clock.advance(0.5)
        assert (await beating).stopped == "not_asked"
    assert watch.model.calls == 2


async def test_a_beat_is_told_its_number_and_what_the_last_one_noted() -> None:
    watch = Watch(again(10, "one is due"), ENOUGH)
    await watch.beating(10)
    told = [request.metadata for request in watch.model.requests]
    assert told == [{"beat": 1, "note": ""}, {"beat": 2, "note": "one is due"}]


async def test_each_beat_is_an_invocation_of_its_own_under_its_key() -> None:
    watch = Watch(again(10), ENOUGH)
    heart = await watch.beating(10)
    assert heart is not None
    async with watch.runtime:
        known = [await watch.store.find("watch", f"w:beat:{number}") for number in (1, 2, 3)]
    assert known == [*[outcome.invocation_id for outcome in heart.beats], None]
    assert known[0] != known[1]


# ---------------------------------------------------------------- it is called again
async def test_called_again_it_runs_nothing_again() -> None:
    """Nor has it missed, long after, what was made in time."""
    watch = Watch(again(10), ENOUGH)
    first = await watch.beating(10)
    await watch.clock.advance(LONGEST)
    second = await watch.beating(LONGEST)
    assert watch.model.calls == 2
    assert first is not None
    assert second is not None
    assert [o.invocation_id for o in first.beats] == [o.invocation_id for o in second.beats]
    assert first.stopped == second.stopped == "not_asked"


async def test_two_that_keep_the_same_heart_make_each_beat_once() -> None:
    watch = Watch(again(10), ENOUGH)
    async with watch.runtime:
        both = [asyncio.create_task(watch.beat()) for _ in range(2)]
        await watch.clock.advance(10)
        one, other = [await each for each in both]
    assert [o.invocation_id for o in one.beats] == [o.invocation_id for o in other.beats]
    assert watch.model.calls == 2


@pytest.mark.parametrize(("away", "stopped"), [(60 + 30, "not_asked"), (60 + 31, "missed")])
async def test_a_beat_may_be_late_and_is_not_made_up_for(away: float, stopped: str) -> None:
    """Nobody was there when it was due; whoever comes too late for it lets it be."""
    watch = Watch(again(60), ENOUGH)
    assert await watch.beating(20) is None
    await watch.clock.advance(away - 20)
    heart = await watch.beating(0)
    assert heart is not None
    assert heart.stopped == stopped


async def test_a_machine_that_slept_through_a_beat_has_missed_it() -> None:
    """The timer rings all the same: what counts is the time by then."""
    watch = Watch(again(60), ENOUGH)
    async with watch.runtime:
        beating = asyncio.create_task(watch.beat())
        await watch.clock.advance(30)
        watch.clock.jump_wall(LONGEST)
        await watch.clock.advance(30)
        assert (await beating).stopped == "missed"
    assert watch.model.calls == 1


async def test_a_beat_that_waited_for_a_person_goes_on_once_it_has_an_answer() -> None:
    watch = Watch(Clarification("What shall I watch?"), again(10), ENOUGH)
    heart = await watch.beating(0)
    assert heart is not None
    assert heart.stopped == "failed"
    async with watch.runtime:
        run = await watch.runtime.answer(heart.beats[0].invocation_id, "the orders", by="bo")
        assert (await run.outcome()).completed
    heart = await watch.beating(10)
    assert heart is not None
    assert (numbers(heart), heart.stopped) == (2, "not_asked")


async def test_another_process_goes_on_with_the_beat_that_was_under_way(tmp_path: Path) -> None:
    """The first one dies in the middle of the second beat; the first beat is not made again."""
    under_way = anyio.Event()

    class Dies:
        async def decide(self, request: ModelRequest) -> ModelReply:
            if request.metadata == {"beat": 1, "note": ""}:
                return ModelReply(again(1))
            under_way.set()
            await anyio.sleep_forever()
            raise AssertionError

    path = tmp_path / "store.db"
    pace = Pace(max_beats=5, shortest=1e-6, longest=1e-6)
    agent = Agent("watch", model=Dies(), output=Beat)
    async with Runtime([agent], store=SQLiteStore(path)) as runtime:
        beating = asyncio.create_task(heartbeat(runtime, agent, "go", name="w", pace=pace))
        await under_way.wait()
        beating.cancel()
        await asyncio.wait([beating])
    model = ScriptedModel([ENOUGH])
    agent = Agent("watch", model=model, output=Beat)
    async with Runtime([agent], store=SQLiteStore(path)) as runtime:
        assert len(await runtime.recover()) == 1
        heart = await heartbeat(runtime, agent, "go", name="w", pace=pace)
        listed = await runtime.invocations(agent="watch")
    assert (numbers(heart), heart.stopped) == (2, "not_asked")
    assert [request.metadata for request in model.requests] == [{"beat": 2, "note": ""}]
    assert len(listed) == 2


# ---------------------------------------------------------------- what cannot be meant
async def test_an_agent_that_cannot_ask_is_refused() -> None:
    mute = Agent("mute", model=ScriptedModel([]))
    async with Runtime([mute]) as runtime:
        with pytest.raises(ConfigurationError, match="can ask for nothing; give output=Beat"):
            await heartbeat(runtime, mute, "go", name="w", pace=PACE)

    other = Agent("other", model=ScriptedModel([Final(output=7)]), output=int)
    async with Runtime([other]) as runtime:
        with pytest.raises(ConfigurationError, match="answers with int; give output=Beat"):
            await heartbeat(runtime, other, "go", name="w", pace=PACE)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Pace(max_beats=0),
        lambda: Pace(max_beats=1, shortest=0),
        lambda: Pace(max_beats=1, shortest=20, longest=10),
        lambda: Pace(max_beats=1, longest=float("inf")),
        lambda: Pace(max_beats=1, shortest=float("nan")),
        lambda: Pace(max_beats=1, grace=-1),
    ],
)
def test_a_pace_that_cannot_be_kept_is_refused(make: Callable[[], Pace]) -> None:
    with pytest.raises(ConfigurationError, match="cannot be kept"):
        make()


async def test_all_five_tell_a_story(capsys: pytest.CaptureFixture[str]) -> None:
    """Each pattern, what it did, and why it ended."""
    await main()
    told = capsys.readouterr().out
    for ending in (
        "=> completed: Yes,\norder 7 is paid.",
        "=> completed: booked as steady-0003 by plan 2",
        r"=> completed: ([01]\d|2[0-3]):[0-5]\d",
        "=> completed: sent as steady-0003",
        "=> not_asked",
    ):
        assert ending in told
