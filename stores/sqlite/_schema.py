"""The SQLite file of a store: its mark, its schema by version, and how it is opened."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from loopwright.protocol import JournalCorruptError, StoreError

APPLICATION_ID = 0x4C_50_57_52
"""`PRAGMA application_id` of our files: "LPWR"."""

UNSETTLED_ROWS = "status IN ('prepared', 'dispatched', 'outcome_unknown')"
"""`UNSETTLED`, in the very words of a partial index, which only serves queries that repeat them."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE invocations(
            id INTEGER PRIMARY KEY,
            invocation_id TEXT NOT NULL UNIQUE,
            agent TEXT NOT NULL,
            key TEXT,
            goal TEXT NOT NULL,
            status TEXT NOT NULL,
            reason TEXT,
            detail TEXT NOT NULL,
            created_at REAL NOT NULL,
            updated_at REAL NOT NULL,
            fence INTEGER NOT NULL,
            owner TEXT
        )""",
        "CREATE UNIQUE INDEX invocations_by_key ON invocations(agent, key) WHERE key IS NOT NULL",
        "CREATE INDEX invocations_by_status ON invocations(status)",
        # One row per append, and never an update: a row at the end of a rowid table costs a
        # quarter of one in a table clustered by (run, seq). The body is the lines, joined by
        # line breaks.
        """CREATE TABLE journal(
            run INTEGER NOT NULL,
            seq INTEGER NOT NULL,
            count INTEGER NOT NULL,
            body BLOB NOT NULL,
            UNIQUE(run, seq)
        )""",
        "CREATE TABLE workers(worker TEXT PRIMARY KEY, expires REAL NOT NULL)",
    ),
    (
        # Moments are those of `Instant`. What version 1 wrote was wall clock, of no boot.
        "ALTER TABLE workers ADD COLUMN boot TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE invocations ADD COLUMN cancel_reason TEXT",
        "ALTER TABLE invocations ADD COLUMN cancel_by TEXT",
        """CREATE INDEX invocations_to_cancel ON invocations(status, owner)
            WHERE cancel_reason IS NOT NULL""",
        # `run` is the id of an invocation, here and below. Receipt and arguments are JSON, as a
        # blob, or as a text the digest of the payload that is.
        """CREATE TABLE effects(
            number INTEGER PRIMARY KEY,
            run INTEGER NOT NULL,
            effect_key TEXT NOT NULL,
            tool TEXT NOT NULL,
            turn INTEGER NOT NULL,
            call_id TEXT NOT NULL,
            status TEXT NOT NULL,
            receipt BLOB,
            attempts INTEGER NOT NULL,
            arguments BLOB,
            at REAL NOT NULL,
            UNIQUE(run, effect_key)
        )""",
        "CREATE INDEX effects_by_key ON effects(effect_key)",
        f"CREATE INDEX effects_unsettled ON effects(number) WHERE {UNSETTLED_ROWS}",
        # The body is the delivery, as JSON. What is concluded stays, so that it is not added again.
        """CREATE TABLE outbox(
            number INTEGER PRIMARY KEY,
            run INTEGER NOT NULL,
            effect_key TEXT NOT NULL,
            agent TEXT NOT NULL,
            body BLOB NOT NULL,
            due REAL NOT NULL,
            boot TEXT NOT NULL,
            worker TEXT,
            attempts INTEGER NOT NULL,
            concluded INTEGER NOT NULL,
            UNIQUE(run, effect_key)
        )""",
        "CREATE INDEX outbox_open ON outbox(number) WHERE concluded = 0",
        # Of deliveries that are not concluded.
        """CREATE TABLE outbox_resources(
            resource TEXT NOT NULL,
            entry INTEGER NOT NULL,
            PRIMARY KEY(resource, entry)
        ) WITHOUT ROWID""",
        "CREATE INDEX outbox_resources_by_entry ON outbox_resources(entry)",
        """CREATE TABLE snapshots(
            run INTEGER PRIMARY KEY,
            seq INTEGER NOT NULL,
            body BLOB NOT NULL
        )""",
        # What was cut out of the lines of the journal, by SHA-256, in hex. A row of the journal
        # whose lines were cut has one line more than its count, which says where: see `cut`.
        """CREATE TABLE payloads(
            run INTEGER NOT NULL,
            digest TEXT NOT NULL,
            body BLOB NOT NULL,
            UNIQUE(run, digest)
        )""",
    ),
)
"""Step n, counted from 1, brings a file from schema version n - 1 to n, in one transaction."""

VERSION = len(MIGRATIONS)
"""The schema version this code writes, kept as `PRAGMA user_version`."""

_RETRY_AFTER = 0.001
_HEADER = 100
_MAGIC = b"SQLite format 3\0"


def open_writer(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """Open the file for writing; make or migrate it if need be.

    The connection never waits for a lock itself: `begin` does.

    Raises:
        JournalCorruptError: If the file is damaged, foreign or of a newer version; it is untouched.
        StoreError: If the file cannot be opened, written, or used by several processes at once.
    """
    _check_header(path)
    try:
        connection = _connect(path, timeout=0.0)
        try:
            _prepare(connection, path, busy_timeout)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise translated(error, path) from error

    return connection


def open_reader(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """Open a file that `open_writer` has prepared, for reading only.

    Raises:
        StoreError: If the file cannot be opened.
    """
    try:
        connection = _connect(path, timeout=busy_timeout)
        connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise translated(error, path) from error

    return connection


def begin(connection: sqlite3.Connection, patience: float) -> None:
    """Begin a write transaction, waiting at most `patience` seconds for other processes.

    Raises:
        sqlite3.OperationalError: If the file stayed locked, or cannot be written.
    """
    _insist(connection, "BEGIN IMMEDIATE", patience)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection is in the way, so that trying again helps."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def translated(error: sqlite3.Error | UnicodeEncodeError, path: Path) -> StoreError:
    """Say in our own errors what SQLite reports, or refuses to take."""
    if isinstance(error, UnicodeEncodeError):
        return StoreError(f"{path} holds no text with a lone surrogate; replace it.")

    if is_busy(error):
        return StoreError(
            f"{path}: {error}: another process holds it for too long; try again.", transient=True
        )

    match _code(error):
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return JournalCorruptError(f"{path}: {error}: restore it from a backup.")
        case sqlite3.SQLITE_FULL:
            advice = "make room on the disk"
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            advice = "check that the file and its folder exist and may be written"
        case _:
            advice = "check the disk and the file"

    return StoreError(f"{path}: {error}: {advice}.")


def _code(error: sqlite3.Error) -> int:
    # Errors that the Python module raises by itself carry no code.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    # Closed by its own thread, but a commit may run on the event loop's: see `ConnectionThread`.
    return sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)


def _check_header(path: Path) -> None:
    """Look at the file before SQLite does, which might repair or extend what is not ours."""
    try:
        # Reading from a pipe could wait forever.
        if path.exists() and not path.is_file():
            raise StoreError(f"{path} is a folder, a pipe or a device, no file; check the path.")
        with path.open("rb") as file:
            header = file.read(_HEADER)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}; check the path.") from error

    if not header:
        return

    if len(header) < _HEADER or not header.startswith(_MAGIC):
        raise JournalCorruptError(
            f"{path} is not an SQLite database; give the path of a store or of a new file."
        )
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise JournalCorruptError(
            f"{path} is an SQLite database of another application; "
            "give the path of a store or of a new file."
        )
    _check_version(path, int.from_bytes(header[60:64], "big"))


def _check_version(path: Path, version: int) -> None:
    if version > VERSION:
        raise JournalCorruptError(
            f"{path} has schema version {version}, this loopwright reads up to {VERSION}; "
            "use a newer loopwright."
        )


def _prepare(connection: sqlite3.Connection, path: Path, patience: float) -> None:
    """Bring the schema up to date, then go over to WAL.

    In this order, so that the mark is in the header of the file itself from the first moment:
    `_check_header` does not see what is only in the write-ahead log.
    """
    while _version(connection, patience) < VERSION:
        begin(connection, patience)
        try:
            # Read again: another process may have migrated while this one waited.
            version = _version(connection, patience)
            if version < VERSION:
                for statement in MIGRATIONS[version]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version + 1}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            _insist(connection, "COMMIT", patience)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    _check_version(path, _version(connection, patience))
    # Going over needs the file for itself for a moment, and SQLite doesn't wait for that.
    (mode,) = _insist(connection, "PRAGMA journal_mode = WAL", patience).fetchone()
    if mode != "wal":
        raise StoreError(
            f"{path} cannot have a write-ahead log, only {mode!r}; use a file on a local disk."
        )
    connection.execute("PRAGMA synchronous = FULL")


def _insist(connection: sqlite3.Connection, statement: str, patience: float) -> sqlite3.Cursor:
    """Execute a statement again and again while the file is locked."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return connection.execute(statement)
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_AFTER)


def _version(connection: sqlite3.Connection, patience: float) -> int:
    version: int = _insist(connection, "PRAGMA user_version", patience).fetchone()[0]
    return version
