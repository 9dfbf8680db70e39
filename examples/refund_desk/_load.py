"""The shop's tables, and how the CSV files get into them: line by line, bad lines kept aside."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path

SCHEMA_VERSION = 1
TABLES = ("orders", "payments", "refunds", "requests")

# A constraint is named by what the row that breaks it does: its name is the reason of the reject.
# requests.order_id references nothing: a request for an unknown order must still be answered.
_MONEY = """
    currency TEXT NOT NULL
        CONSTRAINT "has an unknown currency" CHECK (currency IN ('EUR', 'USD', 'GBP')),
    amount INTEGER NOT NULL"""
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY NOT NULL, placed_on TEXT NOT NULL,
    customer TEXT NOT NULL, item TEXT NOT NULL, {_MONEY},
    status TEXT NOT NULL CONSTRAINT "has an unknown status"
        CHECK (status IN ('placed', 'shipped', 'delivered', 'cancelled')));
CREATE TABLE payments (
    payment_id TEXT PRIMARY KEY NOT NULL, order_id TEXT NOT NULL REFERENCES orders,
    paid_on TEXT NOT NULL, {_MONEY},
    status TEXT NOT NULL CONSTRAINT "has an unknown status"
        CHECK (status IN ('captured', 'failed')));
CREATE TABLE refunds (
    refund_id TEXT PRIMARY KEY NOT NULL, order_id TEXT NOT NULL REFERENCES orders,
    refunded_on TEXT NOT NULL, {_MONEY}, effect_key TEXT UNIQUE);
CREATE TABLE requests (
    request_id TEXT PRIMARY KEY NOT NULL, order_id TEXT NOT NULL,
    received_on TEXT NOT NULL, amount INTEGER, reason TEXT NOT NULL);
CREATE TABLE rejects (
    file TEXT NOT NULL, line INTEGER NOT NULL, reason TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX payments_of_order ON payments (order_id);
CREATE INDEX refunds_of_order ON refunds (order_id);
PRAGMA user_version = {SCHEMA_VERSION};
"""


def fill(db: sqlite3.Connection, folder: Path) -> None:
    """Make the tables of an empty database and load the CSV files in `folder`, or do neither."""
    with db:
        db.executescript(_SCHEMA)
        for table in TABLES:
            _load(db, folder, table)


def cents(amount: Decimal) -> int:
    """Return an amount as whole cents.

    Raises:
        ValueError: It is not positive, not finite, or has a fraction of a cent.
    """
    # Quantizing and comparing are exact, or raise; multiplying would round a long tail away.
    try:
        exact = amount.quantize(Decimal("0.01"))
    except InvalidOperation:
        exact = None
    if exact is None or exact != amount or exact <= 0:
        raise ValueError(f"has an amount of {amount}")
    return int(exact * 100)


def _load(db: sqlite3.Connection, folder: Path, table: str) -> None:
    file = f"{table}.csv"
    lines = (folder / file).read_text(encoding="utf-8").splitlines()
    reader = csv.reader(lines)
    columns = next(reader)
    insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    for cells in reader:
        try:
            db.execute(insert, _values(columns, cells))
        except (ValueError, sqlite3.IntegrityError) as error:
            reject = (file, reader.line_num, _reason(error), lines[reader.line_num - 1])
            db.execute("INSERT INTO rejects VALUES (?, ?, ?, ?)", reject)


def _values(columns: Sequence[str], cells: Sequence[str]) -> list[str | int | None]:
    if len(cells) != len(columns):
        raise ValueError(f"has {len(cells)} cells instead of {len(columns)}")
    return [_to_column(name, cell.strip()) for name, cell in zip(columns, cells, strict=True)]


def _to_column(name: str, text: str) -> str | int | None:
    if not text:
        return None
    if name == "amount":
        try:
            return cents(Decimal(text))
        except InvalidOperation:
            raise ValueError(f"has no number as amount, but {text!r}") from None
    if name.endswith("_on"):
        try:
            return date.fromisoformat(text).isoformat()
        except ValueError:
            raise ValueError(f"has no date as {name}, but {text!r}") from None
    return text


def _reason(error: ValueError | sqlite3.IntegrityError) -> str:
    if isinstance(error, ValueError):
        return str(error)
    match error.sqlite_errorname:
        case "SQLITE_CONSTRAINT_PRIMARYKEY":
            return "repeats the id of an earlier line"
        case "SQLITE_CONSTRAINT_FOREIGNKEY":
            return "names an order that was not loaded"
        case _:
            return str(error).removeprefix("CHECK constraint failed: ")
