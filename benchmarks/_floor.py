"""The floor: the standard invocation as a hand-written asyncio loop, with nothing in the way.

A scripted model without latency proposes two parallel reads in each of `turns` turns, then
answers. The floor does that with stdlib json, dict dispatch, `gather` and `append`; its
durable kin append one row of about a kilobyte a turn to SQLite (WAL, synchronous=FULL).
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sqlite3
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

PAD = "x" * 700
INSERT = "INSERT OR REPLACE INTO ev VALUES(?,?,?)"


async def get_weather(city: str) -> dict[str, object]:
    """Weather in a city."""
    return {"city": city, "temp_c": 21, "sky": "clear"}


async def get_time(city: str) -> dict[str, object]:
    """Local time in a city."""
    return {"city": city, "time": "12:30", "tz": "UTC"}


TOOLS: dict[str, Callable[..., Awaitable[dict[str, object]]]] = {
    "get_weather": get_weather,
    "get_time": get_time,
}
HELD: asyncio.Event | None = None
"""When set, the last model call of every invocation waits for it."""


def said(turn: int, turns: int) -> list[tuple[str, str, str]] | None:
    """What the scripted model says: calls as (id, tool, arguments text), or `None` to answer."""
    if turn >= turns:
        return None
    return [
        (f"c{turn}a", "get_weather", '{"city":"Paris"}'),
        (f"c{turn}b", "get_time", '{"city":"Oslo"}'),
    ]


async def model(turn: int, turns: int) -> str:
    """Reply as text, as a provider would."""
    calls = said(turn, turns)
    if calls is None:
        if HELD is not None:
            await HELD.wait()
        return '{"kind":"final","text":"done"}'
    return json.dumps(
        {"kind": "tools", "calls": [{"id": i, "name": n, "args": a} for i, n, a in calls]}
    )


OnTurn = Callable[[int, list[dict[str, Any]]], "Awaitable[None] | None"]


async def floor_invocation(turns: int, on_turn: OnTurn | None = None) -> str:
    """Run the hand-written loop once."""
    history: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    turn = 0
    while True:
        raw = await model(turn, turns)
        decision = json.loads(raw)
        if decision["kind"] == "final":
            return str(decision["text"])
        calls = decision["calls"]
        history.append({"role": "assistant", "content": raw})
        outputs = await asyncio.gather(*(TOOLS[c["name"]](**json.loads(c["args"])) for c in calls))
        for call, output in zip(calls, outputs, strict=True):
            history.append({"role": "tool", "id": call["id"], "content": json.dumps(output)})
        if on_turn is not None:
            waiting = on_turn(turn, history)
            if waiting is not None:
                await waiting
        turn += 1


def open_database(path: Path) -> sqlite3.Connection:
    """Open the floor's database: one appended row a turn, a unique index on (run, turn)."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE IF NOT EXISTS ev(run TEXT, turn INT, body BLOB, UNIQUE(run, turn))")
    return db


def _body(turn: int, history: list[dict[str, Any]]) -> str:
    return json.dumps({"turn": turn, "delta": history[-3:], "pad": PAD})


class InlineFloor:
    """One transaction a turn, on the loop's thread."""

    def __init__(self, path: Path) -> None:
        self._db = open_database(path)

    async def invocation(self, key: str, turns: int) -> str:
        """Run one durable floor invocation."""

        def write(turn: int, history: list[dict[str, Any]]) -> None:
            self._db.execute(INSERT, (key, turn, _body(turn, history)))

        return await floor_invocation(turns, write)


class GroupFloor:
    """Group commit: one transaction per tick of the loop; turns wait for theirs."""

    def __init__(self, path: Path) -> None:
        self._db = open_database(path)
        self._pending: list[tuple[tuple[str, int, str], asyncio.Future[None]]] = []

    def _flush(self) -> None:
        batch, self._pending = self._pending, []
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(INSERT, [row for row, _ in batch])
        self._db.execute("COMMIT")
        for _, done in batch:
            done.set_result(None)

    async def invocation(self, key: str, turns: int) -> str:
        """Run one durable floor invocation among many."""
        loop = asyncio.get_running_loop()

        def write(turn: int, history: list[dict[str, Any]]) -> Awaitable[None]:
            done: asyncio.Future[None] = loop.create_future()
            if not self._pending:
                loop.call_soon(self._flush)
            self._pending.append(((key, turn, _body(turn, history)), done))
            return done

        return await floor_invocation(turns, write)


# ---------------------------------------------------------------- measuring
async def seconds(work: Awaitable[object]) -> float:
    """Time one awaitable."""
    begin = time.perf_counter()
    await work
    return time.perf_counter() - begin


async def paired(
    ours: Callable[[int], Awaitable[object]],
    floor: Callable[[int], Awaitable[object]],
    *,
    samples: int,
) -> tuple[float, float, float]:
    """Time two things alternately; return the medians of both and of their ratios, in seconds.

    The collector is off while the floor is timed: our heap must not be collected on its clock.
    """
    for warm in (-2, -1):
        await ours(warm)
        await floor(warm)
    mine: list[float] = []
    theirs: list[float] = []
    for index in range(samples):
        mine.append(await seconds(ours(index)))
        gc.disable()
        theirs.append(await seconds(floor(index)))
        gc.enable()
    ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
    return statistics.median(mine), statistics.median(theirs), statistics.median(ratios)


def resident_kib() -> float:
    """Resident memory of this process."""
    with Path("/proc/self/statm").open() as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


def median(values: Iterable[float]) -> float:
    """The median, rounded for a table."""
    return round(statistics.median(values), 2)


def report(figures: Mapping[str, Any]) -> None:
    """Print figures, as JSON after `--json`."""
    if "--json" in sys.argv:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<75} {value:>10}")
