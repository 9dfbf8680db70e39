"""The standard invocation on SQLite, synchronous=FULL: T5 to T7, and what recovery costs.

    python benchmarks/durable.py [--json] [--dir DIR]

Every figure is printed beside the floor measured in the same run, on the same disk.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import recovery
from _floor import GroupFloor, InlineFloor, median, open_database, paired, report
from _ours import StandardModel, completed, standard_agent

from loopwright import Budget, Runtime
from loopwright.protocol import state_of
from loopwright.stores import SQLiteStore

ROUNDS = 5
TURNS = 10


async def main(folder: Path) -> dict[str, Any]:
    """Measure everything."""
    figures: dict[str, Any] = {}
    await _alone(folder, figures)
    await _many(folder, figures)
    await _resume(folder, figures)
    await recovery.measure(folder, figures)
    return figures


async def _alone(folder: Path, figures: dict[str, Any]) -> None:
    path = folder / "alone.db"
    floor = InlineFloor(folder / "alone-floor.db")
    runs = 0
    async with Runtime([standard_agent(StandardModel(TURNS))], store=SQLiteStore(path)) as runtime:

        async def ours(_: int) -> None:
            nonlocal runs
            runs += 1
            await completed(runtime)

        rounds = [
            await paired(
                ours, lambda i: floor.invocation(f"f{time.perf_counter_ns()}", TURNS), samples=20
            )
            for _ in range(ROUNDS)
        ]
    rows = _rows(path)
    figures["T5 alone, us/turn"] = median(r[0] / TURNS * 1e6 for r in rounds)
    figures["T5 floor (inline, one row a turn), us/turn"] = median(
        r[1] / TURNS * 1e6 for r in rounds
    )
    figures["T5 ratio (must 1.6, goal 1.15)"] = median(r[2] for r in rounds)
    # Alone, every row is a transaction of its own: one for the start, one for the answer.
    figures["T5 transactions a read-only turn (must 1.05)"] = round((rows / runs - 2) / TURNS, 3)


def _rows(path: Path) -> int:
    with sqlite3.connect(path) as db:
        (count,) = db.execute("SELECT count(*) FROM journal").fetchone()
    db.close()
    return int(count)


async def _many(folder: Path, figures: dict[str, Any]) -> None:
    floor = GroupFloor(folder / "many-floor.db")
    store = SQLiteStore(folder / "many.db")
    async with Runtime([standard_agent(StandardModel(TURNS))], store=store) as runtime:

        async def ours(_: int) -> None:
            await asyncio.gather(*(completed(runtime) for _ in range(200)))

        async def theirs(_: int) -> None:
            stamp = time.perf_counter_ns()
            await asyncio.gather(*(floor.invocation(f"{stamp}-{i}", TURNS) for i in range(200)))

        rounds = [await paired(ours, theirs, samples=3) for _ in range(ROUNDS)]
    figures["T6 200 at once, turns/s"] = median(200 * TURNS / r[0] for r in rounds)
    figures["T6 floor (group commit on the loop), turns/s"] = median(
        200 * TURNS / r[1] for r in rounds
    )
    figures["T6 share (must 0.4, goal 0.8)"] = median(1 / r[2] for r in rounds)


async def _resume(folder: Path, figures: dict[str, Any]) -> None:
    """Read a 200-turn invocation from a closed store, ready to go on."""
    path, turns = folder / "resume.db", 200
    agent = standard_agent(StandardModel(turns + 1))
    async with Runtime([agent], store=SQLiteStore(path)) as runtime:
        budget = Budget(max_steps=turns)
        outcome = await runtime.run("standard", "go", budget=budget)
        assert outcome.steps == turns, outcome

    async def ours() -> float:
        store = SQLiteStore(path)
        begin = time.perf_counter()
        await store.open()
        state = state_of(await store.load(outcome.invocation_id))
        took = time.perf_counter() - begin
        await store.close()
        assert state.protocol.turn == turns
        return took

    async def floor() -> float:
        begin = time.perf_counter()
        db = open_database(path)
        rows = db.execute("SELECT body FROM journal ORDER BY seq").fetchall()
        for (body,) in rows:
            for line in body.split(b"\n"):
                json.loads(line)
        took = time.perf_counter() - begin
        db.close()
        return took

    ratios: list[float] = []
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(4 * ROUNDS):
        mine.append(await ours())
        theirs.append(await floor())
        ratios.append(mine[-1] / theirs[-1])
    figures["T7 cold resume of 200 turns, ms"] = median(t * 1e3 for t in mine)
    figures["T7 floor (open, select, decode), ms"] = median(t * 1e3 for t in theirs)
    figures["T7 ratio (must 2, goal 1)"] = median(ratios)


if __name__ == "__main__":
    where = sys.argv[sys.argv.index("--dir") + 1] if "--dir" in sys.argv else None
    with tempfile.TemporaryDirectory(prefix="loopwright-", dir=where) as made:
        found = asyncio.run(main(Path(made)))
    report(found)
