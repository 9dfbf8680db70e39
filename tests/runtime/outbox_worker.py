"""A process that delivers, or dies over it: `python outbox_worker.py COMMAND STORE WORLD EFFECT`.

What its tool does is a line in the world, a file: the effect key and the number of the attempt. It
ends with one line of JSON on standard output: how each effect stands.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from loopwright import Agent, Final, ModelReply, ModelRequest, Runtime, ToolContext, tool
from loopwright.protocol import (
    UNSETTLED,
    Append,
    Claimed,
    EffectStatus,
    Reconciled,
    applied,
    dumps,
    not_applied,
)
from loopwright.stores import AppendResult, SQLiteStore
from loopwright.testing import WrappedStore

LEASE_TTL = 0.6
"""Seconds, of those that die: short, for the tests wait it out."""
DELIVER = "deliver"
"""The command of those that live."""


def die() -> NoReturn:
    os.kill(os.getpid(), 9)
    raise AssertionError


class Mortal(WrappedStore):
    """A store where this process is killed, at the moment that a command names."""

    def __init__(self, path: Path, command: str) -> None:
        super().__init__(SQLiteStore(path))
        self._command = command

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        queued = any(append.outbox for append in batch)
        if queued and self._command == "before_commit":
            die()
        done = await super().append(batch)
        if queued and self._command == "after_commit":
            die()
        return done

    async def claim(
        self, worker: str, agents: Sequence[str], *, limit: int = 16
    ) -> Sequence[Claimed]:
        claimed = await super().claim(worker, agents, limit=limit)
        if claimed and self._command == "after_claim":
            die()
        return claimed

    async def conclude(self, number: int, worker: str, status: EffectStatus, **how: Any) -> bool:
        if self._command == "before_conclusion":
            die()
        done = await super().conclude(number, worker, status, **how)
        if self._command == "after_conclusion":
            die()
        return done


class Letters:
    """A model that has two letters sent to each of its goal's boxes, and is done then."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        if request.history:
            return ModelReply(Final("done"))
        calls = [
            {"call_id": f"{to}{n}", "tool_name": "letter", "arguments": {"to": to, "number": n}}
            for n in (1, 2)
            for to in request.goal.split()
        ]
        return ModelReply({"kind": "tool_calls", "calls": calls})


def desk(world: Path, effect: str, command: str) -> Agent:
    """The agent of every process."""

    @tool(
        effect=effect,
        dispatch="outbox",
        writes=lambda a: [a.to],
        effect_key=lambda a: f"{a.to}:{a.number}",
    )
    async def letter(to: str, number: int, context: ToolContext) -> str:
        """Send a letter."""
        if command == "before_effect":
            die()
        with world.open("a") as file:
            file.write(f"{context.effect_key} {context.attempt}\n")
        if command == "after_effect":
            die()
        return f"{to} has {number}"

    if effect == "reconcilable":

        @letter.reconcile
        def look(key: str) -> Reconciled:
            """Tell whether it is there."""
            lines = world.read_text().splitlines() if world.exists() else []
            there = any(line.startswith(f"{key} ") for line in lines)
            return applied("found") if there else not_applied()

    return Agent("desk", model=Letters(), tools=[letter])


async def left(runtime: Runtime) -> bool:
    """Tell whether there is anything to do; what nobody is at work on goes on here."""
    await runtime.recover()
    running = await runtime.invocations(status="running")
    return bool(running or await runtime.effects(statuses=UNSETTLED))


async def main(command: str, path: Path, world: Path, effect: str, *goals: str) -> None:
    """Begin an invocation for each goal, take up what others have left, and deliver everything."""
    agent, store = desk(world, effect, command), Mortal(path, command)
    ttl = 15.0 if command == DELIVER else LEASE_TTL
    async with Runtime([agent], store=store, lease_ttl=ttl) as runtime:
        for run in [await runtime.start("desk", goal) for goal in goals]:
            await run.outcome()
        while await left(runtime):  # noqa: ASYNC110 - other processes do it too
            await asyncio.sleep(0.02)
        entries = [fact.entry for fact in await runtime.effects()]
        print(dumps({e.effect_key: [e.status, e.receipt, e.attempts] for e in entries}).decode())


if __name__ == "__main__":
    _, the_command, the_store, the_world, the_effect, *the_goals = sys.argv
    asyncio.run(main(the_command, Path(the_store), Path(the_world), the_effect, *the_goals))
