"""Casebook H: an invocation has one owner, in one process or several."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from casebook.desk import agent, batch, call, journal
from casebook.processes import Worker, lines
from loopwright import Final, Runtime, tool
from loopwright.protocol import Append, FencedError, Head, InvocationEnded, InvocationId
from loopwright.stores import SQLiteStore
from loopwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def test_b62_two_processes_resume_the_same_run(tmp_path: Path) -> None:
    """B62: one goes on with the write, the other is told whose it is; seqs are 1..n."""
    path, ledger = tmp_path / "agents.db", tmp_path / "ledger"
    dead = Worker("abandons", path, ledger)
    (identity,) = await dead.said()
    assert await dead.ended() == (0, "")

    workers = [Worker("resumes", path, ledger) for _ in range(2)]
    for worker in workers:
        assert await worker.said() == ["ready"]
    for worker in workers:
        worker.go_on()
    said = [await worker.said() for worker in workers]
    for worker in workers:
        worker.go_on()
        assert await worker.ended() == (0, "")

    # Whoever comes when it is over only reports how it ended.
    assert ["completed"] in said
    assert all(one in (["completed"], ["LeaseHeldError"]) for one in said)
    assert lines(ledger) == ["pay:7"]
    store = SQLiteStore(path)
    await store.open()
    stored = await store.load(InvocationId(identity))
    assert stored.summary.seq == len(stored.entries())
    assert [isinstance(e.record, InvocationEnded) for e in stored.entries()].count(True) == 1
    await store.close()


def written(seq: int, fence: int, worker: str, head: Head | None = None) -> Append:
    line = f'{{"by":"{worker}","fence":{fence},"seq":{seq}}}'.encode()
    return Append(InvocationId("a"), fence, seq, (line,), worker, head)


async def test_b62_who_has_lost_the_lease_cannot_append(tmp_path: Path) -> None:
    """B62: the store refuses whatever a former owner writes, wherever it wants it."""
    path = tmp_path / "agents.db"
    former, owner = SQLiteStore(path), SQLiteStore(path, clock=lambda: time.monotonic() + 60)
    await former.open()
    await owner.open()
    await former.heartbeat("w1", 15)
    await former.append([written(1, 1, "w1", Head("desk", "running", None, 1.0))])
    lease = await owner.acquire(InvocationId("a"), "w2")
    for seq in (2, 3):
        (refused,) = await former.append([written(seq, 1, "w1")])
        assert isinstance(refused, FencedError)
    assert await owner.append([written(2, lease.fence, "w2")]) == [None]
    await former.close()
    await owner.close()


async def test_b64_recovery_recognises_what_runs_right_here() -> None:
    """B64: a run that is alive in this process is reported as such, not run a second time."""
    ran: Counter[str] = Counter()
    begun, over = asyncio.Event(), asyncio.Event()

    @tool(effect="manual")
    async def nap() -> None:
        ran["nap"] += 1
        begun.set()
        await over.wait()

    model = ScriptedModel([batch(call("1", "nap")), Final("done")])
    async with Runtime([agent(model, nap)]) as runtime:
        run = await runtime.start("desk", "the goal")
        await begun.wait()
        found = await runtime.recover()
        assert found.runs == ()
        assert [one.id for one in found.already_here] == [run.id]
        over.set()
        outcome = await run.outcome()
        assert (await runtime.recover()).already_here == ()
        records = await journal(runtime, run.id)
    assert outcome.completed
    assert ran == {"nap": 1}
    assert [isinstance(r, InvocationEnded) for r in records].count(True) == 1
