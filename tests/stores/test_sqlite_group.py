"""Appends that wait together are committed together, and fail together."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path

import pytest

from loopwright.protocol import Append, StoreError
from loopwright.stores import AppendResult
from loopwright.stores.sqlite._group import GroupCommit
from loopwright.stores.sqlite._schema import open_writer
from loopwright.stores.sqlite._thread import ConnectionThread
from loopwright.stores.sqlite._writes import Ledger
from loopwright.testing.conformance._base import append, created, kinds

pytestmark = pytest.mark.anyio


@pytest.fixture
async def thread(tmp_path: Path) -> AsyncGenerator[ConnectionThread]:
    path = tmp_path / "agents.db"
    thread = ConnectionThread("test-write", partial(open_writer, path, 5.0))
    await thread.start()
    yield thread
    await thread.stop()


@pytest.fixture(params=[0.0, 60.0], ids=["thread", "loop"])
def group(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    thread: ConnectionThread,
) -> GroupCommit:
    monkeypatch.setattr("loopwright.stores.sqlite._group.INLINE_SECONDS", request.param)
    monkeypatch.setattr("loopwright.stores.sqlite._group.INLINE_BYTES", 10_000_000)
    return GroupCommit(Ledger(tmp_path / "agents.db", 5.0), thread)


async def counted(thread: ConnectionThread) -> list[str]:
    """Give a list that grows with every commit."""
    commits: list[str] = []

    def note(statement: str) -> None:
        if statement == "COMMIT":
            commits.append(statement)

    await thread.run(lambda connection: connection.set_trace_callback(note))
    return commits


async def test_the_writer_syncs_every_commit(thread: ConnectionThread) -> None:
    def pragma(connection: sqlite3.Connection, name: str) -> object:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]

    assert await thread.run(lambda connection: pragma(connection, "journal_mode")) == "wal"
    assert await thread.run(lambda connection: pragma(connection, "synchronous")) == 2


async def test_appends_that_wait_together_share_a_transaction(
    thread: ConnectionThread, group: GroupCommit
) -> None:
    commits = await counted(thread)
    results = await asyncio.gather(*(group.append([created(f"i{n}")]) for n in range(50)))
    assert results == [[None]] * 50
    assert len(commits) == 1


async def test_appends_that_come_during_a_commit_are_the_next_one(
    thread: ConnectionThread, group: GroupCommit
) -> None:
    commits = await counted(thread)
    first = asyncio.create_task(group.append([created("a")]))
    # Two ticks: the task appends, and the group is handed over.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.gather(first, *(group.append([created(f"i{n}")]) for n in range(50)))
    assert len(commits) == 2


async def test_an_empty_batch_waits_for_those_before_it(group: GroupCommit) -> None:
    waiting = [asyncio.create_task(group.append([created(f"i{n}")])) for n in range(10)]
    await asyncio.sleep(0)
    assert list(await group.append([])) == []
    await asyncio.sleep(0)
    assert all(task.done() for task in waiting)
    await asyncio.gather(*waiting)


async def test_a_failed_transaction_is_told_to_all_its_callers_and_leaves_the_store_usable(
    thread: ConnectionThread, group: GroupCommit
) -> None:
    """B60: a full disk is an error of every append concerned, and never half of one."""

    def limit(connection: sqlite3.Connection, pages: int) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    big = append("b", 2, b"x" * 1_000_000)
    await group.append([created("a"), created("b")])
    await thread.run(lambda connection: limit(connection, 20))
    failed: Sequence[Sequence[AppendResult] | BaseException] = await asyncio.gather(
        group.append([append("a", 2, b"first")]), group.append([big]), return_exceptions=True
    )
    assert [type(error) for error in failed] == [StoreError, StoreError]
    assert "make room on the disk" in str(failed[0])

    await thread.run(lambda connection: limit(connection, 1_000_000))
    # Seq 2 is free: nothing of the failed transaction is there.
    assert kinds(await group.append([append("a", 2, b"second"), big])) == [None, None]


async def test_a_mistake_of_one_caller_leaves_the_group_working(group: GroupCommit) -> None:
    wrong: Sequence[Append] = [append("a", 2**70)]
    await group.append([created("a")])
    with pytest.raises(OverflowError):
        await group.append(wrong)
    assert kinds(await group.append([append("a", 2)])) == [None]


async def test_a_cancelled_caller_does_not_undo_its_append(group: GroupCommit) -> None:
    await group.append([created("a")])
    waiting = asyncio.create_task(group.append([append("a", 2)]))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert kinds(await group.append([append("a", 3)])) == [None]
