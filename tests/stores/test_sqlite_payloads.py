"""Large values are in the SQLite file once, go with their invocation, and are checked when read."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import pytest

from loopwright.protocol import (
    PAYLOAD_LIMIT,
    EffectEntry,
    InvocationId,
    JournalCorruptError,
    Payload,
    Reason,
    Snapshot,
    StoreError,
    dumps,
)
from loopwright.stores import SQLiteStore
from loopwright.testing.conformance._base import append, created, effect, head, kinds
from loopwright.testing.conformance._payloads import BIG, holding

pytestmark = pytest.mark.anyio

A = InvocationId("a")
LINES = (b'{"output":' + BIG + b"}", b"2", b'{"results":[' + BIG + b"]}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.fixture
async def store(path: Path) -> AsyncGenerator[SQLiteStore]:
    store = SQLiteStore(path)
    await store.open()
    yield store
    await store.close()


def asked(path: Path, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Ask the file, or change it, behind the store's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement, values).fetchall()


def count(path: Path) -> int:
    ((found,),) = asked(path, "SELECT count(*) FROM payloads")
    assert isinstance(found, int)
    return found


def size_of(path: Path) -> int:
    """Measure the file; closing the store has taken the write-ahead log into it."""
    return path.stat().st_size


async def test_a_large_value_is_in_the_file_once(path: Path, store: SQLiteStore) -> None:
    text = "".join(map(chr, range(0x100, 0x500))) * 512
    given = {"text": text}
    value = dumps(given)
    assert len(value) > 1_000_000
    lines = [b'{"seq":%d,"output":%s}' % (seq, value) for seq in (1, 2, 3, 4)]
    await store.append([holding(created("a", *lines[:2]), value)])
    entry = effect("k", "committed", receipt={"text": text}, arguments={"text": text})
    await store.append([holding(append("a", 3, lines[2], effects=[entry]), value)])
    await store.append([holding(append("a", 4, lines[3]), value)])
    assert (await store.load(A)).lines == tuple(lines)
    ((_, fact),) = await store.effects()
    assert fact.entry == entry
    await store.close()
    assert size_of(path) < 1_500_000


async def test_only_large_receipts_and_arguments_are_kept_apart(
    path: Path, store: SQLiteStore
) -> None:
    edge = "x" * (PAYLOAD_LIMIT - len(dumps({"t": ""})))
    entries: list[EffectEntry] = [
        effect("k1", receipt={"t": edge}, arguments={"t": edge}),
        effect("k2", receipt={"t": edge + "x"}, arguments={"t": edge + "x"}),
    ]
    await store.append([created("a", effects=entries)])
    kinds_of = asked(path, "SELECT typeof(receipt), typeof(arguments) FROM effects ORDER BY number")
    assert kinds_of == [("blob", "blob"), ("text", "text")]
    assert count(path) == 1
    assert [fact.entry for _, fact in await store.effects()] == entries[::-1]


async def test_a_row_without_payloads_is_nothing_but_its_lines(
    path: Path, store: SQLiteStore
) -> None:
    await store.append([created("a", *LINES)])
    assert asked(path, "SELECT count, body FROM journal") == [(3, b"\n".join(LINES))]
    assert count(path) == 0


async def test_a_refused_append_leaves_no_payload(path: Path, store: SQLiteStore) -> None:
    refused = [
        holding(created("b", BIG), BIG)._replace(fence=2),
        holding(append("b", 2, BIG), BIG),
        holding(append("a", 3, BIG, effects=[effect("k", receipt=BIG.decode())]), BIG),
        holding(append("a", 2, BIG, fence=2), BIG),
        holding(append("a", 2, BIG, snapshot=Snapshot(2, b"x")), BIG),
        append("a", 2, BIG)._replace(payloads=(Payload(0, 0, 9), Payload(0, 8, 9))),
    ]
    await store.append([created("a")])
    assert None not in kinds(await store.append(refused))
    assert count(path) == 0


async def test_a_transaction_that_fails_leaves_no_payload(path: Path, store: SQLiteStore) -> None:
    await store.append([created("a")])
    asked(
        path,
        "CREATE TRIGGER broken BEFORE INSERT ON journal WHEN new.seq = 3"
        " BEGIN SELECT raise(FAIL, 'broken'); END",
    )
    batch = [holding(append("a", seq, b"%d" % seq + BIG), BIG) for seq in (2, 3)]
    with pytest.raises(StoreError, match="broken"):
        await store.append(batch)
    assert count(path) == 0
    asked(path, "DROP TRIGGER broken")
    assert await store.append(batch) == [None] * 2
    assert count(path) == 1


async def test_pruning_deletes_payloads_with_their_invocation(
    path: Path, store: SQLiteStore
) -> None:
    ends = head("ended", reason=Reason.COMPLETED, at=2.0)
    for name in ("a", "b"):
        settled = effect("k", "committed", receipt="r" * PAYLOAD_LIMIT)
        await store.append([holding(created(name, *LINES, effects=[settled]), BIG)])
    await store.append([append("a", 4, head=ends)])
    assert count(path) == 4
    assert await store.prune(ended_before=3.0) == 1
    assert asked(path, "SELECT DISTINCT run FROM payloads") == [(2,)]
    await store.append([append("b", 4, head=ends)])
    assert await store.prune(ended_before=3.0) == 1
    assert count(path) == 0


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM payloads",
        "UPDATE payloads SET body = body || x'00'",
        "UPDATE payloads SET body = CAST(body AS TEXT)",
        "UPDATE payloads SET body = 7",
        "UPDATE payloads SET run = 2",
        "UPDATE payloads SET digest = upper(digest)",
        "UPDATE payloads SET digest = CAST(digest AS BLOB)",
    ],
)
async def test_a_damaged_payload_is_an_error_that_names_the_place(
    path: Path, store: SQLiteStore, damage: str
) -> None:
    entry = effect("k", "committed", receipt=BIG.decode())
    stored = holding(append("a", 2, b"small", *LINES[1:], effects=[entry]), BIG)
    await store.append([created("a"), stored])
    asked(path, damage)
    place = r"agents\.db: a payload in the journal of invocation number 1 is damaged at seq 4;"
    with pytest.raises(JournalCorruptError, match=place):
        await store.load(A)
    with pytest.raises(JournalCorruptError, match=place):
        await store.append([stored])
    with pytest.raises(JournalCorruptError, match=r"agents\.db: an effect of invocation 'a' is da"):
        await store.effects()
    # What needs no payload is still there.
    assert (await store.summary(A)).seq == 4


def cuts(*cut: tuple[object, object, object]) -> bytes:
    return dumps(cut)


GOOD = "7" * 64


@pytest.mark.parametrize(
    "last",
    [
        b"",
        b"[",
        b"[]",
        b"{}",
        b"7",
        b"[7]",
        b'[{"a":1,"b":2,"c":3}]',
        b"\xff",
        b"[" * 10_000,
        dumps([[0, 1]]),
        dumps([[0, 1, GOOD, 1]]),
        cuts((-1, 0, GOOD)),
        cuts((2, 0, GOOD)),
        cuts((0, -1, GOOD)),
        cuts((0, 4, GOOD)),
        cuts((0, 0.5, GOOD)),
        cuts((0.0, 0, GOOD)),
        cuts((0, None, GOOD)),
        cuts((0, "0", GOOD)),
        cuts((0, 0, 7)),
        cuts((0, 0, 10**30)),
        cuts((0, 0, [GOOD])),
        cuts((0, 0, GOOD)),
        b'[[0,0,"\\ud800"]]',
        b"x\ny",
    ],
)
async def test_a_row_that_does_not_say_what_was_cut_out_is_an_error(
    path: Path, store: SQLiteStore, last: bytes
) -> None:
    await store.append([created("a", b"123", b"45")])
    asked(path, "UPDATE journal SET body = ?", b"123\n45\n" + last)
    with pytest.raises(JournalCorruptError, match="journal of invocation number 1 is damaged at"):
        await store.load(A)


async def test_cuts_that_are_not_in_order_are_an_error(path: Path, store: SQLiteStore) -> None:
    await store.append([holding(created("a", b"12" + BIG + b"3"), BIG)])
    ((digest,),) = asked(path, "SELECT digest FROM payloads")
    for order, fits in (((2, 3), True), ((3, 2), False)):
        last = cuts(*((0, at, digest) for at in order))
        asked(path, "UPDATE journal SET body = ?", b"123\n" + last)
        if fits:
            assert (await store.load(A)).lines == (b"12" + BIG + b"3" + BIG,)
        else:
            with pytest.raises(JournalCorruptError, match="is damaged at seq 1"):
                await store.load(A)


async def test_a_count_that_is_one_too_low_is_an_error(path: Path, store: SQLiteStore) -> None:
    await store.append([created("a", b'{"kind":"x"}', b"[]")])
    asked(path, "UPDATE journal SET count = 1")
    with pytest.raises(JournalCorruptError, match="is damaged at seq 1"):
        await store.load(A)
