"""How far what the signals count can have gone at most, so that most turns need no counting."""

from __future__ import annotations

from collections.abc import Sequence

from ._progress import Progress
from ._signals import News, Step, other


class Runs:
    """Upper bounds of what `judge` counts, kept turn by turn.

    Unlike the counting itself they know no window: a bound is never below what is counted, and
    only where one comes near its limit the turns have to be gone through.
    """

    __slots__ = ("_goals", "_pairs", "_plans", "_seen", "_stale", "_triples", "_unfound", "repeats")

    def __init__(self) -> None:
        self.repeats = 0
        """Turns in a row, before the latest, with its batch and, if they count, its results."""
        self._plans = 0
        """Turns in a row, before the latest, with its batch."""
        self._stale = 0
        self._pairs = 0
        """Turns in a row that were as the last but one before each."""
        self._triples = 0
        """Turns in a row that were as the last but two before each."""
        self._unfound = 0
        """Turns in a row in which nothing was found out."""
        self._goals = 0
        self._seen = 0

    def add(self, steps: Sequence[Step], rule: Progress) -> None:
        """Take in the latest of these turns; those before it were taken in one by one."""
        last = steps[-1]
        if last.news >= News.FIRST:
            self._unfound = self._pairs = self._triples = self._seen = 0
        else:
            self._unfound += 1
        if len(steps) == 1:
            return
        before = steps[-2]
        same, equal = last.plan == before.plan, last.outcome == before.outcome
        self._plans = self._plans + 1 if same else 0
        if same and (equal or not rule.results_must_repeat):
            self.repeats += 1
        else:
            self.repeats = 0
        goals = last.open == before.open
        self._goals = self._goals + 1 if goals else 0
        added = last.news is News.CHANGE or (not equal and other(steps))
        self._stale = 0 if added or not goals else self._stale + (not same)
        if last.news is News.NOTHING:
            self._seen += not same
            # What repeats the turn before it need not be compared: a bound may be too high.
            again = same and equal
            self._pairs = self._pairs + 1 if again or _as_before(2, steps) else 0
            self._triples = self._triples + 1 if again or _as_before(3, steps) else 0
        else:
            self._seen = self._pairs = self._triples = 0

    def near(self, last: Step, rule: Progress) -> bool:
        """Whether any signal can be at its limit, or one turn before it."""
        return (
            _near(self.repeats, rule.max_repeats)
            or _near(self._stale, rule.max_stale_turns)
            or _near(self._rounds, rule.max_rounds)
            or (bool(last.failures) and _near(self._unfound, rule.max_errors))
            or (bool(last.open) and _near(self._goals, rule.max_goal_turns))
            # Where the window begins, a batch counts though it is the one before it.
            or (last.news is News.NOTHING and _near(self._seen + 1, rule.max_seen_turns))
        )

    @property
    def _rounds(self) -> int:
        # The same batch over and over is no round.
        pairs = 0 if self._plans >= 1 else self._pairs // 2
        triples = 0 if self._plans >= 2 else self._triples // 3
        return max(pairs, triples) + 1 if pairs or triples else 0


def _near(bound: int, limit: int | None) -> bool:
    return limit is not None and bound > 0 and bound >= limit - 1


def _as_before(period: int, steps: Sequence[Step]) -> bool:
    if len(steps) <= period:
        return False
    last, before = steps[-1], steps[-1 - period]
    return last.plan == before.plan and last.outcome == before.outcome
