"""What is kept turn by turn only saves counting: it never changes what is said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trajectories.notation import turn_of

from loopwright.policy import Progress, Tracking
from loopwright.policy.progress._runs import Runs
from loopwright.policy.progress._signals import Assessment, Step, judge
from loopwright.protocol import TurnCommitted, calls_of

TEXTS = (
    "a() -> 1",
    "a() -> 2",
    "A() -> 1",
    "b() -> 2",
    "c(n=1) !internal broke",
    "c(n=2) !internal broke",
    "d() ?denied no",
    "a() -> 1 ; b() -> 2",
    "*w(n=1) -> ok",
)


class NoRuns(Runs):
    """Says of every turn that it has to be counted."""

    __slots__ = ()

    def add(self, steps: object, rule: Progress) -> None:
        """Keep nothing."""
        self.repeats = 10**9

    def near(self, last: Step, rule: Progress) -> bool:
        """Spare nothing."""
        return True


def is_two(turn: TurnCommitted) -> bool | None:
    """A goal that comes and goes."""
    return next((r.output == 2 for r in turn.results if r.tool_name == "b"), None)


def limits(least: int) -> st.SearchStrategy[int | None]:
    """Small limits, and none."""
    return st.none() | st.integers(least, 5)


RULES = st.builds(
    Progress,
    max_repeats=limits(1),
    results_must_repeat=st.booleans(),
    max_stale_turns=limits(1),
    max_rounds=limits(2),
    max_errors=limits(1),
    max_seen_turns=limits(1),
    max_goal_turns=limits(1),
    goals=st.sampled_from(({}, {"two": is_two})),
    nudge=st.booleans(),
)
ROUNDS = st.lists(
    st.tuples(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4), st.integers(1, 12)),
    min_size=1,
    max_size=8,
)
"""Short batches of turns, each made several times over: a loop, and its end."""


@settings(max_examples=200, deadline=None)
@given(RULES, ROUNDS)
def test_counting_only_near_a_limit_says_what_counting_each_turn_does(
    rule: Progress, rounds: list[tuple[list[str], int]]
) -> None:
    """For windows that are full as well: a bound knows no window, what is counted does."""
    script = [text for texts, times in rounds for text in texts * times]
    sparing = Tracking(rule, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loopwright.policy.progress._tracking.Runs", NoRuns)
        thorough = Tracking(rule, {})
    for number, text in enumerate(script, 1):
        committed = turn_of(number, text)
        calls = calls_of(committed.proposal.decision)
        assert sparing.assess(calls) == thorough.assess(calls)
        assert sparing.observe(committed) == thorough.observe(committed)


def test_a_batch_made_over_and_over_is_not_counted_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn costs the same at the tenth and at the thousandth, where limits are far away."""
    counted: list[Step] = []

    def counting(steps: Sequence[Step], rule: Progress) -> Assessment:
        counted.append(steps[-1])
        return judge(steps, rule)

    monkeypatch.setattr("loopwright.policy.progress._tracking.judge", counting)
    tracking = Tracking(Progress(max_repeats=10**9), {})
    for number in range(1, 60):
        committed = turn_of(number, "a() -> 1 ; b() -> 2")
        assert tracking.assess(calls_of(committed.proposal.decision)) is None
        tracking.observe(committed)
    assert not counted
