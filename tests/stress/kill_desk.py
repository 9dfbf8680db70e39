"""Kill the refund desk again and again, and check that nothing is lost or paid twice.

Each round has a store and a shop of its own. One or two worker processes settle all requests,
eight at once, and are killed with SIGKILL at a random moment; others take their place, until one
of them gets to the end. After each kill and at the end of each round the files must say that

- no payment was made that the journal had not announced, and one was made per effect key;
- journals run from 1 to n without a gap, and fold;
- every committed turn has exactly one result per call;
- nothing ended twice, or went on after its end;
- no invocation is missing whose `start` had returned;
- at the end, every request is settled as expected, and one waits for a human.

It is no test of the suite, for it takes minutes and depends on time. Run it from the repository:

    python tests/stress/kill_desk.py [--rounds N] [--seed N]

The seed decides the delays and the moments of the kills; what falls between them is up to the
machine. POSIX only.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import multiprocessing
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Final

from loopwright import Agent, Budget, LoopwrightError, Policy, Runtime
from loopwright.examples.refund_desk import NAME, Settlement
from loopwright.examples.refund_desk.agent import LIMIT
from loopwright.examples.refund_desk.model import RuleModel
from loopwright.examples.refund_desk.shop import DATA, Receipt, Refund, Shop, build
from loopwright.examples.refund_desk.tools import make_tools
from loopwright.policy import over
from loopwright.protocol import (
    CallDispatched,
    Entry,
    InvocationEnded,
    InvocationState,
    Reason,
    RequestApproval,
    ToolCalls,
    TurnCommitted,
    decode_record,
    fold,
)
from loopwright.stores import SQLiteStore

AT_ONCE: Final = 8
LEASE_TTL: Final = 0.15
"""Seconds in which a killed worker's invocations can't be taken over: short, for there are many."""
LONGEST_LIFE: Final = 0.3
"""Seconds after which a worker is killed at the latest; some are done before."""
KILLS: Final = 12
"""Generations of workers in a round that are killed; the next one gets all the time it needs."""
GIVE_UP: Final = 60.0
APPROVED: Final = "REQ-05"
"""A request that a human must decide on, and does."""
WAITING: Final = "REQ-06"
"""Another one, which nobody decides on."""

_processes = multiprocessing.get_context("fork")


class SlowShop(Shop):
    """A shop whose answers are under way for a while, before and after what they are about."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        super().__init__(path)
        self._chance = chance

    def refunds(self, order_id: str) -> list[Refund]:
        self._wait()
        return super().refunds(order_id)

    def refund(self, order_id: str, amount: Decimal, currency: str, *, effect_key: str) -> Receipt:
        self._wait()
        receipt = super().refund(order_id, amount, currency, effect_key=effect_key)
        self._wait()
        return receipt

    def _wait(self) -> None:
        time.sleep(self._chance.uniform(0.0, 0.05))


# ------------------------------------------------------------ a worker
async def work(store: Path, shop: Path, seed: int, started: int) -> None:
    """Recover, settle and approve until there is nothing left to do; report what was started."""
    agent = Agent(
        NAME,
        model=RuleModel(),
        tools=make_tools(SlowShop(shop, random.Random(seed)), 0.0),
        policy=Policy(ask=[over(LIMIT)], max_attempts=2 * KILLS),
        budget=Budget(max_steps=12),
        output=Settlement,
    )
    room = asyncio.Semaphore(AT_ONCE)
    async with Runtime([agent], store=SQLiteStore(store), lease_ttl=LEASE_TTL) as runtime:

        async def settle(request_id: str) -> None:
            async with room:
                goal = f"Settle refund request {request_id}"
                run = await runtime.start(NAME, goal, key=request_id)
                os.write(started, f"{run.id}\n".encode())
                # It may be running elsewhere, or be lost to another worker.
                with suppress(LoopwrightError):
                    await run.outcome()

        names = [request.request_id for request in Shop(shop).requests()]
        while True:
            await runtime.recover()
            await asyncio.gather(*map(settle, names))
            left = [s for s in await runtime.invocations() if s.head.status != "ended"]
            if [s.head.key for s in left] == [WAITING] and left[0].head.status == "suspended":
                return
            for summary in left:
                if summary.head.key == APPROVED and summary.head.status == "suspended":
                    # Another worker may be faster.
                    with suppress(LoopwrightError):
                        await runtime.approve(summary.invocation_id, summary.head.detail, by="ana")
            await asyncio.sleep(0.02)


def _worker(store: Path, shop: Path, seed: int, started: int) -> None:
    asyncio.run(work(store, shop, seed, started))


# ------------------------------------------------------------ what the files must say
def journals(store: Path) -> dict[str, list[Entry]]:
    """Read every journal by its key, without the store: its rows must follow each other."""
    found: dict[str, list[Entry]] = {}
    with closing(sqlite3.connect(store)) as db:
        if db.execute("PRAGMA user_version").fetchone() == (0,):
            # Killed before there was anything: SQLite has taken back what was begun.
            return found
        rows = db.execute(
            "SELECT i.key, j.seq, j.count, j.body FROM invocations i LEFT JOIN journal j"
            " ON j.run = i.id ORDER BY i.id, j.seq"
        ).fetchall()
    for key, seq, count, body in rows:
        entries = found.setdefault(key, [])
        lines = body.split(b"\n")
        check(seq == len(entries) + 1 and count == len(lines), f"{key} has a gap at {seq}")
        entries += [Entry(decode_record(line), line) for line in lines]
    return found


def check_files(store: Path, shop: Path, started: set[str]) -> dict[str, InvocationState]:
    """Check what must hold at any moment."""
    states: dict[str, InvocationState] = {}
    announced: set[str] = set()
    for key, entries in journals(store).items():
        states[key] = fold(entries)
        records = [entry.record for entry in entries]
        ends = [i for i, record in enumerate(records, 1) if isinstance(record, InvocationEnded)]
        check(ends in ([], [len(records)]), f"{key} ended at {ends} of {len(records)}")
        announced |= {r.effect_key for r in records if isinstance(r, CallDispatched)}
        for record in records:
            if isinstance(record, TurnCommitted):
                check_results(key, record)
    known = {state.protocol.started.invocation_id for state in states.values()}
    check(started <= known, f"started, and lost: {started - known}")
    ledger = Counter(payout.effect_key for payout in Shop(shop).ledger())
    check(ledger.keys() <= announced, f"paid, and not announced: {ledger.keys() - announced}")
    check(set(ledger.values()) <= {1}, f"paid more than once: {ledger}")
    return states


def check_results(key: str, turn: TurnCommitted) -> None:
    decision = turn.proposal.decision
    calls = decision.calls if isinstance(decision, ToolCalls | RequestApproval) else ()
    answered = [result.call_id for result in turn.results]
    check(answered == [call.call_id for call in calls], f"{key}, turn {turn.turn}: {answered}")


def check_settled(states: dict[str, InvocationState], shop: Path) -> None:
    """Check how it all has to end: as `expected.csv` says, for which one payment is missing."""
    with (DATA / "expected.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        key = row["request_id"]
        ended = Reason.APPROVAL_REQUIRED if key == WAITING else Reason.COMPLETED
        check(states[key].protocol.reason is ended, f"{key}: {states[key].protocol.reason}")
    due = {
        f"refund:{row['request_id']}": Decimal(row["pays"])
        for row in rows
        if row["request_id"] != WAITING and not row["expected"].startswith("refused:")
    }
    paid = {payout.effect_key: payout.amount for payout in Shop(shop).ledger()}
    check(paid == due, f"paid {paid}, not {due}")


def check(holds: bool, problem: str) -> None:
    if not holds:
        raise AssertionError(problem)


# ------------------------------------------------------------ rounds
def play_round(folder: Path, chance: random.Random) -> int:
    """Kill workers until they are done; return how many were killed."""
    store, shop = folder / "store.db", folder / "shop.db"
    build(shop)
    heard, started = os.pipe()
    os.set_blocking(heard, False)
    ids, kills, generation = "", 0, 0
    try:
        while True:
            generation += 1
            workers = [
                _processes.Process(
                    target=_worker, args=(store, shop, chance.getrandbits(32), started)
                )
                for _ in range(chance.choice((1, 1, 2)))
            ]
            for worker in workers:
                worker.start()
            life = chance.uniform(0.0, LONGEST_LIFE) if generation <= KILLS else GIVE_UP
            workers[0].join(life)
            done = workers[0].exitcode == 0
            for worker in workers:
                if worker.is_alive():
                    worker.kill()
                    kills += 1
                worker.join()
            codes = [worker.exitcode for worker in workers]
            check({*codes} <= {0, -9}, f"a worker has failed by itself: {codes}")
            check(done or generation <= KILLS, f"not done within {GIVE_UP} s")
            with suppress(BlockingIOError):
                ids += os.read(heard, 1_000_000).decode()
            states = check_files(store, shop, set(ids.split()))
            if done:
                check_settled(states, shop)
                return kills
    finally:
        os.close(heard)
        os.close(started)


def main() -> None:
    """Play all rounds; the files of a round that went wrong stay where they are."""
    parser = argparse.ArgumentParser(description="Kill the refund desk again and again.")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    kills, begun = 0, time.monotonic()
    for number in range(1, given.rounds + 1):
        folder = Path(tempfile.mkdtemp(prefix="kill-desk-"))
        try:
            kills += play_round(folder, random.Random(f"{given.seed}:{number}"))
        except Exception:
            print(f"round {number} went wrong, its files are in {folder}", file=sys.stderr)
            raise
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    print(f"{given.rounds} rounds, {kills} kills, {time.monotonic() - begun:.0f} s: all is well")


if __name__ == "__main__":
    main()
