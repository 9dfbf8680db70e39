"""One owner at a time, across processes on one SQLite file, also where one of them was stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from loopwright import Outcome, Reason, Run, Runtime
from loopwright.protocol import (
    InvocationEnded,
    InvocationId,
    Reconciled,
    applied,
    loads,
    not_applied,
)
from loopwright.stores import SQLiteStore
from runtime.ownership_worker import desk

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="it stops processes with signals"),
]
_WORKER = Path(__file__).with_name("ownership_worker.py")


class Stopped:
    """A worker with one or more invocations in flight, which can be stopped and let go on."""

    def __init__(self, folder: Path, *goals: str) -> None:
        self.store, self.ledger, self.gate = (folder / n for n in ("store.db", "ledger", "gate"))
        arguments = [str(path) for path in (_WORKER, self.store, self.ledger, self.gate)]
        self.process = subprocess.Popen(
            [sys.executable, *arguments, *goals],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(_WORKER.parents[1])},
        )

    async def said(self) -> Any:
        """Wait for its next line."""
        assert self.process.stdout is not None
        return loads((await anyio.to_thread.run_sync(self.process.stdout.readline)).encode())

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.gate.touch()
        self.process.send_signal(signal.SIGCONT)

    @property
    def done(self) -> list[str]:
        """What was done to the world, by all workers."""
        return self.ledger.read_text().splitlines()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[list[Stopped]]:
    made: list[Stopped] = []
    yield made
    for one in made:
        one.process.kill()
        one.process.wait()
        assert one.process.stdout is not None
        one.process.stdout.close()


async def take_over(runtime: Runtime, count: int) -> list[Run]:
    """Look until the other worker's lease is over, and take what it has left."""
    runs: list[Run] = []
    while len(runs) < count:
        runs += await runtime.recover()
        await asyncio.sleep(0.01)
    return runs


async def check_journal(store: SQLiteStore, run: str) -> None:
    """It goes from 1 to n without a gap, and has one end."""
    stored = await store.load(InvocationId(run))
    entries = stored.entries()
    assert stored.summary.seq == len(entries)
    ends = [e for e in entries if isinstance(e.record, InvocationEnded)]
    assert len(ends) == 1


async def settled(runtime: Runtime, run: Run, found: Reconciled) -> Outcome:
    outcome = await run.outcome()
    assert outcome.reason is Reason.RECONCILIATION_REQUIRED
    await runtime.settle(run.id, "c", found, by="bo")
    return await run.outcome()


async def test_the_next_commit_of_a_stopped_worker_is_refused(
    worker: list[Stopped], tmp_path: Path
) -> None:
    """Stopped while its tool runs, replaced, let go on: the result it has is not written."""
    worker.append(Stopped(tmp_path, "one"))
    (other,) = worker
    (identity,) = await other.said()
    other.stop()
    store = SQLiteStore(other.store)
    async with Runtime([desk(other.ledger, None, "B")], store=store) as runtime:
        (run,) = await take_over(runtime, 1)
        assert run.id == identity
        outcome = await settled(runtime, run, applied("one, says the ledger"))
        assert outcome.completed

        other.go_on()
        assert await other.said() == ["lease_lost"]
        assert await other.said() == ["FencedError"]
        assert other.process.wait() == 0
        await check_journal(store, identity)
        assert (await runtime.outcome(identity)).history == outcome.history
    assert other.done == ["one by A"]


async def test_the_next_dispatch_of_a_stopped_worker_is_refused(
    worker: list[Stopped], tmp_path: Path
) -> None:
    """Its write is announced and waits for its turn: replaced meanwhile, it never begins here."""
    worker.append(Stopped(tmp_path, "one", "two"))
    (other,) = worker
    identities = await other.said()
    other.stop()
    assert other.done == ["one by A"]
    store = SQLiteStore(other.store)
    async with Runtime([desk(other.ledger, None, "B")], store=store) as runtime:
        runs = await take_over(runtime, 2)
        for run in runs:
            # A person has looked: the first one has happened, the second has not.
            found = applied() if run.id == identities[0] else not_applied()
            assert (await settled(runtime, run, found)).completed

        other.go_on()
        assert await other.said() == ["lease_lost", "lease_lost"]
        assert await other.said() == ["FencedError", "FencedError"]
        assert other.process.wait() == 0
        for identity in identities:
            await check_journal(store, identity)
        facts = await runtime.effects()
    assert other.done == ["one by A", "two by B"]
    assert [fact.entry.status for fact in facts] == ["committed", "committed"]
