"""What the demo does, act by act, and what it found; how it looks is in `_demo.py`."""

from __future__ import annotations

import csv
import os
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Final, cast

import anyio
from anyio.abc import Process
from pydantic import TypeAdapter

from loopwright.actors import Runtime
from loopwright.examples.refund_desk import NAME, Settlement, make_agent
from loopwright.examples.refund_desk.shop import DATA, LoadReport, Payout, Shop, build
from loopwright.protocol import (
    ApprovalProposal,
    EffectKey,
    LoopwrightError,
    Outcome,
    Reason,
    Summary,
)
from loopwright.stores import SQLiteStore

from ._apps import shop_path
from ._desk_worker import LEASE_TTL, goal

BEFORE_THE_KILL: Final = ("REQ-01", "REQ-02", "REQ-03")
VICTIM: Final = BEFORE_THE_KILL[-1]
_PATIENCE: Final = 60.0
_POLL: Final = 0.01
_settlement = TypeAdapter(Settlement)


class DemoError(LoopwrightError):
    """Raised when a step of the demo did not do what the next one rests on."""


@dataclass(frozen=True, slots=True)
class Killed:
    """What was true right after a worker was killed."""

    pid: int
    exit_code: int
    known: tuple[Summary, ...]
    effect: EffectKey
    store_says: str
    """What the journal knows of that effect."""
    shop_says: Payout


@dataclass(frozen=True, slots=True)
class Recovered:
    """What came of the invocation whose worker was killed."""

    outcome: Outcome
    attempts: int
    replayed: bool
    """Whether the shop answered from its ledger instead of paying again."""
    payments: int
    """Under its effect key."""


@dataclass(frozen=True, slots=True)
class Decided:
    """An answer a human gave in another process."""

    request_id: str
    proposal: ApprovalProposal
    approved: bool
    by: str


@dataclass(frozen=True, slots=True)
class Checked:
    """One request at the end, beside what was expected of it."""

    request_id: str
    status: str
    why: str
    paid: Decimal | None
    """According to the shop."""
    expected: str
    ok: bool


@contextmanager
def _patience() -> Generator[None]:
    try:
        with anyio.fail_after(_PATIENCE):
            yield
    except TimeoutError:
        msg = f"nothing happened for {_PATIENCE:g} s; try again when this machine is less busy"
        raise DemoError(msg) from None


class Story:
    """The refund desk's day, in one folder.

    Each method is an act; they are played in the order they are written in.
    """

    def __init__(self, folder: Path) -> None:
        self.store = folder / "loopwright.db"
        self._shop_path = shop_path(self.store)
        self._folder = folder
        self._decisions: dict[str, Decided] = {}

    def build_shop(self) -> LoadReport:
        """Make the shop's database from the CSV files.

        Raises:
            ShopFileError: If there is one already, or it cannot be written.
        """
        return build(self._shop_path)

    async def kill_a_worker(self) -> Killed:
        """Let another process work, and kill it between the shop's payment and its own record.

        Raises:
            DemoError: If it ended before, or never got there.
        """
        effect = EffectKey(f"refund:{VICTIM}")
        command = ("-m", "loopwright.console._desk_worker", str(self.store), str(self._shop_path))
        async with await anyio.open_process(
            [sys.executable, *command, *BEFORE_THE_KILL], stdout=DEVNULL, stderr=PIPE
        ) as worker:
            try:
                payout = await self._first_payment(effect, worker)
            finally:
                with suppress(ProcessLookupError):
                    worker.kill()
            exit_code = await worker.wait()
        async with self._runtime() as runtime:
            known = await runtime.invocations()
            (victim,) = (found for found in known if found.head.key == VICTIM)
            effects = (await runtime.state(victim.invocation_id)).business.effects
        return Killed(
            worker.pid,
            exit_code,
            tuple(reversed(known)),
            effect,
            effects[effect].status,
            payout,
        )

    async def recover(self) -> Recovered:
        """Take over what the killed worker left, once its lease has run out.

        Raises:
            DemoError: If the lease does not run out.
        """
        async with self._runtime() as runtime:
            with _patience():
                # A lease runs out in silence: there is nothing to wait for but time.
                while not (runs := (await runtime.recover()).runs):  # noqa: ASYNC110 - see above
                    await anyio.sleep(_POLL)
            outcome = await runs[0].outcome()
        results = [result for turn in outcome.history for result in turn.results]
        (paid,) = (result for result in results if result.effect_key is not None)
        receipt = cast("dict[str, Any]", paid.output)
        payments = [payout for payout in self._ledger() if payout.effect_key == paid.effect_key]
        return Recovered(outcome, paid.attempts, bool(receipt["replayed"]), len(payments))

    async def settle_the_rest(self) -> list[tuple[str, Outcome]]:
        """Settle all other requests at once."""
        async with self._runtime() as runtime:
            names = [request.request_id for request in Shop(self._shop_path).requests()]
            rest = [name for name in names if name not in BEFORE_THE_KILL]
            runs = [(name, await runtime.start(NAME, goal(name), key=name)) for name in rest]
            return [(name, await run.outcome()) for name, run in runs]

    async def decide(self, outcomes: Sequence[tuple[str, Outcome]]) -> list[Decided]:
        """Answer the first proposal with yes and the others with no, each in another process.

        Raises:
            DemoError: If such a process fails.
        """
        waiting = [(name, done, done.proposal) for name, done in outcomes if done.proposal]
        decided: list[Decided] = []
        for number, (name, done, proposal) in enumerate(waiting):
            words = ["approve"] if number == 0 else ["deny", "--reason", "no photo of the damage"]
            by = "ana" if number == 0 else "ben"
            await self._loopwright(
                *words, done.invocation_id, proposal.digest, "--by", by, "--json"
            )
            decided.append(Decided(name, proposal, number == 0, by))
        self._decisions = {one.request_id: one for one in decided}
        return decided

    async def check(self) -> list[Checked]:
        """Compare every request with `expected.csv`, and with the shop's ledger."""
        paid = {payout.effect_key: payout.amount for payout in self._ledger()}
        found: dict[str, Outcome] = {}
        async with self._runtime() as runtime:
            for summary in await runtime.invocations(status="ended"):
                outcome = await runtime.outcome(summary.invocation_id)
                found[str(summary.head.key)] = outcome
        with (DATA / "expected.csv").open(encoding="utf-8", newline="") as file:
            return [
                self._checked(row, found.get(row["request_id"]), paid)
                for row in csv.DictReader(file)
            ]

    def payments_by_key(self) -> Counter[str]:
        """Count the shop's payments under each effect key."""
        return Counter(payout.effect_key for payout in self._ledger())

    # ------------------------------------------------------------ inside
    def _checked(
        self, row: dict[str, str], outcome: Outcome | None, ledger: dict[str, Decimal]
    ) -> Checked:
        name, expected = row["request_id"], row["expected"]
        paid = ledger.get(f"refund:{name}")
        if outcome is None or outcome.reason is not Reason.COMPLETED:
            why = "not there" if outcome is None else str(outcome.reason)
            return Checked(name, "unsettled", why, paid, expected, False)
        settlement = _settlement.validate_python(outcome.output)
        decision = self._decisions.get(name)
        due = Decimal(row["pays"]) if row["pays"] else None
        if decision is not None:
            wanted = ("paid", "", due) if decision.approved else ("denied", "", None)
            why = f"{'a yes' if decision.approved else 'a no'} from {decision.by}"
        elif expected.startswith("refused:"):
            wanted, why = ("refused", expected.removeprefix("refused:"), None), settlement.code
        else:
            wanted, why = ("paid", "", due), settlement.code
        asked_rightly = (decision is not None) == (expected == "needs_approval")
        right = (settlement.status, settlement.code, paid) == wanted and asked_rightly
        return Checked(name, settlement.status, why, paid, expected, right)

    async def _first_payment(self, effect: EffectKey, worker: Process) -> Payout:
        """Watch the shop's ledger until it has this payment."""
        with _patience():
            while True:
                if (payout := self._payout(effect)) is not None:
                    return payout
                if worker.returncode is not None:
                    assert worker.stderr is not None
                    errors = (await worker.stderr.receive()).decode(errors="replace")
                    msg = f"the worker ended before it could be killed: {errors[-500:]}"
                    raise DemoError(msg)
                await anyio.sleep(_POLL)

    def _runtime(self) -> Runtime:
        agent = make_agent(self._shop_path)
        return Runtime([agent], store=SQLiteStore(self.store), lease_ttl=LEASE_TTL)

    def _ledger(self) -> list[Payout]:
        return Shop(self._shop_path).ledger()

    def _payout(self, effect: EffectKey) -> Payout | None:
        return next((paid for paid in self._ledger() if paid.effect_key == effect), None)

    async def _loopwright(self, *words: str) -> None:
        # Neither the user's configuration nor their environment is the demo's.
        clean = {name: text for name, text in os.environ.items() if "LOOPWRIGHT_" not in name}
        command = [sys.executable, "-m", "loopwright", *words, "--store", str(self.store)]
        done = await anyio.run_process(command, check=False, cwd=self._folder, env=clean)
        if done.returncode != 0:
            raise DemoError(f"`loopwright {words[0]}` failed: {done.stderr.decode().strip()}")
