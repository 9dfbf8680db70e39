"""What is read from the SQLite file: journals, keys and listings."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias, get_args

from loopwright.protocol import (
    Head,
    InvocationId,
    JournalCorruptError,
    Reason,
    Status,
    Stored,
    Summary,
)

from ._refusals import not_found

_SUMMARY = (
    "SELECT i.id, i.invocation_id, i.agent, i.key, i.goal, i.status, i.reason, i.detail,"
    " i.created_at, i.updated_at, i.owner, w.expires,"
    " (SELECT j.seq + j.count - 1 FROM journal j WHERE j.run = i.id ORDER BY j.seq DESC LIMIT 1)"
    " FROM invocations i LEFT JOIN workers w ON w.worker = i.owner"
)

_REASONS: dict[str | None, Reason | None] = {None: None, **{str(r): r for r in Reason}}
_STATUSES = get_args(Status)

_Row: TypeAlias = tuple[
    int,
    InvocationId,
    str,
    str | None,
    str,
    Status,
    str | None,
    str,
    float,
    float,
    str | None,
    float | None,
    int,
]
_TEXT_OR_NOTHING = str | None
_KINDS = (
    int, str, str, _TEXT_OR_NOTHING, str, str, _TEXT_OR_NOTHING,
    str, float, float, _TEXT_OR_NOTHING, float | None, int,
)  # fmt: skip
"""What SQLite may hand over for each column of a `_Row`; it checks none of this itself."""


def load(
    connection: sqlite3.Connection, invocation_id: InvocationId, after: int, now: float, path: Path
) -> Stored:
    """Read an invocation's summary, and its journal behind `after`, as of one moment.

    Raises:
        InvocationNotFoundError: If there is no such invocation.
        JournalCorruptError: If its entry is damaged, or its journal has a gap.
        sqlite3.Error: If SQLite fails.
    """
    connection.execute("BEGIN")
    try:
        row: _Row | None = connection.execute(
            f"{_SUMMARY} WHERE i.invocation_id = ?", (invocation_id,)
        ).fetchone()
        if row is None:
            raise not_found(invocation_id, str(path))

        summary = _summary(row, now, path)
        lines = lines_from(connection, row[0], after + 1, summary.seq, path)
    finally:
        connection.execute("ROLLBACK")

    return Stored(summary, after + 1, lines)


def lines_from(
    connection: sqlite3.Connection, run: int, first: int, last: int, path: Path
) -> tuple[bytes, ...]:
    """Read the lines with seq `first` to `last`, fewer if fewer are stored.

    Raises:
        JournalCorruptError: If a line between the first and the last stored one is missing.
        sqlite3.Error: If SQLite fails.
    """
    rows = connection.execute(
        "SELECT seq, count, body FROM journal WHERE run = :run AND seq <= :last AND seq >="
        " (SELECT max(seq) FROM journal WHERE run = :run AND seq <= :first) ORDER BY seq",
        {"run": run, "first": first, "last": last},
    )
    lines: list[bytes] = []
    start = due = 0
    for seq, count, body in rows:
        held: list[bytes] = body.split(b"\n") if isinstance(body, bytes) else []
        if not lines:
            start = due = seq
        if seq != due or len(held) != count:
            raise JournalCorruptError(
                f"{path}: the journal of invocation number {run} is damaged at seq {seq}; "
                "restore the file from a backup."
            )
        lines += held
        due += count

    return tuple(lines[first - start : last - start + 1])


def find(connection: sqlite3.Connection, agent: str, key: str) -> InvocationId | None:
    """Find the invocation that was started for this agent under this key.

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    row: tuple[InvocationId] | None = connection.execute(
        "SELECT invocation_id FROM invocations WHERE agent = ? AND key = ?", (agent, key)
    ).fetchone()
    return None if row is None else row[0]


def invocations(
    connection: sqlite3.Connection,
    *,
    status: Status | None,
    agent: str | None,
    limit: int,
    before: InvocationId | None,
    now: float,
    path: Path,
) -> Sequence[Summary]:
    """List invocations, newest first.

    Raises:
        InvocationNotFoundError: If there is no invocation `before`.
        JournalCorruptError: If an entry is damaged.
        sqlite3.Error: If SQLite fails.
    """
    wanted: list[tuple[str, str | int]] = []
    if status is not None:
        wanted.append(("i.status = ?", status))
    if agent is not None:
        wanted.append(("i.agent = ?", agent))
    if before is not None:
        row: tuple[int] | None = connection.execute(
            "SELECT id FROM invocations WHERE invocation_id = ?", (before,)
        ).fetchone()
        if row is None:
            raise not_found(before, str(path))
        wanted.append(("i.id < ?", row[0]))

    where = " AND ".join(condition for condition, _ in wanted) or "1"
    rows: list[_Row] = connection.execute(
        f"{_SUMMARY} WHERE {where} ORDER BY i.id DESC LIMIT ?",
        (*(value for _, value in wanted), limit),
    ).fetchall()
    return [_summary(row, now, path) for row in rows]


def damaged(invocation_id: InvocationId, path: Path) -> JournalCorruptError:
    """Say that a row holds what no store of ours has written."""
    msg = f"{path}: the entry of invocation {invocation_id!r} is damaged; restore a backup."
    return JournalCorruptError(msg)


def _summary(row: _Row, now: float, path: Path) -> Summary:
    _, invocation_id, agent, key, goal, status, reason, detail, created, updated, owner = row[:11]
    expires, seq = row[11:]
    fits = all(isinstance(value, kind) for value, kind in zip(row, _KINDS, strict=True))
    if not (fits and status in _STATUSES and reason in _REASONS):
        raise damaged(invocation_id, path)

    return Summary(
        invocation_id=invocation_id,
        head=Head(
            agent=agent,
            status=status,
            reason=_REASONS[reason],
            at=updated,
            goal=goal,
            key=key,
            detail=detail,
        ),
        seq=seq,
        created_at=created,
        owner=owner,
        owner_alive=expires is not None and expires > now,
    )
