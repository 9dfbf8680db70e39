"""No progress: the model is told once; then it ends, or a human is asked how to go on."""

from __future__ import annotations

import pytest

from loopwright.actors.machine._machine import Machine
from loopwright.policy import Policy
from loopwright.protocol import (
    Budget,
    Clarification,
    Decide,
    Reason,
    RunState,
    Stalled,
    applied,
)
from machine.driver import Driver
from machine.samples import calls
from machine.ways import ASKS, held

CYCLE = Stalled("cycle", "two rounds of read_a and read_b")


def notices(run: Driver) -> list[str]:
    """List what was injected, by kind."""
    records = [entry.record for entry in run.journal]
    return [record.notice for record in records if record.kind == "notice_injected"]


def nudged(policy: Policy | None = None, budget: Budget | None = None) -> Driver:
    """Let the tracker find that it is about to be stalled."""
    return Driver(budget, policy).start().propose("read").done("read").observed(nudge=CYCLE)


def test_the_model_is_told_to_replan_before_its_next_decision() -> None:
    """With the evidence; it is journaled once, with the turn it was told before."""
    run = nudged()
    told = run.last(Decide).notice
    assert told is not None
    assert CYCLE.evidence in told
    assert notices(run) == []

    run.turn("pay")
    assert notices(run) == ["replan"]
    assert run.commits[-2][:2] == ("notice_injected", "turn_proposed")
    assert run.last(Decide).notice is None
    assert run.last(Decide).history[1].notice == told


@pytest.mark.parametrize("told_by", ["final", "fault", "call", "question"])
def test_it_is_kept_with_whatever_the_model_says_then(told_by: str) -> None:
    """Each way a turn is committed has it, and only once."""
    run = nudged()
    match told_by:
        case "final":
            run.finish()
        case "fault":
            run.decide(calls("nonsense")).judged().assessed()
        case "call":
            run.turn("read")
        case _:
            run.decide(Clarification("which?")).judged()
    assert notices(run) == ["replan"]
    assert run.machine.folded.business.turns[1].notice is not None


def test_with_the_soft_stop_both_are_told() -> None:
    """One notice with two parts, and each part journaled as what it is."""
    run = nudged(budget=Budget(max_steps=2))
    told = run.last(Decide).notice
    assert told is not None
    assert "nearly used up" in told.split("\n")[0]
    assert CYCLE.evidence in told.split("\n")[1]
    run.turn("pay")
    assert notices(run) == ["soft_stop", "replan"]
    assert run.machine.folded.business.turns[1].notice == told


def test_it_is_told_again_after_a_crash() -> None:
    """The tracker is rebuilt from the journal, and says where it stands; so nothing is lost."""
    run = nudged().reload()
    run.machine = Machine(run.machine.folded, run.terms(), worker="w2", fence=2, nudge=CYCLE)
    run.recover()
    told = run.last(Decide).notice
    assert told is not None
    assert CYCLE.evidence in told
    run.turn("pay")
    assert notices(run) == ["replan"]


def test_stalled_is_the_end_with_the_evidence() -> None:
    """Which can't be resumed as it is."""
    run = nudged().propose("read").done("read").observed(CYCLE)
    assert run.reason is Reason.NO_PROGRESS
    assert run.outcome.cause == f"cycle: {CYCLE.evidence}"
    assert not run.reason.resumable


@pytest.mark.parametrize("when", ["before", "after"])
def test_or_a_human_is_asked_with_the_evidence(when: str) -> None:
    """Suspended like for any question; the answer stands in the history, and it goes on."""
    run = Driver(policy=ASKS).start().decide(calls("read")).judged()
    if when == "before":
        run.assessed(CYCLE)
        assert run.statuses() == ["not_started"]
        assert run.commits[-1] == ("turn_committed", "suspended")
    else:
        run.assessed().done("read").observed(CYCLE)
    assert run.reason is Reason.CLARIFICATION_REQUIRED
    assert CYCLE.evidence in run.outcome.question

    run = run.reload().reply("look at order 8 instead")
    assert run.state is RunState.MODEL_THINKING
    assert run.last(Decide).history[0].answer == "look at order 8 instead"
    assert run.turn("read").finish().reason is Reason.COMPLETED


def test_asking_takes_no_running_time() -> None:
    """The clock stands until there is an answer."""
    run = Driver(Budget(max_active_seconds=10), ASKS).start().propose("read").later(4)
    run.done("read").observed(CYCLE)
    run.time = 1_000
    assert run.reply().machine.wake_at == 1_006


def test_a_cancel_while_the_question_is_stored_goes_before_it() -> None:
    """Nobody is asked any more."""
    run = held(Driver(policy=ASKS).start().propose("read").done("read")).observed(CYCLE)
    assert run.cancel().ack().reason is Reason.CANCELLED


def test_a_word_on_a_write_while_the_tracker_looks_is_no_answer_of_it() -> None:
    """It goes on once the tracker has said so."""
    run = Driver().start().propose("mail").lost("mail")
    run.settle("mail", applied()).judged()
    assert run.state is RunState.COMPACT_OR_SAVE
    assert run.observed(nudge=CYCLE).state is RunState.MODEL_THINKING
