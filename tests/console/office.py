"""An app for the tests: an agent that writes a note, once a human has said yes.

`python office.py STORE` starts an invocation and is killed at its first model call.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextvars import ContextVar
from pathlib import Path

from loopwright import (
    Agent,
    Final,
    ModelReply,
    ModelRequest,
    Policy,
    Runtime,
    ToolCall,
    ToolCalls,
    tool,
)
from loopwright.policy import writes
from loopwright.protocol import CallId
from loopwright.stores import SQLiteStore

desk = ContextVar("desk", default="no desk")


@tool(effect="manual")
def note(text: str) -> str:
    """Append to notes.txt, with the desk it was written at."""
    log(f"{text} at {desk.get()}", "notes.txt")
    return "noted"


def log(line: str, name: str) -> None:
    with Path(name).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


class Clerk:
    """Writes the goal down, then says so; thinks a minute about some."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        log(f"{request.turn}", "asked.txt")
        if request.goal == "think long":
            await asyncio.sleep(60)
        if request.history:
            return ModelReply(Final(f"written: {request.history[-1].results[0].status}"))
        return ModelReply(ToolCalls((ToolCall(CallId("n"), "note", {"text": request.goal}),)))


clerk = Agent("clerk", model=Clerk(), tools=[note], policy=Policy(ask=[writes()]))


def make() -> list[Agent]:
    return [clerk]


class Killer:
    """Is killed, with its process, by being asked."""

    def __init__(self) -> None:
        self.told = asyncio.Event()

    async def decide(self, request: ModelRequest) -> ModelReply:
        await self.told.wait()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


async def main(store: str) -> None:
    killer = Killer()
    agent = Agent("clerk", model=killer, tools=[note])
    async with Runtime([agent], store=SQLiteStore(store), lease_ttl=0.2) as runtime:
        run = await runtime.start("clerk", "buy milk")
        print(run.id, flush=True)
        killer.told.set()
        await run.outcome()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
