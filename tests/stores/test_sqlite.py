"""SQLiteStore keeps the promises of the Store Protocol."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from loopwright.protocol import InvocationId, StoreError
from loopwright.stores import SQLiteStore, Store
from loopwright.testing.conformance._base import created, kinds
from loopwright.testing.conformance._suite import StoreConformance


class TestSQLiteStore(StoreConformance):
    durable = True

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "agents.db"

    async def make_store(self) -> Store:
        return SQLiteStore(self.path)


class TestSQLiteStoreOnThread(TestSQLiteStore):
    """The same where the disk is slow: every commit runs on the writer's thread."""

    @pytest.fixture(autouse=True)
    def slow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("loopwright.stores.sqlite._group.INLINE_SECONDS", 0.0)


class TestSQLiteStoreOnLoop(TestSQLiteStore):
    """The same where the disk is fast: every small commit runs on the event loop."""

    @pytest.fixture(autouse=True)
    def fast(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("loopwright.stores.sqlite._group.INLINE_SECONDS", 60.0)


@pytest.mark.anyio
@pytest.mark.parametrize("inline_seconds", [0.0, 60.0], ids=["thread", "loop"])
async def test_a_file_that_stays_locked_is_a_transient_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline_seconds: float
) -> None:
    """B65: waiting never holds up the event loop, and ends after `busy_timeout`."""
    monkeypatch.setattr("loopwright.stores.sqlite._group.INLINE_SECONDS", inline_seconds)
    path = tmp_path / "agents.db"
    store = SQLiteStore(path, busy_timeout=0.05)
    await store.open()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked") as caught:
        await store.append([created("a")])
    assert caught.value.transient
    other.execute("ROLLBACK")
    other.close()
    assert kinds(await store.append([created("a")])) == [None]
    await store.close()


@pytest.mark.anyio
async def test_a_heartbeat_runs_out_by_the_clock_handed_in(tmp_path: Path) -> None:
    now = 100.0
    store = SQLiteStore(tmp_path / "agents.db", clock=lambda: now)
    await store.open()
    await store.append([created("a")])
    await store.heartbeat("w1", 10)
    assert (await store.load(InvocationId("a"))).summary.owner_alive
    now = 110.0
    assert not (await store.load(InvocationId("a"))).summary.owner_alive
    assert (await store.acquire(InvocationId("a"), "w2")).fence == 2
    await store.close()
