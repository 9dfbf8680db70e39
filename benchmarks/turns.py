"""The standard invocation in memory: T1 to T4, T9 and T10 of the performance targets.

    python benchmarks/turns.py [--json]

Every figure is printed beside the floor measured in the same run.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import _floor
from _floor import floor_invocation, median, paired, report, resident_kib, seconds
from _ours import (
    TRAVELLER,
    USAGE,
    StandardModel,
    bare_agent,
    completed,
    ruled_agents,
    standard_agent,
)

from loopwright import ModelReply, ModelRequest, Runtime
from loopwright.policy import Redactor
from loopwright.stores import SQLiteStore

ROUNDS = 5


async def main() -> dict[str, Any]:
    """Measure everything."""
    model = StandardModel(10)
    figures: dict[str, Any] = {}
    async with Runtime([standard_agent(model)]) as runtime:

        def ours(_: int) -> Awaitable[object]:
            return completed(runtime)

        await _alone(model, ours, figures)
        await _many(model, ours, figures)
        await _growth(model, ours, figures)
    await _rules(figures)
    await _memory(figures)
    _import_memory(figures)
    return figures


async def _alone(
    model: StandardModel, ours: Callable[[int], Awaitable[object]], figures: dict[str, Any]
) -> None:
    model.turns = 10

    async def floor(_: int) -> None:
        for _ in range(5):
            await floor_invocation(10)

    rounds = [await paired(ours, floor, samples=60) for _ in range(ROUNDS)]
    figures["T1 alone, us/turn"] = median(r[0] / 10 * 1e6 for r in rounds)
    figures["T1 floor, us/turn"] = median(r[1] / 50 * 1e6 for r in rounds)
    figures["T1 ratio (must 3, goal 1.5)"] = median(r[2] * 5 for r in rounds)


async def _many(
    model: StandardModel, ours: Callable[[int], Awaitable[object]], figures: dict[str, Any]
) -> None:
    model.turns = 10

    async def all_ours(_: int) -> None:
        await asyncio.gather(*(ours(i) for i in range(200)))

    async def all_floor(_: int) -> None:
        await asyncio.gather(*(floor_invocation(10) for _ in range(200)))

    rounds = [await paired(all_ours, all_floor, samples=3) for _ in range(ROUNDS)]
    figures["T2 200 at once, turns/s"] = median(2000 / r[0] for r in rounds)
    figures["T2 floor, turns/s"] = median(2000 / r[1] for r in rounds)
    figures["T2 share (must 0.35, goal 0.7)"] = median(1 / r[2] for r in rounds)


async def _growth(
    model: StandardModel, ours: Callable[[int], Awaitable[object]], figures: dict[str, Any]
) -> None:
    async def per_turn(turns: int, samples: int) -> float:
        model.turns = turns
        return statistics.median([await seconds(ours(0)) / turns for _ in range(samples)])

    ratios: dict[int, list[float]] = {50: [], 200: [], 1000: []}
    for _ in range(ROUNDS):
        base = await per_turn(10, 40)
        for turns, found in ratios.items():
            found.append(await per_turn(turns, max(1, 400 // turns)) / base)
    for turns, limit in ((50, ""), (200, " (must 1.1)"), (1000, " (must 1.2)")):
        figures[f"T3 per turn at {turns} over 10{limit}"] = median(ratios[turns])


async def _rules(figures: dict[str, Any]) -> None:
    """Every kind of rule switched on, no limit of them reached, against none at all."""
    without = Runtime([bare_agent()])
    ruled = Runtime(ruled_agents(), redact=Redactor())

    def off(_: int) -> Awaitable[object]:
        return completed(without, TRAVELLER)

    def on(_: int) -> Awaitable[object]:
        return completed(ruled, TRAVELLER)

    async with without, ruled:
        rounds = [await paired(on, off, samples=60) for _ in range(ROUNDS)]
    figures["T9 every rule on over off (must 1.5, goal 1.2)"] = median(r[2] for r in rounds)


async def _memory(figures: dict[str, Any]) -> None:
    model = StandardModel(10)
    async with Runtime([standard_agent(model)]) as runtime:
        for _ in range(5):
            await completed(runtime)
        figures["T4 KiB per live invocation (must 25, goal 15)"] = await _held(
            lambda: completed(runtime)
        )
        figures["T4 floor, KiB per live invocation"] = await _held(lambda: floor_invocation(10))
        figures[
            "T4 bytes in memory per suspended invocation, journal aside (must 200)"
        ] = await _suspended()


async def _held(start: Callable[[], Awaitable[object]], count: int = 500) -> float:
    """Resident memory per invocation, all held at their last model call."""
    gc.collect()
    before = resident_kib()
    _floor.HELD = asyncio.Event()
    tasks = [asyncio.ensure_future(start()) for _ in range(count)]
    for _ in range(3):
        await asyncio.sleep(0.5)
    gc.collect()
    used = (resident_kib() - before) / count
    _floor.HELD.set()
    await asyncio.gather(*tasks)
    _floor.HELD = None
    return round(used, 2)


async def _suspended(count: int = 1000) -> float:
    """Python memory per invocation that waits for a human, its journal in SQLite."""
    question: dict[str, object] = {"kind": "clarification", "question": "which one?"}
    agent = standard_agent(AlwaysAsks(question))
    with tempfile.TemporaryDirectory() as folder:
        async with Runtime([agent], store=SQLiteStore(Path(folder) / "store.db")) as runtime:

            async def suspend(number: int) -> int:
                for _ in range(number):
                    await runtime.run("standard", "go")
                gc.collect()
                return tracemalloc.get_traced_memory()[0]

            tracemalloc.start()
            before = await suspend(200)
            used = await suspend(count) - before
            tracemalloc.stop()
    return max(0.0, round(used / count, 1))


class AlwaysAsks:
    """A model that has only one thing to say, and keeps nothing."""

    def __init__(self, question: dict[str, object]) -> None:
        self._reply = ModelReply(question, USAGE)

    async def decide(self, _: ModelRequest) -> ModelReply:
        """Ask."""
        return self._reply


def _import_memory(figures: dict[str, Any]) -> None:
    code = "import {}; s = open('/proc/self/statm').read().split(); print(int(s[1]) * 4 / 1024)"

    def measure(module: str) -> float:
        runs = [
            float(subprocess.check_output([sys.executable, "-c", code.format(module)]))
            for _ in range(ROUNDS)
        ]
        return round(statistics.median(runs), 1)

    figures["T10 MB after import of everything in loopwright.actors (must 45, goal 38)"] = measure(
        "loopwright.actors"
    )
    figures["T10 floor, MB after import pydantic"] = measure("pydantic")


if __name__ == "__main__":
    report(asyncio.run(main()))
