"""Who works for which shop, and whose the orders are: the facts that rules rest on."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from loopwright import Principal


@dataclass(frozen=True, slots=True)
class Order:
    """One order of a shop, and the clerk who looks after it."""

    tenant: str
    clerk: str
    paid: Decimal


def _orders() -> dict[str, Order]:
    return {
        "A-1": Order("acme", "ann", Decimal(80)),
        "A-2": Order("acme", "bo", Decimal(300)),
        "G-1": Order("globex", "gil", Decimal(90)),
    }


@dataclass
class Office:
    """The data of both shops, in one place: what keeps them apart are the rules.

    A service has a database instead, and its own log-in: the principal is what that says, never
    what a model or a customer writes.
    """

    orders: dict[str, Order] = field(default_factory=_orders)
    cards: dict[str, str] = field(default_factory=lambda: {"C-1": "acme"})
    """Gift cards, by the shop that sold them."""
    refunds: list[tuple[str, Decimal]] = field(default_factory=list[tuple[str, Decimal]])
    """What went back, on which order."""
    voided: list[str] = field(default_factory=list[str])

    def order_named(self, order: str) -> str:
        """Name an order as rules see it; one that does not exist is nobody's."""
        found = self.orders.get(order)
        return f"{found.tenant if found else '?'}/order:{order}"

    def card_named(self, card: str) -> str:
        """Name a gift card as rules see it."""
        return f"{self.cards.get(card, '?')}/card:{card}"

    def clerk_of(self, name: str) -> str | None:
        """Say who looks after what a rule sees by this name."""
        found = self.orders.get(name.partition("/order:")[2])
        return None if found is None else found.clerk


CLERKS = {
    "ann": Principal("ann", "acme", ("clerk",), ("refund",)),
    "bo": Principal("bo", "acme", ("clerk", "lead"), ("refund",)),
    "cy": Principal("cy", "acme", ("clerk",)),
    "gil": Principal("gil", "globex", ("clerk", "lead"), ("refund",)),
}
"""Everybody, as the log-in knows them; cy may only look."""
