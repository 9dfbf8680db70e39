"""Every state and message: handled as the table says, late, or refused; the last two change nothing."""

from __future__ import annotations

from functools import cache
from typing import get_args

import pytest

from loopwright.protocol import (
    TABLE,
    Answer,
    AnswerApproval,
    Cancel,
    DecideInstead,
    Entered,
    Expire,
    Grant,
    Input,
    InvocationStateError,
    Late,
    LeaseLost,
    ProtocolViolation,
    Recover,
    RunState,
    ServiceFailed,
    Settle,
    Start,
    Tick,
    Wake,
)
from machine.driver import Driver
from machine.messages import Said, everything
from machine.places import PLACES
from machine.snapshot import snapshot
from machine.stand import Edge
from machine.ways import Place

INPUTS: tuple[type[Input], ...] = get_args(Input)
FROM_PEOPLE = (Cancel, AnswerApproval, Answer, Settle, Grant, DecideInstead, Expire, Wake)
FROM_THE_RUNTIME = (Start, Recover, Tick, ServiceFailed, LeaseLost)
PASSED_THROUGH = (RunState.PREPARE_CONTEXT, RunState.OBSERVE)


EDGES: set[Edge] = {
    (state, trigger, target)
    for state, row in TABLE.items()
    for trigger, targets in row.items()
    for target in targets
}
"""The table, edge by edge."""


def say(place: Place, said: Said) -> tuple[Driver, str]:
    """Say one thing in a place; tell what came of it, and check that a refusal changes nothing."""
    driver = place.build()
    driver.hold = True
    assert driver.state is place.state
    seconds, message = said
    driver.time += seconds
    before = snapshot(driver.machine)
    asked_for = isinstance(message, (*FROM_PEOPLE, Recover))
    refusal = InvocationStateError if asked_for else ProtocolViolation
    try:
        out = driver.tell(message)
    except refusal:
        assert snapshot(driver.machine) == before
        return driver, "refused"
    if out == (Late(type(message).__name__),):
        assert snapshot(driver.machine) == before
        return driver, "late"
    assert not any(isinstance(output, Late) for output in out)
    return driver, "handled"


@cache
def tried(place: Place) -> tuple[tuple[type[Input], str, frozenset[Edge]], ...]:
    """Say everything in a place, each to a machine of its own: the kind, the verdict, the edges."""
    found: list[tuple[type[Input], str, frozenset[Edge]]] = []
    for said in everything(place.build()):
        driver, verdict = say(place, said)
        found.append((type(said[1]), verdict, frozenset(driver.edges)))
    return tuple(found)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.state}.{place.name}")
@pytest.mark.parametrize("kind", INPUTS, ids=lambda kind: kind.__name__)
def test_a_message_is_handled_as_the_table_says_or_changes_nothing(
    place: Place, kind: type[Input]
) -> None:
    """An awaited reply is handled, another one is late; a request is handled where it is listed."""
    verdicts: set[str] = set()
    for said, verdict, edges in tried(place):
        if said is kind:
            assert edges <= EDGES
            verdicts.add(verdict)

    if kind in (Tick, ServiceFailed, LeaseLost) and place.state.at_rest:
        assert verdicts == {"late"}
    elif kind not in (*FROM_PEOPLE, *FROM_THE_RUNTIME):
        assert ("handled" in verdicts) == (kind in place.awaits)
        assert verdicts <= {"handled", "late"}
    elif kind not in TABLE[place.state]:
        assert verdicts == {"refused"}
    else:
        assert verdicts <= {"handled", "refused"}


def test_every_state_is_reached() -> None:
    """A state is a place to be in, or passed through on the way to one."""
    assert {place.state for place in PLACES} == set(RunState) - set(PASSED_THROUGH)
    passed = {state for place in PLACES for state, _, _ in place.build().edges}
    assert passed >= set(PASSED_THROUGH)


@pytest.mark.parametrize("state", PASSED_THROUGH)
def test_no_message_can_meet_a_state_that_is_passed_through(state: RunState) -> None:
    """Such a state is left before the message that led there is done with."""
    assert set(TABLE[state]) == {Entered}


def test_the_table_has_no_dead_edges() -> None:
    """Each edge is taken on the way to some place, or by one message said there."""
    taken = {edge for place in PLACES for _, _, edges in tried(place) for edge in edges}
    assert EDGES - taken == set()
    assert taken - EDGES == set()
