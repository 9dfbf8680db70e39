"""What SQLite is asked, and how it finds it: nothing that grows with what is long over."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from loopwright.protocol import UNSETTLED, EffectStatus
from loopwright.stores.sqlite._clock import MachineClock
from loopwright.stores.sqlite._effects import find_effects
from loopwright.stores.sqlite._outbox import claimable
from loopwright.stores.sqlite._owners import cancel_requests
from loopwright.stores.sqlite._reads import lines_from, orphans
from loopwright.stores.sqlite._schema import open_writer
from loopwright.stores.sqlite._writes import Ledger
from loopwright.testing.conformance._base import append, created, effect
from loopwright.testing.conformance._payloads import BIG, holding

NOW = MachineClock().now()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.fixture
def connection(path: Path) -> Generator[sqlite3.Connection]:
    with closing(open_writer(path, 5.0)) as connection:
        yield connection


@pytest.fixture
def asked(connection: sqlite3.Connection) -> list[str]:
    """Give a list that grows with every statement."""
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    return statements


def plan_of(connection: sqlite3.Connection, statement: str) -> str:
    """Ask SQLite how it would find what a statement asks for."""
    connection.set_trace_callback(None)
    return "\n".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}"))


def test_an_append_of_nothing_but_lines_asks_for_nothing_else(
    connection: sqlite3.Connection, path: Path, asked: list[str]
) -> None:
    ledger = Ledger(path, 5.0)
    ledger.append(connection, [created("a")])
    asked.clear()
    ledger.append(connection, [append("a", 2), append("a", 3)])
    assert [statement.split("(")[0] for statement in asked] == [
        "BEGIN IMMEDIATE",
        "PRAGMA data_version",
        "INSERT INTO journal",
        "INSERT INTO journal",
        "COMMIT",
    ]


def test_the_effects_of_an_append_are_in_its_transaction(
    connection: sqlite3.Connection, path: Path, asked: list[str]
) -> None:
    ledger = Ledger(path, 5.0)
    ledger.append(connection, [created("a")])
    asked.clear()
    ledger.append(connection, [append("a", 2, effects=[effect("k")])])
    assert [statement.split("(")[0] for statement in asked] == [
        "BEGIN IMMEDIATE",
        "PRAGMA data_version",
        "INSERT INTO journal",
        "INSERT INTO effects",
        "COMMIT",
    ]


def test_payloads_of_an_append_are_in_its_transaction(
    connection: sqlite3.Connection, path: Path, asked: list[str]
) -> None:
    ledger = Ledger(path, 5.0)
    ledger.append(connection, [created("a")])
    asked.clear()
    ledger.append(connection, [holding(append("a", 2, b"1" + BIG, b"2" + BIG), BIG)])
    assert [statement.split("(")[0] for statement in asked] == [
        "BEGIN IMMEDIATE",
        "PRAGMA data_version",
        "INSERT INTO payloads",
        "INSERT INTO payloads",
        "INSERT INTO journal",
        "COMMIT",
    ]


def test_a_payload_is_read_once_and_none_where_there_is_none(
    connection: sqlite3.Connection, path: Path, asked: list[str]
) -> None:
    Ledger(path, 5.0).append(connection, [created("a"), append("a", 2)])
    asked.clear()
    assert len(lines_from(connection, 1, 1, 2, path)) == 2
    assert len(asked) == 1

    large = [holding(append("a", seq, b"%d" % seq + BIG), BIG) for seq in (3, 4)]
    Ledger(path, 5.0).append(connection, large)
    asked.clear()
    assert lines_from(connection, 1, 3, 4, path) == (b"3" + BIG, b"4" + BIG)
    assert len(asked) == 2
    assert "SEARCH payloads USING INDEX" in plan_of(connection, asked[1])


@pytest.mark.parametrize("statuses", [UNSETTLED, ("dispatched",)], ids=["all", "one"])
def test_unsettled_effects_are_found_by_an_index_of_them(
    connection: sqlite3.Connection, path: Path, asked: list[str], statuses: tuple[EffectStatus, ...]
) -> None:
    find_effects(
        connection,
        invocation_id=None,
        effect_key=None,
        tool_name=None,
        statuses=statuses,
        limit=100,
        before=None,
        path=path,
    )
    plan = plan_of(connection, asked[-1])
    assert "SCAN e USING INDEX effects_unsettled" in plan
    assert "TEMP B-TREE" not in plan


def test_deliveries_are_found_among_those_that_are_not_concluded(
    connection: sqlite3.Connection, asked: list[str]
) -> None:
    claimable(connection, "w1", ["desk", "billing"], 16, NOW)
    plan = plan_of(connection, asked[-1])
    assert "SCAN o USING INDEX outbox_open" in plan
    assert plan.count("SCAN") == 1
    assert "TEMP B-TREE" not in plan


def test_orphans_are_found_by_status(
    connection: sqlite3.Connection, path: Path, asked: list[str]
) -> None:
    orphans(connection, ["desk", "billing"], limit=100, after=None, now=NOW, path=path)
    plan = plan_of(connection, asked[-1])
    assert "SEARCH r USING INDEX invocations_by_status (status=? AND rowid>?)" in plan
    assert "SEARCH s USING INDEX invocations_to_cancel (status=?)" in plan
    assert "SCAN r" not in plan
    assert "SCAN s" not in plan
    assert "SCAN i" not in plan


def test_notes_are_found_by_owner(
    connection: sqlite3.Connection, path: Path, asked: list[str]
) -> None:
    cancel_requests(connection, "w1", path)
    plan = plan_of(connection, asked[-1])
    assert "USING INDEX invocations_to_cancel (status=? AND owner=?)" in plan
