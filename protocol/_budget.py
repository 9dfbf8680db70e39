"""Who acts and what may be spent: values pinned when an invocation starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from math import inf
from typing import NamedTuple, TypeVar

from ._errors import ConfigurationError

N = TypeVar("N", int, float, Decimal)

_COUNTS = ("max_steps", "max_tool_calls", "max_tokens", "max_tool_failures", "max_handoffs")
NO_COST = Decimal(0)
_MILLION = Decimal(1_000_000)


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

    `input_tokens` counts every token sent: those the provider had in its cache, and those it has
    put there, are among them.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    """Whether any part of it is an estimate, because a model reported nothing."""
    cached_tokens: int = 0
    """How many of the input tokens the provider had in its cache, and charges less for."""
    cache_written_tokens: int = 0
    """How many of the input tokens the provider has put into its cache, and may charge more for."""

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
            self.cached_tokens + other.cached_tokens,
            self.cache_written_tokens + other.cache_written_tokens,
        )


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Price:
    """What one model costs, in US dollars a million tokens; kept in the journal as it was used.

    Raises:
        ConfigurationError: For a price that is no number or negative.
    """

    model: str
    """As the endpoint is named, which need not be what its replies say."""
    input_mtok: Decimal
    output_mtok: Decimal
    cached_mtok: Decimal | None = None
    """For input the provider had in its cache; `None`: as other input."""
    cache_write_mtok: Decimal | None = None
    """For input the provider has put into its cache; `None`: as other input."""

    def __post_init__(self) -> None:
        """Take numbers of any kind, exactly as they are written."""
        for name in ("input_mtok", "output_mtok", "cached_mtok", "cache_write_mtok"):
            value: object = getattr(self, name)
            if value is not None or name in ("input_mtok", "output_mtok"):
                where = f"the price of {self.model!r}: {name}"
                object.__setattr__(self, name, money(value, where))

    def cost(self, usage: Usage) -> Decimal:
        """Compute what a usage costs."""
        cached = self.input_mtok if self.cached_mtok is None else self.cached_mtok
        written = self.input_mtok if self.cache_write_mtok is None else self.cache_write_mtok
        # More from the cache than was sent cannot be: it takes nothing off the rest.
        fresh = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_written_tokens)
        return (
            self.input_mtok * fresh
            + cached * usage.cached_tokens
            + written * usage.cache_written_tokens
            + self.output_mtok * usage.output_tokens
        ) / _MILLION

    @property
    def free(self) -> bool:
        """Whether nothing is charged."""
        return not (
            self.input_mtok or self.output_mtok or self.cached_mtok or self.cache_write_mtok
        )

    @property
    def highest_input_mtok(self) -> Decimal:
        """The most a token sent may cost: where it is put into a cache, that may be more."""
        return max(self.input_mtok, self.cache_write_mtok or self.input_mtok)


@dataclass(frozen=True, slots=True)
class Budget:
    """Hard limits of one invocation; `None` means unlimited, 0 is a real limit.

    Tool calls, tokens and cost are those of the invocation and of all its children together;
    steps, failures and handoffs are its own.

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
    max_cost: Decimal | None = None
    """US dollars. Every model of the agent must then have a price when the invocation starts."""
    max_tool_failures: int | None = None
    """Calls that may fail, in all: the one that reaches it ends the invocation, for 0 the first."""
    max_handoffs: int | None = 4
    """Times the invocation may be handed to another agent."""
    reserve_steps: int = 0
    """Last steps of `max_steps` in which no tool may be called: kept for summing up."""

    def __post_init__(self) -> None:
        """Refuse limits that cannot be meant."""
        for name in (*_COUNTS, "max_active_seconds"):
            value: object = getattr(self, name)
            if value is not None and not _is_limit(value, whole=name in _COUNTS):
                msg = f"Budget.{name} is {value!r}; give a number that is not negative, or None"
                raise ConfigurationError(msg)
        if self.max_cost is not None:
            object.__setattr__(self, "max_cost", money(self.max_cost, "Budget.max_cost"))
        ratio: object = self.soft_ratio
        if not _is_limit(ratio, whole=False) or self.soft_ratio > 1:
            msg = f"Budget.soft_ratio is {ratio!r}; give a share between 0 and 1"
            raise ConfigurationError(msg)
        reserved: object = self.reserve_steps
        if not _is_limit(reserved, whole=True):
            msg = f"Budget.reserve_steps is {reserved!r}; give a number that is not negative"
            raise ConfigurationError(msg)
        if self.deadline is not None and not _has_zone(self.deadline):
            msg = (
                f"Budget.deadline is {self.deadline!r}, without a time zone; use for example "
                "datetime.now(UTC) + timedelta(minutes=5)"
            )
            raise ConfigurationError(msg)

    def grant(self, more: Budget) -> Budget:
        """Add what a person grants: limits grow by it, a deadline is replaced.

        How the limits are kept stays as it is: `soft_ratio`, `reserve_steps` and `max_handoffs`
        are not granted. Every `Budget` has some, so that one made to grant steps would grant
        handoffs nobody has thought of.
        """
        return replace(
            self,
            max_steps=_plus(self.max_steps, more.max_steps),
            max_tool_calls=_plus(self.max_tool_calls, more.max_tool_calls),
            max_tokens=_plus(self.max_tokens, more.max_tokens),
            max_active_seconds=_plus(self.max_active_seconds, more.max_active_seconds),
            deadline=more.deadline or self.deadline,
            max_cost=_plus(self.max_cost, more.max_cost),
            max_tool_failures=_plus(self.max_tool_failures, more.max_tool_failures),
        )


class Spent(NamedTuple):
    """What an invocation has used so far; its children included where `Budget` says so."""

    steps: int = 0
    tool_calls: int = 0
    usage: Usage = NO_USAGE
    active_seconds: float = 0.0
    cost: Decimal = NO_COST
    """US dollars, at the prices its journal holds; 0 where it holds none."""
    tool_failures: int = 0
    handoffs: int = 0


@dataclass(frozen=True, slots=True)
class Reserved:
    """What a parent keeps aside for a child: the most that child and its own may use."""

    tool_calls: int | None = None
    tokens: int | None = None
    cost: Decimal | None = None


def _has_zone(value: object) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def _is_limit(value: object, *, whole: bool) -> bool:
    if not isinstance(value, int if whole else int | float) or isinstance(value, bool):
        return False
    return 0 <= value < inf


def _plus(limit: N | None, more: N | None) -> N | None:
    return limit if limit is None or more is None else limit + more


def money(value: object, where: str) -> Decimal:
    """Take an amount of US dollars as it is written.

    Raises:
        ConfigurationError: If it is no number, not finite or negative; `where` says which it is.
    """
    if isinstance(value, Decimal | int | float | str) and not isinstance(value, bool):
        try:
            # A float as it is written: 0.1 is meant as 0.1.
            amount = Decimal(str(value))
        except InvalidOperation:
            amount = Decimal("NaN")
        if not amount.is_nan() and 0 <= amount < Decimal(inf):
            return amount
    raise ConfigurationError(f"{where} is {value!r}; give US dollars that are not negative")
