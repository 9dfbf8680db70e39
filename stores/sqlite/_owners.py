"""Who is at work on what, in the SQLite file: owners, heartbeats, and wishes to stop."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from loopwright.protocol import CancelNote, InvocationId, Lease

from .._refusals import lease_held, not_found
from ._clock import Instant
from ._reads import damaged, is_alive


def acquire(
    connection: sqlite3.Connection,
    invocation_id: InvocationId,
    worker: str,
    now: Instant,
    path: Path,
) -> Lease:
    """Make `worker` the owner, with the next fence.

    Raises:
        InvocationNotFoundError: If there is no such invocation.
        LeaseHeldError: If another worker owns it and is alive.
        JournalCorruptError: If its entry is damaged.
        sqlite3.Error: If SQLite fails.
    """
    row: tuple[int, object, str | None, object, object] | None = connection.execute(
        "SELECT i.id, i.fence, i.owner, w.expires, w.boot FROM invocations i"
        " LEFT JOIN workers w ON w.worker = i.owner WHERE i.invocation_id = ?",
        (invocation_id,),
    ).fetchone()
    if row is None:
        raise not_found(invocation_id, str(path))

    run, fence, owner, expires, boot = row
    if not (
        isinstance(fence, int)
        and isinstance(expires, float | None)
        and isinstance(boot, str | None)
    ):
        raise damaged(invocation_id, path)

    if owner is not None and owner != worker and is_alive(expires, boot, now):
        raise lease_held(invocation_id, owner)

    connection.execute(
        "UPDATE invocations SET fence = ?, owner = ? WHERE id = ?", (fence + 1, worker, run)
    )
    return Lease(invocation_id, worker, fence + 1)


def release(connection: sqlite3.Connection, lease: Lease) -> None:
    """Clear the owner, if it still holds this lease.

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    connection.execute(
        "UPDATE invocations SET owner = NULL WHERE invocation_id = ? AND owner = ? AND fence = ?",
        (lease.invocation_id, lease.worker, lease.fence),
    )


FORGOTTEN_AFTER: Final = 86_400.0
"""Seconds after its last heartbeat for which a dead worker is remembered."""


def heartbeat(connection: sqlite3.Connection, worker: str, expires: Instant | None) -> None:
    """Set until when a worker counts as alive; `None`: it is gone.

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    if expires is None:
        connection.execute("DELETE FROM workers WHERE worker = ?", (worker,))
    else:
        connection.execute(
            "REPLACE INTO workers(worker, expires, boot) VALUES(?, ?, ?)",
            (worker, expires.seconds, expires.boot),
        )
        # Nobody asks after those any more: an owner that is not there is as dead as an old one.
        connection.execute(
            "DELETE FROM workers WHERE boot != ? OR expires < ?",
            (expires.boot, expires.seconds - FORGOTTEN_AFTER),
        )


def request_cancel(connection: sqlite3.Connection, note: CancelNote, path: Path) -> None:
    """Keep a note, if it is the first one of an invocation that has not ended.

    Raises:
        InvocationNotFoundError: If there is no such invocation.
        sqlite3.Error: If SQLite fails.
    """
    kept = connection.execute(
        "UPDATE invocations SET cancel_reason = ?, cancel_by = ?"
        " WHERE invocation_id = ? AND status != 'ended' AND cancel_reason IS NULL",
        (note.reason, note.by, note.invocation_id),
    )
    if kept.rowcount == 0:
        found = connection.execute(
            "SELECT 1 FROM invocations WHERE invocation_id = ?", (note.invocation_id,)
        )
        if found.fetchone() is None:
            raise not_found(note.invocation_id, str(path))


def cancel_requests(
    connection: sqlite3.Connection, worker: str, path: Path
) -> Sequence[CancelNote]:
    """List the notes of all running invocations of a worker.

    Raises:
        JournalCorruptError: If a note is damaged.
        sqlite3.Error: If SQLite fails.
    """
    rows: list[tuple[InvocationId, object, object]] = connection.execute(
        "SELECT invocation_id, cancel_reason, cancel_by FROM invocations"
        " WHERE status = 'running' AND owner = ? AND cancel_reason IS NOT NULL ORDER BY id",
        (worker,),
    ).fetchall()
    notes: list[CancelNote] = []
    for invocation_id, reason, by in rows:
        if not (isinstance(reason, str) and isinstance(by, str)):
            raise damaged(invocation_id, path)
        notes.append(CancelNote(invocation_id, reason, by))

    return notes
