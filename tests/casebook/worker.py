"""Another process of a service, for the cases: `python worker.py COMMAND STORE [LEDGER]`.

What a tool does to the world is a line in the ledger, a file, which tells how often it ran in
all processes together. Ends with one line of JSON on standard output.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import time
from itertools import repeat
from pathlib import Path
from typing import NoReturn

from casebook.desk import batch, call
from loopwright import Agent, Budget, Final, ModelRequest, Policy, Runtime, tool
from loopwright.policy import tool_named
from loopwright.protocol import dumps
from loopwright.stores import SQLiteStore
from loopwright.testing import ScriptedModel, Step

WRITES = 24
"""Turns with one write: with its start and its end, an invocation appends 50 times."""
RUNS = 2

operator = contextvars.ContextVar("operator", default="nobody")


def clerk(model: ScriptedModel, ledger: Path) -> Agent:
    """The agent every process has: it may mail, and pays only with a human's yes."""

    def note(line: str) -> None:
        with ledger.open("a") as file:
            file.write(f"{line}\n")

    @tool(effect="manual")
    async def mail(to: str) -> None:
        note(f"mail {to}")

    @tool(effect="manual")
    async def pay(order: int, amount: int) -> str:
        note(f"pay {order} {amount} for {operator.get()}")
        return f"receipt {order}"

    return Agent("clerk", model=model, tools=[mail, pay], policy=Policy(ask=[tool_named("pay")]))


def wants_to_pay() -> ScriptedModel:
    """A mail that may be sent, and a payment that needs a yes."""
    return ScriptedModel(
        [batch(call("m", "mail", {"to": "ana"}), call("p", "pay", {"order": 7, "amount": 30}))]
    )


async def suspend(path: Path, ledger: Path) -> None:
    """Run until a human is waited for, and leave."""
    operator.set("process A")
    async with Runtime([clerk(wants_to_pay(), ledger)], store=SQLiteStore(path)) as runtime:
        outcome = await runtime.run("clerk", "the goal")
        assert outcome.proposal is not None
        report([outcome.invocation_id, str(outcome.reason), outcome.proposal.digest])


async def early(path: Path, ledger: Path) -> None:
    """Say the id as soon as it is there, and go on until killed; the model never answers."""

    async def hang(request: ModelRequest) -> Final:
        await asyncio.sleep(60)
        raise AssertionError

    async with Runtime([clerk(ScriptedModel([hang]), ledger)], store=SQLiteStore(path)) as runtime:
        run = await runtime.start("clerk", "the goal", metadata={"order": 7})
        report([run.id])
        await run.outcome()


async def dies(path: Path, ledger: Path) -> None:
    """Be killed at the very moment at which the model is asked."""

    def die(request: ModelRequest) -> NoReturn:
        os.kill(os.getpid(), 9)
        raise AssertionError

    async with Runtime([clerk(ScriptedModel([die]), ledger)], store=SQLiteStore(path)) as runtime:
        await runtime.run("clerk", "the goal", metadata={"order": 7})


async def append(path: Path, ledger: Path) -> None:
    """Run two invocations of 50 appends each at once; report how they ended."""

    def mail_or_end(request: ModelRequest) -> Step:
        done = request.turn > WRITES
        return Final("done") if done else batch(call("m", "mail", {"to": str(request.turn)}))

    desk = clerk(ScriptedModel(repeat(mail_or_end)), ledger)
    budget = Budget(max_steps=None)
    async with Runtime([desk], store=SQLiteStore(path)) as runtime:
        runs = [runtime.run("clerk", "the goal", budget=budget) for _ in range(RUNS)]
        report([str(outcome.reason) for outcome in await asyncio.gather(*runs)])


async def once(path: Path, ledger: Path) -> None:
    """Run one short invocation; report how many seconds it took."""
    model = ScriptedModel([Final("done")])
    async with Runtime([clerk(model, ledger)], store=SQLiteStore(path)) as runtime:
        began = time.monotonic()
        await runtime.run("clerk", "the goal")
        report([time.monotonic() - began])


async def blocked(path: Path, ledger: Path) -> None:
    """Give up on a blocking tool, and leave while its thread is still at it."""

    @tool(effect="read", timeout=0.1)
    def slow() -> None:
        time.sleep(60)

    model = ScriptedModel([batch(call("1", "slow")), Final("done")])
    async with Runtime([Agent("clerk", model=model, tools=[slow])]) as runtime:
        outcome = await runtime.run("clerk", "the goal")
        report([str(outcome.reason), outcome.history[0].results[0].status])


def report(what: object) -> None:
    print(dumps(what).decode(), flush=True)


COMMANDS = {f.__name__: f for f in (suspend, early, dies, append, once, blocked)}

if __name__ == "__main__":
    _, command, *paths = sys.argv
    asyncio.run(COMMANDS[command](*map(Path, paths)))
