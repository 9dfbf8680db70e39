"""Every trajectory gets its verdict; and how many loops are found, and how much work is stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .loops import LOOPS
from .notation import Trajectory, play
from .work import WORKS

CORPUS = (*LOOPS, *WORKS)


@pytest.mark.parametrize("trajectory", CORPUS, ids=lambda trajectory: trajectory.name)
def test_a_trajectory_gets_its_verdict(trajectory: Trajectory) -> None:
    """A loop is stalled by the signal and the turn that are written down, after one notice."""
    played = play(trajectory)
    expected = trajectory.stalled
    if expected is None:
        assert played.stalled is None, played.evidence
        return
    assert played.stalled is not None
    assert played.stalled.signal == expected.signal
    assert played.stalled.turn <= expected.turn
    assert len(played.evidence) < 200
    assert len(played.nudges) == trajectory.rule.nudge


def test_recall_and_false_positives(
    record_testsuite_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missed and what is stopped wrongly is written down, and stays as little as it is."""
    assert len(CORPUS) >= 40
    assert len({trajectory.name for trajectory in CORPUS}) == len(CORPUS)
    found = sum(play(trajectory).stalled is not None for trajectory in LOOPS)
    wrong = sum(play(trajectory).stalled is not None for trajectory in WORKS)
    line = (
        f"progress corpus: {len(CORPUS)} trajectories, recall {found}/{len(LOOPS)}, "
        f"false positives {wrong}/{len(WORKS)}"
    )
    record_testsuite_property("progress corpus", line)
    with capsys.disabled():
        print(f"\n{line}")
    assert found >= len(LOOPS) - 2
    assert wrong <= 3
