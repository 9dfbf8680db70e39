"""What is read from the SQLite file: journals, keys and listings."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from types import UnionType
from typing import Final, NamedTuple, get_args

from loopwright.protocol import (
    CancelNote,
    Head,
    InvocationId,
    JournalCorruptError,
    Reason,
    Snapshot,
    Status,
    Stored,
    Summary,
)

from .._refusals import not_found
from ._clock import Instant
from ._payloads import Mender, damaged_at

_SUMMARY: Final = (
    "SELECT i.id, i.invocation_id, i.agent, i.key, i.goal, i.status, i.reason, i.detail,"
    " i.created_at, i.updated_at, i.owner, w.expires, w.boot, i.cancel_reason, i.cancel_by,"
    " (SELECT j.seq + j.count - 1 FROM journal j WHERE j.run = i.id ORDER BY j.seq DESC LIMIT 1)"
    " FROM invocations i LEFT JOIN workers w ON w.worker = i.owner"
)
# Two searches, each by an index. SQLite would take the one by status for the second as well, but
# what is suspended may be most of the file.
_TO_TAKE_UP: Final = """
    i.id IN (
        SELECT r.id FROM invocations r
        WHERE r.status = 'running' AND r.id > :after AND r.agent IN ({agents}) AND NOT EXISTS (
            SELECT 1 FROM workers w
            WHERE w.worker = r.owner AND w.boot = :boot AND w.expires > :now)
        UNION ALL
        SELECT s.id FROM invocations s INDEXED BY invocations_to_cancel
        WHERE s.status = 'suspended' AND s.cancel_reason IS NOT NULL
        AND s.id > :after AND s.agent IN ({agents})
        ORDER BY 1 LIMIT :limit)
"""

_REASONS: Final[dict[str | None, Reason | None]] = {None: None, **{str(r): r for r in Reason}}
_STATUSES: Final = get_args(Status)


class _Row(NamedTuple):
    """What `_SUMMARY` finds."""

    id: int
    invocation_id: InvocationId
    agent: str
    key: str | None
    goal: str
    status: Status
    reason: str | None
    detail: str
    created: float
    updated: float
    owner: str | None
    expires: float | None
    boot: str | None
    cancel_reason: str | None
    cancel_by: str | None
    seq: int


_TEXT_OR_NOTHING = str | None
_KINDS: Final = (
    int, str, str, _TEXT_OR_NOTHING, str, str, _TEXT_OR_NOTHING,
    str, float, float, _TEXT_OR_NOTHING, float | None, _TEXT_OR_NOTHING,
    _TEXT_OR_NOTHING, _TEXT_OR_NOTHING, int,
)  # fmt: skip


def load(
    connection: sqlite3.Connection,
    invocation_id: InvocationId,
    after: int,
    now: Instant,
    path: Path,
) -> Stored:
    """Read an invocation's summary, and its journal behind `after`, as of one moment.

    Raises:
        InvocationNotFoundError: If there is no such invocation.
        JournalCorruptError: If its entry or its snapshot is damaged, or its journal has a gap.
        sqlite3.Error: If SQLite fails.
    """
    connection.execute("BEGIN")
    try:
        row = _row(connection, invocation_id, path)
        summary = _summary(row, now, path)
        lines = lines_from(connection, row.id, after + 1, summary.seq, path)
        snapshot = None if after else _snapshot(connection, row, path)
    finally:
        connection.execute("ROLLBACK")

    return Stored(summary, after + 1, lines, snapshot)


def summary(
    connection: sqlite3.Connection, invocation_id: InvocationId, now: Instant, path: Path
) -> Summary:
    """Read what is listed of one invocation.

    Raises:
        InvocationNotFoundError: If there is no such invocation.
        JournalCorruptError: If its entry is damaged.
        sqlite3.Error: If SQLite fails.
    """
    return _summary(_row(connection, invocation_id, path), now, path)


def lines_from(
    connection: sqlite3.Connection, run: int, first: int, last: int, path: Path
) -> tuple[bytes, ...]:
    """Read the lines with seq `first` to `last`, fewer if fewer are stored.

    Raises:
        JournalCorruptError: If a line between the first and the last stored one is missing, or
            a payload of one is missing or damaged.
        sqlite3.Error: If SQLite fails.
    """
    rows = connection.execute(
        "SELECT seq, count, body FROM journal WHERE run = :run AND seq <= :last AND seq >="
        " (SELECT max(seq) FROM journal WHERE run = :run AND seq <= :first) ORDER BY seq",
        {"run": run, "first": first, "last": last},
    )
    mender = Mender(connection, run, path)
    lines: list[bytes] = []
    start = due = 0
    for seq, count, body in rows:
        held: list[bytes] = body.split(b"\n") if isinstance(body, bytes) else []
        if not lines:
            start = due = seq
        if seq == due and len(held) - 1 == count > 0:
            held = mender.mend(held, seq)
        if seq != due or len(held) != count:
            raise damaged_at(seq, run, path)
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
    now: Instant,
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
        wanted.append(("i.id < ?", _number(connection, before, path)))

    where = " AND ".join(condition for condition, _ in wanted) or "1"
    rows = connection.execute(
        f"{_SUMMARY} WHERE {where} ORDER BY i.id DESC LIMIT ?",
        (*(value for _, value in wanted), limit),
    ).fetchall()
    return [_summary(_Row._make(row), now, path) for row in rows]


def orphans(
    connection: sqlite3.Connection,
    agents: Sequence[str],
    *,
    limit: int,
    after: InvocationId | None,
    now: Instant,
    path: Path,
) -> Sequence[Summary]:
    """List what somebody has to take up, oldest first.

    Raises:
        InvocationNotFoundError: If there is no invocation `after`.
        JournalCorruptError: If an entry is damaged.
        sqlite3.Error: If SQLite fails.
    """
    start = 0 if after is None else _number(connection, after, path)
    if not agents:
        return []  # the index named below cannot serve an empty list

    names = {f"agent{number}": agent for number, agent in enumerate(agents)}
    wanted = _TO_TAKE_UP.format(agents=", ".join(f":{name}" for name in names))
    rows = connection.execute(
        f"{_SUMMARY} WHERE {wanted} ORDER BY i.id",
        {"after": start, "boot": now.boot, "now": now.seconds, "limit": limit, **names},
    ).fetchall()
    return [_summary(_Row._make(row), now, path) for row in rows]


def damaged(
    invocation_id: InvocationId, path: Path, what: str = "the entry"
) -> JournalCorruptError:
    """Say that a row holds what no store of ours has written."""
    msg = f"{path}: {what} of invocation {invocation_id!r} is damaged; restore a backup."
    return JournalCorruptError(msg)


def fits(row: Sequence[object], kinds: Sequence[type | UnionType]) -> bool:
    """Whether each column is of its kind: SQLite hands over whatever it finds."""
    return all(isinstance(value, kind) for value, kind in zip(row, kinds, strict=True))


def is_alive(expires: float | None, boot: str | None, now: Instant) -> bool:
    """Whether a heartbeat, if there is one, is fresh."""
    return expires is not None and boot is not None and now.is_before(boot, expires)


def _number(connection: sqlite3.Connection, invocation_id: InvocationId, path: Path) -> int:
    row: tuple[int] | None = connection.execute(
        "SELECT id FROM invocations WHERE invocation_id = ?", (invocation_id,)
    ).fetchone()
    if row is None:
        raise not_found(invocation_id, str(path))

    return row[0]


def _row(connection: sqlite3.Connection, invocation_id: InvocationId, path: Path) -> _Row:
    row = connection.execute(f"{_SUMMARY} WHERE i.invocation_id = ?", (invocation_id,)).fetchone()
    if row is None:
        raise not_found(invocation_id, str(path))

    return _Row._make(row)


def _snapshot(connection: sqlite3.Connection, of: _Row, path: Path) -> Snapshot | None:
    row = connection.execute("SELECT seq, body FROM snapshots WHERE run = ?", (of.id,)).fetchone()
    if row is None:
        return None

    seq, body = row
    if not (isinstance(seq, int) and 0 < seq <= of.seq and isinstance(body, bytes)):
        raise damaged(of.invocation_id, path, "the snapshot")

    return Snapshot(seq, body)


def _summary(row: _Row, now: Instant, path: Path) -> Summary:
    if not (fits(row, _KINDS) and row.status in _STATUSES and row.reason in _REASONS):
        raise damaged(row.invocation_id, path)

    cancel = None
    if row.cancel_reason is not None:
        if row.cancel_by is None:
            raise damaged(row.invocation_id, path)
        cancel = CancelNote(row.invocation_id, row.cancel_reason, row.cancel_by)

    return Summary(
        invocation_id=row.invocation_id,
        head=Head(
            agent=row.agent,
            status=row.status,
            reason=_REASONS[row.reason],
            at=row.updated,
            goal=row.goal,
            key=row.key,
            detail=row.detail,
        ),
        seq=row.seq,
        created_at=row.created,
        owner=row.owner,
        owner_alive=is_alive(row.expires, row.boot, now),
        cancel=cancel,
    )
