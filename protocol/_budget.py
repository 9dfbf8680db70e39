"""Who acts and what may be spent: values pinned when an invocation starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from ._errors import ConfigurationError

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Principal:
    """On whose behalf an invocation acts."""

    actor: str = "anonymous"
    tenant: str = ""
    roles: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply, or of many.

    `input_tokens` counts every token sent, cached ones included.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    """Whether any part of it is an estimate, because a model reported nothing."""

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Add two usages; an estimate stays marked."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.estimated or other.estimated,
        )


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Budget:
    """Hard limits of one invocation; `None` means unlimited, 0 is a real limit.

    Raises:
        ConfigurationError: For a limit that is no number or negative, a ratio outside 0..1, or a
            deadline without a time zone.
    """

    max_steps: int | None = 20
    """Decisions the model may make. The calls of the last one still run."""
    max_tool_calls: int | None = None
    """Calls that may be dispatched. A batch that would cross it starts none of its calls."""
    max_tokens: int | None = None
    """Input and output tokens together."""
    max_active_seconds: float | None = None
    """Monotonic running time: no waiting for humans, no downtime."""
    deadline: datetime | None = None
    """An absolute instant; counts everything."""
    soft_ratio: float = 0.8
    """The share of any limit after which the model is told, once, to come to an end."""

    def __post_init__(self) -> None:
        """Refuse limits that cannot be meant."""
        for name in ("max_steps", "max_tool_calls", "max_tokens", "max_active_seconds"):
            value: object = getattr(self, name)
            kind = (int, float) if name == "max_active_seconds" else int
            if value is not None and not (isinstance(value, kind) and value >= 0):
                msg = f"Budget.{name} is {value!r}; give a number that is not negative, or None"
                raise ConfigurationError(msg)
        if not 0 <= self.soft_ratio <= 1:
            msg = f"Budget.soft_ratio is {self.soft_ratio!r}; give a share between 0 and 1"
            raise ConfigurationError(msg)
        if self.deadline is not None and self.deadline.tzinfo is None:
            msg = "Budget.deadline has no time zone; use for example datetime.now(UTC) + timedelta"
            raise ConfigurationError(msg)

    def grant(self, more: Budget) -> Budget:
        """Add what a person grants: limits grow by it, a deadline is replaced."""
        return Budget(
            max_steps=_plus(self.max_steps, more.max_steps),
            max_tool_calls=_plus(self.max_tool_calls, more.max_tool_calls),
            max_tokens=_plus(self.max_tokens, more.max_tokens),
            max_active_seconds=_plus(self.max_active_seconds, more.max_active_seconds),
            deadline=more.deadline or self.deadline,
            soft_ratio=self.soft_ratio,
        )


def _plus(limit: N | None, more: N | None) -> N | None:
    return limit if limit is None or more is None else limit + more
