"""Prices of models by the table that comes with `genai-prices`; nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from loopwright.protocol import ConfigurationError, Price

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

_INEXPRESSIBLE = ("requests_kcount", "output_reasoning_mtok", "output_citation_mtok")
"""Charged beside or instead of the tokens that a usage counts."""


class Named(Protocol):
    """A model as the runtime knows it: by its name."""

    @property
    def name(self) -> str:
        """By which its price is found."""
        ...


def prices_of(*models: str | Named, provider: str | None = None) -> tuple[Price, ...]:
    """Look up what models cost, in US dollars a million tokens.

    The highest price counts wherever it depends on the size of the request or the time of day,
    so a cost limit is never passed; what is charged may then be more than the bill. Tokens that
    are read from a provider's cache, or written to it, have prices of their own where the table
    has them. Not in a `Price`, and so not charged: audio and images, tools that run at the
    provider, and a cache that is kept for longer than is usual.

    Args:
        models: Names of models, or models that have a `name`; the price is of that name.
        provider: Whose prices, such as `"openai"` or `"azure"`; by default by the name.

    Raises:
        ConfigurationError: If a model has no known price, or one a `Price` cannot express, or if
            the extra `prices` is not installed. A model is never taken to be free.
    """
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        msg = "looking up prices needs genai-prices; run pip install 'loopwright[prices]'"
        raise ConfigurationError(msg) from None
    now, found = datetime.now(UTC), list[Price]()
    for name in map(_name_of, models):
        try:
            model = calc_price(Usage(), name, provider_id=provider).model
        except LookupError:
            where = "by its name alone" if provider is None else f"at {provider!r}"
            hint = "give provider=, or " if provider is None else ""
            msg = f"model {name!r} has no known price {where}; {hint}give a Price of your own"
            raise ConfigurationError(msg) from None
        found.append(_price(name, list(_in_force(model, now))))
    return tuple(found)


def _price(name: str, offers: list[ModelPrice]) -> Price:
    beside = [key for key in _INEXPRESSIBLE if any(getattr(o, key) for o in offers)]
    if beside:
        msg = (
            f"model {name!r} is charged by more than its tokens ({', '.join(beside)}); give a "
            "Price of your own that is high enough"
        )
        raise ConfigurationError(msg)
    given = _highest(offer.input_mtok for offer in offers)
    made = _highest(offer.output_mtok for offer in offers)
    cached = _highest(_or_input(offer, offer.cache_read_mtok) for offer in offers)
    written = None
    if any(offer.cache_write_mtok is not None for offer in offers):
        written = _highest(_or_input(offer, offer.cache_write_mtok) for offer in offers)
    if given is None or made is None:
        msg = f"model {name!r} is listed without a price for its tokens; give a Price of your own"
        raise ConfigurationError(msg)
    return Price(name, given, made, cached, written)


def _or_input(
    offer: ModelPrice, price: Decimal | TieredPrices | None
) -> Decimal | TieredPrices | None:
    return offer.input_mtok if price is None else price


def _in_force(model: ModelInfo, now: datetime) -> Iterable[ModelPrice]:
    """Give the prices that hold at any time of this day; of several the later listed one counts."""
    from genai_prices.types import TimeOfDateConstraint

    if not isinstance(model.prices, list):
        yield model.prices
        return
    for offer in reversed(model.prices):
        by_the_hour = isinstance(offer.constraint, TimeOfDateConstraint)
        if by_the_hour or offer.constraint is None or offer.constraint.active(now):
            yield offer.prices
        if not by_the_hour and (offer.constraint is None or offer.constraint.active(now)):
            return


def _highest(prices: Iterable[Decimal | TieredPrices | None]) -> Decimal | None:
    amounts: list[Decimal] = []
    for price in prices:
        if isinstance(price, Decimal):
            amounts.append(price)
        elif price is not None:
            amounts += [price.base, *(tier.price for tier in price.tiers)]
    return max(amounts, default=None)


def _name_of(model: str | Named) -> str:
    name: object = model if isinstance(model, str) else getattr(model, "name", None)
    if not isinstance(name, str) or not name:
        msg = f"{type(model).__name__} has no name, so its price is not known; give it a name"
        raise ConfigurationError(msg)
    return name
