"""Opening and closing an SQLiteStore, also where that is interrupted, or done twice at once."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from loopwright.protocol import InvocationId, StoreError
from loopwright.stores import SQLiteStore
from loopwright.testing.conformance._base import created


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


def test_a_store_may_be_closed_and_opened_in_another_event_loop(path: Path) -> None:
    store = SQLiteStore(path)

    async def write(name: str) -> int:
        await store.open()
        await store.append([created(name)])
        listed = await store.invocations()
        await store.close()
        return len(listed)

    assert [asyncio.run(write(name)) for name in "abc"] == [1, 2, 3]


@pytest.mark.anyio
async def test_closing_ends_the_threads_and_leaves_one_file(path: Path) -> None:
    before = threading.active_count()
    store = SQLiteStore(path)
    await store.open()
    await store.append([created("a")])
    assert threading.active_count() == before + 2
    await store.close()
    assert threading.active_count() == before
    assert os.listdir(path.parent) == ["agents.db"]


@pytest.mark.anyio
async def test_a_cancelled_close_is_finished_by_the_next_one(path: Path) -> None:
    before = threading.active_count()
    store = SQLiteStore(path)
    await store.open()
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await store.close()
    assert threading.active_count() == before


@pytest.mark.anyio
async def test_a_cancelled_close_is_finished_before_the_store_opens_again(path: Path) -> None:
    before = threading.active_count()
    store = SQLiteStore(path)
    await store.open()
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    await store.open()
    assert threading.active_count() == before + 2
    await store.close()
    assert threading.active_count() == before


@pytest.mark.anyio
async def test_closing_twice_at_once_waits_twice(path: Path) -> None:
    before = threading.active_count()
    store = SQLiteStore(path)
    await store.open()

    async def close() -> int:
        await store.close()
        return threading.active_count()

    assert [*await asyncio.gather(close(), close())] == [before, before]


@pytest.mark.anyio
async def test_of_two_openings_at_once_one_is_an_error(path: Path) -> None:
    before = threading.active_count()
    store = SQLiteStore(path)
    opened = await asyncio.gather(store.open(), store.open(), return_exceptions=True)
    assert opened[0] is None
    assert isinstance(opened[1], StoreError)
    assert "is open" in str(opened[1])
    assert threading.active_count() == before + 2
    await store.append([created("a")])
    await store.close()
    assert threading.active_count() == before


@pytest.mark.anyio
async def test_a_store_that_failed_to_open_may_be_opened_again(tmp_path: Path) -> None:
    before = threading.active_count()
    store = SQLiteStore(tmp_path / "later" / "agents.db")
    with pytest.raises(StoreError):
        await store.open()
    (tmp_path / "later").mkdir()
    await store.open()
    await store.close()
    assert threading.active_count() == before


def test_a_store_whose_event_loop_died_during_a_commit_can_be_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopwright.stores.sqlite._group.INLINE_SECONDS", 0.0)
    before = threading.active_count()
    store = SQLiteStore(path)

    async def die() -> None:
        await store.open()
        other.execute("BEGIN IMMEDIATE")
        tasks = [asyncio.create_task(store.append([created(name)])) for name in "ab"]
        await asyncio.sleep(0.02)
        # Another that waits for the one under way.
        tasks.append(asyncio.create_task(store.append([created("c")])))
        await asyncio.sleep(0.02)
        assert not any(task.done() for task in tasks)

    async def close_and_look() -> list[InvocationId]:
        await asyncio.wait_for(store.close(), 5)
        await store.open()
        listed = await store.invocations()
        await store.close()
        return [one.invocation_id for one in listed]

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        asyncio.run(die())
        other.execute("ROLLBACK")
    # What was handed over is done; what only waited for it was never taken up.
    assert asyncio.run(close_and_look()) == ["b", "a"]
    assert threading.active_count() == before


def test_a_store_whose_event_loop_died_during_close_can_be_closed(path: Path) -> None:
    before = threading.active_count()
    store = SQLiteStore(path)

    async def die() -> None:
        await store.open()
        asyncio.get_running_loop().create_task(store.close())
        await asyncio.sleep(0)

    asyncio.run(die())
    asyncio.run(asyncio.wait_for(store.close(), 5))
    assert threading.active_count() == before
