"""Casebook H: effects that may have happened, and a process that can no longer tell."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from casebook.desk import FlakyStore, agent, batch, call, journal, sleep
from casebook.processes import Worker, lines
from casebook.worker import payer, reader
from loopwright import (
    Agent,
    Final,
    ModelRequest,
    Outcome,
    Policy,
    Reason,
    Run,
    Runtime,
    tool,
)
from loopwright.actors import AnyTool
from loopwright.policy import writes
from loopwright.protocol import (
    CallCompleted,
    Reconciled,
    StoreError,
    ToolCalls,
    TurnCommitted,
    applied,
    decode_record,
    not_applied,
    unknown,
)
from loopwright.stores import SQLiteStore
from loopwright.testing import ScriptedModel, Step, VirtualClock

pytestmark = pytest.mark.anyio

LIMIT = 0.05
PAY: Step = batch(call("c1", "pay", {"order": 7, "amount": 30}))
PAY_AGAIN: Step = batch(call("c2", "pay", {"order": 7, "amount": 30}))


class Shop:
    """A payment service that is too slow for its caller; how often it has paid is the truth.

    Args:
        clock: On which it is slow.
        effect: The effect class of its tool.
        slow: Whether it is slow `before` or `after` the payment takes effect, or not at all.
    """

    def __init__(self, clock: VirtualClock, effect: str, slow: str) -> None:
        self.paid: Counter[int] = Counter()
        self.dispatched = 0
        self.asked = 0
        self._clock = clock
        self._slow = slow
        self.tool = self._make(effect)

    def _make(self, effect: str) -> AnyTool:
        @tool(effect=effect, timeout=LIMIT)
        async def pay(order: int, amount: int) -> str:
            self.dispatched += 1
            if self._slow == "before" and self.dispatched == 1:
                await sleep(self._clock, 10)
            self.paid[order] += 1
            if self._slow == "after":
                await sleep(self._clock, 10)
            return f"receipt {order}"

        if effect == "reconcilable":

            @pay.reconcile
            async def _(effect_key: str) -> Reconciled:
                self.asked += 1
                return applied("receipt 7") if self.paid[7] else not_applied()

        return pay


async def paying(
    clock: VirtualClock, shop: Shop, steps: Sequence[Step]
) -> tuple[Runtime, ScriptedModel]:
    model = ScriptedModel(steps)
    desk = agent(model, shop.tool, policy=Policy(max_attempts=3))
    return Runtime([desk], clock=clock), model


def statuses(outcome: Outcome) -> list[str]:
    return [r.status.value for turn in outcome.history for r in turn.results]


async def test_b55_a_timeout_is_no_failure() -> None:
    """B55: the payment took effect, then the call timed out: nobody repeats it, a person is asked."""
    clock = VirtualClock()
    shop = Shop(clock, "manual", "after")
    runtime, model = await paying(clock, shop, [PAY, Final("paid")])
    async with runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(1)
        outcome = await run.outcome()
        assert outcome.reason is Reason.RECONCILIATION_REQUIRED
        (effect,) = outcome.unresolved_effects
        assert (effect.call_id, effect.status, effect.attempts) == ("c1", "outcome_unknown", 1)
        assert (shop.dispatched, model.calls) == (1, 1)

        await runtime.settle(run.id, "c1", applied("receipt 7"), by="bo")
        outcome = await run.outcome()
    assert outcome.completed
    assert statuses(outcome) == ["ok"]
    assert outcome.history[0].results[0].output == "receipt 7"
    assert (shop.paid[7], shop.dispatched, model.calls) == (1, 1, 2)


async def test_b55_a_proposal_anew_is_not_dispatched_before_the_first_is_settled() -> None:
    """B55: nobody will know for now; the same payment under another call id has to wait for it."""
    clock = VirtualClock()
    shop = Shop(clock, "manual", "after")
    again = batch(call("c3", "pay", {"order": 7, "amount": 30}))
    runtime, model = await paying(clock, shop, [PAY, PAY_AGAIN, Final("open"), again, Final("ok")])
    async with runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(1)
        await runtime.settle(run.id, "c1", unknown("the bank is on holiday"), by="bo")
        outcome = await run.outcome()
        assert outcome.completed
        assert statuses(outcome) == ["outcome_unknown", "not_started"]
        (refused,) = outcome.history[1].results
        assert refused.error is not None
        assert refused.error.type == "Unsettled"
        assert (shop.paid[7], shop.dispatched) == (1, 1)

        # Long after its end the bank answers: ledger and history say so.
        await runtime.settle(run.id, "c1", applied("receipt 7"), by="bo")
        outcome = await run.outcome()
    assert outcome.completed
    assert outcome.unresolved_effects == ()
    assert statuses(outcome) == ["ok", "not_started"]
    assert model.calls == 3


async def test_b55_who_can_be_asked_is_asked_before_anything_is_repeated() -> None:
    """B55: it took effect: `ok`, without a second dispatch and without anybody waiting."""
    clock = VirtualClock()
    shop = Shop(clock, "reconcilable", "after")
    runtime, _ = await paying(clock, shop, [PAY, Final("paid")])
    async with runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(1)
        outcome = await run.outcome()
    assert outcome.completed
    assert statuses(outcome) == ["ok"]
    assert (shop.paid[7], shop.dispatched, shop.asked) == (1, 1, 1)


@pytest.mark.parametrize("effect", ["reconcilable", "manual"])
async def test_b55_what_was_not_done_may_be_sent_once_more(effect: str) -> None:
    """B55: it timed out before it took effect, and that is known: one more dispatch, one payment."""
    clock = VirtualClock()
    shop = Shop(clock, effect, "before")
    runtime, _ = await paying(clock, shop, [PAY, Final("paid")])
    async with runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(1)
        if effect == "manual":
            assert (await run.outcome()).reason is Reason.RECONCILIATION_REQUIRED
            await runtime.settle(run.id, "c1", not_applied(), by="bo")
        outcome = await run.outcome()
    assert outcome.completed
    assert statuses(outcome) == ["ok"]
    assert outcome.history[0].results[0].attempts == 2
    assert (shop.paid[7], shop.dispatched) == (1, 2)


RESULT_OF_THE_APPROVED_WRITE = 5
"""The start, the proposal, the answer and the dispatch come before it."""


async def test_b13_a_result_that_could_not_be_stored_is_not_lost() -> None:
    """B13: the store fails over the result of an approved write; after a resume it is there."""
    ran: Counter[str] = Counter()

    @tool(effect="manual")
    async def pay() -> str:
        ran["pay"] += 1
        return "receipt"

    store = FlakyStore(
        lambda n: StoreError("the disk is full") if n == RESULT_OF_THE_APPROVED_WRITE else None
    )
    model = ScriptedModel([batch(call("c1", "pay")), Final("paid")])
    desk = agent(model, pay, policy=Policy(ask=[writes()]))
    async with Runtime([desk], store=store) as runtime:
        asked = await runtime.run("desk", "the goal")
        assert asked.proposal is not None
        run = await runtime.approve(asked.invocation_id, asked.proposal.digest, by="bo")
        failed = await run.outcome()
        assert failed.reason is Reason.CHECKPOINT_FAILED
        assert (ran["pay"], model.calls) == (1, 1)

        outcome = await runtime.resume(run.id)
        records = await journal(runtime, run.id)

    assert outcome.completed
    assert (ran["pay"], model.calls) == (1, 2)
    (turn,) = [r for r in records if isinstance(r, TurnCommitted) and r.results]
    assert isinstance(turn.proposal.decision, ToolCalls)
    assert [r.output for r in turn.results] == ["receipt"]


async def test_b60_after_a_failed_checkpoint_another_process_asks_the_model_again() -> None:
    """B60, crash side: the turn that was not stored is taken anew, the stored ones are not."""

    @tool(effect="read")
    async def look(n: int) -> int:
        return n

    def fail(append: int) -> StoreError | None:
        return StoreError("the disk is full") if append == 3 else None

    store = FlakyStore(fail)
    steps: list[Step] = [*(batch(call("c", "look", {"n": n})) for n in (1, 2)), Final("done")]
    first = ScriptedModel(steps)
    async with Runtime([agent(first, look)], store=store) as runtime:
        failed = await runtime.run("desk", "the goal")
        assert failed.reason is Reason.CHECKPOINT_FAILED
    second = ScriptedModel(steps[1:])
    async with Runtime([agent(second, look)], store=store) as runtime:
        (run,) = await runtime.recover()
        outcome = await run.outcome()
        records = await journal(runtime, run.id)
    assert outcome.completed
    assert [request.turn for request in second.requests] == [2, 3]
    assert [r.turn for r in records if isinstance(r, TurnCommitted)] == [1, 2, 3]


# ------------------------------------------------------------ killed processes
def later(path: Path) -> SQLiteStore:
    """Open a store at a time at which whoever was killed is known to be gone."""
    return SQLiteStore(path, clock=lambda: time.monotonic() + 60)


@asynccontextmanager
async def taken_over(path: Path, desk: Agent) -> AsyncGenerator[tuple[Runtime, Run]]:
    """Recover the one invocation that a killed worker has left."""
    async with Runtime([desk], store=later(path)) as runtime:
        (run,) = await runtime.recover()
        yield runtime, run


async def killed(command: str, path: Path, ledger: Path, *more: str) -> None:
    """Let a worker run until it kills itself."""
    assert await Worker(command, path, ledger, *more).ended() == (-9, "")


@pytest.mark.parametrize(("point", "found"), [("before", not_applied()), ("after", applied("r"))])
async def test_b56_nobody_can_tell_a_crash_before_from_one_after_the_effect(
    point: str, found: Reconciled, tmp_path: Path
) -> None:
    """B56 (a) (b): without anybody to ask the outcome is unknown, and nothing is repeated."""
    path, ledger = tmp_path / "agents.db", tmp_path / "ledger"
    await killed("pays", path, ledger, "manual", point)
    paid_before = lines(ledger)

    model = ScriptedModel([Final("done")])
    async with taken_over(path, payer(model, ledger, "manual")) as (runtime, run):
        outcome = await run.outcome()
        assert outcome.reason is Reason.RECONCILIATION_REQUIRED
        (effect,) = outcome.unresolved_effects
        assert (effect.effect_key, effect.status) == ("pay:7", "outcome_unknown")
        assert (lines(ledger), model.calls) == (paid_before, 0)

        await runtime.settle(run.id, "p", found, by="bo")
        assert (await run.outcome()).completed
    assert lines(ledger) == ["pay:7"]


@pytest.mark.parametrize("point", ["before", "after"])
async def test_b56_who_can_be_asked_knows(point: str, tmp_path: Path) -> None:
    """B56: asked, the ledger says not applied (a): run once more; or applied (b): `ok`, no run."""
    path, ledger = tmp_path / "agents.db", tmp_path / "ledger"
    await killed("pays", path, ledger, "reconcilable", point)

    desk = payer(ScriptedModel([Final("done")]), ledger, "reconcilable")
    async with taken_over(path, desk) as (_, run):
        outcome = await run.outcome()
    assert outcome.completed
    assert statuses(outcome) == ["ok"]
    (result,) = outcome.history[0].results
    assert (result.output, result.attempts) == ("receipt 7", 2 if point == "before" else 1)
    assert lines(ledger) == ["pay:7"]


@pytest.mark.parametrize("effect", ["manual", "reconcilable", "idempotent"])
async def test_b56_a_stored_result_is_replayed(effect: str, tmp_path: Path) -> None:
    """B56 (c): once its result is durable nothing is run again, whatever the effect class."""
    path, ledger = tmp_path / "agents.db", tmp_path / "ledger"
    await killed("pays", path, ledger, effect, "stored")

    desk = payer(ScriptedModel([Final("done")]), ledger, effect)
    async with taken_over(path, desk) as (_, run):
        outcome = await run.outcome()
    assert outcome.completed
    assert outcome.history[0].results[0].output == "receipt 7"
    assert lines(ledger) == ["pay:7"]


async def test_b57_finished_siblings_are_not_run_again(tmp_path: Path) -> None:
    """B57: c1 and c2 are durable when it dies; only c3 runs anew, and then the model is asked."""
    path, ledger = tmp_path / "agents.db", tmp_path / "ledger"
    worker = Worker("reads", path, ledger)
    while await completed(path) < {"c1", "c2"}:  # noqa: ASYNC110 - it is another process
        await asyncio.sleep(0.01)
    worker.kill()
    await worker.ended()
    assert sorted(lines(ledger)) == ["1", "2", "3"]

    def counted(request: ModelRequest) -> Step:
        assert [r.call_id for r in request.history[0].results] == ["c1", "c2", "c3"]
        return Final("done")

    model = ScriptedModel([counted])
    async with taken_over(path, reader(model, ledger, hang=False)) as (_, run):
        outcome = await run.outcome()
    assert outcome.completed
    assert (model.calls, model.requests[0].turn) == (1, 2)
    assert sorted(lines(ledger)) == ["1", "2", "3", "3"]


async def completed(path: Path) -> set[str]:
    """Name the calls whose results a worker has made durable so far."""
    store = SQLiteStore(path)
    await store.open()
    try:
        for summary in await store.invocations():
            records = map(decode_record, (await store.load(summary.invocation_id)).lines)
            return {r.result.call_id for r in records if isinstance(r, CallCompleted)}
        return set()
    finally:
        await store.close()
