"""The world outside: what writes have really done, counted by effect key, in a file of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from loopwright import ToolFailure
from loopwright.protocol import Reconciled, applied, not_applied

_SCHEMA = """
CREATE TABLE IF NOT EXISTS effects (
    key TEXT PRIMARY KEY, applied INTEGER NOT NULL DEFAULT 0, voided INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS bodies (tool TEXT NOT NULL);
"""


class Ledger:
    """A downstream service, shared by processes.

    Args:
        folder: Of the case.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ledger.db"

    def enter(self, tool: str, key: str = "") -> int:
        """Count a body that begins; return how often its effect key was voided so far."""
        with self._open() as db:
            db.execute("INSERT INTO bodies VALUES (?)", (tool,))
            return _voided(db, key)

    def apply(self, key: str, voided: int, *, once: bool) -> None:
        """Let an effect take place.

        Args:
            key: Its effect key.
            voided: As `enter` has said: an attempt of which it was said since that it was not
                applied must not be applied after all.
            once: Whether this downstream deduplicates by effect key.
        """
        with self._open() as db:
            if _voided(db, key) != voided:
                raise ToolFailure(f"the attempt of {key} is void")
            grow = "applied" if once else "applied + 1"
            db.execute(
                "INSERT INTO effects (key, applied) VALUES (?, 1)"
                f" ON CONFLICT DO UPDATE SET applied = CASE applied WHEN 0 THEN 1 ELSE {grow} END",
                (key,),
            )

    def truth(self, key: str) -> Reconciled:
        """Say what became of an effect; one that was not applied can't be any more."""
        with self._open() as db:
            row = db.execute("SELECT applied FROM effects WHERE key = ?", (key,)).fetchone()
            if row is not None and row[0]:
                return applied(f"receipt of {key}")
            db.execute(
                "INSERT INTO effects (key, voided) VALUES (?, 1)"
                " ON CONFLICT DO UPDATE SET voided = voided + 1",
                (key,),
            )
            return not_applied()

    def counts(self) -> dict[str, int]:
        """Tell how often each effect has taken place."""
        with self._open() as db:
            return dict(db.execute("SELECT key, applied FROM effects WHERE applied").fetchall())

    def bodies(self, tool: str) -> int:
        """Tell how often the body of a tool has begun."""
        with self._open() as db:
            found = db.execute("SELECT count(*) FROM bodies WHERE tool = ?", (tool,)).fetchone()
            return int(found[0])

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as db:
            # Processes are killed, not the machine: there is nothing to sync for.
            db.execute("PRAGMA synchronous = OFF")
            if not db.execute("PRAGMA user_version").fetchone()[0]:
                db.executescript(_SCHEMA + "PRAGMA user_version = 1;")
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")


def _voided(db: sqlite3.Connection, key: str) -> int:
    row = db.execute("SELECT voided FROM effects WHERE key = ?", (key,)).fetchone()
    return 0 if row is None else int(row[0])


def truth(folder: Path, effect_key: str) -> Reconciled:
    """Say what the ledger of a case says: a person who has looked."""
    return Ledger(folder).truth(effect_key)
