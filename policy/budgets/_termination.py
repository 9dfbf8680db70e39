"""Stop conditions, composed with `|`, `&` and `~`: `MaxSteps(8) | Cost(2) & ~ToolSeen("submit")`.

They are looked at where the budget is, before each model call. A condition on an amount holds
once that amount is reached; 0 holds from the start. Unlike a budget, it cannot be granted away.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from decimal import Decimal
from math import inf
from types import UnionType
from typing import ClassVar, NamedTuple, TypeAlias

from loopwright.protocol import ConfigurationError, Reason, Spent, money

from ._seen import Seen

Question: TypeAlias = Callable[[Seen], bool]


class Met(NamedTuple):
    """A condition that holds."""

    reason: Reason
    """Of the budget it is about, otherwise `terminated`."""
    text: str
    """What holds, for the cause."""


class Condition(ABC):
    """When an invocation is to stop before its next model call.

    The conditions of this module are all there are; `When` takes a function for any other.
    """

    __slots__ = ()

    def met(self, seen: Seen) -> Met | None:
        """Say whether it holds, and why; never raises.

        A function that fails stops the invocation wherever it is asked, so that no `~` before
        it makes of the failure a reason to go on.
        """
        try:
            return self._holds(seen)
        except _BrokenError as broken:
            return Met(Reason.TERMINATED, str(broken))

    @abstractmethod
    def _holds(self, seen: Seen) -> Met | None: ...

    def __or__(self, other: Condition) -> Condition:
        """Hold where one of them does; the first that does gives the reason."""
        if not is_condition(other):
            return NotImplemented
        return _AnyOf((*_parts(self, _AnyOf), *_parts(other, _AnyOf)))

    def __and__(self, other: Condition) -> Condition:
        """Hold where both do; the first reason that names a budget counts."""
        if not is_condition(other):
            return NotImplemented
        return _AllOf((*_parts(self, _AllOf), *_parts(other, _AllOf)))

    def __invert__(self) -> Condition:
        """Hold where it does not."""
        return _Not(self)

    def __bool__(self) -> bool:
        """Refuse: `and`, `or` and `not` would drop a part without a word.

        Raises:
            ConfigurationError: Always.
        """
        msg = f"{self!r} is a condition, neither true nor false; compose with |, & and ~"
        raise ConfigurationError(msg)


# ---------------------------------------------------------------- amounts
@dataclass(frozen=True, slots=True, repr=False)
class _Amount(Condition):
    limit: float

    reason: ClassVar[Reason]
    unit: ClassVar[str]
    whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not _is_limit(self.limit, whole=self.whole):
            what = "whole number" if self.whole else "number"
            msg = f"{self!r} has no usable limit; give a {what} that is not negative"
            raise ConfigurationError(msg)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.limit!r})"

    @abstractmethod
    def _used(self, spent: Spent) -> float: ...

    def _holds(self, seen: Seen) -> Met | None:
        used = self._used(seen.spent)
        if used < self.limit:
            return None
        return Met(self.reason, f"{self!r} with {used:g} {self.unit}")


class MaxSteps(_Amount):
    """Holds once the model has decided this often."""

    __slots__ = ()
    reason = Reason.MAX_STEPS
    unit = "steps"

    def _used(self, spent: Spent) -> float:
        return spent.steps


class MaxToolCalls(_Amount):
    """Holds once this many calls were dispatched, those of children included."""

    __slots__ = ()
    reason = Reason.TOOL_BUDGET_EXHAUSTED
    unit = "tool calls"

    def _used(self, spent: Spent) -> float:
        return spent.tool_calls


class Tokens(_Amount):
    """Holds once this many tokens were used, input and output, those of children included."""

    __slots__ = ()
    reason = Reason.TOKEN_BUDGET_EXHAUSTED
    unit = "tokens"

    def _used(self, spent: Spent) -> float:
        return spent.usage.total


class ActiveSeconds(_Amount):
    """Holds after this much running time; it interrupts nothing that runs."""

    __slots__ = ()
    reason = Reason.TIME_BUDGET_EXHAUSTED
    unit = "active seconds"
    whole = False

    def _used(self, spent: Spent) -> float:
        return spent.active_seconds


class ToolFailures(_Amount):
    """Holds once this many calls have run and failed."""

    __slots__ = ()
    reason = Reason.TOOL_FAILURES_EXHAUSTED
    unit = "failed calls"

    def _used(self, spent: Spent) -> float:
        return spent.tool_failures


@dataclass(frozen=True, slots=True, repr=False, init=False)
class Cost(Condition):
    """Holds once this much was spent, in US dollars, that of children included.

    Raises:
        ConfigurationError: If it is no amount.
    """

    limit: Decimal

    def __init__(self, limit: Decimal | float | str) -> None:
        object.__setattr__(self, "limit", money(limit, "the limit of Cost"))

    def __repr__(self) -> str:
        """Write it as it is composed."""
        return f"Cost({self.limit:f})"

    def _holds(self, seen: Seen) -> Met | None:
        if seen.spent.cost < self.limit:
            return None
        return Met(Reason.COST_BUDGET_EXHAUSTED, f"{self!r} with {seen.spent.cost:f} US dollars")


# ---------------------------------------------------------------- what was done
@dataclass(frozen=True, slots=True, repr=False)
class ToolSeen(Condition):
    """Holds once a call of this tool has returned.

    Raises:
        ConfigurationError: Without a name.
    """

    name: str
    ok: bool = True
    """With `False`, a call that ran counts as well, whatever became of it."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        _check_name(self, self.name)

    def __repr__(self) -> str:
        """Write it as it is composed."""
        return f"ToolSeen({self.name!r}{'' if self.ok else ', ok=False'})"

    def _holds(self, seen: Seen) -> Met | None:
        if self.name in (seen.returned if self.ok else seen.ran):
            return Met(Reason.TERMINATED, repr(self))
        return None


@dataclass(frozen=True, slots=True, repr=False)
class When(Condition):
    """Holds when a function of what is seen returns `True`.

    The function must be quick and must not change anything. One that raises, or returns
    anything but `True` or `False`, stops the invocation, which says so.

    Raises:
        ConfigurationError: Without a name or a function.
    """

    name: str
    question: Question

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        _check_name(self, self.name)
        if not callable(self.question):
            msg = f"{self!r} has no function to ask; give one that takes what is seen"
            raise ConfigurationError(msg)

    def __repr__(self) -> str:
        """Name it."""
        return f"When({self.name!r})"

    def _holds(self, seen: Seen) -> Met | None:
        try:
            said: object = self.question(seen)
        except Exception as error:
            msg = f"the stop condition {self.name} failed with {type(error).__name__}"
            raise _BrokenError(msg) from error
        if said is True:
            return Met(Reason.TERMINATED, repr(self))
        if said is False:
            return None
        if isinstance(said, Coroutine):
            said.close()
        msg = f"the stop condition {self.name} returned {type(said).__name__}, not True or False"
        raise _BrokenError(msg)


# ---------------------------------------------------------------- composed
@dataclass(frozen=True, slots=True, repr=False)
class _AnyOf(Condition):
    parts: tuple[Condition, ...]

    def __repr__(self) -> str:
        return " | ".join(repr(part) for part in self.parts)

    def _holds(self, seen: Seen) -> Met | None:
        for part in self.parts:
            met = part._holds(seen)
            if met is not None:
                return met
        return None


@dataclass(frozen=True, slots=True, repr=False)
class _AllOf(Condition):
    parts: tuple[Condition, ...]

    def __repr__(self) -> str:
        return " & ".join(_within(part, _AnyOf) for part in self.parts)

    def _holds(self, seen: Seen) -> Met | None:
        reason, texts = Reason.TERMINATED, list[str]()
        for part in self.parts:
            met = part._holds(seen)
            if met is None:
                return None
            reason = met.reason if reason is Reason.TERMINATED else reason
            texts.append(met.text)
        return Met(reason, " and ".join(texts))


@dataclass(frozen=True, slots=True, repr=False)
class _Not(Condition):
    part: Condition

    def __repr__(self) -> str:
        return f"~{_within(self.part, _AnyOf | _AllOf)}"

    def _holds(self, seen: Seen) -> Met | None:
        return Met(Reason.TERMINATED, repr(self)) if self.part._holds(seen) is None else None


class _BrokenError(Exception):
    """Raised through a whole expression by a function that says neither yes nor no."""


def _is_limit(value: object, *, whole: bool) -> bool:
    if not isinstance(value, int if whole else int | float) or isinstance(value, bool):
        return False
    return 0 <= value < inf


def is_condition(value: object) -> bool:
    """Whether it can be asked and composed."""
    return isinstance(value, Condition)


def _parts(condition: Condition, kind: type[_AnyOf | _AllOf]) -> tuple[Condition, ...]:
    return condition.parts if isinstance(condition, kind) else (condition,)


def _within(part: Condition, looser: type[Condition] | UnionType) -> str:
    return f"({part!r})" if isinstance(part, looser) else repr(part)


def _check_name(condition: Condition, name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        msg = f"{condition!r} has no name; give a text"
        raise ConfigurationError(msg)
