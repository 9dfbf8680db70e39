"""The crash matrix: every point, every effect class, every answer.

A cell is a case that is killed at one or two points, and then brought to rest. Which cells there
are follows from what can be unsure:

- K0 to K4, K7 to K10 and K13 leave no doubt about any write, so nobody is asked, and each has one
  cell per class. For K3 a slow read comes first, for its proposal is durable before it ends; with a
  write first, its dispatch is in the same append, and that is K5. For K7 a slow read comes second.
- K4 is about reads only. K5 and K6 are about writes only; which of the two it was, nobody but the
  downstream can tell, so both are met with every answer.
- K11 is met at each of two verifiers, one blocking and one not: what the first has said holds.
- K12 is met with a write that has taken effect, and with one that has not.
- R0 to R2 are about what can be asked; R3 and R4 about what a person has to settle: a manual write,
  or a reconcilable one whose downstream cannot be reached.

Answers are the truth, as the ledger says it, or that nobody can tell: then a person may not be
there at all (it stays suspended), or give up (it goes on, and the effect stays unknown). Lies are
not part of the matrix: they are the kit's own business, in tests/testing/test_crash_points.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import pytest

from crash.desk import NAME, Plan, write_plan
from crash.ledger import Ledger
from loopwright.protocol import EffectStatus, Reason, Reconciled, unknown
from loopwright.testing import CrashPoint, CrashPoints

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it forks, and sends SIGKILL")
K, WRITES = CrashPoint, ("idempotent", "reconcilable", "manual")


class Answer(StrEnum):
    """What those who are asked say."""

    TRUTH = "truth"
    NOBODY = "nobody"
    GIVES_UP = "gives-up"


@dataclass(frozen=True)
class Cell:
    """One case, and what has to come of it."""

    tool: str
    kills: tuple[CrashPoint, ...]
    plan: Plan
    answer: Answer = Answer.TRUTH
    cancel_at: CrashPoint | None = None
    """Where the first life is cancelled."""
    reason: Reason = Reason.COMPLETED
    count: int = 1
    """How often the write has taken effect in the end."""
    bodies: int = 1
    """How often the tool's body has begun."""
    status: EffectStatus = "committed"
    occurrence: int = 1
    """At which time the first point is reached."""
    verifiers: tuple[int, int] | None = None
    """How often each of two verifiers was asked, should there be any."""

    def __str__(self) -> str:
        points = "+".join(self.kills)
        if self.cancel_at is not None:
            points += f"-cancelled-at-{self.cancel_at}"
        if self.occurrence > 1:
            points += f"-time-{self.occurrence}"
        return f"{points}-{self.tool}-{self.answer}"


def certain() -> Iterator[Cell]:
    """Nobody is in doubt: once, whatever the class."""
    for tool in ("read", *WRITES):
        alone: Plan = [[(tool, False)]]
        for point in (K.K0, K.K1, K.K8, K.K13):
            yield Cell(tool, (point,), alone)
        # A read does not wait for its proposal: it has run, and runs again.
        yield Cell(tool, (K.K2,), alone, bodies=2 if tool == "read" else 1)
        yield Cell(tool, (K.K3,), [[("slow", False), (tool, False)]])
        yield Cell(tool, (K.K7,), [[(tool, False), ("slow", False)]])
        for point in (K.K9, K.K10):
            yield Cell(tool, (point,), [[(tool, True)]])
        for time, verifiers in enumerate(((2, 1), (1, 2)), 1):
            yield Cell(tool, (K.K11,), alone, occurrence=time, verifiers=verifiers)
        yield Cell(tool, (K.K11, K.K11, K.K11), alone, verifiers=(4, 1))
    yield Cell("read", (K.K4,), [[("read", False)]], bodies=2)


def in_doubt() -> Iterator[Cell]:
    """A write was dispatched, and nobody here knows more: its class decides."""
    for done, point in enumerate((K.K5, K.K6)):
        alone: Plan = [[("idempotent", False)]]
        yield Cell("idempotent", (point,), alone, bodies=1 + done)
        for tool in ("reconcilable", "manual"):
            yield from asked(tool, done, point)
        for then in (K.R0, K.R1, K.R2):
            yield from asked("reconcilable", done, point, then, gives_up=False)
        for tool in ("reconcilable", "manual"):
            yield from asked(tool, done, point, K.R3, truth=tool == "manual")
            yield from asked(tool, done, point, K.R4, truth=tool == "manual", nobody=False)


def asked(
    tool: str,
    done: int,
    *kills: CrashPoint,
    truth: bool = True,
    nobody: bool = True,
    gives_up: bool = True,
) -> Iterator[Cell]:
    """Somebody is asked: the truth brings it to 1, and without it nothing is done again."""
    plan: Plan = [[(tool, False)]]
    if truth:
        yield Cell(tool, kills, plan)
    for answer, reason, wanted in (
        (Answer.NOBODY, Reason.RECONCILIATION_REQUIRED, nobody),
        (Answer.GIVES_UP, Reason.COMPLETED, gives_up),
    ):
        if wanted:
            yield Cell(
                tool, kills, plan, answer, None, reason, done, done, status="outcome_unknown"
            )


def cancelled() -> Iterator[Cell]:
    """Nothing is dispatched again, and what is known of a write is the truth or nothing."""
    yield Cell("read", (K.K12,), [[("read", False)]], cancel_at=K.K4, reason=Reason.CANCELLED)
    for done, cancel_at in enumerate((K.K5, K.K6)):
        for tool in WRITES:
            plan: Plan = [[(tool, False)]]
            for kills in ((K.K12,), (K.K12, K.R0), (K.K12, K.R1)):
                if len(kills) > 1 and tool != "reconcilable":
                    continue
                for answer in (Answer.TRUTH, Answer.NOBODY):
                    known: EffectStatus = "committed" if done else "not_applied"
                    status = known if answer is Answer.TRUTH else "outcome_unknown"
                    yield Cell(
                        tool, kills, plan, answer, cancel_at, Reason.CANCELLED, done, done, status
                    )


CELLS = [*certain(), *in_doubt(), *cancelled()]


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashPoints]:
    """One host forks all processes of the matrix."""
    with CrashPoints("crash.desk:make_agent", tmp_path_factory.mktemp("crash")) as kit:
        yield kit


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_cell_of_the_crash_matrix(crash: CrashPoints, cell: Cell) -> None:
    settle: dict[Answer, Reconciled | str | None] = {
        Answer.TRUTH: "crash.ledger:truth",
        Answer.NOBODY: None,
        Answer.GIVES_UP: unknown("it is lost"),
    }
    case = crash.case(NAME, "go", settle=settle[cell.answer])
    ledger = Ledger(case.folder)
    reachable, verified = cell.answer is Answer.TRUTH, cell.verifiers is not None
    write_plan(case.folder, cell.plan, reachable=reachable, verified=verified)

    cancel_at = cell.cancel_at
    for life, point in enumerate(cell.kills):
        occurrence = 1 if life else cell.occurrence
        assert case.kill_at(point, occurrence, cancel_at=cancel_at)
        case.check(ledger.counts())
        cancel_at = None
    outcome = case.finish()
    case.check(ledger.counts())

    assert outcome.reason is cell.reason
    assert ledger.bodies(cell.tool) == cell.bodies
    if cell.verifiers is not None:
        assert (ledger.bodies("blocking"), ledger.bodies("awaiting")) == cell.verifiers
    if cell.tool != "read":
        (effect,) = outcome.effects
        assert effect.status == cell.status
        assert ledger.counts() == ({effect.effect_key: 1} if cell.count else {})


def test_every_point_is_in_the_matrix() -> None:
    assert {point for cell in CELLS for point in cell.kills} == set(CrashPoint)
