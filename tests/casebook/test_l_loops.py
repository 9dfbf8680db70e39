"""Casebook L: a loop that leads nowhere is ended as such, and work that looks like one is not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from casebook.desk import batch, call, journal, play
from loopwright import Agent, Budget, Policy, Progress, Reason, Runtime, tool
from loopwright.policy import tool_named
from loopwright.protocol import NoticeInjected
from loopwright.testing import ScriptedModel, Step, VirtualClock

pytestmark = pytest.mark.anyio

LONG = Budget(max_steps=50)
FINAL: Step = {"kind": "final", "answer": "done"}


class Desk:
    """Tools that count their calls, and return what they are given to return."""

    def __init__(self) -> None:
        self.ran = 0
        self.answers: dict[str, Iterator[str]] = {}

        @tool(effect="read")
        async def get(x: str) -> str:
            """Look something up."""
            self.ran += 1
            return next(self.answers[x])

        self.get = get

    def always(self, x: str, answer: str) -> None:
        """Let a call return the same each time."""
        self.answers[x] = itertools.repeat(answer)


def around(*names: str) -> Iterator[Step]:
    """Ask for these, one after the other, without end."""
    return (
        batch(call(f"c{n}", "get", {"x": name})) for n, name in enumerate(itertools.cycle(names))
    )


async def test_b103_the_same_call_with_the_same_result_is_no_progress() -> None:
    """B103: limit 3: three identical pairs of call and result, one notice, and no fourth."""
    desk = Desk()
    desk.always("1", "same")
    policy = Policy(progress=Progress(max_repeats=3))
    played = await play(around("1"), desk.get, policy=policy, budget=LONG)

    assert played.outcome.reason is Reason.NO_PROGRESS
    assert "repeated_plan" in (played.outcome.cause or "")
    assert desk.ran == 3
    assert played.model.calls <= 4
    notices = [request.notice for request in played.model.requests]
    assert [notice is not None for notice in notices] == [False, False, False, True]
    assert "No progress" in str(notices[3])


async def test_b104_invalid_calls_that_vary_are_an_invalid_decision() -> None:
    """B104: the third faulty turn in a row ends it; nothing ran, and it is no error loop."""
    desk = Desk()
    wrong: list[object] = [{"a": 1}, {"b": 2}, {"a": [1]}, {"c": None}, {"x": {}}]
    steps = [batch(call(f"c{n}", "get", arguments)) for n, arguments in enumerate(wrong)]
    played = await play(steps, desk.get, budget=LONG)

    assert played.outcome.reason is Reason.INVALID_DECISION
    assert desk.ran == 0
    assert played.model.calls == 3


async def test_b104_a_sound_turn_in_between_starts_the_counting_anew() -> None:
    """B104, variant: two failures, one success, two failures: it may still complete."""
    desk = Desk()
    desk.always("1", "found")
    given: list[object] = [{"a": 1}, {"b": 2}, {"x": "1"}, {"a": [1]}, {"c": None}]
    steps: list[Step] = [batch(call(f"c{n}", "get", arg)) for n, arg in enumerate(given)]
    played = await play([*steps, FINAL], desk.get, budget=LONG)

    assert played.outcome.reason is Reason.COMPLETED
    assert desk.ran == 1


async def test_b106_polling_that_moves_on_is_no_loop() -> None:
    """B106: the same call eight times, with another result each time."""
    desk = Desk()
    desk.answers["1"] = iter([*(f"{n}0%" for n in range(1, 8)), "done"])
    steps = [*itertools.islice(around("1"), 8), FINAL]
    played = await play(steps, desk.get, budget=LONG)

    assert played.outcome.reason is Reason.COMPLETED
    assert desk.ran == 8
    assert all(request.notice is None for request in played.model.requests)


async def test_b106_a_tool_that_says_it_polls_may_wait_for_long() -> None:
    """B106, by declaration: the same result thirty times is waiting."""

    @tool(effect="read", polling=True)
    async def status() -> str:
        """Look whether it is done."""
        return "queued"

    steps: list[Step] = [batch(call(f"c{n}", "status")) for n in range(30)]
    played = await play([*steps, FINAL], status, budget=LONG)
    assert played.outcome.reason is Reason.COMPLETED


@pytest.mark.parametrize("names", ["ab", "abc"])
async def test_b108_a_cycle_is_stopped_by_the_end_of_its_third_round(names: str) -> None:
    """B108: six calls for a period of two, nine for three; the model is told after the second round."""
    desk = Desk()
    for name in names:
        desk.always(name, f"same {name}")
    played = await play(around(*names), desk.get, budget=LONG)

    assert played.outcome.reason is Reason.NO_PROGRESS
    assert "cycle" in (played.outcome.cause or "")
    assert desk.ran <= 3 * len(names)
    told = [n for n, request in enumerate(played.model.requests) if request.notice is not None]
    assert told == [2 * len(names)]


@pytest.mark.parametrize("names", ["ab", "abc"])
async def test_b108_a_cycle_in_which_one_result_changes_is_work(names: str) -> None:
    """B108: whichever of its calls it is that returns something else each time."""
    for changing in names:
        desk = Desk()
        for name in names:
            desk.always(name, f"same {name}")
        desk.answers[changing] = (f"{n} left" for n in itertools.count())
        rounds = itertools.islice(around(*names), 8 * len(names))
        played = await play([*rounds, FINAL], desk.get, budget=LONG)

        assert played.outcome.reason is Reason.COMPLETED
        assert desk.ran == 8 * len(names)


async def test_a_stall_can_be_a_question_to_a_human() -> None:
    """With `on_stall="ask"` it is suspended, with the evidence in the question, and counts anew."""
    desk = Desk()
    desk.always("1", "same")
    model = ScriptedModel([*itertools.islice(around("1"), 7), FINAL])
    policy = Policy(progress=Progress(on_stall="ask"))
    agent = Agent("desk", model=model, tools=[desk.get], policy=policy, budget=LONG)
    async with Runtime([agent], clock=VirtualClock()) as runtime:
        stuck = await runtime.run("desk", "the goal")
        assert stuck.reason is Reason.CLARIFICATION_REQUIRED
        assert "ran 3 times" in stuck.question
        assert desk.ran == 3

        done = await (await runtime.answer(stuck.invocation_id, "try again", by="ann")).outcome()
    assert done.reason is Reason.COMPLETED
    assert desk.ran == 6


async def test_a_person_may_run_what_was_stalled() -> None:
    """What a person decides is no repetition, and what comes after it is counted anew."""
    desk = Desk()
    desk.always("1", "same")
    model = ScriptedModel([*itertools.islice(around("1"), 7), FINAL])
    agent = Agent("desk", model=model, tools=[desk.get], budget=LONG)
    async with Runtime([agent], clock=VirtualClock()) as runtime:
        stuck = await runtime.run("desk", "the goal")
        assert stuck.reason is Reason.NO_PROGRESS

        again = batch(call("ann-1", "get", {"x": "1"}))
        done = await (await runtime.decide(stuck.invocation_id, again, by="ann")).outcome()
    assert done.reason is Reason.COMPLETED
    assert desk.ran == 3 + 1 + 3


async def test_a_notice_is_journaled_once_also_where_its_turn_is_suspended() -> None:
    """The turn that was begun with it goes on after an approval: it was told already."""
    desk = Desk()
    desk.always("1", "same")

    @tool(effect="read")
    async def pay() -> str:
        """Do something a human is asked about."""
        return "paid"

    model = ScriptedModel([*itertools.islice(around("1"), 3), batch(call("p", "pay")), FINAL])
    policy = Policy(ask=[tool_named("pay")])
    agent = Agent("desk", model=model, tools=[desk.get, pay], policy=policy, budget=LONG)
    async with Runtime([agent], clock=VirtualClock()) as runtime:
        asked = await runtime.run("desk", "the goal")
        assert asked.proposal is not None
        run = await runtime.approve(asked.invocation_id, asked.proposal.digest, by="ann")
        assert (await run.outcome()).reason is Reason.COMPLETED
        records = await journal(runtime, asked.invocation_id)
    assert [r.turn for r in records if isinstance(r, NoticeInjected)] == [4]
