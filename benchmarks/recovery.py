"""What recovery costs: taking over long invocations, and waking thousands of suspended ones.

Part of `python benchmarks/durable.py`; alone: `python benchmarks/recovery.py [--json] [--dir DIR]`.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

from _floor import report
from _ours import StandardModel, standard_agent

from loopwright import Agent, Budget, Clarification, Final, ModelReply, ModelRequest, Runtime
from loopwright.protocol import InvocationId, state_of
from loopwright.stores import SQLiteStore

SAMPLES = {10: 300, 1_000: 100}
"""How often invocations of so many turns are taken over."""
SUSPENDED = 10_000
AT_ONCE = 100


class HangingModel(StandardModel):
    """The standard model, which does not answer any more after its last turn, and says so."""

    def __init__(self, turns: int) -> None:
        super().__init__(turns)
        self.asked = asyncio.Event()

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Propose two reads, or hang."""
        if request.turn <= self.turns:
            return await super().decide(request)
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


class Asking:
    """A model that asks one question, and is done with the answer."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Ask, or answer."""
        return ModelReply(Final("done") if request.history else Clarification("which one?"))


async def measure(folder: Path, figures: dict[str, Any]) -> None:
    """Measure everything."""
    for turns, samples in SAMPLES.items():
        await _take_over(folder, turns, samples, figures)
    await _wake(folder, figures)


async def _take_over(folder: Path, turns: int, samples: int, figures: dict[str, Any]) -> None:
    """Take over one invocation again and again: from `recover` until its model is asked."""
    path = folder / f"recover-{turns}.db"
    model = HangingModel(turns)
    async with Runtime([standard_agent(model)], store=SQLiteStore(path)) as runtime:
        run = await runtime.start("standard", "go")
        await model.asked.wait()
    took: list[float] = []
    for _ in range(samples):
        model = HangingModel(turns)
        # Not the standard policy: counting repeats without end would decode every turn.
        heir = Agent("standard", model=model, budget=Budget(max_steps=None))
        async with Runtime([heir], store=SQLiteStore(path)) as runtime:
            gc.collect()
            begin = time.perf_counter()
            assert len(await runtime.recover()) == 1
            await model.asked.wait()
            took.append(time.perf_counter() - begin)
    figures[f"recovery of {turns} turns, ms p50"] = round(statistics.median(took) * 1e3, 2)
    figures[f"recovery of {turns} turns, ms p99"] = _p99_ms(took)
    if turns == max(SAMPLES):
        figures.update(await _memory(path, run.id))


async def _memory(path: Path, invocation_id: InvocationId) -> dict[str, Any]:
    """Compare what loading a journal takes at most with the size of the journal itself."""
    store = SQLiteStore(path)
    await store.open()
    tracemalloc.start()
    stored = await store.load(invocation_id)
    size = sum(map(len, stored.lines))
    state = state_of(stored)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await store.close()
    assert state.protocol.turn == max(SAMPLES)
    return {
        "journal of 1000 turns, KiB": size // 1024,
        "peak while it is loaded, x journal": round(peak / size, 2),
    }


async def _wake(folder: Path, figures: dict[str, Any]) -> None:
    """List and resume thousands that wait for an answer."""
    agent, gate = Agent("asking", model=Asking()), asyncio.Semaphore(AT_ONCE)
    path = folder / "suspended.db"
    async with Runtime([agent], store=SQLiteStore(path)) as runtime:
        await asyncio.gather(*(_asked(runtime, gate) for _ in range(SUSPENDED)))
    took: list[float] = []
    async with Runtime([agent], store=SQLiteStore(path)) as runtime:
        begin = time.perf_counter()
        waiting = await runtime.invocations(status="suspended")
        listed = time.perf_counter() - begin
        assert len(waiting) == SUSPENDED
        begin = time.perf_counter()
        orphans = await runtime.recover()
        looked = time.perf_counter() - begin
        assert len(orphans) == 0

        async def answer(invocation_id: str) -> None:
            async with gate:
                begin = time.perf_counter()
                run = await runtime.answer(invocation_id, "that one", by="bench")
                assert (await run.outcome()).completed
                took.append(time.perf_counter() - begin)

        begin = time.perf_counter()
        await asyncio.gather(*(answer(one.invocation_id) for one in waiting))
        resumed = time.perf_counter() - begin
    figures[f"{SUSPENDED} suspended: listed, ms"] = round(listed * 1e3, 1)
    figures[f"{SUSPENDED} suspended: looked for orphans, ms"] = round(looked * 1e3, 2)
    figures[f"{SUSPENDED} suspended: answered and completed, s"] = round(resumed, 2)
    figures[f"each, {AT_ONCE} at once, ms p50"] = round(statistics.median(took) * 1e3, 2)
    figures[f"each, {AT_ONCE} at once, ms p99"] = _p99_ms(took)


async def _asked(runtime: Runtime, gate: asyncio.Semaphore) -> None:
    async with gate:
        await runtime.run("asking", "go")


def _p99_ms(seconds: list[float]) -> float:
    return round(statistics.quantiles(seconds, n=100)[98] * 1e3, 2)


if __name__ == "__main__":
    where = sys.argv[sys.argv.index("--dir") + 1] if "--dir" in sys.argv else None
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="loopwright-", dir=where) as made:
        asyncio.run(measure(Path(made), found))
    report(found)
