"""The shop of the refund desk: a SQLite database of orders and money that knows nothing of agents.

`build` makes the database from the CSV files in `data`, `Shop` reads it and pays refunds.
A refund carries the caller's effect key; the shop remembers it, so asking twice pays once.
Money is whole cents in the database and `Decimal` in Python.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar

from ._load import SCHEMA_VERSION, TABLES, cents, fill

DATA = Path(__file__).parent / "data"
"""The CSV files; `expected.csv`, the right outcome of each request, is not loaded."""

ShopCode = Literal[
    "invalid_amount",
    "unknown_order",
    "no_payment",
    "currency_mismatch",
    "already_refunded",
    "exceeds_paid",
]
"""Why the shop refuses a refund, in the order it looks."""

_BUSY_SECONDS = 5.0
_ORDER = "SELECT * FROM orders WHERE order_id = ?"
_PAYMENTS = "SELECT * FROM payments WHERE order_id = ? ORDER BY paid_on, payment_id"
_REFUNDS = "SELECT * FROM refunds WHERE order_id = ? ORDER BY refunded_on, rowid"
_REQUEST = "SELECT * FROM requests WHERE request_id = ?"
_LEDGER = "SELECT * FROM refunds WHERE effect_key IS NOT NULL ORDER BY rowid"
_PAYOUT = "SELECT * FROM refunds WHERE effect_key = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a customer bought."""

    order_id: str
    placed_on: date
    customer: str
    item: str
    currency: str
    amount: Decimal
    status: Literal["placed", "shipped", "delivered", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """Money a customer paid, or failed to pay; only what was captured can be refunded."""

    payment_id: str
    order_id: str
    paid_on: date
    currency: str
    amount: Decimal
    status: Literal["captured", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refund:
    """Money that went back; `effect_key` is None if that was before there was this database."""

    refund_id: str
    order_id: str
    refunded_on: date
    currency: str
    amount: Decimal
    effect_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundRequest:
    """What a customer asks for; no amount means all that is left of the payment."""

    request_id: str
    order_id: str
    received_on: date
    amount: Decimal | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Payout:
    """A refund that `Shop.refund` paid."""

    refund_id: str
    order_id: str
    refunded_on: date
    currency: str
    amount: Decimal
    effect_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What `Shop.refund` answers; `replayed` says that an earlier call had paid."""

    payout: Payout
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """A CSV line that was not loaded, word for word, and why."""

    file: str
    line: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """The number of rows `build` put into each table, and the lines it kept aside."""

    counts: dict[str, int]
    rejects: tuple[Reject, ...]


_RowT = TypeVar("_RowT", Order, Payment, Refund, RefundRequest, Payout, Reject)


class ShopError(Exception):
    """Raised when a rule of the shop, named by `code`, forbids a refund; nothing was paid."""

    def __init__(self, code: ShopCode, text: str) -> None:
        """Keep both in `args`, without which the error could not be pickled."""
        super().__init__(code, text)
        self.code: ShopCode = code
        self.text = text

    def __str__(self) -> str:
        return self.text


class KeyReused(Exception):
    """Raised when an effect key that paid one refund asks for another; nothing was paid."""


class ShopFileError(Exception):
    """Raised when the database file cannot be made, opened, read, or locked in time."""


def build(path: Path) -> LoadReport:
    """Make the shop database at `path`, where nothing may be yet, from the CSV files.

    A line that breaks a rule goes to the `rejects` table. An interrupted build leaves a file that
    `Shop` refuses to open.

    Raises:
        ShopFileError: `path` exists, or cannot be written.
    """
    try:
        path.open("xb").close()
    except OSError as error:
        msg = (
            f"The shop database {str(path)!r} cannot be made ({error.strerror}): "
            "name a new file in a folder that exists."
        )
        raise ShopFileError(msg) from error

    with _connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        fill(db, DATA)
    shop = Shop(path)
    return LoadReport(counts=shop.counts(), rejects=tuple(shop.rejects()))


class Shop:
    """An existing shop database, open to any number of threads and processes at once.

    Each call uses a connection of its own. Each raises `ShopFileError` when the file is gone,
    damaged, or locked by others for five seconds.
    """

    def __init__(self, path: Path) -> None:
        """Open the database at `path`.

        Raises:
            ShopFileError: `build` did not make this file, or did not finish it.
        """
        self._path = path
        with _connect(path) as db:
            version = db.execute("PRAGMA user_version").fetchone()["user_version"]
        if version != SCHEMA_VERSION:
            msg = (
                f"{str(path)!r} is no finished shop database of version {SCHEMA_VERSION}: "
                "delete it and build it again."
            )
            raise ShopFileError(msg)

    def order(self, order_id: str) -> Order | None:
        """Return an order, or None if there is no such order."""
        return _first(self._read(Order, _ORDER, order_id))

    def payments(self, order_id: str) -> list[Payment]:
        """Return the payments for an order, captured and failed, oldest first."""
        return self._read(Payment, _PAYMENTS, order_id)

    def refunds(self, order_id: str) -> list[Refund]:
        """Return all that went back on an order, the payouts included, oldest first."""
        return self._read(Refund, _REFUNDS, order_id)

    def request(self, request_id: str) -> RefundRequest | None:
        """Return a refund request, or None if there is no such request."""
        return _first(self._read(RefundRequest, _REQUEST, request_id))

    def requests(self) -> list[RefundRequest]:
        """Return every refund request, by id."""
        return self._read(RefundRequest, "SELECT * FROM requests ORDER BY request_id")

    def rejects(self) -> list[Reject]:
        """Return the CSV lines that were not loaded, in the order `build` met them."""
        return self._read(Reject, "SELECT * FROM rejects ORDER BY rowid")

    def ledger(self) -> list[Payout]:
        """Return every refund this shop paid, in the order it paid them."""
        return self._read(Payout, _LEDGER)

    def counts(self) -> dict[str, int]:
        """Return the number of rows in each table; those of `refunds` include the ledger."""
        counts = (f"(SELECT count(*) FROM {table}) AS {table}" for table in (*TABLES, "rejects"))
        with _connect(self._path) as db:
            row: dict[str, int] = db.execute(f"SELECT {', '.join(counts)}").fetchone()
            return row

    def refund(self, order_id: str, amount: Decimal, currency: str, *, effect_key: str) -> Receipt:
        """Pay money back on an order, once per effect key.

        A key that has paid this very refund is answered with that payout, and pays nothing.

        Raises:
            ShopError: A rule of the shop forbids the refund.
            KeyReused: The key has paid another refund.
            ValueError: The key is empty.
        """
        if not effect_key:
            msg = f"The refund on order {order_id!r} has no effect key: give it one of its own."
            raise ValueError(msg)
        try:
            minor = cents(amount)
        except ValueError as error:
            msg = f"The refund on order {order_id!r} {error}: ask for a sum of whole cents."
            raise ShopError("invalid_amount", msg) from error

        with _connect(self._path) as db, db:
            # The write lock comes first, so that what is checked still holds when it is paid.
            db.execute("BEGIN IMMEDIATE")
            paid = _first(_rows(db, Payout, _PAYOUT, effect_key))
            if paid is not None:
                if (paid.order_id, paid.amount, paid.currency) != (order_id, amount, currency):
                    msg = (
                        f"Effect key {effect_key!r} cannot pay {amount} {currency} on order "
                        f"{order_id!r}, for it paid {paid.amount} {paid.currency} on order "
                        f"{paid.order_id!r}: use a key of its own for each refund."
                    )
                    raise KeyReused(msg)
                return Receipt(payout=paid, replayed=True)
            _check(db, order_id, amount, currency)
            db.execute(
                "INSERT INTO refunds SELECT printf('PO-%04d', count(effect_key) + 1), ?, ?, ?, ?, ?"
                " FROM refunds",
                (order_id, datetime.now(UTC).date().isoformat(), currency, minor, effect_key),
            )
            [payout] = _rows(db, Payout, _PAYOUT, effect_key)
            return Receipt(payout=payout, replayed=False)

    def _read(self, kind: type[_RowT], sql: str, *values: str) -> list[_RowT]:
        with _connect(self._path) as db:
            return _rows(db, kind, sql, *values)


def _check(db: sqlite3.Connection, order_id: str, amount: Decimal, currency: str) -> None:
    order = _first(_rows(db, Order, _ORDER, order_id))
    if order is None:
        raise ShopError("unknown_order", f"There is no order {order_id!r}: check the id.")

    captured = [p for p in _rows(db, Payment, _PAYMENTS, order_id) if p.status == "captured"]
    refunds = _rows(db, Refund, _REFUNDS, order_id)
    currencies = {currency, order.currency, *(payment.currency for payment in captured)}
    paid = sum((p.amount for p in captured), Decimal())
    left = paid - sum((r.amount for r in refunds), Decimal())
    if not captured:
        msg = f"Order {order_id!r} has no captured payment: there is nothing to give back."
        raise ShopError("no_payment", msg)
    if len(currencies) > 1:
        msg = (
            f"Order {order_id!r}, its payments and its refund mix {', '.join(sorted(currencies))}: "
            "let a person find out which is right."
        )
        raise ShopError("currency_mismatch", msg)
    if left <= 0:
        msg = f"Order {order_id!r} is refunded in full, {paid} {currency}: pay nothing more."
        raise ShopError("already_refunded", msg)
    if amount > left:
        msg = (
            f"Order {order_id!r} has {left} {currency} left of {paid} paid, "
            f"less than {amount}: ask for no more than is left."
        )
        raise ShopError("exceeds_paid", msg)


def _rows(db: sqlite3.Connection, kind: type[_RowT], sql: str, *values: str) -> list[_RowT]:
    return [kind(**row) for row in db.execute(sql, values)]


def _first(rows: list[_RowT]) -> _RowT | None:
    return rows[0] if rows else None


def _as_dict(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> dict[str, Any]:
    names = [column[0] for column in cursor.description]
    return {name: _from_column(name, value) for name, value in zip(names, values, strict=True)}


def _from_column(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "amount":
        return Decimal(value).scaleb(-2)
    return date.fromisoformat(value) if name.endswith("_on") else value


@contextmanager
def _connect(path: Path) -> Generator[sqlite3.Connection]:
    # mode=rw: a mistyped path must not become an empty database.
    uri = f"{path.resolve().as_uri()}?mode=rw"
    try:
        db = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        with closing(db):
            db.row_factory = _as_dict
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA foreign_keys = ON")
            yield db
    except sqlite3.Error as error:
        msg = (
            f"The shop database {str(path)!r} cannot be used ({error}): "
            "try again if it is locked, else build it anew."
        )
        raise ShopFileError(msg) from error
