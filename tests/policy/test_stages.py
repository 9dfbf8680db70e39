"""The planner: what depends on each other keeps its order, and only what is declared does not."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.policy import Footprint, stages
from loopwright.protocol import Effect

Touched = tuple[str, ...] | None
UNDECLARED = st.none()
RESOURCES: st.SearchStrategy[Touched] = st.one_of(
    UNDECLARED, st.lists(st.sampled_from("abc"), max_size=2, unique=True).map(tuple)
)


@st.composite
def batches(draw: st.DrawFn) -> list[Footprint]:
    """Draw a batch with gaps, as refused calls leave them."""
    effects = draw(st.lists(st.sampled_from(Effect), max_size=9))
    return [
        Footprint(2 * place, effect, draw(RESOURCES), draw(RESOURCES) if effect.is_write else None)
        for place, effect in enumerate(effects)
    ]


def depend(one: Footprint, other: Footprint) -> bool:
    """Say by the rules of 30-durability whether two calls keep their order."""
    if not (one.effect.is_write or other.effect.is_write):
        return False
    for write, against in ((one, other), (other, one)):
        if not write.effect.is_write:
            continue
        if write.effect is Effect.MANUAL or write.writes is None:
            return True
        if against.effect is Effect.READ and against.reads is None:
            return True
        if {*write.writes} & {*(against.reads or ()), *(against.writes or ())}:
            return True
    return False


def place_of(planned: tuple[tuple[int, ...], ...]) -> dict[int, int]:
    """Find the stage of each call."""
    return {call: number for number, stage in enumerate(planned) for call in stage}


@given(batches(), st.booleans())
def test_each_call_is_in_exactly_one_stage(batch: list[Footprint], serial: bool) -> None:
    """Nothing is lost, doubled or made up, and no stage is empty."""
    planned = stages(batch, serial=serial)
    assert sorted(call for stage in planned for call in stage) == [call.call for call in batch]
    assert all(planned)
    assert all(list(stage) == sorted(stage) for stage in planned)


@given(batches(), st.booleans())
def test_what_depends_on_each_other_never_runs_at_once_and_is_never_reordered(
    batch: list[Footprint], serial: bool
) -> None:
    """Two calls that share a written resource keep their declared order."""
    place = place_of(stages(batch, serial=serial))
    for first, second in combinations(batch, 2):
        if depend(first, second):
            assert place[first.call] < place[second.call]


@given(batches())
def test_independent_calls_do_run_at_once(batch: list[Footprint]) -> None:
    """A call that is not in the first stage waits for one right before it that it depends on."""
    planned = stages(batch)
    place, by_call = place_of(planned), {call.call: call for call in batch}
    for before, stage in pairwise(planned):
        for call in stage:
            assert any(
                other < call and depend(by_call[other], by_call[call]) for other in before
            ), place


@given(st.lists(st.sampled_from(Effect), max_size=12), st.booleans())
def test_undeclared_nothing_moves_past_a_write(effects: list[Effect], serial: bool) -> None:
    """A model that asks for several calls at once has not shown that they are independent."""
    batch = [Footprint(place, effect) for place, effect in enumerate(effects)]
    planned = stages(batch, serial=serial)
    assert [call for stage in planned for call in stage] == list(range(len(effects)))
    for stage in planned:
        assert len(stage) == 1 or all(effects[call] is Effect.READ for call in stage)
    for before, after in pairwise(planned):
        assert effects[before[-1]].is_write or effects[after[0]].is_write


@given(batches())
def test_serial_is_as_if_nothing_was_declared(batch: list[Footprint]) -> None:
    """One write after the other, neighbouring reads together."""
    bare = [Footprint(call.call, call.effect) for call in batch]
    assert stages(batch, serial=True) == stages(bare)


READ, PAY, MAIL = Effect.READ, Effect.IDEMPOTENT, Effect.MANUAL


@pytest.mark.parametrize(
    ("batch", "planned"),
    [
        ([], ()),
        ([Footprint(1, READ), Footprint(3, READ), Footprint(4, MAIL)], ((1, 3), (4,))),
        # Two orders are two things: serial per resource, at once otherwise.
        ([Footprint(0, PAY, None, ("o1",)), Footprint(1, PAY, None, ("o2",))], ((0, 1),)),
        ([Footprint(0, PAY, None, ("o1",)), Footprint(1, PAY, None, ("o1",))], ((0,), (1,))),
        # A declared read passes what does not touch it, an undeclared one passes nothing.
        ([Footprint(0, PAY, None, ("o1",)), Footprint(1, READ, ("o2",))], ((0, 1),)),
        ([Footprint(0, PAY, None, ("o1",)), Footprint(1, READ, ("o1",))], ((0,), (1,))),
        ([Footprint(0, PAY, None, ("o1",)), Footprint(1, READ)], ((0,), (1,))),
        ([Footprint(0, READ), Footprint(1, PAY, None, ("o1",))], ((0,), (1,))),
        ([Footprint(0, READ, ("o2",)), Footprint(1, PAY, None, ("o1",))], ((0, 1),)),
        # A write that reads what another one changes waits for it, and the other way round.
        ([Footprint(0, PAY, ("r",), ("a",)), Footprint(1, PAY, None, ("r",))], ((0,), (1,))),
        ([Footprint(0, PAY, None, ("r",)), Footprint(1, PAY, ("r",), ("a",))], ((0,), (1,))),
        # Nobody can ask about a manual write: it has a stage of its own, whatever it declares.
        (
            [Footprint(0, PAY, None, ("a",)), Footprint(1, MAIL, None, ("b",)), Footprint(2, READ, ())],
            ((0,), (1,), (2,)),
        ),
        # Nor does anybody know what an undeclared write changes.
        ([Footprint(0, READ, ("x",)), Footprint(1, PAY), Footprint(2, READ, ("x",))], ((0,), (1,), (2,))),
        # What changes nothing that is shared waits for nobody.
        ([Footprint(i, Effect.RECONCILABLE, None, ()) for i in range(3)], ((0, 1, 2),)),
        # Behind what it depends on, not behind what it does not.
        (
            [
                Footprint(0, PAY, None, ("a",)),
                Footprint(1, PAY, None, ("a",)),
                Footprint(2, PAY, None, ("b",)),
                Footprint(3, READ, ("b",)),
            ],
            ((0, 2), (1, 3)),
        ),
    ],
)  # fmt: skip
def test_in_which_order(batch: list[Footprint], planned: tuple[tuple[int, ...], ...]) -> None:
    """The table of 30-durability, "Resources", by example."""
    assert stages(batch) == planned
