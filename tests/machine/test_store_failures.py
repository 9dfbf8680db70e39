"""A store that refuses: nothing is dispatched that it does not know of, and the caller is told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from loopwright.protocol import (
    Budget,
    CommitFailed,
    Decide,
    Execute,
    InvocationStateError,
    Late,
    Reason,
    Rested,
    RunState,
    applied,
)
from machine.driver import Driver
from machine.places import PLACES
from machine.ways import Place

WAITING = [
    place
    for place in PLACES
    if CommitFailed in place.awaits
    and place.state is not RunState.CANCELLING
    and not place.state.at_rest
]
CORRECTING = [place for place in PLACES if CommitFailed in place.awaits and place.state.at_rest]


@pytest.mark.parametrize("fenced", [False, True], ids=["broken", "fenced"])
@pytest.mark.parametrize("place", WAITING, ids=lambda place: place.name)
def test_a_failed_commit_ends_it_in_every_place(place: Place, fenced: bool) -> None:
    """`checkpoint_failed`, or `lease_lost` to a former owner; and nothing more is said or run."""
    run = place.build()
    before = len(run.all(Execute)), len(run.all(Decide)), len(run.journal)
    run.hold = True
    run.lose(fenced=fenced)
    for call_id in list(run.running):
        run.done(call_id)
    for call_id in list(run.asking):
        run.found(call_id, applied())
    if run.state is RunState.CANCELLING:
        run.fail_model("interrupted")

    assert run.reason is (Reason.LEASE_LOST if fenced else Reason.CHECKPOINT_FAILED)
    assert run.outcome.cause == "disk full"
    assert run.outcome.partial is not None
    assert (len(run.all(Execute)), len(run.all(Decide)), len(run.journal)) == before
    assert run.pending == []


def test_only_what_waits_for_the_store_can_lose_it() -> None:
    """While the model thinks, or a decision is judged, only a correction of the ledger may be under way."""
    states = {
        place.state for place in WAITING if not place.name.endswith(("_corrected", "_unsaved"))
    }
    assert states == {
        RunState.CREATED,
        RunState.WAIT_APPROVAL,
        RunState.EXECUTE_TOOL,
        RunState.RECONCILE,
        RunState.COMPACT_OR_SAVE,
    }


@pytest.mark.parametrize("place", CORRECTING, ids=lambda place: place.name)
def test_what_rests_rests_as_before_if_a_correction_is_lost(place: Place) -> None:
    """The word was not taken, and nothing else has changed; it is not said a second time here."""
    run = place.build()
    before, effects = run.outcome, run.effects
    run.lose()
    assert (run.state, run.effects) == (place.state, effects)
    assert run.last(Rested).durable
    assert (run.outcome.reason, run.outcome.cause) == (before.reason, before.cause)
    with pytest.raises(InvocationStateError):
        run.settle("mail", applied())


def test_b60_a_lost_turn_is_surfaced_and_the_model_is_not_asked() -> None:
    """Two model calls, then the append fails: never `completed`."""
    run = Driver().start().turn("read")
    run.hold = True
    run.propose("read").done("read").lose()

    assert run.reason is Reason.CHECKPOINT_FAILED
    assert len(run.all(Decide)) == 2
    assert run.outcome.steps == 1


def test_a_lost_end_is_no_end() -> None:
    """An answer that could not be stored is not given; the next process asks again."""
    run = Driver().start()
    run.hold = True
    run.finish().lose()
    assert (run.reason, run.outcome.answer) == (Reason.CHECKPOINT_FAILED, "")

    run = run.reload()
    run.hold = False
    assert run.recover().finish().reason is Reason.COMPLETED


def test_a_lost_write_never_runs() -> None:
    """Its `CallDispatched` is not durable, so its tool never sees it."""
    run = Driver().start()
    run.hold = True
    run.propose("pay").lose()
    assert run.all(Execute) == []
    assert run.reason is Reason.CHECKPOINT_FAILED


def test_later_words_of_the_store_are_late() -> None:
    """Once it has failed, what it says of the commits behind is of no interest."""
    run = Driver().start().propose("read_a", "read_b").later(0.01)
    run.hold = True
    run.done("read_a").later(0.01)
    seq = run.pending[0].last_seq
    run.tell(CommitFailed(seq, "disk full"))
    assert run.tell(CommitFailed(seq, "disk full")) == (Late("CommitFailed"),)


@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_the_primary_reason_is_never_masked(how: str) -> None:
    """A store that fails during the drain is added to the cause; the reason stays."""
    deadline = datetime.fromtimestamp(1_100, UTC)
    run = Driver(Budget(deadline=deadline)).start().propose("pay")
    run.hold = True
    if how == "cancel":
        run.cancel().done("pay").lose()
        assert run.reason is Reason.CANCELLED
        assert run.outcome.cause == "not wanted any more; then the store: disk full"
    else:
        run.later(100).done("pay").lose()
        assert run.reason is Reason.DEADLINE_EXCEEDED
        assert run.outcome.cause == "the deadline has passed; then the store: disk full"


@pytest.mark.parametrize("ended_before", [False, True])
def test_a_lost_invocation_takes_no_grant_here(ended_before: bool) -> None:
    """It has not ended as far as the store knows: a new process goes on from there."""
    run = Driver(Budget(max_steps=1)).start()
    if ended_before:
        run.turn("read")
        run.hold = True
        run.grant(Budget(max_steps=1)).lose()
    else:
        run.hold = True
        run.finish().lose()
    assert run.reason is Reason.CHECKPOINT_FAILED
    with pytest.raises(InvocationStateError):
        run.grant()
