"""Recovery takes what it can get: nothing that it can't get keeps it from the rest."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loopwright import Agent, Final, ModelReply, ModelRequest, Runtime
from loopwright.protocol import Summary
from loopwright.stores import SQLiteStore
from loopwright.testing import ScriptedModel, WrappedStore

pytestmark = pytest.mark.anyio


class Silent:
    """A model that never answers."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        await asyncio.Event().wait()
        raise AssertionError


class MeanwhileStore(WrappedStore):
    """A store where something happens after each listing, before its reader can act on it."""

    def __init__(self, path: Path, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__(SQLiteStore(path))
        self._meanwhile = meanwhile

    async def orphans(self, *args: Any, **wanted: Any) -> Sequence[Summary]:
        listed = await self.inner.orphans(*args, **wanted)
        await self._meanwhile()
        return listed


def desk() -> Agent:
    return Agent("desk", model=ScriptedModel([Final("done")]))


async def left_running(path: Path, *agents: str) -> list[str]:
    """Start one invocation per name, and leave them without an owner."""
    known = [Agent(name, model=Silent()) for name in dict.fromkeys(agents)]
    async with Runtime(known, store=SQLiteStore(path)) as runtime:
        return [(await runtime.start(name, "go")).id for name in agents]


async def test_what_is_damaged_or_of_another_agent_does_not_stop_recovery(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One without its agent here, and one that is damaged, are left; the latter is logged."""
    path = tmp_path / "store.db"
    good, damaged, _ = await left_running(path, "desk", "desk", "stranger")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE journal SET body = x'7b' WHERE run = 2")

    async with Runtime([desk()], store=SQLiteStore(path)) as runtime:
        (run,) = await runtime.recover()
        assert run.id == good
        assert (await run.outcome()).completed
        left = await runtime.invocations(status="running")

    assert [summary.owner_alive for summary in left] == [False, False]
    (logged,) = caplog.messages
    assert damaged in logged


async def test_what_another_worker_has_ended_meanwhile_needs_no_recovery(tmp_path: Path) -> None:
    """Between the listing and the lease, another worker takes it over and comes to its end."""
    path = tmp_path / "store.db"
    (left,) = await left_running(path, "desk")

    async def settle() -> None:
        async with Runtime([desk()], store=SQLiteStore(path)) as other:
            for run in await other.recover():
                await run.outcome()

    async with Runtime([desk()], store=MeanwhileStore(path, settle)) as runtime:
        assert (await runtime.recover()).runs == ()
        assert (await runtime.outcome(left)).completed
