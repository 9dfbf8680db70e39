"""The effect ledger in the SQLite file: what each write is known to have done."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias, get_args

from loopwright.protocol import (
    PAYLOAD_LIMIT,
    UNSETTLED,
    CallId,
    EffectEntry,
    EffectFact,
    EffectKey,
    EffectStatus,
    InvocationId,
    JsonObject,
    JsonValue,
    dumps,
    loads,
)

from ._payloads import intact, keep
from ._reads import damaged, fits
from ._schema import UNSETTLED_ROWS

# As `EffectEntry.over`.
_PUT: Final = (
    "INSERT INTO effects(run, effect_key, tool, turn, call_id, status, receipt, attempts,"
    " arguments, at) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT(run, effect_key) DO UPDATE SET tool = excluded.tool, turn = excluded.turn,"
    " call_id = excluded.call_id, status = excluded.status, receipt = excluded.receipt,"
    " attempts = CASE excluded.attempts WHEN 0 THEN attempts ELSE excluded.attempts END,"
    " arguments = coalesce(excluded.arguments, arguments), at = excluded.at"
    " WHERE NOT (status = 'committed' AND excluded.status != 'committed'"
    " AND (turn, call_id) != (excluded.turn, excluded.call_id))"
)
# What is a text is the digest of a payload, see `_packed`. In one statement, so that nothing is
# deleted in between.
_PAYLOAD: Final = (
    "CASE typeof(e.{0}) WHEN 'text' THEN"
    " (SELECT p.body FROM payloads p WHERE p.run = e.run AND p.digest = e.{0}) END"
)
_FACT: Final = (
    "SELECT e.number, i.invocation_id, i.agent, e.at, e.effect_key, e.tool, e.turn, e.call_id,"
    " e.status, e.receipt, e.attempts, e.arguments,"
    f" {_PAYLOAD.format('receipt')}, {_PAYLOAD.format('arguments')}"
    " FROM effects e JOIN invocations i ON i.id = e.run"
)
_STATUSES: Final = get_args(EffectStatus)

_Row: TypeAlias = tuple[
    int,
    InvocationId,
    str,
    float,
    EffectKey,
    str,
    int,
    CallId,
    EffectStatus,
    bytes | str | None,
    int,
    bytes | str | None,
    object,
    object,
]
_KINDS: Final = (
    int, str, str, float, str, str, int, str, str, bytes | str | None, int, bytes | str | None,
    object, object,
)  # fmt: skip


def put_effects(
    connection: sqlite3.Connection, run: int, entries: Sequence[EffectEntry], at: float
) -> None:
    """Write lines of an invocation's ledger, each over the earlier one of its effect key.

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    for entry in entries:
        connection.execute(
            _PUT,
            (
                run,
                entry.effect_key,
                entry.tool_name,
                entry.turn,
                entry.call_id,
                entry.status,
                _packed(connection, run, entry.receipt),
                entry.attempts,
                _packed(connection, run, entry.arguments),
                at,
            ),
        )


def mark_dispatched(connection: sqlite3.Connection, run: int, key: EffectKey, at: float) -> None:
    """Say that one more attempt is under way.

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    connection.execute(
        "UPDATE effects SET status = 'dispatched', attempts = attempts + 1, at = ?"
        " WHERE run = ? AND effect_key = ?",
        (at, run, key),
    )


def mark(
    connection: sqlite3.Connection,
    run: int,
    key: EffectKey,
    status: EffectStatus,
    receipt: JsonValue,
    at: float,
) -> None:
    """Say what an attempt has come to.

    Raises:
        sqlite3.Error: If SQLite fails.
    """
    connection.execute(
        "UPDATE effects SET status = ?, receipt = ?, at = ? WHERE run = ? AND effect_key = ?",
        (status, _packed(connection, run, receipt), at, run, key),
    )


def find_effects(
    connection: sqlite3.Connection,
    *,
    invocation_id: InvocationId | None,
    effect_key: EffectKey | None,
    tool_name: str | None,
    statuses: Sequence[EffectStatus] | None,
    limit: int,
    before: int | None,
    path: Path,
) -> Sequence[tuple[int, EffectFact]]:
    """Query the ledger over all invocations, last announced first.

    Raises:
        JournalCorruptError: If a line is damaged.
        sqlite3.Error: If SQLite fails.
    """
    wanted: list[tuple[str, str | int]] = []
    if invocation_id is not None:
        wanted.append(("i.invocation_id = ?", invocation_id))
    if effect_key is not None:
        wanted.append(("e.effect_key = ?", effect_key))
    if tool_name is not None:
        wanted.append(("e.tool = ?", tool_name))
    if before is not None:
        wanted.append(("e.number < ?", before))

    where = ["1", *(condition for condition, _ in wanted)]
    values = [value for _, value in wanted]
    if statuses is not None:
        where.append(f"e.status IN ({', '.join('?' * len(statuses))})")
        values += statuses
        if set(statuses) <= set(UNSETTLED):
            where.append(f"e.{UNSETTLED_ROWS}")

    rows: list[_Row] = connection.execute(
        f"{_FACT} WHERE {' AND '.join(where)} ORDER BY e.number DESC LIMIT ?", (*values, limit)
    ).fetchall()
    return [(row[0], _fact(row, path)) for row in rows]


def _fact(row: _Row, path: Path) -> EffectFact:
    _, invocation_id, agent, at, key, tool, turn, call_id, status = row[:9]
    receipt, attempts, given, receipt_body, given_body = row[9:]
    if not (fits(row, _KINDS) and status in _STATUSES):
        raise damaged(invocation_id, path, "an effect")

    try:
        entry = EffectEntry(
            effect_key=key,
            tool_name=tool,
            turn=turn,
            call_id=call_id,
            status=status,
            receipt=_unpacked(receipt, receipt_body),
            attempts=attempts,
            arguments=_object(_unpacked(given, given_body)),
        )
    except ValueError:
        raise damaged(invocation_id, path, "an effect") from None

    return EffectFact(invocation_id, agent, at, entry)


def _packed(connection: sqlite3.Connection, run: int, value: JsonValue) -> bytes | str | None:
    """Give what stands for a value in its row: its JSON, or its digest where that is large."""
    if value is None:
        return None

    raw = dumps(value)
    return raw if len(raw) <= PAYLOAD_LIMIT else keep(connection, run, raw)


def _unpacked(packed: bytes | str | None, payload: object) -> JsonValue:
    if packed is None:
        return None

    if isinstance(packed, bytes):
        return loads(packed)

    kept = intact(packed, payload)
    if kept is None:
        raise ValueError("no such payload")

    return loads(kept)


def _object(value: JsonValue) -> JsonObject | None:
    if value is None or isinstance(value, dict):
        return value
    raise ValueError("no object")
