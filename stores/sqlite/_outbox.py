"""The outbox in the SQLite file: what is to be delivered, and who is at it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from pydantic import TypeAdapter, ValidationError

from loopwright.protocol import (
    UNSETTLED,
    Claimed,
    Delivery,
    EffectKey,
    EffectStatus,
    InvocationId,
    JournalCorruptError,
    JsonValue,
    dumps,
)

from ._clock import NEVER, Instant
from ._effects import mark, mark_dispatched
from ._reads import damaged, fits

_ADD: Final = (
    "INSERT INTO outbox(run, effect_key, agent, body, due, boot, attempts, concluded)"
    " VALUES(?, ?, ?, ?, ?, ?, 0, 0) ON CONFLICT DO NOTHING"
)
# What another boot has put off is due: its clock tells nothing any more.
_CLAIMABLE: Final = """
    SELECT o.number, i.invocation_id, o.run, o.effect_key, o.body, o.attempts
    FROM outbox o LEFT JOIN invocations i ON i.id = o.run
    WHERE o.concluded = 0 AND (o.boot != :boot OR o.due <= :now) AND o.agent IN ({agents})
    AND (o.worker IS NULL OR (o.worker != :worker AND NOT EXISTS (
        SELECT 1 FROM workers w
        WHERE w.worker = o.worker AND w.boot = :boot AND w.expires > :now)))
    AND NOT EXISTS (
        SELECT 1 FROM outbox_resources own JOIN outbox_resources other
        ON other.resource = own.resource AND other.entry < own.entry WHERE own.entry = o.number)
    ORDER BY o.number LIMIT :limit
"""
_Row: TypeAlias = tuple[int, InvocationId, int, EffectKey, bytes, int]
_KINDS: Final = (int, str, int, str, bytes, int)


def put_deliveries(
    connection: sqlite3.Connection, run: int, deliveries: Sequence[Delivery]
) -> None:
    """Add what is to be delivered for an invocation; what is there already stays as it is.

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    for delivery in deliveries:
        row = (run, delivery.effect_key, delivery.agent, dumps(delivery), NEVER.seconds, NEVER.boot)
        added = connection.execute(_ADD, row)
        if added.rowcount:
            connection.executemany(
                "INSERT OR IGNORE INTO outbox_resources VALUES(?, ?)",
                [(resource, added.lastrowid) for resource in delivery.resources],
            )


def conclude_by_key(connection: sqlite3.Connection, run: int, keys: Sequence[EffectKey]) -> None:
    """Deliver these no more, whoever has claimed them.

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    for key in keys:
        numbers: list[tuple[int]] = connection.execute(
            "SELECT number FROM outbox WHERE run = ? AND effect_key = ?", (run, key)
        ).fetchall()
        connection.executemany("UPDATE outbox SET concluded = 1 WHERE number = ?", numbers)
        connection.executemany("DELETE FROM outbox_resources WHERE entry = ?", numbers)


def claimable(
    connection: sqlite3.Connection, worker: str, agents: Sequence[str], limit: int, now: Instant
) -> list[_Row]:
    """Find what this worker could claim, in the order of commits.

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    names = {f"agent{number}": agent for number, agent in enumerate(agents)}
    return connection.execute(
        _CLAIMABLE.format(agents=", ".join(f":{name}" for name in names)),
        {"worker": worker, "boot": now.boot, "now": now.seconds, "limit": limit, **names},
    ).fetchall()


def claim(
    connection: sqlite3.Connection,
    worker: str,
    agents: Sequence[str],
    limit: int,
    now: Instant,
    at: float,
    path: Path,
) -> list[Claimed]:
    """Claim what can be claimed.

    Raises:
        JournalCorruptError: If nothing can be claimed but what is damaged.
        sqlite3.Error: If SQLite fails.
    """
    claimed: list[Claimed] = []
    problem: JournalCorruptError | None = None
    for row in claimable(connection, worker, agents, limit, now):
        number, invocation_id, run, key, body, attempts = row
        delivery = _decoded(row, body)
        if delivery is None:
            # It is left where it is, and so is what has to come after it; the others go on.
            problem = damaged(invocation_id, path, "a delivery")
            continue
        connection.execute(
            "UPDATE outbox SET worker = ?, attempts = ? WHERE number = ?",
            (worker, attempts + 1, number),
        )
        mark_dispatched(connection, run, key, at)
        claimed.append(Claimed(number, attempts + 1, delivery))

    if problem is not None and not claimed:
        raise problem

    return claimed


def conclude(
    connection: sqlite3.Connection,
    number: int,
    worker: str,
    status: EffectStatus,
    receipt: JsonValue,
    due: Instant,
    at: float,
) -> bool:
    """Say how an attempt went; false, and nothing done, if this worker has no such claim.

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    row: tuple[int, EffectKey] | None = connection.execute(
        "SELECT run, effect_key FROM outbox WHERE number = ? AND worker = ? AND concluded = 0",
        (number, worker),
    ).fetchone()
    if row is None:
        return False

    if status in UNSETTLED:
        connection.execute(
            "UPDATE outbox SET worker = NULL, due = ?, boot = ? WHERE number = ?",
            (due.seconds, due.boot, number),
        )
    else:
        connection.execute("UPDATE outbox SET concluded = 1 WHERE number = ?", (number,))
        connection.execute("DELETE FROM outbox_resources WHERE entry = ?", (number,))

    mark(connection, *row, status, receipt, at)
    return True


def _decoded(row: _Row, body: bytes) -> Delivery | None:
    try:
        return _deliveries().validate_json(body) if fits(row, _KINDS) else None
    except ValidationError:
        return None


@cache
def _deliveries() -> TypeAdapter[Delivery]:
    return TypeAdapter(Delivery)
