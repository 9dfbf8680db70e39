"""What the desk decides, as a function of the facts; nothing here knows of agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from .shop import Order, Payment, Refund, RefundRequest, ShopCode


@dataclass(frozen=True, slots=True)
class Pay:
    """The request is right: pay this."""

    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The request is wrong, for the reason the shop itself would give."""

    code: ShopCode
    text: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of a request: the output of each invocation."""

    request_id: str
    status: Literal["paid", "refused", "denied"]
    """`refused` by the rules or the shop, `denied` by a human."""
    code: str = ""
    """Why it was refused."""
    refund_id: str = ""
    amount: Decimal | None = None
    currency: str = ""


def judge(
    request: RefundRequest,
    order: Order | None,
    payments: Sequence[Payment],
    refunds: Sequence[Refund],
) -> Pay | Refuse:
    """Decide on a request, in the order in which the shop would look.

    The shop would refuse by itself; but a human is only asked about a payment that can be made.
    """
    if order is None:
        return Refuse("unknown_order", f"there is no order {request.order_id}")

    captured = [payment for payment in payments if payment.status == "captured"]
    currencies = sorted({order.currency, *(payment.currency for payment in captured)})
    paid = sum((payment.amount for payment in captured), Decimal())
    left = paid - sum((refund.amount for refund in refunds), Decimal())
    asked = left if request.amount is None else request.amount
    if not captured:
        return Refuse("no_payment", "nothing was paid for the order")
    if len(currencies) > 1:
        return Refuse("currency_mismatch", f"order and payment mix {' and '.join(currencies)}")
    if left <= 0:
        return Refuse("already_refunded", f"all {paid} {order.currency} went back already")
    if asked > left:
        return Refuse("exceeds_paid", f"{asked} is asked for, {left} {order.currency} is left")
    return Pay(asked, order.currency)
