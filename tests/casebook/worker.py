"""Another process of a service, for the cases: `python worker.py COMMAND STORE LEDGER …`.

What a tool does to the world is a line in the ledger, a file, which tells how often it ran in
all processes together. Ends with one line of JSON on standard output.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, NoReturn

from casebook.desk import batch, call
from loopwright import (
    Agent,
    Budget,
    Final,
    LoopwrightError,
    ModelRequest,
    Policy,
    Runtime,
    ToolContext,
    tool,
)
from loopwright.policy import tool_named
from loopwright.protocol import Append, Reconciled, applied, dumps, not_applied
from loopwright.stores import AppendResult, SQLiteStore
from loopwright.testing import ScriptedModel, Step, WrappedStore

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


class KillingStore(WrappedStore):
    """A store that kills this process as soon as a record of some kind is durable."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(SQLiteStore(path))
        self._mark = f'"{kind}"'.encode()

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        results = await self.inner.append(batch)
        if any(self._mark in line for one in batch for line in one.lines):
            os.kill(os.getpid(), 9)
        return results


async def approves(path: Path, ledger: Path, invocation: str, digest: str) -> None:
    """Say yes, and be killed once that is durable."""
    store = KillingStore(path, "approval_decided")
    async with Runtime([clerk(wants_to_pay(), ledger)], store=store) as runtime:
        await runtime.approve(invocation, digest, by="bo")


def payer(model: ScriptedModel, ledger: Path, effect: str, die: str = "") -> Agent:
    """An agent that pays; the ledger is the downstream, and can be asked.

    Args:
        model: Who decides.
        ledger: The file that says what was paid.
        effect: The effect class of the payment.
        die: Kill this process `before` or `after` the payment takes effect.
    """

    @tool(effect=effect, effect_key=lambda a: f"pay:{a.order}")
    async def pay(order: int, ctx: ToolContext) -> str:
        if die == "before":
            os.kill(os.getpid(), 9)
        with ledger.open("a") as file:
            file.write(f"{ctx.effect_key}\n")
        if die == "after":
            os.kill(os.getpid(), 9)
        return f"receipt {order}"

    if effect == "reconcilable":

        @pay.reconcile
        def _(effect_key: str) -> Reconciled:
            paid = ledger.exists() and effect_key in ledger.read_text().split()
            return applied(f"receipt {ORDER}") if paid else not_applied()

    return Agent("payer", model=model, tools=[pay])


ORDER = 7
PAY = batch(call("p", "pay", {"order": ORDER}))


def die(request: ModelRequest) -> NoReturn:
    """Be killed where the model is asked."""
    os.kill(os.getpid(), 9)
    raise AssertionError


async def pays(path: Path, ledger: Path, effect: str, point: str) -> None:
    """Pay, and be killed before or after the effect, or once its result is stored."""
    desk = payer(ScriptedModel([PAY, die]), ledger, effect, point)
    async with Runtime([desk], store=SQLiteStore(path)) as runtime:
        await runtime.run("payer", "the goal")


def reader(model: ScriptedModel, ledger: Path, hang: bool) -> Agent:
    """An agent that looks things up; the lookup of 3 may hang."""

    @tool(effect="read")
    async def look(n: int) -> int:
        with ledger.open("a") as file:
            file.write(f"{n}\n")
        if hang and n == 3:
            await asyncio.sleep(60)
        return n

    return Agent("reader", model=model, tools=[look])


LOOK = batch(*(call(f"c{n}", "look", {"n": n}) for n in (1, 2, 3)))


async def reads(path: Path, ledger: Path) -> None:
    """Look three things up at once, and hang over the last."""
    desk = reader(ScriptedModel([LOOK]), ledger, hang=True)
    async with Runtime([desk], store=SQLiteStore(path)) as runtime:
        await runtime.run("reader", "the goal")


async def abandons(path: Path, ledger: Path) -> None:
    """Leave an invocation whose model has not answered."""

    async def hang(request: ModelRequest) -> Final:
        await asyncio.sleep(60)
        raise AssertionError

    desk = payer(ScriptedModel([hang]), ledger, "manual")
    async with Runtime([desk], store=SQLiteStore(path)) as runtime:
        report([(await runtime.start("payer", "the goal")).id])


async def resumes(path: Path, ledger: Path) -> None:
    """Resume the one invocation there is, at the same moment as others; report what came of it."""
    desk = payer(ScriptedModel([PAY, Final("done")]), ledger, "manual")
    async with Runtime([desk], store=SQLiteStore(path)) as runtime:
        (listed,) = await runtime.invocations()
        report(["ready"])
        await asyncio.to_thread(sys.stdin.readline)
        try:
            outcome = await runtime.resume(listed.invocation_id)
            report([str(outcome.reason)])
        except LoopwrightError as error:
            report([type(error).__name__])
        # Until all have tried: who leaves early would say goodbye.
        await asyncio.to_thread(sys.stdin.readline)


async def interrupted(path: Path, ledger: Path) -> None:
    """Be interrupted from inside a read, while a write is in flight elsewhere."""
    begun = asyncio.Event()

    @tool(effect="manual")
    async def write() -> None:
        with ledger.open("a") as file:
            file.write("write\n")
        begun.set()
        await asyncio.sleep(60)

    @tool(effect="read")
    async def look() -> None:
        await begun.wait()
        raise KeyboardInterrupt

    model = ScriptedModel([batch(call("w", "write")), batch(call("r", "look"))])
    desk = Agent("desk", model=model, tools=[write, look])
    async with Runtime([desk], store=SQLiteStore(path)) as runtime:
        for goal in ("write", "look"):
            await runtime.start("desk", goal)
        await asyncio.Event().wait()


def report(what: object) -> None:
    print(dumps(what).decode(), flush=True)


COMMANDS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    f.__name__: f
    for f in (
        suspend,
        early,
        dies,
        append,
        once,
        blocked,
        approves,
        pays,
        reads,
        abandons,
        resumes,
        interrupted,
    )
}

if __name__ == "__main__":
    _, command, store, ledger, *more = sys.argv
    asyncio.run(COMMANDS[command](Path(store), Path(ledger), *more))
