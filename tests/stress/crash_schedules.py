"""Kill agents at random points of random schedules, and check that nothing is lost or done twice.

A schedule is a random plan of one to four turns, with reads, writes of every class, two writes in
a batch and approvals, and random deaths: up to four, at any points, one after the other. Sometimes
two workers are at work at once, sometimes somebody cancels, and sometimes the downstream cannot be
asked, so that a person has to settle what is unknown, by the truth; and now and then the line of a
first attempt goes dead, before or after its effect. After each death, and at the
end, the invariants of the crash kit are checked against a ledger that counts what has really been
done; at the end, every write has taken effect once, or, after a cancel, at most once, and the store
knows which.

It is no test of the suite, for it takes minutes. Run it from the repository:

    python tests/stress/crash_schedules.py [--schedules N] [--seed N] [--only N]

The seed decides everything but what two workers do side by side. POSIX only.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from crash.desk import NAME, Plan, When, write_plan
from crash.ledger import Ledger

from loopwright.protocol import Outcome, Reason
from loopwright.testing import CrashPoint, CrashPoints

HOSTS: Final = 2
LEASE_TTL: Final = 0.5
"""Seconds after which one of two workers may take over from the other."""
K: Final = CrashPoint
READS: Final = ("read", "slow")
WRITES: Final = ("idempotent", "reconcilable", "manual")
CANCELS: Final = (K.K3, K.K4, K.K5, K.K6, K.K8)
OFTEN: Final = (K.K2, K.K3, K.K4, K.K5, K.K6, K.K8)
"""Points that a life passes more than once."""
DOUBTS: Final = (K.K5, K.K6, K.R0, K.R1, K.R3)
"""Points behind which somebody is asked what became of a write."""


@dataclass(frozen=True, slots=True)
class Death:
    """Where a life is to end; it may get past it, if it is never there."""

    point: CrashPoint
    occurrence: int
    cancel_at: CrashPoint | None
    beside: bool
    """Whether a second worker is at work meanwhile, which is not killed."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """One random schedule."""

    plan: Plan
    deaths: tuple[Death, ...]
    reachable: bool
    torn: dict[str, When]


def make_schedule(chance: random.Random) -> Schedule:
    """Throw the dice."""
    plan: Plan = []
    for _ in range(chance.randint(1, 4)):
        ask = chance.random() < 0.15
        calls = [chance.choice(READS + WRITES) for _ in range(chance.choice((1, 1, 2, 3)))]
        plan.append([(name, ask and n == 0) for n, name in enumerate(calls)])
    cancels = chance.random() < 0.2
    deaths: list[Death] = []
    for left in reversed(range(chance.choice((1, 2, 3, 4, 4)))):
        last = deaths[-1].point if deaths else None
        point = chance.choice(points_of(plan, last) + ([] if left else [K.K13]))
        cancel_at = chance.choice(CANCELS) if cancels or point is K.K12 else None
        occurrence = chance.choice((1, 1, 1, 2, 3)) if point in OFTEN else 1
        deaths.append(Death(point, occurrence, cancel_at, chance.random() < 0.1))
        cancels = False
    items = [f"{turn}.{n}" for turn, calls in enumerate(plan, 1) for n in range(1, len(calls) + 1)]
    torn: dict[str, When] = {
        item: chance.choice(("before", "after")) for item in items if chance.random() < 0.1
    }
    return Schedule(plan, tuple(deaths), chance.random() < 0.7, torn)


def points_of(plan: Plan, last: CrashPoint | None) -> list[CrashPoint]:
    """List points a life of this plan is likely to reach, after a death at the last one."""
    if last in DOUBTS and chance_of_asking(plan):
        return [K.K5, K.K6, K.R0, K.R1, K.R1, K.R2, K.R2, K.R3, K.R4]
    tools = {tool for turn in plan for tool, _ in turn}
    points = [K.K2, K.K3, K.K8, K.K12]
    points += [K.K0, K.K1] if last is None else []
    points += [K.K4] if tools & {*READS} else []
    points += [K.K5, K.K5, K.K6, K.K6] if tools & {*WRITES} else []
    points += [K.K7] if any(len(turn) > 1 and turn[0][0] in WRITES for turn in plan) else []
    points += [K.K9, K.K10] if any(ask for turn in plan for _, ask in turn) else []
    return points


def chance_of_asking(plan: Plan) -> bool:
    """Whether the plan has a write about which somebody can be asked."""
    return any(tool in WRITES[1:] for turn in plan for tool, _ in turn)


@dataclass
class Totals:
    """What all schedules together came to."""

    schedules: int = 0
    kills: int = 0
    dispatches: int = 0
    """Bodies of writes that began."""
    effects: int = 0
    duplicates: int = 0
    """Effects beyond the first under one key, where the downstream does not deduplicate."""
    lost: int = 0
    """Schedules in which something was not there that had been durable."""
    wrong: int = 0
    """Schedules with anything that must not be."""


class Stress:
    """Plays schedules until there are none left, in a thread per host.

    Args:
        seed: Decides them.
        numbers: Which ones to play.
        folder: Where their files go; those of a schedule that went wrong stay.
    """

    def __init__(self, seed: int, numbers: list[int], folder: Path) -> None:
        self.totals = Totals()
        self.reasons: Counter[str] = Counter()
        self.points: Counter[str] = Counter()
        self._seed = seed
        self._numbers = numbers
        self._folder = folder
        self._lock = threading.Lock()

    def run(self) -> None:
        """Play them all."""
        threads = [threading.Thread(target=self._play_all, args=(n,)) for n in range(HOSTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _play_all(self, host: int) -> None:
        with CrashPoints("crash.desk:make_agent", self._folder / str(host)) as crash:
            while True:
                with self._lock:
                    if not self._numbers:
                        return
                    number = self._numbers.pop(0)
                schedule = make_schedule(random.Random(f"{self._seed}:{number}"))
                try:
                    self._play(crash, schedule)
                except Exception as error:  # noqa: BLE001 - the others are played all the same
                    with self._lock:
                        self.totals.wrong += 1
                        self.totals.lost += str(error).startswith("lost")
                    print(f"schedule {number} went wrong: {error}\n  {schedule}", file=sys.stderr)

    def _play(self, crash: CrashPoints, schedule: Schedule) -> None:
        case = crash.case(NAME, "go", settle="crash.ledger:truth")
        ledger = Ledger(case.folder)
        write_plan(case.folder, schedule.plan, reachable=schedule.reachable, torn=schedule.torn)
        for death in schedule.deaths:
            ttl = LEASE_TTL if death.beside else 15.0
            life = case.begin(
                death.point, death.occurrence, cancel_at=death.cancel_at, lease_ttl=ttl
            )
            beside = case.begin(lease_ttl=ttl) if death.beside else None
            killed = life.wait()
            if beside is not None:
                beside.wait()
            case.check(ledger.counts())
            with self._lock:
                self.points[str(death.point)] += killed
            if not killed:
                # It has come to rest.
                break
        outcome = case.finish()
        case.check(ledger.counts())
        self._count(case.kills, outcome, ledger)
        check_end(outcome, schedule, ledger.counts())
        shutil.rmtree(case.folder)

    def _count(self, kills: int, outcome: Outcome, ledger: Ledger) -> None:
        counts = ledger.counts()
        with self._lock:
            self.reasons[str(outcome.reason)] += 1
            totals = self.totals
            totals.schedules += 1
            totals.kills += kills
            totals.dispatches += sum(ledger.bodies(tool) for tool in WRITES)
            totals.effects += sum(counts.values())
            totals.duplicates += sum(count - 1 for count in counts.values())


def check_end(outcome: Outcome, schedule: Schedule, counts: dict[str, int]) -> None:
    """Check that everything came to what was wanted, and that the store knows what it came to."""
    cancels = any(death.cancel_at is not None for death in schedule.deaths)
    allowed = {Reason.COMPLETED, Reason.CANCELLED} if cancels else {Reason.COMPLETED}
    assert outcome.reason in allowed, f"it ended with {outcome.reason}: {outcome.cause}"
    for effect in outcome.effects:
        done = counts.get(effect.effect_key, 0)
        wanted = "committed" if done else "not_applied"
        assert effect.status == wanted, f"{effect.effect_key}: {effect.status}, and done {done}"
    if outcome.reason is Reason.COMPLETED:
        due = {
            f"{tool}:{turn}.{n}": 1
            for turn, calls in enumerate(schedule.plan, 1)
            for n, (tool, _) in enumerate(calls, 1)
            if tool in WRITES
        }
        assert counts == due, f"done {counts}, not {due}"


def main() -> int:
    """Play all schedules; return the exit code."""
    parser = argparse.ArgumentParser(description="Kill agents at random points.")
    parser.add_argument("--schedules", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--only", type=int, help="play this schedule only")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    numbers = [given.only] if given.only else [*range(1, given.schedules + 1)]
    folder, begun = Path(tempfile.mkdtemp(prefix="crash-schedules-")), time.monotonic()
    stress = Stress(given.seed, numbers, folder)
    stress.run()
    totals, seconds = stress.totals, time.monotonic() - begun
    print(f"ends: {dict(stress.reasons.most_common())}")
    print(f"deaths: {dict(sorted(stress.points.items()))}")
    print(
        f"{totals.schedules} schedules, {totals.kills} kills, {totals.dispatches} dispatches, "
        f"{totals.effects} effects, {totals.duplicates} duplicates, {totals.lost} lost commits, "
        f"{totals.wrong} wrong, {seconds:.0f} s"
    )
    if totals.wrong:
        print(f"the files are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
