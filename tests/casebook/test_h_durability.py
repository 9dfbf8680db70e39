"""Casebook H: what is accepted is durable, and a store that fails stops everything."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from casebook.desk import FlakyStore, agent, batch, call, play
from casebook.processes import Worker
from casebook.worker import RUNS, WRITES, clerk
from loopwright import Final, ModelRequest, Reason, Runtime, tool
from loopwright.protocol import (
    JsonValue,
    RemoteProtocolError,
    StoreError,
    decode_record,
)
from loopwright.stores import SQLiteStore
from loopwright.testing import ScriptedModel, Step, VirtualClock

pytestmark = pytest.mark.anyio


def circle() -> list[Any]:
    values: list[Any] = [1]
    values.append(values)
    return values


RETURNED: list[tuple[object, object]] = [
    ({1, 2}, [1, 2]),
    (Decimal("1.50"), "1.50"),
    (datetime(2026, 7, 28, 12, tzinfo=UTC), "2026-07-28T12:00:00+00:00"),
    (b"\xff", "/w=="),
    (object(), {"unserializable": "object"}),
    (Path, {"unserializable": "type"}),
    (float("nan"), {"unserializable": "float nan"}),
    (circle(), {"unserializable": "list (circular)"}),
]


async def test_b58_a_write_that_ran_is_never_said_to_have_failed() -> None:
    """B58: what a write returned is kept as JSON, or it is said that it has no JSON form."""
    ran: Counter[int] = Counter()

    @tool(effect="manual")
    async def write(n: int) -> Any:
        ran[n] += 1
        return RETURNED[n][0]

    steps: list[Step] = [batch(call("c", "write", {"n": n})) for n in range(len(RETURNED))]
    played = await play([*steps, Final("done")], write)

    assert played.outcome.completed
    assert ran == dict.fromkeys(range(len(RETURNED)), 1)
    assert played.statuses == ["ok"] * len(RETURNED)
    assert [r.output for r in played.results] == [kept for _, kept in RETURNED]
    assert not any(b" at 0x" in turn.body for turn in played.outcome.history)


EXOTIC: dict[str, object] = {
    "when": datetime(2026, 7, 28, tzinfo=UTC),
    "d": Decimal("0.10"),
    "b": b"\x00\xff",
    "s": {1},
}


@pytest.mark.parametrize("name", EXOTIC)
async def test_b59_metadata_that_is_no_json_is_refused_at_once(name: str) -> None:
    """B59: the error names the path, and comes before the model is asked or anything is stored."""
    model = ScriptedModel([Final("done")])
    async with Runtime([agent(model)], clock=VirtualClock()) as runtime:
        for metadata in ({name: EXOTIC[name]}, {"ok": 1, name: EXOTIC[name]}):
            with pytest.raises(RemoteProtocolError) as caught:
                await runtime.run("desk", "the goal", metadata=cast("JsonValue", metadata))
            assert caught.value.where == f"metadata.{name}"
        assert await runtime.invocations() == []
    assert model.calls == 0


@tool(effect="read")
async def look(n: int) -> int:
    return n


def three_turns() -> list[Step]:
    return [*(batch(call("c", "look", {"n": n})) for n in (1, 2)), Final("done")]


THE_ONE_AFTER_TURN_2 = 3
"""The start is the first append, turn 1 the second."""


@pytest.mark.parametrize("stored", [False, True], ids=["lost", "stored-all-the-same"])
async def test_b60_a_checkpoint_that_fails_ends_the_run(stored: bool) -> None:
    """B60: the store refuses turn 2: the model is not asked again, and the caller is told."""
    store = FlakyStore(
        lambda n: StoreError("the disk is full") if n >= THE_ONE_AFTER_TURN_2 else None,
        stored=stored,
    )
    played = await play(three_turns(), look, store=store)

    assert played.model.calls == 2
    assert played.outcome.reason is Reason.CHECKPOINT_FAILED
    assert played.outcome.cause is not None
    assert "the disk is full" in played.outcome.cause


@pytest.mark.parametrize("stored", [False, True], ids=["lost", "stored-all-the-same"])
async def test_b60_a_transient_failure_is_retried_without_a_trace(stored: bool) -> None:
    """B60: the same records go to the store again, and stand there once."""
    store = FlakyStore(
        lambda n: StoreError("busy", transient=True) if n == THE_ONE_AFTER_TURN_2 else None,
        stored=stored,
    )
    model, clock = ScriptedModel(three_turns()), VirtualClock()
    async with Runtime([agent(model, look)], store=store, clock=clock) as runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(1)
        outcome = await run.outcome()
        kept = (await store.load(run.id)).lines

    assert outcome.completed
    assert model.calls == 3
    assert store.batches[2] == store.batches[3]
    assert [decode_record(line).kind for line in kept] == [
        "invocation_started",
        *["turn_committed"] * 3,
        "invocation_ended",
    ]


async def test_b65_four_processes_share_one_file(tmp_path: Path) -> None:
    """B65: 4 processes x 2 runs x 50 appends and a looping reader: no lock error, nothing lost."""
    path, ledger = tmp_path / "agents.db", tmp_path / "ledger"
    workers = [Worker("append", path, ledger) for _ in range(4)]
    store = SQLiteStore(path)
    await store.open()
    ends = [asyncio.create_task(worker.ended()) for worker in workers]
    seen = 0
    while not all(end.done() for end in ends):
        total = sum(summary.seq for summary in await store.invocations())
        assert total >= seen
        seen = total
        await asyncio.sleep(0.01)

    assert [await end for end in ends] == [(0, "")] * 4
    listed = await store.invocations()
    assert [summary.head.reason for summary in listed] == [Reason.COMPLETED] * 4 * RUNS
    start, end, each_turn = 1, 2, 3
    assert [summary.seq for summary in listed] == [start + WRITES * each_turn + end] * 4 * RUNS
    await store.close()


async def test_b65_nothing_is_locked_while_a_model_thinks(tmp_path: Path) -> None:
    """B65: while a model call is open here, another process starts and ends a run at its ease."""
    path, ledger = tmp_path / "agents.db", tmp_path / "ledger"
    asked, over = asyncio.Event(), asyncio.Event()

    async def think(request: ModelRequest) -> Final:
        asked.set()
        await over.wait()
        return Final("done")

    desk = clerk(ScriptedModel([think]), ledger)
    async with Runtime([desk], store=SQLiteStore(path)) as runtime:
        run = await runtime.start("clerk", "the goal")
        await asked.wait()
        worker = Worker("once", path, ledger)
        (seconds,) = await worker.said()
        assert await worker.ended() == (0, "")
        assert seconds < 0.5
        over.set()
        assert (await run.outcome()).completed


@pytest.mark.parametrize("command", ["early", "dies"])
async def test_b68_an_accepted_run_survives_an_early_crash(command: str, tmp_path: Path) -> None:
    """B68: killed before the model has answered: the run is there, and its first turn is taken."""
    path, ledger = tmp_path / "agents.db", tmp_path / "ledger"
    worker = Worker(command, path, ledger)
    said = await worker.said()
    worker.kill()
    assert await worker.ended() == (-9, "")

    model = ScriptedModel([Final("done")])
    later = SQLiteStore(path, clock=lambda: time.monotonic() + 60)
    async with Runtime([clerk(model, ledger)], store=later) as runtime:
        (listed,) = await runtime.invocations()
        assert said in (None, [listed.invocation_id])
        assert listed.head.status == "running"
        assert (await runtime.state(listed.invocation_id)).business.metadata == {"order": 7}
        (run,) = await runtime.recover()
        outcome = await run.outcome()
        again = await runtime.recover()

    assert outcome.completed
    assert (model.calls, model.requests[0].turn) == (1, 1)
    assert (model.requests[0].goal, model.requests[0].metadata) == ("the goal", {"order": 7})
    assert again.runs == ()
