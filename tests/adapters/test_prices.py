"""Prices come from the table of `genai-prices`; what is not known there is never free."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, time
from decimal import Decimal
from typing import Any

import pytest
from genai_prices.data_snapshot import DataSnapshot, set_custom_snapshot
from genai_prices.types import (
    ClauseEquals,
    ClauseStartsWith,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    Provider,
    StartDateConstraint,
    Tier,
    TieredPrices,
    TimeOfDateConstraint,
)

from loopwright.adapters import prices_of
from loopwright.protocol import ConfigurationError, Price, Usage

ONE, TWO, FOUR = Decimal(1), Decimal(2), Decimal(4)


@dataclass
class Endpoint:
    name: Any = "m-plain"


def price(made: Decimal, **others: Any) -> ModelPrice:
    return ModelPrice(input_mtok=ONE, output_mtok=made, **others)


def hours(start: int, end: int) -> TimeOfDateConstraint:
    return TimeOfDateConstraint(time(start, tzinfo=UTC), time(end, tzinfo=UTC))


OFFERS: dict[str, ModelPrice | list[ConditionalPrice]] = {
    "plain": price(TWO, cache_read_mtok=Decimal("0.1")),
    "cached": price(TWO, cache_read_mtok=Decimal("0.1"), cache_write_mtok=Decimal("1.25")),
    "written-at-night": [
        ConditionalPrice(prices=price(TWO)),
        ConditionalPrice(hours(0, 12), prices=price(TWO, cache_write_mtok=Decimal("0.5"))),
    ],
    "tiers": ModelPrice(
        input_mtok=TieredPrices(ONE, [Tier(200_000, TWO), Tier(500_000, FOUR)]), output_mtok=FOUR
    ),
    "cheap-at-night": [
        ConditionalPrice(prices=price(TWO)),
        ConditionalPrice(hours(0, 12), prices=price(ONE)),
        ConditionalPrice(hours(12, 0), prices=price(ONE)),
    ],
    "dear-by-day": [
        ConditionalPrice(prices=price(ONE)),
        ConditionalPrice(hours(0, 12), prices=price(FOUR)),
        ConditionalPrice(hours(12, 0), prices=price(TWO)),
    ],
    "cached-at-night": [
        ConditionalPrice(prices=price(TWO)),
        ConditionalPrice(hours(0, 12), prices=price(TWO, cache_read_mtok=Decimal("0.1"))),
    ],
    "dated": [
        ConditionalPrice(prices=price(FOUR)),
        ConditionalPrice(StartDateConstraint(date(2001, 1, 1)), prices=price(TWO)),
        ConditionalPrice(StartDateConstraint(date(9999, 1, 1)), prices=price(ONE)),
    ],
    "to-come": [ConditionalPrice(StartDateConstraint(date(9999, 1, 1)), prices=price(FOUR))],
    "unlisted": ModelPrice(),
    "no-output": ModelPrice(input_mtok=ONE),
    "per-request": price(ONE, requests_kcount=ONE),
    "free-but-not-thinking": price(ONE, output_reasoning_mtok=FOUR),
}


@pytest.fixture
def table() -> Iterator[None]:
    models = [ModelInfo(f"m-{n}", ClauseEquals(f"m-{n}"), prices=p) for n, p in OFFERS.items()]
    ours = Provider("ours", "Ours", "ours", model_match=ClauseStartsWith("m-"), models=models)
    dear = ModelInfo("m-plain", ClauseEquals("m-plain"), prices=price(FOUR))
    set_custom_snapshot(DataSnapshot([ours, Provider("dear", "D", "d", models=[dear])], False))
    yield
    set_custom_snapshot(None)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", Price("m-plain", ONE, TWO, Decimal("0.1"))),
        ("cached", Price("m-cached", ONE, TWO, Decimal("0.1"), Decimal("1.25"))),
        ("written-at-night", Price("m-written-at-night", ONE, TWO, ONE, ONE)),
        ("tiers", Price("m-tiers", FOUR, FOUR, FOUR)),
        ("cheap-at-night", Price("m-cheap-at-night", ONE, TWO, ONE)),
        ("dear-by-day", Price("m-dear-by-day", ONE, FOUR, ONE)),
        ("cached-at-night", Price("m-cached-at-night", ONE, TWO, ONE)),
        ("dated", Price("m-dated", ONE, TWO, ONE)),
    ],
)
def test_the_highest_price_counts_that_can_be_charged_today(name: str, expected: Price) -> None:
    """By size of the request, and by the hour; one that has ended or is to come does not count."""
    assert prices_of(f"m-{name}") == (expected,)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("m-to-come", "without a price for its tokens"),
        ("m-unlisted", "without a price for its tokens"),
        ("m-no-output", "without a price for its tokens"),
        ("m-per-request", "more than its tokens .requests_kcount."),
        ("m-free-but-not-thinking", "more than its tokens .output_reasoning_mtok."),
        ("m-nobody", "no known price by its name alone; give provider=, or give a Price"),
        ("elsewhere", "no known price by its name alone"),
    ],
)
def test_what_is_not_known_is_never_free(name: str, problem: str) -> None:
    """Its price is refused, by name and with what to do, and none of the others is returned."""
    with pytest.raises(ConfigurationError, match=rf"'{name}'.*{problem}"):
        prices_of("m-plain", name)


@pytest.mark.usefixtures("table")
def test_a_provider_may_be_named() -> None:
    """The same model has another price at another place, and none at a third."""
    assert prices_of("m-plain", provider="dear") == (Price("m-plain", ONE, FOUR, ONE),)
    for provider in ("dear", "nowhere"):
        with pytest.raises(ConfigurationError, match=rf"no known price at '{provider}'; give"):
            prices_of("m-tiers", provider=provider)


@pytest.mark.usefixtures("table")
def test_a_model_may_be_given_in_place_of_its_name() -> None:
    """The price is of the name it is found by when it is charged."""

    class Nameless:
        pass

    assert prices_of(Endpoint(), "m-tiers") == prices_of("m-plain", "m-tiers")
    unusable: list[Any] = [Nameless(), Endpoint(None), Endpoint(""), "", None]
    for wrong in unusable:
        with pytest.raises(ConfigurationError, match="has no name"):
            prices_of(wrong)


@pytest.mark.parametrize("name", ["gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro"])
def test_the_bundled_table_knows_what_is_in_use(name: str) -> None:
    """Without a network; the numbers are the table's, and none is 0."""
    (price,) = prices_of(name)
    assert price.model == name
    assert not price.free
    assert 0 < price.cost(Usage(1_000)) < price.cost(Usage(0, 1_000)) < 1


def test_the_bundled_table_knows_what_writing_to_a_cache_costs() -> None:
    """It costs more than other input, and reading from it less."""
    (price,) = prices_of("claude-sonnet-4-5")
    fresh = price.cost(Usage(1_000))
    assert price.cost(Usage(1_000, cached_tokens=1_000)) < fresh
    assert price.cost(Usage(1_000, cache_written_tokens=1_000)) > fresh


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no part of a plain installation."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'loopwright\[prices\]'"):
        prices_of("gpt-5")


def test_importing_the_folder_imports_no_table() -> None:
    """Only a look-up needs it."""
    code = "import sys, loopwright.adapters; print(*sys.modules)"
    shown = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert "genai_prices" not in shown
