"""What is written to the SQLite file: appends, and everything else, each in a transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, final

from loopwright.protocol import Append, InvocationId, Lease

from .._protocol import AppendResult
from .._refusals import key_taken, misplaced, unfit
from . import _owners as owners
from ._clock import Instant
from ._effects import put_effects
from ._outbox import conclude_by_key, put_deliveries
from ._payloads import cut
from ._prune import prune
from ._reads import lines_from
from ._schema import begin, translated

T = TypeVar("T")

_INSERT_ROW = "INSERT INTO journal(run, seq, count, body) VALUES(?, ?, ?, ?)"
_PUT_SNAPSHOT = (
    "INSERT INTO snapshots VALUES(?, ?, ?) ON CONFLICT DO UPDATE"
    " SET seq = excluded.seq, body = excluded.body WHERE excluded.seq > seq"
)


@dataclass(slots=True)
class _Run:
    """What the next append of an invocation has to fit to."""

    id: int
    fence: int
    seq: int


@final
class Ledger:
    """The writing side of one file. Not thread-safe: who uses it owns the connection meanwhile.

    It remembers fence and seq of the invocations that were appended to and still run. Memory is
    trusted only while SQLite says that no other connection has written.

    Args:
        path: The file, for messages.
        patience: How long to wait for other processes, in seconds.
    """

    def __init__(self, path: Path, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._runs: dict[InvocationId, _Run] = {}
        self._data_version = 0
        self.commit_seconds = 1.0
        """A running estimate of what a commit takes; slow until commits have shown otherwise."""

    def append(
        self, connection: sqlite3.Connection, batch: Sequence[Append], *, wait: bool = True
    ) -> list[AppendResult]:
        """Store a batch in one transaction; without `wait`, fail at once if another process writes.

        Raises:
            StoreError: If the transaction failed; nothing of the batch is stored then.
        """
        with self._transaction(connection, wait=wait):
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version != self._data_version:
                self._runs.clear()
                self._data_version = version

            return [self._append(connection, append) for append in batch]

    def acquire(
        self, connection: sqlite3.Connection, invocation_id: InvocationId, worker: str, now: Instant
    ) -> Lease:
        """Make `worker` the owner, with the next fence.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
            LeaseHeldError: If another worker owns it and is alive.
            StoreError: If the transaction failed.
        """
        with self._transaction(connection):
            lease = owners.acquire(connection, invocation_id, worker, now, self._path)
            self._runs.pop(invocation_id, None)

        return lease

    def prune(self, connection: sqlite3.Connection, ended_before: float, limit: int) -> int:
        """Delete what ended before a wall-clock time; return how many that were.

        Raises:
            StoreError: If the transaction failed.
        """
        with self._transaction(connection):
            # A new invocation may get the number of a deleted one.
            self._runs.clear()
            return prune(connection, ended_before, limit)

    def write(self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do what changes neither the fence nor the journal of any invocation, in a transaction.

        Raises:
            StoreError: If the transaction failed.
        """
        with self._transaction(connection):
            return work(connection)

    @contextmanager
    def _transaction(
        self, connection: sqlite3.Connection, *, wait: bool = True
    ) -> Generator[None, None, None]:
        try:
            begin(connection, self._patience if wait else 0.0)
            yield
            started = time.perf_counter()
            connection.execute("COMMIT")
            took = time.perf_counter() - started
            self.commit_seconds += (took - self.commit_seconds) / 8
        except BaseException as error:
            self._runs.clear()
            # A commit that ran out of disk may or may not have rolled back by itself.
            if connection.in_transaction:
                with suppress(sqlite3.Error):  # the first error is the one to report
                    connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error | UnicodeEncodeError):
                raise translated(error, self._path) from error
            raise

    def _append(self, connection: sqlite3.Connection, append: Append) -> AppendResult:
        refusal = unfit(append)
        if refusal is not None:
            return refusal

        run = self._runs.get(append.invocation_id) or self._read(connection, append.invocation_id)
        if run is None:
            return self._create(connection, append)

        if append.first_seq != run.seq + 1 or append.fence != run.fence:
            stored = lines_from(connection, run.id, append.first_seq, append.last_seq, self._path)
            if stored == append.lines:
                return None
            return misplaced(append, fence=run.fence, seq=run.seq)

        self._insert(connection, run, append)
        if append.effects or append.outbox or append.snapshot is not None:
            _insert_rest(connection, run.id, append)

        head = append.head
        if head is not None:
            connection.execute(
                "UPDATE invocations SET status = ?1, reason = ?2, detail = ?3, updated_at = ?4,"
                " owner = CASE ?1 WHEN 'running' THEN owner END,"
                " cancel_reason = CASE ?1 WHEN 'ended' THEN NULL ELSE cancel_reason END,"
                " cancel_by = CASE ?1 WHEN 'ended' THEN NULL ELSE cancel_by END WHERE id = ?5",
                (
                    head.status,
                    None if head.reason is None else str(head.reason),
                    head.detail,
                    head.at,
                    run.id,
                ),
            )
            if head.status != "running":
                del self._runs[append.invocation_id]

        return None

    def _create(self, connection: sqlite3.Connection, append: Append) -> AppendResult:
        head = append.head
        if append.first_seq != 1 or append.fence != 1 or head is None:
            return misplaced(append, fence=1, seq=0)

        inserted = connection.execute(
            "INSERT INTO invocations(invocation_id, agent, key, goal, status, reason, detail,"
            " created_at, updated_at, fence, owner) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?)"
            " ON CONFLICT DO NOTHING",
            (
                append.invocation_id,
                head.agent,
                head.key,
                head.goal,
                head.status,
                None if head.reason is None else str(head.reason),
                head.detail,
                head.at,
                head.at,
                append.worker if head.status == "running" else None,
            ),
        )
        if inserted.rowcount == 0 or inserted.lastrowid is None:
            return key_taken(append)

        run = _Run(inserted.lastrowid, fence=1, seq=0)
        self._insert(connection, run, append)
        _insert_rest(connection, run.id, append)
        if head.status == "running":
            self._runs[append.invocation_id] = run
        return None

    def _insert(self, connection: sqlite3.Connection, run: _Run, append: Append) -> None:
        count = len(append.lines)
        lines: Sequence[bytes] = append.lines
        if append.payloads:
            lines = cut(connection, run.id, lines, append.payloads)
        body = lines[0] if len(lines) == 1 else b"\n".join(lines)
        connection.execute(_INSERT_ROW, (run.id, append.first_seq, count, body))
        run.seq += count

    def _read(self, connection: sqlite3.Connection, invocation_id: InvocationId) -> _Run | None:
        row: tuple[int, int, int] | None = connection.execute(
            "SELECT i.id, i.fence, j.seq + j.count - 1 FROM invocations i, journal j"
            " WHERE i.invocation_id = ? AND j.run = i.id ORDER BY j.seq DESC LIMIT 1",
            (invocation_id,),
        ).fetchone()
        if row is None:
            return None

        run = self._runs[invocation_id] = _Run(*row)
        return run


def _insert_rest(connection: sqlite3.Connection, run: int, append: Append) -> None:
    """Store what goes with the lines of an append; most have nothing."""
    if append.effects:
        put_effects(connection, run, append.effects, time.time())
    if append.outbox:
        put_deliveries(connection, run, append.outbox)
    if append.concluded:
        conclude_by_key(connection, run, append.concluded)
    if append.snapshot is not None:
        connection.execute(_PUT_SNAPSHOT, (run, *append.snapshot))
