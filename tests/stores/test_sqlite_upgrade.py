"""A file of an earlier schema version is brought up to date where it is, once."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from loopwright.protocol import CancelNote, InvocationId, Reason, Snapshot
from loopwright.stores import SQLiteStore
from loopwright.stores.sqlite._schema import APPLICATION_ID, MIGRATIONS, VERSION
from loopwright.testing.conformance._base import append, delivery, kinds, queued
from loopwright.testing.conformance._payloads import BIG, holding

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give a file as version 1 has left it: one invocation runs, one waits, one has ended."""
    path = tmp_path / "agents.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in MIGRATIONS[0]:
            connection.execute(statement)
        connection.execute("PRAGMA user_version = 1")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executemany(
            "INSERT INTO invocations VALUES(?, ?, 'desk', ?, 'settle', ?, ?, '', 1.0, 2.0, 3, ?)",
            [
                (1, "runs", "k", "running", None, "w1"),
                (2, "waits", None, "suspended", "approval_required", None),
                (3, "ended", None, "ended", "completed", None),
            ],
        )
        connection.executemany(
            "INSERT INTO journal VALUES(?, ?, ?, ?)",
            [(1, 1, 2, b"1\n2"), (1, 3, 1, b"3"), (2, 1, 1, b"1"), (3, 1, 1, b"1")],
        )
        # A heartbeat by the wall clock, which says nothing any more.
        connection.execute("INSERT INTO workers VALUES('w1', ?)", (time.time() + 3_600,))
    return path


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return version


async def test_what_version_1_has_stored_is_there(path: Path) -> None:
    store = SQLiteStore(path)
    await store.open()
    assert version_of(path) == VERSION == 2
    listed = await store.invocations()
    assert [(one.invocation_id, one.head.status, one.seq) for one in listed] == [
        ("ended", "ended", 1),
        ("waits", "suspended", 1),
        ("runs", "running", 3),
    ]
    stored = await store.load(InvocationId("runs"))
    assert stored.lines == (b"1", b"2", b"3")
    assert (stored.snapshot, stored.summary.cancel) == (None, None)
    assert (stored.summary.owner, stored.summary.owner_alive) == ("w1", False)
    assert (listed[0].head.reason, await store.find("desk", "k")) == (Reason.COMPLETED, "runs")
    assert list(await store.effects()) == []
    await store.close()


async def test_what_version_1_has_stored_is_gone_on_with(path: Path) -> None:
    store = SQLiteStore(path)
    await store.open()
    assert [one.invocation_id for one in await store.orphans(["desk"])] == ["runs"]
    lease = await store.acquire(InvocationId("runs"), "w2")
    assert lease.fence == 4
    sent = queued("runs", 4, delivery("runs", "k", "x"))
    sent = sent._replace(fence=4, worker="w2", snapshot=Snapshot(3, b"state"))
    assert kinds(await store.append([sent, append("runs", 5, fence=4)])) == [None, None]
    assert [one.attempt for one in await store.claim("w2", ["desk"])] == [1]
    assert (await store.load(InvocationId("runs"))).snapshot == Snapshot(3, b"state")
    note = CancelNote(InvocationId("waits"), "too dear", "ann")
    await store.request_cancel(note)
    assert (await store.summary(InvocationId("waits"))).cancel == note
    assert await store.prune(ended_before=3.0) == 1
    await store.close()


async def test_payloads_follow_what_version_1_has_stored(path: Path) -> None:
    store = SQLiteStore(path)
    await store.open()
    large = holding(append("runs", 4, b"4" + BIG, b"5", fence=3), BIG)
    again = holding(append("runs", 3, b"3", *large.lines, fence=3), BIG)
    assert await store.append([large, again]) == [None] * 2
    for after in (0, 1, 4):
        stored = await store.load(InvocationId("runs"), after=after)
        assert stored.lines == (b"1", b"2", b"3", *large.lines)[after:]
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM payloads").fetchone() == (1,)


async def test_two_stores_upgrade_one_file(path: Path) -> None:
    stores = [SQLiteStore(path) for _ in range(4)]
    async with anyio.create_task_group() as tasks:
        for store in stores:
            tasks.start_soon(store.open)
    for store in stores:
        assert len(await store.invocations()) == 3
        await store.close()


async def test_an_upgrade_that_fails_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = MIGRATIONS
    broken = (first, (*second, "CREATE TABLE effects(x)"))
    monkeypatch.setattr("loopwright.stores.sqlite._schema.MIGRATIONS", broken)
    with pytest.raises(Exception, match="already exists"):
        await SQLiteStore(path).open()
    assert version_of(path) == 1
    monkeypatch.undo()
    await test_what_version_1_has_stored_is_there(path)
