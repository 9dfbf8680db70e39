"""Budgets, prices and usages: what can't be meant is refused, and money is exact."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.protocol import Budget, ConfigurationError, Price, Usage


def limited(name: str, value: Any) -> Budget:
    """Make a budget with one limit, whatever it is."""
    return Budget(**{name: value})


COUNTS = ("max_steps", "max_tool_calls", "max_tokens", "max_tool_failures", "max_handoffs")
PRICES = st.builds(
    Price,
    model=st.just("m"),
    input_mtok=st.decimals(0, 100, places=4),
    output_mtok=st.decimals(0, 100, places=4),
    cached_mtok=st.none() | st.decimals(0, 100, places=4),
)
USAGES = st.builds(
    Usage,
    input_tokens=st.integers(0, 10**7),
    output_tokens=st.integers(0, 10**7),
    cached_tokens=st.integers(0, 10**7),
)


@pytest.mark.parametrize("name", [*COUNTS, "max_active_seconds", "max_cost"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "many", [1]])
def test_a_limit_that_is_no_number_is_refused_by_name(name: str, value: Any) -> None:
    """Whoever wrote it is told which one it is, and not when the limit is reached."""
    with pytest.raises(ConfigurationError, match=name):
        limited(name, value)


@pytest.mark.parametrize("name", [*COUNTS, "reserve_steps"])
def test_what_is_counted_is_whole(name: str) -> None:
    """There is no half step."""
    with pytest.raises(ConfigurationError, match=name):
        limited(name, 1.5)


@pytest.mark.parametrize("name", [*COUNTS, "max_active_seconds", "max_cost"])
def test_none_is_unlimited_and_zero_is_not(name: str) -> None:
    """Both can be meant."""
    assert getattr(limited(name, None), name) is None
    assert getattr(limited(name, 0), name) == 0


@pytest.mark.parametrize("ratio", [-0.1, 1.1, math.nan, True, "most"])
def test_a_soft_ratio_is_a_share(ratio: Any) -> None:
    """0 tells the model from the start, 1 only at the end; there is nothing beyond."""
    with pytest.raises(ConfigurationError, match="soft_ratio"):
        Budget(soft_ratio=ratio)


@pytest.mark.parametrize("deadline", [datetime(2030, 1, 1), "2030-01-01", 60])
def test_a_deadline_is_an_instant(deadline: Any) -> None:
    """Without a time zone it is another one on another machine."""
    with pytest.raises(ConfigurationError, match="time zone"):
        Budget(deadline=deadline)
    assert Budget(deadline=datetime(2030, 1, 1, tzinfo=UTC)).deadline is not None


def test_money_is_taken_as_it_is_written() -> None:
    """0.1 is meant as 0.1, not as the float that is next to it."""
    written: Any = 0.1
    assert limited("max_cost", written).max_cost == Decimal("0.1")
    assert Price("m", written, written).output_mtok == Decimal("0.1")


def test_a_price_that_is_none_is_refused() -> None:
    """An unknown price is not 0; only that of cached input may be left out."""
    unusable: list[Any] = [None, -1, "free", math.nan, math.inf]
    for wrong in unusable:
        with pytest.raises(ConfigurationError, match="'m': input_mtok"):
            Price("m", wrong, Decimal(1))
        with pytest.raises(ConfigurationError, match="'m': output_mtok"):
            Price("m", Decimal(1), wrong)
    assert Price("m", Decimal(1), Decimal(1)).cached_mtok is None


def test_what_a_usage_costs() -> None:
    """Input counts cached tokens too, and they have their own price."""
    usage = Usage(1_000_000, 500_000, cached_tokens=400_000)
    assert Price("m", Decimal(3), Decimal(15)).cost(usage) == Decimal("10.5")
    assert Price("m", Decimal(3), Decimal(15), Decimal("0.3")).cost(usage) == Decimal("9.42")


@given(PRICES, USAGES)
def test_nothing_costs_less_than_nothing(price: Price, usage: Usage) -> None:
    """More cached tokens than were sent cannot be: it never takes anything off."""
    assert price.cost(usage) >= 0
    assert not price.free or price.cost(usage) == 0


@given(PRICES, USAGES, USAGES)
def test_two_replies_cost_what_they_cost_apart(price: Price, one: Usage, two: Usage) -> None:
    """A sum of usages is charged as its parts, where the parts can be."""
    if all(usage.cached_tokens <= usage.input_tokens for usage in (one, two)):
        assert price.cost(one + two) == price.cost(one) + price.cost(two)


def test_free_is_what_costs_nothing_at_all() -> None:
    """A price for cached input alone is a price."""
    assert Price("m", Decimal(0), Decimal(0)).free
    assert not Price("m", Decimal(0), Decimal(0), Decimal("0.1")).free
    assert not Price("m", Decimal(0), Decimal("0.1")).free


def test_an_estimate_stays_marked() -> None:
    """A sum is one as soon as a part of it is."""
    assert (Usage(1, 1) + Usage(2, 3, estimated=True)).estimated
    assert not (Usage(1, 1) + Usage(2, 3)).estimated
    assert (Usage(10, cached_tokens=4) + Usage(10, cached_tokens=5)).cached_tokens == 9
