"""One file, several processes: nothing is locked out, torn or lost, whoever is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from loopwright.protocol import InvocationId, LeaseHeldError
from loopwright.stores import SQLiteStore
from loopwright.testing.conformance._base import created, kinds

pytestmark = pytest.mark.anyio

WORKER = str(Path(__file__).with_name("worker.py"))


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, WORKER, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def end(process: subprocess.Popen[str]) -> str:
    """Wait for a process, and give what it wrote to standard error."""
    _, errors = await anyio.to_thread.run_sync(process.communicate)
    return errors


async def test_b65_four_processes_and_a_reader_meet_no_lock_error(tmp_path: Path) -> None:
    """B65: 4 processes x 2 runs x 50 appends; they also race to make the file."""
    path = tmp_path / "agents.db"
    processes = [start("append", path, f"p{number}", "2", "50") for number in range(4)]
    store = SQLiteStore(path)
    await store.open()
    seen = 0
    while any(process.poll() is None for process in processes):
        total = sum(summary.seq for summary in await store.invocations())
        assert total >= seen
        seen = total
        await anyio.sleep(0.005)

    assert [await end(process) for process in processes] == [""] * 4
    assert [process.returncode for process in processes] == [0] * 4
    listed = await store.invocations()
    assert [summary.seq for summary in listed] == [50] * 8
    for summary in listed:
        lines = (await store.load(summary.invocation_id)).lines
        assert [line.startswith(b'{"seq":%d,' % seq) for seq, line in enumerate(lines, 1)] == (
            [True] * 50
        )
    await store.close()


async def test_b65_no_transaction_is_open_between_appends(tmp_path: Path) -> None:
    """B65: while another process waits for its model, an append takes less than half a second."""
    path = tmp_path / "agents.db"
    process = start("idle", path, "idler")
    assert process.stdout is not None
    assert await anyio.to_thread.run_sync(process.stdout.readline) == "idle\n"

    store = SQLiteStore(path)
    await store.open()
    started = time.monotonic()
    assert kinds(await store.append([created("a")])) == [None]
    assert time.monotonic() - started < 0.5

    assert await end(process) == ""
    assert (await store.load(InvocationId("idler"))).summary.seq == 2
    await store.close()


@pytest.mark.parametrize("acknowledged", [1, 7, 60])
async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, acknowledged: int) -> None:
    """B68: after SIGKILL in the middle of writing, seq is 1..n without gaps, n all acknowledged."""
    path = tmp_path / "agents.db"
    process = start("endless", path, "victim")
    assert process.stdout is not None
    for _ in range(acknowledged):
        await anyio.to_thread.run_sync(process.stdout.readline)
    process.kill()
    # Not `communicate`, which would miss what `readline` has read ahead.
    heard = await anyio.to_thread.run_sync(process.stdout.read)
    assert await end(process) == ""
    # The last line may have been cut off by the kill.
    last = acknowledged + heard.count("\n")

    store = SQLiteStore(path)
    await store.open()
    stored = await store.load(InvocationId("victim"))
    assert stored.summary.seq in (last, last + 1)
    assert [line.startswith(b'{"seq":%d,' % seq) for seq, line in enumerate(stored.lines, 1)] == (
        [True] * stored.summary.seq
    )
    assert stored.summary.head.goal == ""
    assert stored.summary.owner == "worker-victim"
    lease = await store.acquire(InvocationId("victim"), "rescuer")
    assert lease.fence == 2
    await store.close()


async def test_a_killed_process_keeps_what_it_holds_until_its_heartbeat_runs_out(
    tmp_path: Path,
) -> None:
    """Both processes measure it by one clock, and both know who holds what."""
    path = tmp_path / "agents.db"
    process = start("claim", path, "victim")
    assert process.stdout is not None
    assert await anyio.to_thread.run_sync(process.stdout.readline) == "first\n"
    process.kill()
    await end(process)

    store = SQLiteStore(path)
    await store.open()
    with pytest.raises(LeaseHeldError, match="worker-victim"):
        await store.acquire(InvocationId("victim"), "rescuer")
    assert list(await store.orphans(["desk"])) == []
    assert list(await store.claim("rescuer", ["desk"])) == []
    await store.close()

    store = SQLiteStore(path, clock=lambda: time.monotonic() + 61)
    await store.open()
    assert [one.invocation_id for one in await store.orphans(["desk"])] == ["victim"]
    (claimed,) = await store.claim("rescuer", ["desk"])
    assert (claimed.delivery.effect_key, claimed.attempt) == ("first", 2)
    ledger = [(fact.entry.status, fact.entry.attempts) for _, fact in await store.effects()]
    assert ledger == [("prepared", 0), ("dispatched", 2)]
    await store.close()
