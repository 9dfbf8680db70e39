"""How often something is tried again, how long is waited before, and when it is left alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from loopwright.protocol import ConfigurationError

_DOUBLINGS: Final = 64
"""More than any wait that is meant; a float could not take many times more."""


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < math.inf


@dataclass(frozen=True, slots=True)
class Retry:
    """How often one thing is tried, and how long is waited between two attempts.

    Raises:
        ConfigurationError: For a number that cannot be meant.
    """

    max_attempts: int = 3
    """The first one included; 1 tries nothing again."""
    first: float = 0.5
    """Seconds, at most, before the second attempt; doubled for each further one."""
    longest: float = 30.0
    """Seconds; a wait that somebody asks for may be longer."""
    patience: float = 300.0
    """Seconds; the longest wait that somebody may ask for. Who asks for more is not tried again."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        attempts: object = self.max_attempts
        if type(attempts) is not int or attempts < 1:
            msg = f"Retry.max_attempts is {attempts!r}; give at least 1"
            raise ConfigurationError(msg)
        for name in ("first", "longest", "patience"):
            value = getattr(self, name)
            if not _is_seconds(value):
                msg = f"Retry.{name} is {value!r}; give seconds that are not negative"
                raise ConfigurationError(msg)

    def impatient(self, retry_after: float | None) -> str:
        """Say what was asked for, if that is too long to be waited for; else nothing."""
        if retry_after is None or retry_after <= self.patience:
            return ""
        return f"; it asks for a wait of {retry_after:.15g} s, and at most {self.patience:.15g} s are waited"

    def wait(self, failures: int, retry_after: float | None, random: float) -> float:
        """Say how long to wait before the next attempt, with full jitter.

        Args:
            failures: Attempts that have failed, from 1.
            retry_after: Seconds that somebody asks for; the jitter comes on top.
            random: From 0 up to, not including, 1.
        """
        jitter = random * backoff(failures, self.first, self.longest)
        return jitter if retry_after is None else retry_after + jitter


@dataclass(frozen=True, slots=True)
class Breaker:
    """When something that keeps failing is left alone for a while, by all invocations at once.

    Raises:
        ConfigurationError: For a number that cannot be meant.
    """

    failures: int = 5
    """Countable failures in a row that open it; 0 means that it never opens."""
    cool_down: float = 30.0
    """Seconds it stays open before one probe is let through."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        failures: object = self.failures
        if type(failures) is not int or failures < 0:
            msg = f"Breaker.failures is {failures!r}; give a number that is not negative"
            raise ConfigurationError(msg)
        if not (_is_seconds(self.cool_down) and self.cool_down):
            msg = f"Breaker.cool_down is {self.cool_down!r}; give seconds above 0"
            raise ConfigurationError(msg)


DEFAULT_RETRY: Final = Retry()
DEFAULT_BREAKER: Final = Breaker()


def backoff(attempt: int, first: float, longest: float = math.inf) -> float:
    """Say how long to wait after an attempt: `first` after the first one, doubled for each further.

    Args:
        attempt: Counts from 1.
        first: Seconds.
        longest: Seconds; never more than this.
    """
    return min(longest, first * 2.0 ** min(attempt - 1, _DOUBLINGS))
