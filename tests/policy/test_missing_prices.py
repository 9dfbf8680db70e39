"""With a cost limit, every model that may be asked needs a price."""

from __future__ import annotations

from decimal import Decimal

from loopwright.policy import missing_prices
from loopwright.protocol import Price

FREE = Price("free", Decimal(0), Decimal(0))
PAID = Price("paid", Decimal(1), Decimal(2))


def test_who_has_no_price_is_named_once_and_in_order() -> None:
    """A price of 0 is a price; one of another name is none."""
    assert missing_prices(["paid", "free"], [FREE, PAID]) == ()
    assert missing_prices(["b", "free", "a", "b", "Paid"], [FREE, PAID]) == ("b", "a", "Paid")
    assert missing_prices([], []) == ()
