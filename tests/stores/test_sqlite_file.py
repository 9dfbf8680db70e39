"""A file that is no store of ours is refused by name, and left as it is."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from loopwright.protocol import InvocationId, JournalCorruptError, StoreError
from loopwright.stores import SQLiteStore
from loopwright.stores.sqlite._schema import APPLICATION_ID, VERSION
from loopwright.testing.conformance._base import append, created


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


def written(path: Path, *, appends: int = 200) -> None:
    """Make a store with one long invocation."""

    async def write() -> None:
        store = SQLiteStore(path)
        await store.open()
        await store.append([created("a")])
        await store.append([append("a", seq, b"x" * 700) for seq in range(2, appends + 1)])
        await store.close()

    asyncio.run(write())


def loaded(path: Path) -> int:
    """Open the store, load that invocation, and give its last seq."""

    async def load() -> int:
        store = SQLiteStore(path, busy_timeout=0.1)
        await store.open()
        try:
            return (await store.load(InvocationId("a"))).summary.seq
        finally:
            await store.close()

    return asyncio.run(load())


def refusal(path: Path) -> StoreError:
    """Open the file as a store, and give the error; the file has not changed, nor its folder."""
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        loaded(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    return caught.value


@pytest.mark.parametrize("content", [b"x", b"not a database\n" * 100, b"\x00" * 4096])
def test_a_file_that_is_no_database_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    error = refusal(path)
    assert isinstance(error, JournalCorruptError)
    assert "agents.db is not an SQLite database" in str(error)


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_database_of_another_application_is_refused(path: Path, mode: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE invocations(id)")
    error = refusal(path)
    assert isinstance(error, JournalCorruptError)
    assert "another application" in str(error)


def test_a_newer_schema_version_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 7")
    error = refusal(path)
    assert isinstance(error, JournalCorruptError)
    assert f"agents.db has schema version 7, this loopwright reads up to {VERSION};" in str(error)


def test_a_newer_version_that_is_only_in_the_log_is_refused(path: Path) -> None:
    """A migration whose process was killed leaves its version in the write-ahead log."""
    written(path, appends=2)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 7")
        with pytest.raises(JournalCorruptError, match="schema version 7"):
            loaded(path)


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    written(path)
    assert loaded(path) == 200


def overwrite(path: Path) -> None:
    """Put garbage over everything behind the first two pages."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * (size - 8192))


def cut(path: Path) -> None:
    """Cut the file off in the middle."""
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [overwrite, cut])
def test_a_damaged_file_is_an_error_that_names_it(
    path: Path, damage: Callable[[Path], None]
) -> None:
    written(path)
    damage(path)
    with pytest.raises(JournalCorruptError, match=r"agents\.db"):
        loaded(path)


def test_a_journal_with_a_missing_row_is_an_error(path: Path) -> None:
    written(path, appends=5)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM journal WHERE seq = 3")
    with pytest.raises(JournalCorruptError, match="seq 4"):
        loaded(path)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE invocations SET reason = 'complated'",
        "UPDATE invocations SET status = 'endee'",
        "UPDATE invocations SET updated_at = 'x'",
        "UPDATE invocations SET goal = x'00'",
        "UPDATE journal SET seq = seq + 0.5",
        "UPDATE journal SET body = 'text'",
        "DELETE FROM journal",
    ],
)
def test_a_row_that_cannot_have_been_written_is_an_error(path: Path, damage: str) -> None:
    """A flipped bit may change a value, and its type, without SQLite seeing a damaged file."""
    written(path, appends=2)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(damage)
    with pytest.raises(JournalCorruptError, match="is damaged"):
        loaded(path)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE invocations SET fence = 'x'",
        "UPDATE invocations SET owner = 'w'; INSERT INTO workers VALUES('w', 'x', '')",
    ],
)
def test_a_lease_that_cannot_have_been_given_is_an_error(path: Path, damage: str) -> None:
    written(path, appends=2)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(damage)

    async def acquire() -> None:
        store = SQLiteStore(path)
        await store.open()
        try:
            await store.acquire(InvocationId("a"), "another")
        finally:
            await store.close()

    with pytest.raises(JournalCorruptError, match="'a' is damaged"):
        asyncio.run(acquire())


def test_a_pipe_is_refused_and_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(StoreError, match="a pipe or a device, no file"):
        loaded(path)


def test_what_is_no_text_cannot_be_looked_for(path: Path) -> None:
    """Half a character, as in a cut-off emoji, has no UTF-8."""

    async def look() -> None:
        store = SQLiteStore(path)
        await store.open()
        for asked in (
            store.find("agent", "\ud83d"),
            store.load(InvocationId("\ud83d")),
            store.acquire(InvocationId("\ud83d"), "worker"),
        ):
            with pytest.raises(StoreError, match="lone surrogate"):
                await asked
        await store.close()

    asyncio.run(look())


@pytest.mark.parametrize("name", ["missing/agents.db", ".", "n" * 300])
def test_a_path_that_cannot_be_a_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match=r"check (the path|that the file)"):
        loaded(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_a_store_in_sqlite_memory_is_refused() -> None:
    with pytest.raises(StoreError, match="write-ahead log"):
        loaded(Path(":memory:"))


OPEN = """
import asyncio, os, sys
from loopwright.protocol import StoreError
from loopwright.stores import SQLiteStore

if os.geteuid() == 0:
    os.setuid(65534)  # root may write everywhere
try:
    asyncio.run(SQLiteStore(sys.argv[1]).open())
except StoreError as error:
    print(type(error).__name__, error.transient, error)
"""


@pytest.mark.parametrize("existing", [False, True], ids=["new", "existing"])
def test_a_folder_that_may_not_be_written_is_refused(existing: bool) -> None:
    # Not tmp_path: pytest's folders are closed to the user that `OPEN` becomes.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "agents.db")
        if existing:
            written(path)
        path.parent.chmod(0o555)
        process = subprocess.run(
            [sys.executable, "-c", OPEN, path], capture_output=True, text=True, check=True
        )
        path.parent.chmod(0o755)
        assert process.stdout.startswith(f"StoreError False {path}: ")
        assert "may be written" in process.stdout
        assert os.listdir(folder) == (["agents.db"] if existing else [])
