"""What is remembered of the last turns of one invocation, to be judged by its `Progress`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from loopwright.protocol import (
    Calls,
    ResultStatus,
    Stalled,
    ToolResult,
    Turn,
    TurnCommitted,
    calls_of,
)

from ._fingerprints import SIZE, Marks, marks_of, short_plan
from ._progress import MEMORY, Goal, Progress
from ._runs import Runs
from ._signals import (
    PROGRESSING,
    QUIET,
    Assessment,
    Failure,
    News,
    Step,
    judge,
    repeated_plan,
    repeats,
    told,
)
from ._traits import Traits

_OK: Final = ResultStatus.OK
_FAILED: Final = (ResultStatus.ERROR, ResultStatus.TIMEOUT)
_RAN: Final = (_OK, *_FAILED, ResultStatus.OUTCOME_UNKNOWN)
_UNSTARTED: Final = (ResultStatus.NOT_STARTED, ResultStatus.CANCELLED)


class Tracking:
    """Judges batches before they run, and takes in what they returned.

    A turn with a polling call, and one that a person has decided on or answered, starts the
    counting anew. A turn of which nothing was run or refused says nothing.

    Args:
        rule: When an invocation is no longer getting anywhere.
        traits: What the tools declare, by tool name.
    """

    __slots__ = (
        "_last",
        "_met",
        "_open",
        "_polling",
        "_read",
        "_rule",
        "_runs",
        "_steps",
        "_traits",
        "_turn",
        "_window",
    )

    def __init__(self, rule: Progress, traits: Mapping[str, Traits]) -> None:
        self._rule = rule
        self._traits = traits
        self._polling = frozenset(name for name, trait in traits.items() if trait.polling)
        self._window = rule.window
        self._steps: list[Step] = []
        self._runs = Runs()
        self._met: dict[str, bool] = {}
        self._open = tuple(rule.goals)
        self._last = PROGRESSING
        self._turn = 0
        self._read: Turn | None = None
        """The last turn of the history, until it is known whether it was answered."""

    @classmethod
    def rebuilt(
        cls, rule: Progress, traits: Mapping[str, Traits], turns: Sequence[Turn]
    ) -> Tracking:
        """Take in what was committed; decodes no more of it than the signals can rest on.

        With goals that is all of it: one may have been met long ago.
        """
        tracking = cls(rule, traits)
        if rule.goals:
            for turn in turns:
                tracking.observe(turn.record)
                if turn.answer is not None:
                    tracking._begin_anew()
        else:
            for record in reversed(_latest(turns, rule.window + QUIET + MEMORY)):
                tracking.observe(record)
        if turns and turns[-1].number != tracking._turn and tracking.pending is not None:
            # A later turn has begun, and the model was told before it.
            tracking._last = PROGRESSING
        if turns and turns[-1].answer is None:
            tracking._read = turns[-1]
        return tracking

    @property
    def pending(self) -> Stalled | None:
        """What the model has to be told before its next turn, as the latest one has shown."""
        return self._last.nudge

    def assess(self, calls: Calls) -> Stalled | None:
        """Judge a batch before it runs."""
        self._heed_answer()
        if self._last.stalled is not None:
            return self._last.stalled
        limit, steps = self._rule.max_repeats, self._steps
        if limit is None or not steps or self._runs.repeats + 1 < limit:
            return None
        if repeats(steps, self._rule) + 1 < limit:
            return None
        if short_plan(calls, self._traits) != steps[-1].plan:
            return None
        return repeated_plan(steps, self._rule)

    def observe(self, turn: TurnCommitted) -> Assessment:
        """Take in a turn that is committed, and judge where it leaves the invocation."""
        self._heed_answer()
        if not _says_something(turn):
            return PROGRESSING
        calls, results = calls_of(turn.proposal.decision), turn.results
        self._turn = turn.turn
        if self._rule.goals:
            self._look_at_goals(turn)
        if turn.proposal.by or (self._polling and self._has_polled(calls, results)):
            self._begin_anew()
            return PROGRESSING
        self._steps.append(self._step(calls, results))
        self._runs.add(self._steps, self._rule)
        if len(self._steps) > self._window:
            del self._steps[0]
        self._last = self._judge()
        return self._last

    def _heed_answer(self) -> None:
        """See whether its last turn was answered after the history was read: that comes before all else."""
        read, self._read = self._read, None
        if read is not None and read.answer is not None:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._steps.clear()
        self._runs = Runs()
        self._last = PROGRESSING

    def _has_polled(self, calls: Calls, results: Sequence[ToolResult]) -> bool:
        return any(
            call.tool_name in self._polling and result.status in _RAN
            for call, result in zip(calls, results, strict=True)
        )

    def _judge(self) -> Assessment:
        steps, rule = self._steps, self._rule
        if not self._runs.near(steps[-1], rule):
            # Most turns: there is nothing to count.
            return PROGRESSING
        found = judge(steps, rule)
        if found.nudge is None:
            return found
        said = told(steps)
        steps[-1] = steps[-1]._replace(near=True)
        return PROGRESSING if said or not rule.nudge else found

    def _step(self, calls: Calls, results: Sequence[ToolResult]) -> Step:
        marks = marks_of(calls, results, self._traits)
        tools = tuple([call.tool_name for call in calls])
        if self._steps and self._steps[-1].tools == tools:
            tools = self._steps[-1].tools
        return Step(*marks, tools, _failures(results), self._open, self._news(marks, results))

    def _news(self, marks: Marks, results: Sequence[ToolResult]) -> News:
        """Compare each call with the last time it was made."""
        most, pairs, at = News.NOTHING, marks.pairs, 0
        if self._steps and pairs == self._steps[-1].pairs:
            return most
        for result in results:
            before = self._last_with(pairs[at : at + SIZE])
            if before is None:
                news = News.FIRST if result.status is _OK else News.FAILURE
            else:
                news = News.NOTHING if pairs[at : at + 2 * SIZE] in before else News.CHANGE
            at += 2 * SIZE
            most = max(most, news)
        return most

    def _last_with(self, call: bytes) -> bytes | None:
        """Find the pairs of the last turn that has made this call, as far back as is looked."""
        steps = self._steps
        if steps and call in steps[-1].pairs:
            return steps[-1].pairs
        known = [step.pairs for step in steps[-MEMORY:]]
        # Most calls are new: that takes one search.
        if call not in b"".join(known):
            return None
        return next((pairs for pairs in reversed(known) if call in pairs), b"")

    def _look_at_goals(self, turn: TurnCommitted) -> None:
        still_open: list[str] = []
        for name, goal in self._rule.goals.items():
            met, problem = _ask(goal, turn)
            if met is not None:
                self._met[name] = met
            if not self._met.get(name):
                still_open.append(f"{name} (its check {problem})" if problem else name)
        self._open = tuple(still_open)


def _latest(turns: Sequence[Turn], enough: int) -> list[TurnCommitted]:
    """Decode the latest turns that say something and had no answer since, the latest one first."""
    found: list[TurnCommitted] = []
    for turn in reversed(turns):
        if turn.answer is not None or len(found) == enough:
            break
        record = turn.record
        if _says_something(record):
            found.append(record)
    return found


def _says_something(turn: TurnCommitted) -> bool:
    """Whether any call of it was run or refused."""
    results = turn.results
    if results and results[0].status is _OK:
        return True
    return any(result.status not in _UNSTARTED for result in results)


def _failures(results: Sequence[ToolResult]) -> tuple[Failure, ...]:
    found: list[Failure] = []
    for result in results:
        if result.status is not _OK and result.status in _FAILED:
            error = result.error
            how = result.status if error is None else error.category
            found.append((result.tool_name, how.value))
    return tuple(found)


def _ask(goal: Goal, turn: TurnCommitted) -> tuple[bool | None, str]:
    """Ask a goal, and what is wrong with its check: that is foreign code."""
    try:
        met: object = goal(turn)
    except Exception as error:  # noqa: BLE001 - a goal must not end what it only judges
        return None, f"raised {type(error).__name__}"
    if met is None or met is True or met is False:
        return met, ""
    return None, f"returned a {type(met).__name__}"
