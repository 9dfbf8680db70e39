"""Rows of the ledger, the outbox and the rest that no store of ours has written are errors."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import pytest

from loopwright.protocol import CancelNote, InvocationId, JournalCorruptError, Snapshot
from loopwright.stores import SQLiteStore
from loopwright.testing.conformance._base import append, delivery, head, queued

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.fixture
async def store(path: Path) -> AsyncGenerator[SQLiteStore]:
    """Give a store with something of everything."""
    store = SQLiteStore(path)
    await store.open()
    sent = delivery("a", "k", "x", arguments={"to": "bob"})
    await store.append([queued("a", 1, sent, head=head())])
    await store.append([append("a", 2, snapshot=Snapshot(1, b"state"))])
    await store.request_cancel(CancelNote(InvocationId("a"), "too dear", "ann"))
    yield store
    await store.close()


def damage(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(statement).rowcount == 1


@pytest.mark.parametrize(
    "change",
    [
        "status = 'comitted'",
        "turn = 'x'",
        "attempts = 0.5",
        "call_id = x'00'",
        "receipt = x'7b'",
        "receipt = 'text'",
        "arguments = x'5b5d'",
        "arguments = x'ff'",
        "at = 'x'",
    ],
)
async def test_a_damaged_effect_is_an_error(path: Path, store: SQLiteStore, change: str) -> None:
    damage(path, f"UPDATE effects SET {change}")
    with pytest.raises(JournalCorruptError, match=r"agents\.db: an effect of invocation 'a' is da"):
        await store.effects()


@pytest.mark.parametrize(
    "change",
    [
        "body = x'7b'",
        "body = x'7b7d'",
        "body = 'text'",
        "attempts = 'x'",
        "effect_key = x'00'",
        "run = 'x'",
    ],
)
async def test_a_damaged_delivery_is_an_error_and_not_claimed(
    path: Path, store: SQLiteStore, change: str
) -> None:
    damage(path, f"UPDATE outbox SET {change}")
    with pytest.raises(JournalCorruptError, match=r"agents\.db: a delivery of invocation .* is da"):
        await store.claim("w1", ["desk"])
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT worker FROM outbox").fetchall() == [(None,)]


@pytest.mark.parametrize("change", ["body = 'text'", "seq = 'x'", "seq = 0", "seq = 3"])
async def test_a_damaged_snapshot_is_an_error(path: Path, store: SQLiteStore, change: str) -> None:
    damage(path, f"UPDATE snapshots SET {change}")
    with pytest.raises(JournalCorruptError, match="the snapshot of invocation 'a' is damaged"):
        await store.load(InvocationId("a"))
    # The journal alone is enough.
    assert len((await store.load(InvocationId("a"), after=1)).lines) == 1


@pytest.mark.parametrize(
    "change", ["cancel_reason = x'00'", "cancel_by = x'07'", "cancel_by = NULL"]
)
async def test_a_damaged_note_is_an_error(path: Path, store: SQLiteStore, change: str) -> None:
    damage(path, f"UPDATE invocations SET {change}")
    with pytest.raises(JournalCorruptError, match="the entry of invocation 'a' is damaged"):
        await store.cancel_requests("w1")
    with pytest.raises(JournalCorruptError, match="the entry of invocation 'a' is damaged"):
        await store.summary(InvocationId("a"))
