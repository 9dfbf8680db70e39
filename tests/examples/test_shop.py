"""The shop of the refund desk keeps its own rules, whoever asks and however often."""

from __future__ import annotations

import csv
import pickle
import sqlite3
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from threading import Barrier

import pytest

from loopwright.examples.refund_desk import shop as shop_module
from loopwright.examples.refund_desk.make_data import make
from loopwright.examples.refund_desk.shop import (
    DATA,
    KeyReused,
    Receipt,
    Shop,
    ShopCode,
    ShopError,
    ShopFileError,
    build,
)

HUMAN_LIMIT = Decimal("100.00")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop 100%?.db"


@pytest.fixture
def shop(path: Path) -> Shop:
    build(path)
    return Shop(path)


def expectations() -> list[dict[str, str]]:
    with (DATA / "expected.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_data_files_are_what_the_generator_makes() -> None:
    files = {file.name: file.read_text(encoding="utf-8") for file in DATA.glob("*.csv")}
    assert files == make()


def test_every_line_is_loaded_or_kept_aside(path: Path) -> None:
    report = build(path)
    aside = Counter(reject.file for reject in report.rejects)
    for table in ("orders", "payments", "refunds", "requests"):
        lines = (DATA / f"{table}.csv").read_text(encoding="utf-8").splitlines()
        assert report.counts[table] + aside[f"{table}.csv"] == len(lines) - 1
    assert report.counts["rejects"] == len(report.rejects)
    assert report.counts == Shop(path).counts()
    assert list(report.rejects) == Shop(path).rejects()


def test_a_rejected_line_is_kept_word_for_word_with_its_reason(path: Path) -> None:
    rejects = build(path).rejects
    assert Counter(reject.reason for reject in rejects) == {
        "has an unknown status": 1,
        "has an unknown currency": 2,
        "has no number as amount, but 'n/a'": 1,
        "has no number as amount, but '12,9O'": 1,
        "repeats the id of an earlier line": 1,
        "names an order that was not loaded": 2,
    }
    for reject in rejects:
        lines = (DATA / reject.file).read_text(encoding="utf-8").splitlines()
        assert lines[reject.line - 1] == reject.text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ORD-1,2025-01-06,Ana,mug,EUR,5.00", "has 6 cells instead of 7"),
        ("", "has 0 cells instead of 7"),
        ("ORD-1,2025-02-30,Ana,mug,EUR,5.00,placed", "has no date as placed_on, but '2025-02-30'"),
        ("ORD-1,2025-01-06,Ana,mug,EUR,-5.00,placed", "has an amount of -5.00"),
        ("ORD-1,2025-01-06,Ana,mug,EUR,5.001,placed", "has an amount of 5.001"),
        ("ORD-1,2025-01-06,Ana,mug,EUR,NaN,placed", "has an amount of NaN"),
        ("ORD-1,2025-01-06, ,mug,EUR,5.00,placed", "NOT NULL constraint failed: orders.customer"),
    ],
)
def test_a_malformed_line_is_kept_aside(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch, line: str, reason: str
) -> None:
    for name, text in make().items():
        header = text.splitlines()[0]
        body = f"\n{line}\n" if name == "orders.csv" else "\n"
        (tmp_path / name).write_text(header + body, encoding="utf-8")
    monkeypatch.setattr(shop_module, "DATA", tmp_path)
    report = build(path)
    assert [reject.reason for reject in report.rejects] == [reason]
    assert report.counts["orders"] == 0


def test_spaces_around_an_amount_do_not_count(shop: Shop) -> None:
    [payment] = shop.payments("ORD-1004")
    assert payment.amount == Decimal("24.90")


def test_database_is_durable_and_holds_whole_cents(path: Path, shop: Shop) -> None:
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        types = db.execute("SELECT DISTINCT typeof(amount) FROM payments").fetchall()
    db.close()
    assert types == [("integer",)]
    assert shop.requests()[1].amount is None


def test_building_twice_refuses_and_changes_nothing(path: Path, shop: Shop) -> None:
    shop.refund("ORD-1004", Decimal("24.90"), "EUR", effect_key="k")
    with pytest.raises(ShopFileError, match="File exists"):
        build(path)
    assert len(shop.ledger()) == 1


def test_a_missing_database_is_an_error_and_not_made(path: Path) -> None:
    with pytest.raises(ShopFileError, match="cannot be used"):
        Shop(path)
    assert not path.exists()


def test_an_unfinished_or_foreign_file_is_refused(path: Path) -> None:
    path.touch()
    with pytest.raises(ShopFileError, match="no finished shop database"):
        Shop(path)
    path.write_text("order_id,placed_on\n" * 100, encoding="utf-8")
    with pytest.raises(ShopFileError, match="not a database"):
        Shop(path)


def test_a_locked_database_is_an_error_and_pays_nothing(
    path: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop_module, "_BUSY_SECONDS", 0.01)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ShopFileError, match="locked"):
        shop.refund("ORD-1004", Decimal("24.90"), "EUR", effect_key="k")
    assert shop.order("ORD-1004") is not None, "readers do not wait for a writer"
    other.close()
    assert shop.ledger() == []


def test_what_is_not_there_reads_as_nothing(shop: Shop) -> None:
    assert shop.order("ORD-9999") is None
    assert shop.request("REQ-99") is None
    assert shop.payments("ORD-9999") == []
    assert shop.refunds("ORD-9999") == []


def test_a_request_is_the_same_alone_and_in_the_list(shop: Shop) -> None:
    requests = shop.requests()
    assert len(requests) == 16
    assert [shop.request(request.request_id) for request in requests] == requests


@pytest.mark.parametrize(
    ("order_id", "amount", "currency", "code"),
    [
        ("ORD-9999", "20.00", "EUR", "unknown_order"),
        ("ORD-1091", "28.40", "EUR", "unknown_order"),
        ("ORD-1063", "33.00", "EUR", "no_payment"),
        ("ORD-1112", "48.00", "EUR", "no_payment"),
        ("ORD-1059", "54.20", "EUR", "currency_mismatch"),
        ("ORD-1059", "54.20", "USD", "currency_mismatch"),
        ("ORD-1004", "24.90", "USD", "currency_mismatch"),
        ("ORD-1041", "0.01", "EUR", "already_refunded"),
        ("ORD-1048", "50.01", "USD", "exceeds_paid"),
        ("ORD-1004", "0", "EUR", "invalid_amount"),
        ("ORD-1004", "-1.00", "EUR", "invalid_amount"),
        ("ORD-1004", "1.0000000000000000000000000000001", "EUR", "invalid_amount"),
        ("ORD-1004", "NaN", "EUR", "invalid_amount"),
        ("ORD-1004", "sNaN", "EUR", "invalid_amount"),
        ("ORD-1004", "Infinity", "EUR", "invalid_amount"),
        ("ORD-1004", "1e999999", "EUR", "invalid_amount"),
    ],
)
def test_a_rule_refuses_with_its_code_and_pays_nothing(
    shop: Shop, order_id: str, amount: str, currency: str, code: ShopCode
) -> None:
    before = shop.refunds(order_id)
    with pytest.raises(ShopError, match=order_id) as caught:
        shop.refund(order_id, Decimal(amount), currency, effect_key="k")
    assert caught.value.code == code
    assert shop.ledger() == []
    assert shop.refunds(order_id) == before


def test_a_refusal_crosses_a_process_border(shop: Shop) -> None:
    with pytest.raises(ShopError) as caught:
        shop.refund("ORD-9999", Decimal(1), "EUR", effect_key="k")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.code, str(copy)) == (caught.value.code, str(caught.value))


def test_a_refused_key_may_be_used_again(shop: Shop) -> None:
    with pytest.raises(ShopError):
        shop.refund("ORD-1004", Decimal("24.91"), "EUR", effect_key="k")
    assert not shop.refund("ORD-1004", Decimal("24.90"), "EUR", effect_key="k").replayed


def test_same_key_and_content_is_answered_with_the_first_payout(shop: Shop) -> None:
    first = shop.refund("ORD-1004", Decimal("24.9"), "EUR", effect_key="k")
    again = shop.refund("ORD-1004", Decimal("24.90"), "EUR", effect_key="k")
    assert again == Receipt(payout=first.payout, replayed=True)
    assert not first.replayed
    assert shop.ledger() == [first.payout]


@pytest.mark.parametrize(
    ("order_id", "amount", "currency"),
    [("ORD-1023", "5.00", "EUR"), ("ORD-1004", "5.01", "EUR"), ("ORD-1004", "5.00", "USD")],
)
def test_same_key_with_other_content_is_an_error(
    shop: Shop, order_id: str, amount: str, currency: str
) -> None:
    first = shop.refund("ORD-1004", Decimal("5.00"), "EUR", effect_key="k")
    with pytest.raises(KeyReused, match="'k'"):
        shop.refund(order_id, Decimal(amount), currency, effect_key="k")
    assert shop.ledger() == [first.payout]


def test_an_empty_key_is_an_error(shop: Shop) -> None:
    with pytest.raises(ValueError, match="effect key"):
        shop.refund("ORD-1004", Decimal("5.00"), "EUR", effect_key="")


def test_parts_add_up_to_what_was_paid_and_no_more(shop: Shop) -> None:
    for n in range(2):
        shop.refund("ORD-1004", Decimal("12.45"), "EUR", effect_key=f"k{n}")
    with pytest.raises(ShopError) as caught:
        shop.refund("ORD-1004", Decimal("0.01"), "EUR", effect_key="k2")
    assert caught.value.code == "already_refunded"
    assert [r.effect_key for r in shop.refunds("ORD-1004")] == ["k0", "k1"]
    assert [p.refund_id for p in shop.ledger()] == ["PO-0001", "PO-0002"]


def test_threads_with_one_key_pay_once(path: Path, shop: Shop) -> None:
    barrier = Barrier(8)

    def pay(_: int) -> Receipt:
        barrier.wait()
        return Shop(path).refund("ORD-1023", Decimal("10.00"), "EUR", effect_key="k")

    with ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(pay, range(8)))
    assert [receipt.replayed for receipt in receipts].count(False) == 1
    assert {receipt.payout for receipt in receipts} == set(shop.ledger())
    assert len(shop.ledger()) == 1


def test_threads_with_different_keys_cannot_overdraw_an_order(shop: Shop) -> None:
    barrier = Barrier(8)

    def pay(n: int) -> str:
        barrier.wait()
        try:
            shop.refund("ORD-1023", Decimal("30.00"), "EUR", effect_key=f"k{n}")
        except ShopError as error:
            return error.code
        return "paid"

    with ThreadPoolExecutor(8) as pool:
        outcomes = Counter(pool.map(pay, range(8)))
    assert outcomes == {"paid": 3, "exceeds_paid": 5}
    assert sum(payout.amount for payout in shop.ledger()) == Decimal("90.00")


PAY = """
import sys
from decimal import Decimal
from pathlib import Path
from loopwright.examples.refund_desk.shop import Shop
shop = Shop(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(shop.refund("ORD-1023", Decimal("10.00"), "EUR", effect_key="k").replayed)
"""


def test_processes_with_one_key_pay_once(path: Path, shop: Shop) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", PAY, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    answers = sorted(worker.communicate(timeout=30)[0] for worker in workers)
    assert answers == ["False\n", "True\n"]
    assert len(shop.ledger()) == 1


def test_expectations_cover_each_request_and_each_kind_of_outcome(shop: Shop) -> None:
    rows = expectations()
    assert [row["request_id"] for row in rows] == [r.request_id for r in shop.requests()]
    assert {row["expected"] for row in rows} == {
        "paid",
        "needs_approval",
        "refused:unknown_order",
        "refused:no_payment",
        "refused:currency_mismatch",
        "refused:already_refunded",
        "refused:exceeds_paid",
    }


@pytest.mark.parametrize("row", expectations(), ids=lambda row: row["request_id"])
def test_expectations_follow_from_the_rules_of_the_shop(shop: Shop, row: dict[str, str]) -> None:
    """What is paid or needs approval can be paid; what is refused is refused by that code."""
    request = shop.request(row["request_id"])
    assert request is not None
    order = shop.order(request.order_id)
    paid = sum(p.amount for p in shop.payments(request.order_id) if p.status == "captured")
    left = Decimal(paid - sum(r.amount for r in shop.refunds(request.order_id)))
    amount = request.amount or left or Decimal("1.00")
    currency = order.currency if order else "EUR"
    if row["expected"].startswith("refused:"):
        with pytest.raises(ShopError) as caught:
            shop.refund(request.order_id, amount, currency, effect_key=request.request_id)
        assert row["expected"] == f"refused:{caught.value.code}"
        assert row["pays"] == ""
        return

    shop.refund(request.order_id, amount, currency, effect_key=request.request_id)
    assert amount == Decimal(row["pays"])
    assert row["expected"] == ("needs_approval" if amount > HUMAN_LIMIT else "paid")
