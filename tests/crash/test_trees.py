"""A parent and its child, killed at every point of either: one child, one effect, one account.

What a point is about is counted over both: the second `InvocationStarted` is the child's, the
first `InvocationEnded` is as well, with its parent not told yet.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.desk import write_plan
from crash.ledger import Ledger
from crash.office import NAME
from loopwright.protocol import Reason, Usage
from loopwright.testing import CrashPoint, CrashPoints

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it forks, and sends SIGKILL")
K = CrashPoint
POINTS = [point for point in K if not point.about_unknown and point is not K.K12]
CELLS = [
    *((point, "reconcilable") for point in POINTS),
    *((point, tool) for point in (K.K5, K.K6) for tool in ("idempotent", "manual")),
]


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashPoints]:
    """One host forks all processes."""
    with CrashPoints("crash.office:make_agents", tmp_path_factory.mktemp("crash")) as kit:
        yield kit


@pytest.mark.parametrize(("point", "tool"), CELLS)
def test_a_child_is_started_once_and_its_write_takes_effect_once(
    crash: CrashPoints, point: CrashPoint, tool: str
) -> None:
    """At each time the point is reached, in the parent or in the child; a person says yes."""
    occurrence, reached = 1, True
    while reached:
        case = crash.case(NAME, "go", settle="crash.ledger:truth")
        ledger = Ledger(case.folder)
        write_plan(case.folder, [[(tool, True), ("slow", False)]], verified=True)
        reached = case.kill_at(point, occurrence)
        case.check(ledger.counts())
        outcome = case.finish()
        case.check(ledger.counts())
        assert outcome.reason is Reason.COMPLETED
        assert list(ledger.counts().values()) == [1]
        (turn,) = outcome.history[:1]
        assert turn.results[0].child is not None
        # Two replies of the parent, two of the child; its two calls, and that of the parent.
        assert (outcome.usage, outcome.tool_calls) == (Usage(4, 4), 3)
        assert outcome.cost == 2, "a dollar for each reply of the parent"
        occurrence += 1
    assert occurrence > 2, "the point was reached at all"


@pytest.mark.parametrize("cancel_at", [K.K1, K.K2, K.K5, K.K6, K.K7, K.K8])
@pytest.mark.parametrize("occurrence", [1, 2])
def test_a_cancel_that_was_durable_in_time_holds_for_the_child(
    crash: CrashPoints, cancel_at: CrashPoint, occurrence: int
) -> None:
    """Killed once a cancel is durable, the parent's or the child's: nobody goes on with the work."""
    case = crash.case(NAME, "go", settle="crash.ledger:truth")
    ledger = Ledger(case.folder)
    write_plan(case.folder, [[("reconcilable", False), ("slow", False)]])
    case.kill_at(K.K12, occurrence, cancel_at=cancel_at)
    case.check(ledger.counts())
    outcome = case.finish()
    case.check(ledger.counts())
    assert outcome.reason is Reason.CANCELLED
    assert sum(ledger.counts().values()) <= 1


@pytest.mark.parametrize("point", [K.K1, K.K2, K.K5, K.K6, K.K8, K.K11])
def test_who_took_over_goes_on(tmp_path: Path, point: CrashPoint) -> None:
    """A handoff is durable with its turn: it is not made twice, and its target has the tools."""
    with CrashPoints("crash.office:make_relay", tmp_path) as kit:
        case = kit.case("triage", "go", settle="crash.ledger:truth")
        ledger = Ledger(case.folder)
        # Its first turn is the one in which it is handed over.
        write_plan(case.folder, [[], [("reconcilable", False)]], verified=True)
        assert case.kill_at(point)
        case.check(ledger.counts())
        outcome = case.finish()
        case.check(ledger.counts())
    assert (outcome.reason, outcome.agent) == (Reason.COMPLETED, "desk")
    assert (outcome.spent.handoffs, outcome.steps) == (1, 3)
    assert [*ledger.counts().values()] == [1]
