"""Large values in the SQLite file: each kept once per invocation, and put back on reading.

The same output stands in several records, and in the effect ledger as well; it is written once,
under its SHA-256. A value nobody refers to any more stays until its invocation is pruned.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, cast, final

from loopwright.protocol import JournalCorruptError, Payload, dumps, loads

_KEEP: Final = "INSERT INTO payloads(run, digest, body) VALUES(?, ?, ?) ON CONFLICT DO NOTHING"
_FIND: Final = "SELECT body FROM payloads WHERE run = ? AND digest = ?"


def keep(connection: sqlite3.Connection, run: int, body: bytes) -> str:
    """Keep a value, if the invocation has none like it; return the digest it is found by.

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    digest = sha256(body).hexdigest()
    connection.execute(_KEEP, (run, digest, body))
    return digest


def intact(digest: str, found: object) -> bytes | None:
    """Give what was found under a digest if it is what was kept; SQLite hands over anything."""
    if isinstance(found, bytes) and sha256(found).hexdigest() == digest:
        return found
    return None


def cut(
    connection: sqlite3.Connection, run: int, lines: Sequence[bytes], payloads: Sequence[Payload]
) -> list[bytes]:
    """Keep the payloads of an append; give its lines without them, and one line more.

    That last line says what was cut out: index of the line, position in what is left of it, and
    digest. A row has it if it holds one line more than it counts, so that a row without payloads
    is not a byte longer for them, and no content is mistaken for it.

    The payloads must fit (`unfit`).

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    left: list[list[bytes]] = [[] for _ in lines]
    done = [0] * len(lines)
    cuts: list[tuple[int, int, str]] = []
    for index, start, end in payloads:
        line = lines[index]
        left[index].append(line[done[index] : start])
        done[index] = end
        at = sum(map(len, left[index]))
        cuts.append((index, at, keep(connection, run, line[start:end])))

    return [*_ended(lines, left, done), dumps(cuts)]


@final
class Mender:
    """Puts the payloads of one invocation back into its lines, reading each only once.

    Args:
        connection: Where to read, in the transaction in which the lines are read.
        run: The number of the invocation.
        path: The file, for messages.
    """

    def __init__(self, connection: sqlite3.Connection, run: int, path: Path) -> None:
        self._connection = connection
        self._run = run
        self._path = path
        self._found: dict[str, bytes] = {}

    def mend(self, held: Sequence[bytes], first_seq: int) -> list[bytes]:
        """Give the lines of a row as they were before `cut`.

        Args:
            held: What the row holds, with the line that says what was cut out.
            first_seq: The seq of the first line.

        Raises:
            JournalCorruptError: If something is missing or damaged; names the seq.
            sqlite3.Error: If SQLite fails.
        """
        *lines, last = held
        whole: list[list[bytes]] = [[] for _ in lines]
        done = [0] * len(lines)
        try:
            cuts = loads(last)
            if not (cuts and isinstance(cuts, list)):
                raise TypeError
            for one in cuts:
                index, at, digest = cast("tuple[int, int, object]", one)
                if not (index >= 0 and done[index] <= at <= len(lines[index])):
                    raise IndexError
                if not isinstance(digest, str):
                    raise TypeError
                body = self._body(digest, first_seq + index)
                whole[index] += (lines[index][done[index] : at], body)
                done[index] = at
        except (ValueError, TypeError, IndexError):
            raise damaged_at(first_seq, self._run, self._path) from None

        return _ended(lines, whole, done)

    def _body(self, digest: str, seq: int) -> bytes:
        body = self._found.get(digest)
        if body is None:
            row: tuple[object] | None = self._connection.execute(
                _FIND, (self._run, digest)
            ).fetchone()
            body = None if row is None else intact(digest, row[0])
            if body is None:
                raise damaged_at(seq, self._run, self._path, "a payload in the journal")

            self._found[digest] = body
        return body


def damaged_at(seq: int, run: int, path: Path, what: str = "the journal") -> JournalCorruptError:
    """Say that a row of the journal, or what it refers to, is not what was written."""
    return JournalCorruptError(
        f"{path}: {what} of invocation number {run} is damaged at seq {seq}; "
        "restore the file from a backup."
    )


def _ended(
    lines: Sequence[bytes], parts: Sequence[list[bytes]], done: Sequence[int]
) -> list[bytes]:
    """Join the parts of each line, with what of the line is behind them."""
    return [
        b"".join((*of_line, line[end:])) if of_line else line
        for line, of_line, end in zip(lines, parts, done, strict=True)
    ]
