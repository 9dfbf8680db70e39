"""A worker that is stopped past its lease: `python ownership_worker.py COMMAND STORE LEDGER GATE`.

It goes on where a file, the gate, exists; what its tool does is a line in the ledger. It reports
in lines of JSON on standard output.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from loopwright import Agent, Final, ModelReply, ModelRequest, Run, Runtime, tool
from loopwright.protocol import Append, InvocationId, StoreError, dumps
from loopwright.stores import SQLiteStore

LEASE_TTL = 0.6
"""Seconds: short, for the tests wait it out."""


class Once:
    """A model that has its tool run once, with the goal as the name, and is done then."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        if request.history:
            return ModelReply(Final("done"))
        call = {"call_id": "c", "tool_name": "act", "arguments": {"name": request.goal}}
        return ModelReply({"kind": "tool_calls", "calls": [call]})


def desk(ledger: Path, gate: Path | None, who: str) -> Agent:
    """The agent of every worker; one call at a time, which waits until the gate is there."""

    @tool(effect="manual", max_concurrency=1)
    async def act(name: str) -> str:
        with ledger.open("a") as file:
            file.write(f"{name} by {who}\n")
        if gate is not None:
            await there(gate)
        return name

    return Agent("desk", model=Once(), tools=[act])


async def work(store: SQLiteStore, ledger: Path, gate: Path, goals: list[str]) -> None:
    """Begin invocations, one per goal; report their ids, then how they ended here."""
    async with Runtime([desk(ledger, gate, "A")], store=store, lease_ttl=LEASE_TTL) as runtime:
        runs: list[Run] = []
        for goal in goals:
            runs.append(await runtime.start("desk", goal))
            # The first one is to be in its body before the next one comes.
            await there(ledger)
        for run in runs:
            # The start, the proposal and the dispatch.
            while (await store.summary(run.id)).seq < 3:  # noqa: ASYNC110 - see `there`
                await asyncio.sleep(0.005)
        report([run.id for run in runs])
        outcomes = await asyncio.gather(*(run.outcome() for run in runs))
        report([str(outcome.reason) for outcome in outcomes])
        report([await stale_append(store, run.id) for run in runs])


async def there(path: Path) -> None:
    """Wait until a file is there."""
    while not os.path.exists(path):  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.005)


async def stale_append(store: SQLiteStore, run: InvocationId) -> str:
    """Try to write as the owner this worker was; tell what the store says to that."""
    seq = (await store.summary(run)).seq
    (refused,) = await store.append([Append(run, 1, seq + 1, (b"{}",), "whoever")])
    assert isinstance(refused, StoreError)
    return type(refused).__name__


def report(what: object) -> None:
    print(dumps(what).decode(), flush=True)


if __name__ == "__main__":
    _, path, ledger, gate, *goals = sys.argv
    asyncio.run(work(SQLiteStore(path), Path(ledger), Path(gate), goals))
