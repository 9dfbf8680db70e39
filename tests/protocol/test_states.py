"""The tables: closed, connected, and as the two rules in `_states` say."""

from __future__ import annotations

from typing import get_args

import pytest

from loopwright.protocol import (
    CALL_TABLE,
    TABLE,
    Answer,
    AnswerApproval,
    AttemptFailed,
    CallState,
    Cancel,
    ChildRested,
    CommitFailed,
    Committed,
    Compacted,
    Decided,
    DecideFailed,
    DecideInstead,
    Entered,
    Executed,
    Expire,
    Found,
    Grant,
    Input,
    LeaseLost,
    Recover,
    RunState,
    Settle,
    Start,
    Tick,
    Verified,
    Wake,
)

RESTING = [state for state in RunState if state.at_rest]
WORKING = [
    state
    for state in RunState
    if not state.at_rest and state is not RunState.CANCELLING and set(TABLE[state]) != {Entered}
]


def test_every_state_has_a_row_of_known_triggers() -> None:
    """The table is closed: states and messages of the protocol, nothing else."""
    known = {*get_args(Input), Entered}
    assert set(TABLE) == set(RunState)
    for row in TABLE.values():
        assert set(row) <= known
        assert all(targets and targets <= set(RunState) for targets in row.values())


def test_every_message_has_a_meaning_somewhere() -> None:
    """A message no state takes would be dead."""
    assert {t for row in TABLE.values() for t in row} == {*get_args(Input), Entered}


def test_every_state_is_reachable_and_leads_to_rest() -> None:
    """From the beginning to everywhere, and from everywhere to an end."""
    reached, todo = set[RunState](), [RunState.CREATED]
    while todo:
        state = todo.pop()
        if state not in reached:
            reached.add(state)
            todo += [t for targets in TABLE[state].values() for t in targets]
    assert reached == set(RunState)

    ends = set(RESTING)
    while more := {
        state
        for state, row in TABLE.items()
        if state not in ends and ends & {t for targets in row.values() for t in targets}
    }:
        ends |= more
    assert ends == set(RunState)


@pytest.mark.parametrize("state", WORKING)
def test_every_working_state_can_be_stopped(state: RunState) -> None:
    """A cancel and the passing of time lead to `CANCELLING`, from wherever something is waited for."""
    assert RunState.CANCELLING in TABLE[state][Cancel]
    assert RunState.CANCELLING in TABLE[state][Tick]


def test_cancelling_leads_to_an_end_and_nowhere_else() -> None:
    """Once stopped, nothing is dispatched any more."""
    targets = {t for targets in TABLE[RunState.CANCELLING].values() for t in targets}
    assert targets == {RunState.CANCELLING, RunState.CANCELLED, RunState.FAILED}


def test_only_what_it_waits_for_moves_what_is_at_rest() -> None:
    """No reply and no tick of its own wakes it; what is finished or cancelled stays so.

    A word on a write of long ago is stored, and it goes on resting.
    """
    people = {Cancel, Answer, AnswerApproval, Settle, Grant, DecideInstead}
    waited_for, store = {Expire, Wake}, {Committed, CommitFailed}
    for state in RESTING:
        assert set(TABLE[state]) <= people | waited_for | store
        assert all(TABLE[state][trigger] == {state} for trigger in store)
    for state in (RunState.FINISHED, RunState.CANCELLED):
        assert TABLE[state] == {key: {state} for key in (Settle, Committed, CommitFailed)}
    assert TABLE[RunState.FAILED][Settle] == {RunState.FAILED}
    assert waited_for.isdisjoint(TABLE[RunState.FAILED])


def test_it_begins_in_one_place() -> None:
    """`Start` and `Recover` mean something in `CREATED` only."""
    assert [state for state in RunState if Start in TABLE[state]] == [RunState.CREATED]
    assert [state for state in RunState if Recover in TABLE[state]] == [RunState.CREATED]


def test_replies_are_taken_where_they_are_waited_for() -> None:
    """And while cancelling, because what runs still reports."""
    stop = RunState.CANCELLING
    for from_model in (Decided, AttemptFailed, DecideFailed):
        assert {s for s in RunState if from_model in TABLE[s]} == {RunState.MODEL_THINKING, stop}
    assert {s for s in RunState if Executed in TABLE[s]} == {RunState.EXECUTE_TOOL, stop}
    assert {s for s in RunState if Found in TABLE[s]} == {RunState.RECONCILE, stop}
    a_child = {RunState.EXECUTE_TOOL, RunState.RECONCILE, stop}
    assert {s for s in RunState if ChildRested in TABLE[s]} == a_child


def test_nobody_waits_for_a_verifier_or_a_summary_once_it_stops() -> None:
    """What they say changes nothing in the world: only the states that ask for it take it."""
    assert {s for s in RunState if Verified in TABLE[s]} == {RunState.VERIFY_ANSWER}
    assert {s for s in RunState if Compacted in TABLE[s]} == {RunState.COMPACT_OR_SAVE}


def test_a_verdict_leads_to_nothing_but_the_commit_of_the_turn() -> None:
    """Passed or failed, it is saved first: no answer is given, and no model asked, from there."""
    row = TABLE[RunState.VERIFY_ANSWER]
    targets = {target for targets in row.values() for target in targets}
    assert targets == {RunState.VERIFY_ANSWER, RunState.COMPACT_OR_SAVE, RunState.CANCELLING}


def test_a_failed_attempt_moves_nothing() -> None:
    """It is only charged."""
    for state in (RunState.MODEL_THINKING, RunState.CANCELLING):
        assert TABLE[state][AttemptFailed] == {state}


@pytest.mark.parametrize("state", WORKING)
def test_a_lost_lease_stops_it_everywhere(state: RunState) -> None:
    """Nothing is dispatched any more by who may not own it; while cancelling, as at any time."""
    assert TABLE[state][LeaseLost] == {RunState.CANCELLING}
    assert RunState.FAILED in TABLE[RunState.CANCELLING][LeaseLost]


def test_a_ledger_can_be_corrected_in_every_state_but_the_first() -> None:
    """Nobody who knows what became of a write has to wait for the invocation to be at rest."""
    without = {s for s in RunState if Settle not in TABLE[s]}
    assert without == {RunState.CREATED, RunState.PREPARE_CONTEXT, RunState.OBSERVE}


def test_only_what_is_unknown_is_planned_again() -> None:
    """A call that is settled has its one result; a dispatched one reports, or is unknown."""
    assert set(CALL_TABLE) == set(CallState)
    assert CALL_TABLE[CallState.SETTLED] == frozenset()
    assert CALL_TABLE[CallState.DISPATCHED] == {CallState.UNKNOWN, CallState.SETTLED}
    again = {state for state, targets in CALL_TABLE.items() if CallState.PLANNED in targets}
    assert again == {CallState.UNKNOWN}


def test_the_tables_cannot_be_changed() -> None:
    """They are data for everybody."""
    with pytest.raises(TypeError):
        TABLE[RunState.FINISHED] = {}  # type: ignore[index]  # pyright: ignore[reportIndexIssue]  # that is the test
    with pytest.raises(TypeError):
        TABLE[RunState.FINISHED][Grant] = frozenset()  # type: ignore[index]  # pyright: ignore[reportIndexIssue]  # that is the test
