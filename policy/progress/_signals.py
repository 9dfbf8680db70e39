"""The counting behind `Progress`: pure functions of the last turns, the latest one last.

Each counts backwards from the latest turn and no further than the window, so that what is
counted live and what is counted over turns read back from a journal is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from loopwright.protocol import Stalled, bounded

from ._progress import LOOK_BACK, Progress

Failure: TypeAlias = tuple[str, str]
"""A tool, and in which way it failed."""
QUIET: Final = 8
"""Turns after a notice in which there is no other one, unless something was found out."""
_SHOWN: Final = 3
"""Names in one piece of evidence."""


class News(IntEnum):
    """The most that a turn has brought; what is below `FIRST` is no finding."""

    NOTHING = 0
    """Every call returned what it had returned before."""
    FAILURE = 1
    """A call that was not made before failed, or was refused."""
    FIRST = 2
    """A call that was not made before returned something."""
    CHANGE = 3
    """A call returned something else than the last time."""


class Step(NamedTuple):
    """What is kept of a turn, to compare later ones with; for the digests see `Marks`."""

    plan: bytes
    outcome: bytes
    pairs: bytes
    tools: tuple[str, ...]
    failures: tuple[Failure, ...]
    """Of calls that ran."""
    open: tuple[str, ...]
    """Goals that were not met after it."""
    news: News
    near: bool = False
    """Whether one more like it would have been one too many."""


class Assessment(NamedTuple):
    """What a turn that has run says of the whole; where both are missing, it is progressing."""

    stalled: Stalled | None = None
    nudge: Stalled | None = None
    """The model is to be told: one more like this, and it is stalled."""


PROGRESSING: Final = Assessment()


def judge(steps: Sequence[Step], rule: Progress) -> Assessment:
    """Judge the latest of the last turns, whatever was said of those before it.

    It goes through all of them: `Runs` says whether that is worth it.
    """
    nudge: Stalled | None = None
    for signal in _SIGNALS:
        limit = signal.limit(rule)
        if limit is None:
            continue
        count = signal.counted(steps, rule)
        if count >= limit:
            return Assessment(stalled=Stalled(signal.name, signal.evidence(steps, rule, count)))
        if 0 < count == limit - 1 and nudge is None:
            nudge = Stalled(signal.name, signal.evidence(steps, rule, count))
    return PROGRESSING if nudge is None else Assessment(nudge=nudge)


def other(steps: Sequence[Step]) -> bool:
    """Whether the latest turn came to something that none of those just before it did."""
    last, recent = steps[-1], steps[-1 - LOOK_BACK : -1]
    return last.news is News.CHANGE or last.outcome not in [step.outcome for step in recent]


def told(steps: Sequence[Step]) -> bool:
    """Whether the model was told of late, and has found nothing out since."""
    for step in reversed(steps[-QUIET:]):
        if step.near:
            return True
        if step.news >= News.FIRST:
            return False
    return False


def repeats(steps: Sequence[Step], rule: Progress) -> int:
    """Count how often the latest batch had run before, in a row and with the same results."""
    last, count = steps[-1], 0
    for step in reversed(steps[:-1]):
        if step.plan != last.plan:
            break
        if rule.results_must_repeat and step.outcome != last.outcome:
            break
        count += 1
    return count


def repeated_plan(steps: Sequence[Step], rule: Progress) -> Stalled:
    """Say that the latest batch has run too often."""
    return Stalled("repeated_plan", _say_repeats(steps, rule, repeats(steps, rule)))


def _stale_turns(steps: Sequence[Step], rule: Progress) -> int:
    count = 0
    for index in range(len(steps) - 1, 0, -1):
        step, before = steps[index], steps[index - 1]
        if step.open != before.open or other(steps[max(0, index - LOOK_BACK) : index + 1]):
            break
        # A batch that repeats the one before it is for `max_repeats` to judge.
        count += step.plan != before.plan
    return count


def _rounds(steps: Sequence[Step], rule: Progress) -> int:
    return max(_rounds_of(2, steps), _rounds_of(3, steps))


def _rounds_of(period: int, steps: Sequence[Step]) -> int:
    """Count the rounds that are complete, from the second on."""
    if len({step.plan for step in steps[-period:]}) == 1:
        return 0
    same = 0
    for index in range(len(steps) - 1, period - 1, -1):
        step, before = steps[index], steps[index - period]
        if step.news is not News.NOTHING:
            break
        if step.plan != before.plan or step.outcome != before.outcome:
            break
        same += 1
    return same // period + 1 if same >= period else 0


def _failed_turns(steps: Sequence[Step], rule: Progress) -> int:
    return max((count for _, count in _failing(steps)), default=0)


def _failing(steps: Sequence[Step]) -> Iterable[tuple[Failure, int]]:
    """Count, for each way the latest turn has failed in, the turns that did so since a finding."""
    for failure in steps[-1].failures:
        count = 0
        for step in reversed(steps):
            if step.news >= News.FIRST:
                break
            count += failure in step.failures
        yield failure, count


def _goal_turns(steps: Sequence[Step], rule: Progress) -> int:
    last, count = steps[-1], 0
    if not last.open:
        return 0
    for step in reversed(steps[:-1]):
        if step.open != last.open:
            break
        count += 1
    return count


def _seen_turns(steps: Sequence[Step], rule: Progress) -> int:
    count = 0
    for index in range(len(steps) - 1, -1, -1):
        if steps[index].news is not News.NOTHING:
            break
        count += index == 0 or steps[index].plan != steps[index - 1].plan
    return count


# ---------------------------------------------------------------- evidence
def _say_repeats(steps: Sequence[Step], rule: Progress, count: int) -> str:
    times = f"{count + 1} times" if count else "once"
    how = "with the same results" if rule.results_must_repeat else "already"
    return f"the same batch ({_names(steps[-1:])}) ran {times} {how}"


def _say_stale(steps: Sequence[Step], rule: Progress, count: int) -> str:
    tools = _names(steps[-LOOK_BACK:])
    return f"{count} turns ({tools}) added nothing to what those before them had come to"


def _say_rounds(steps: Sequence[Step], rule: Progress, count: int) -> str:
    period = 2 if _rounds_of(2, steps) == count else 3
    tools = _names(steps[-period:])
    return f"the same {period} batches ({tools}) ran in {count} rounds with the same results"


def _say_failures(steps: Sequence[Step], rule: Progress, count: int) -> str:
    tool, how = next(failure for failure, turns in _failing(steps) if turns == count)
    return f"{_named((tool,))} failed in {count} turns with {how}, and nothing else was found out"


def _say_goals(steps: Sequence[Step], rule: Progress, count: int) -> str:
    return f"no goal was met or lost in {count} turns; open: {_named(steps[-1].open)}"


def _say_seen(steps: Sequence[Step], rule: Progress, count: int) -> str:
    tools = _names(steps[-LOOK_BACK:])
    return f"{count} turns in a row ({tools}) returned only what was known"


def _names(steps: Iterable[Step]) -> str:
    return _named(sorted({tool for step in steps for tool in step.tools}))


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(bounded(name, 40) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


class _Signal(NamedTuple):
    name: str
    limit: Callable[[Progress], int | None]
    counted: Callable[[Sequence[Step], Progress], int]
    evidence: Callable[[Sequence[Step], Progress, int], str]


_SIGNALS: Final[tuple[_Signal, ...]] = (
    _Signal("repeated_plan", attrgetter("max_repeats"), repeats, _say_repeats),
    _Signal("state_unchanged", attrgetter("max_stale_turns"), _stale_turns, _say_stale),
    _Signal("cycle", attrgetter("max_rounds"), _rounds, _say_rounds),
    _Signal("error_loop", attrgetter("max_errors"), _failed_turns, _say_failures),
    _Signal("goals_unchanged", attrgetter("max_goal_turns"), _goal_turns, _say_goals),
    _Signal("nothing_new", attrgetter("max_seen_turns"), _seen_turns, _say_seen),
)
"""The one that comes first speaks, where several have reached their limits."""
