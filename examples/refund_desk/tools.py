"""The tools: four reads, and one write that the shop deduplicates by its effect key."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from decimal import Decimal

from loopwright import ToolContext, ToolFailure, tool
from loopwright.actors import AnyTool

from .shop import (
    KeyReused,
    Order,
    Payment,
    Receipt,
    Refund,
    RefundRequest,
    Shop,
    ShopError,
    ShopFileError,
)


def make_tools(shop: Shop, delay: float) -> list[AnyTool]:
    """Make the tools of a desk that works for this shop."""

    @tool(effect="read")
    @_failures()
    def find_request(request_id: str) -> RefundRequest | None:
        """Look up a refund request; null if there is none."""
        return shop.request(request_id)

    @tool(effect="read")
    @_failures()
    def find_order(order_id: str) -> Order | None:
        """Look up an order; null if there is none."""
        return shop.order(order_id)

    @tool(effect="read")
    @_failures()
    def list_payments(order_id: str) -> list[Payment]:
        """List all payments for an order; only captured ones are money."""
        return shop.payments(order_id)

    @tool(effect="read")
    @_failures()
    def list_refunds(order_id: str) -> list[Refund]:
        """List what went back on an order already."""
        return shop.refunds(order_id)

    # The key names the request, not the call: however often and by whomever a request is
    # settled, it is one payment.
    @tool(effect="idempotent", effect_key=lambda call: f"refund:{call.request_id}")
    @_failures()
    def pay_refund(
        request_id: str, order_id: str, amount: Decimal, currency: str, ctx: ToolContext
    ) -> Receipt:
        """Pay a refund request; asking twice for one request pays once."""
        receipt = shop.refund(order_id, amount, currency, effect_key=str(ctx.effect_key))
        # Paid, and nobody here knows it yet: the moment in which a crash is worst.
        time.sleep(delay)
        return receipt

    return [find_request, find_order, list_payments, list_refunds, pay_refund]


@contextmanager
def _failures() -> Generator[None]:
    """Say in the runtime's words what the shop raises."""
    try:
        yield
    except ShopError as error:
        wrong_input = error.code in ("invalid_amount", "unknown_order")
        category = "invalid_input" if wrong_input else "permanent"
        raise ToolFailure(f"{error.code}: {error}", category=category) from error
    except KeyReused as error:
        raise ToolFailure(str(error), category="invalid_input") from error
    except ShopFileError as error:
        raise ToolFailure(str(error), category="unavailable", retryable=True) from error
