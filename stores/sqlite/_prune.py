"""Deleting from the SQLite file what has ended long ago."""

from __future__ import annotations

import sqlite3
from typing import Final

from ._schema import UNSETTLED_ROWS

_ENDED: Final = f"""
    SELECT i.id FROM invocations i WHERE i.status = 'ended' AND i.updated_at < ?
    AND NOT EXISTS (SELECT 1 FROM effects e WHERE e.run = i.id AND e.{UNSETTLED_ROWS})
    AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.run = i.id AND o.concluded = 0)
    ORDER BY i.id LIMIT ?
"""
_PARTS: Final = ("journal", "payloads", "effects", "outbox", "snapshots")


def prune(connection: sqlite3.Connection, ended_before: float, limit: int) -> int:
    """Delete what ended before a wall-clock time; return how many that were.

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    runs: list[tuple[int]] = connection.execute(_ENDED, (ended_before, limit)).fetchall()
    for table in _PARTS:
        connection.executemany(f"DELETE FROM {table} WHERE run = ?", runs)
    connection.executemany("DELETE FROM invocations WHERE id = ?", runs)
    return len(runs)
