"""What comes in, what comes out, and the ledger and invoices the desk works on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

PAID = {7: Decimal("30.00"), 8: Decimal("250.00")}  # by order


@dataclass(frozen=True, slots=True)
class Resolution:
    """What became of a ticket: the output of whoever ends it."""

    kind: Literal["refunded", "corrected", "answered"]
    reference: str
    """Of the refund or the invoice; for `answered`, what the person said."""


def order_in(text: str) -> int | None:
    """Find the order a text names."""
    found = re.search(r"order (\d+)", text, re.IGNORECASE)
    return int(found[1]) if found else None


def amount_in(text: str) -> Decimal:
    """Find the amount a text names; 0 if it names none."""
    found = re.search(r"\d+\.\d\d", text)
    return Decimal(found[0]) if found else Decimal(0)
