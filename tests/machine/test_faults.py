"""What the model gets wrong: repaired once, refused call by call, and never forgiven for ever."""

from __future__ import annotations

import pytest

from loopwright.policy import Policy
from loopwright.protocol import Decide, Execute, Faulty, Final, Malformed, Reason
from machine.driver import Driver
from machine.samples import calls


def test_b01_nothing_of_an_unusable_decision_runs() -> None:
    """One repair turn that names the problem, then it goes on."""
    run = Driver().start().decide(calls("read_a", "read_a"))
    run.judged(Faulty("the call id 'read_a' occurs twice"))

    assert run.all(Execute) == []
    assert run.turns[0].results == ()
    assert run.turns[0].fault is not None
    assert "read_a" in run.turns[0].fault.problem
    assert isinstance(run.turns[0].proposal.decision, Malformed)

    assert run.finish().reason is Reason.COMPLETED
    assert len(run.all(Decide)) == 2


def test_b36_a_second_unusable_decision_in_a_row_ends_it() -> None:
    """Repairs are counted in a row: a sound turn in between starts anew."""
    run = Driver().start().turn("read")
    run.decide(Final("")).judged(Faulty("the answer is blank"))
    run.turn("read")
    run.decide(Final("")).judged(Faulty("the answer is blank"))
    assert len(run.all(Decide)) == 5

    run.decide(Final("  ")).judged(Faulty("the answer is blank"))
    assert (run.reason, run.outcome.cause) == (Reason.INVALID_DECISION, "the answer is blank")
    assert run.outcome.answer == ""
    assert len(run.all(Decide)) == 5


@pytest.mark.parametrize("repairs", [0, 2])
def test_the_policy_says_how_many_repairs(repairs: int) -> None:
    """`max_repairs` unusable decisions in a row are forgiven, one more is not."""
    run = Driver(policy=Policy(max_repairs=repairs, max_faulty_turns=9)).start()
    for _ in range(repairs):
        run.decide(Malformed("no JSON", "{"))
    run.decide(Malformed("no JSON", "{"))
    assert run.reason is Reason.INVALID_DECISION
    assert run.outcome.steps == repairs + 1


def test_b33_an_unknown_tool_is_answered_and_the_reads_beside_it_run() -> None:
    """A refused call settles without being dispatched; a broken batch starts no write."""
    run = Driver().start().propose("read", "get_dat", "pay")
    assert run.executed() == ["read#1"]
    run.done("read")

    assert run.statuses() == ["ok", "unknown_tool", "not_started"]
    assert run.turns[0].tool_calls == 1
    assert run.turns[0].fault is not None
    assert run.turns[0].fault.level == "call"
    assert run.observed().finish().reason is Reason.COMPLETED


def test_b33_the_same_fault_is_not_answered_for_ever() -> None:
    """After `max_faulty_turns` turns in a row with any fault the decision counts as invalid."""
    run = Driver().start()
    for _ in range(2):
        run.propose("get_dat").observed()
    run.propose("get_dat")

    assert run.reason is Reason.INVALID_DECISION
    assert run.outcome.tool_calls == 0
    assert [run.statuses(turn) for turn in range(3)] == [["unknown_tool"]] * 3


def test_a_turn_of_refused_calls_is_observed_at_once() -> None:
    """With nothing to dispatch the turn is committed in the message that judged it."""
    run = Driver().start().propose("get_dat")
    assert run.commits[1:] == [("turn_committed",)]
    assert run.all(Execute) == []


def test_strict_policy_forgives_nothing() -> None:
    """One fault of either kind is the end."""
    assert Driver(policy=Policy.strict()).start().propose("get_dat").reason is (
        Reason.INVALID_DECISION
    )
    run = Driver(policy=Policy.strict()).start().decide(Malformed("no JSON", "{"))
    assert run.reason is Reason.INVALID_DECISION


def test_a_resume_forgives_old_faults() -> None:
    """Who lets it go on gives the model its repairs back."""
    run = Driver().start().decide(Malformed("no JSON", "{")).fail_model()
    run = run.reload().grant().decide(Malformed("no JSON", "{"))
    assert run.finish().reason is Reason.COMPLETED
