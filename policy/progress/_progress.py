"""Is the loop getting anywhere? What is counted, and how much of it is too much.

Six deterministic signals over plans and results; `_signals` has the counting. Results that
change are always progress, and so is whatever a polling tool returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, cast

from loopwright.protocol import ConfigurationError, Stalled, TurnCommitted

Goal: TypeAlias = Callable[[TurnCommitted], bool | None]
"""Looks at one committed turn: the goal is met from here on, is met no more, or (`None`) the turn
says nothing of it. Has to be a pure function: it is asked again when an invocation is recovered."""

MEMORY: Final = 16
"""Turns back that a call is known by; made again after that, it counts as new."""
LOOK_BACK: Final = 5
"""Turns whose results are part of the state that may not stay the same for too long."""

_LIMITS: Final = {
    "max_repeats": 1,
    "max_rounds": 2,
    "max_errors": 1,
    "max_stale_turns": 1,
    "max_seen_turns": 1,
    "max_goal_turns": 1,
}
"""Each with the least that can be meant; `None` switches the signal off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """When an invocation is no longer getting anywhere.

    The model is told once, one turn before a limit is reached; then the invocation is stalled.
    A limit of `None` switches its signal off.

    Raises:
        ConfigurationError: For a value that cannot be meant.
    """

    max_repeats: int | None = 3
    """`repeated_plan`: how often the same batch may run with the same results; the next one
    doesn't start."""
    results_must_repeat: bool = True
    """Whether the same batch counts only while its results are the same too."""
    max_stale_turns: int | None = 20
    """`state_unchanged`: turns in a row that add nothing to what the five before them came to: no
    goal, no write, no result that isn't among theirs, whatever was asked for."""
    max_rounds: int | None = 3
    """`cycle`: rounds of the same two or three batches with the same results."""
    max_errors: int | None = 5
    """`error_loop`: turns in which the same tool fails in the same way, whatever it was given,
    while nothing else is found out."""
    goals: Mapping[str, Goal] = field(default_factory=dict[str, Goal], hash=False)
    """Checks that are required, by name."""
    max_goal_turns: int | None = 10
    """`goals_unchanged`: turns in a row in which no goal was met or lost, with some still open."""
    max_seen_turns: int | None = 8
    """`nothing_new`: turns in a row in which every call returned what it had returned before,
    though the batches differ."""
    nudge: bool = True
    """Whether the model is told before it is stalled."""
    on_stall: Literal["end", "ask"] = "end"
    """Whether to end with `no_progress`, or to suspend and put the evidence to a human."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name, least in _LIMITS.items():
            limit: object = getattr(self, name)
            if limit is not None and (type(limit) is not int or limit < least):
                msg = f"Progress.{name} is {limit!r}; give at least {least}, or None"
                raise ConfigurationError(msg)
        for name in ("results_must_repeat", "nudge"):
            switch: object = getattr(self, name)
            if type(switch) is not bool:
                raise ConfigurationError(f"Progress.{name} is {switch!r}; give True or False")
        if self.on_stall not in ("end", "ask"):
            msg = f"Progress.on_stall is {self.on_stall!r}; give one of: end, ask"
            raise ConfigurationError(msg)
        goals: object = self.goals
        if not _are_goals(goals):
            msg = f"Progress.goals is {goals!r}; give a mapping of names to functions of a turn"
            raise ConfigurationError(msg)
        object.__setattr__(self, "goals", dict(self.goals))

    @classmethod
    def exact(cls, max_repeated_plan: int = 1) -> Progress:
        """Count the same batch alone, whatever it returned: the seed's reference controller.

        Raises:
            ConfigurationError: If `max_repeated_plan` is not at least 1.
        """
        return cls(
            max_repeats=max_repeated_plan,
            results_must_repeat=False,
            max_stale_turns=None,
            max_rounds=None,
            max_errors=None,
            max_goal_turns=None,
            max_seen_turns=None,
            nudge=False,
        )

    @property
    def window(self) -> int:
        """How many of the last turns the signals can rest on."""
        return max(
            MEMORY,
            (self.max_repeats or 0) + 1,
            3 * (self.max_rounds or 0),
            2 * (self.max_errors or 0),
            2 * (self.max_seen_turns or 0),
            (self.max_stale_turns or 0) + LOOK_BACK,
            (self.max_goal_turns or 0) + 1 if self.goals else 0,
        )


def _are_goals(goals: object) -> bool:
    if not isinstance(goals, Mapping):
        return False
    given = cast("Mapping[object, object]", goals)
    return all(type(name) is str and callable(check) for name, check in given.items())


DEFAULT_PROGRESS: Final = Progress()


def replan_notice(nudge: Stalled) -> str:
    """Say what the model is told, once, before it is stalled."""
    return (
        f"No progress is being made: {nudge.evidence}. Don't go on like this: try another way, or "
        "say what is missing. If the next turn brings nothing new either, the work is stopped."
    )
