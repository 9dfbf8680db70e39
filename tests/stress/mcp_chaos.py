"""Kill MCP servers and the worker that calls them, and check that no write is done twice.

Each round has a store, and a ledger in a file that servers count effects in, by effect key. A
worker runs twenty invocations, which read and write by the tools of two servers; it is killed with
SIGKILL at random moments, and meanwhile so are its servers. Others take its place, the last one of
which is left in peace. A person then says of each manual write what the ledger says. At the end

- every invocation has completed, and every call has exactly one result;
- each effect has taken place at most once, and exactly once where it is called committed;
- no server process is left, nor a task or a file of the last worker, and it is idle.

It is no test of the suite, for it takes as long as it is told. Run it from the repository:

    python tests/stress/mcp_chaos.py [--seconds N] [--seed N]

The seed decides the delays and the moments of the kills; what falls between them is up to the
machine. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack, closing, suppress
from pathlib import Path
from typing import Final

from mcp_chaos_server import WRITES, ledger

from loopwright import Agent, Budget, ModelReply, ModelRequest, Policy, Runtime
from loopwright import Final as Done
from loopwright.actors import AnyTool
from loopwright.adapters import MCPServer
from loopwright.policy import Breaker, Retry
from loopwright.protocol import (
    CallId,
    InvocationStateError,
    Outcome,
    Reason,
    Reconciled,
    ToolCall,
    ToolCalls,
    Usage,
    applied,
    not_applied,
)
from loopwright.stores import SQLiteStore

INVOCATIONS: Final = 20
TURNS: Final = ("read", "idempotent", "manual", "read", "reconcilable", "idempotent")
SERVER: Final = str(Path(__file__).with_name("mcp_chaos_server.py"))
# Each tool fails more often here than one that is well: no breaker is to stop its invocations.
PATIENT: Final = Policy(
    tool_retry=Retry(max_attempts=5, first=0.02, longest=0.1),
    max_attempts=50,
    breaker=Breaker(failures=0),
)


class Model:
    """Calls one tool after the other, at one server or the other."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Say this turn."""
        turn = request.turn
        if turn > len(TURNS):
            return ModelReply(Done("done"), Usage(1, 1))
        name = f"s{turn % 2}__{TURNS[turn - 1]}"
        call = ToolCall(CallId(f"c{turn}"), name, {"turn": turn})
        return ModelReply(ToolCalls((call,)), Usage(1, 1))


# ---------------------------------------------------------------- the worker
async def work(folder: Path, seed: int, *, last: bool) -> None:
    """Bring all invocations to their rest; kill a server now and then, unless it is the last."""
    dice, before = random.Random(seed), _held()
    async with AsyncExitStack() as stack:
        tools = list[AnyTool]()
        for n in (0, 1):
            server = MCPServer.stdio(
                f"s{n}",
                sys.executable,
                args=["-S", "-E", SERVER, str(folder), str(dice.randrange(10**6))],
                effects={"read": "read", **{name: name for name in WRITES}},
                timeout=5,
            )
            await stack.enter_async_context(server)

            @server.tool("reconcilable").reconcile
            async def _(effect_key: str) -> Reconciled:
                # What was sent to a server that is dead by now cannot take effect any more.
                return truth(folder, effect_key)

            tools += server.tools
        desk = Agent(
            "desk",
            model=Model(),
            tools=tools,
            policy=PATIENT,
            budget=Budget(max_tool_calls=50),
        )
        store = SQLiteStore(folder / "store.db")
        async with Runtime([desk], store=store, adopt=True, lease_ttl=1) as runtime:
            killing = None if last else asyncio.create_task(_kill_servers(dice))
            async with asyncio.TaskGroup() as group:
                for n in range(INVOCATIONS):
                    group.create_task(_settled(runtime, folder, f"i{n}"))
            if killing is not None:
                killing.cancel()
    if last:
        await _idle(before)


def truth(folder: Path, key: str) -> Reconciled:
    """Say what the ledger says."""
    with closing(ledger(folder)) as db:
        found = db.execute("SELECT n FROM effects WHERE key = ?", (key,)).fetchone()
    return applied(f"receipt of {key}") if found else not_applied()


async def _kill_servers(dice: random.Random) -> None:
    while True:
        await asyncio.sleep(dice.uniform(0.01, 0.25))
        if pids := _children():
            with suppress(ProcessLookupError):
                os.kill(dice.choice(pids), signal.SIGKILL)


async def _settled(runtime: Runtime, folder: Path, name: str) -> None:
    run = await runtime.start("desk", "the goal", key=name)
    while True:
        try:
            outcome = await run.outcome()
        except InvocationStateError:
            # Its former worker is dead, and it is not taken over yet.
            await asyncio.sleep(0.05)
            continue
        if outcome.reason is not Reason.RECONCILIATION_REQUIRED:
            _check(folder, outcome)
            return
        for effect in outcome.unresolved_effects:
            found = truth(folder, effect.effect_key)
            await runtime.settle(run.id, effect.call_id, found, by="ana", turn=effect.turn)


def _check(folder: Path, outcome: Outcome) -> None:
    assert outcome.completed, outcome
    results = [result for turn in outcome.history for result in turn.results]
    assert [result.call_id for result in results] == [f"c{n}" for n in range(1, len(TURNS) + 1)]
    with closing(ledger(folder)) as db:
        counts = dict(db.execute("SELECT key, n FROM effects"))
    for effect in outcome.effects:
        expected = {1} if effect.status == "committed" else {0}
        assert counts.get(effect.effect_key, 0) in expected, (effect, counts)


def _held() -> tuple[int, int]:
    return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())


async def _idle(before: tuple[int, int]) -> None:
    busy = time.process_time()
    await asyncio.sleep(0.5)
    assert time.process_time() - busy < 0.1
    files, tasks = _held()
    assert not _children()
    assert (files - before[0] <= 3, tasks) == (True, before[1]), (before, files, tasks)


def _children() -> list[int]:
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in pids]


# ---------------------------------------------------------------- the rounds
def one_round(seed: int) -> int:
    """Run one, and return how often its workers were killed."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder, kills = Path(name), dice.randrange(1, 5)
        for n in range(kills + 1):
            last = n == kills
            more = ["--last"] if last else []
            work = [
                sys.executable,
                __file__,
                "--work",
                name,
                "--seed",
                str(dice.randrange(10**6)),
                *more,
            ]
            worker = subprocess.Popen(work, start_new_session=True)
            try:
                assert worker.wait(120 if last else dice.uniform(0.5, 2.5)) == 0
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
                assert not last, "the last worker hangs"
            _gone(name)
        with closing(ledger(folder)) as db:
            assert not db.execute("SELECT key FROM effects WHERE n > 1").fetchall()
    return kills


def _gone(folder: str) -> None:
    """Wait for the servers of a worker that is dead: what they have read may still take effect."""
    until = time.monotonic() + 10
    while found := subprocess.run(["pgrep", "-f", folder], capture_output=True, check=False).stdout:
        assert time.monotonic() < until, f"servers are left: {found.decode()}"
        time.sleep(0.05)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--last", action="store_true")
    given = parser.parse_args()
    if given.work is not None:
        logging.disable(logging.CRITICAL)
        asyncio.run(work(given.work, given.seed, last=given.last))
    else:
        rounds, kills, until = 0, 0, time.monotonic() + given.seconds
        while time.monotonic() < until:
            print(f"round {rounds}: seed {given.seed + rounds}", flush=True)
            kills += one_round(given.seed + rounds)
            rounds += 1
        print(f"{rounds} rounds, {kills} workers killed: all is well")


if __name__ == "__main__":
    main()
