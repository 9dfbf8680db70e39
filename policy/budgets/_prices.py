"""Whether the cost of everything an invocation may ask is known."""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.protocol import Price


def missing_prices(names: Iterable[str], prices: Iterable[Price]) -> tuple[str, ...]:
    """Return those models that have no price, once each: with a cost limit they may not be asked.

    Args:
        names: Of every endpoint that may be asked, as `Price.model` has them.
        prices: The prices that are known.
    """
    known = {price.model for price in prices}
    return tuple(dict.fromkeys(name for name in names if name not in known))
