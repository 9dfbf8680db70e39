"""Casebook G: limits are hard, counted right, and end with a typed reason."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from casebook.desk import agent, batch, call, journal, play, sleep, tasks
from loopwright import (
    Agent,
    Budget,
    ConfigurationError,
    FallbackChain,
    Final,
    ModelReply,
    ModelRequest,
    Policy,
    Reason,
    Runtime,
    Usage,
    tool,
)
from loopwright.policy import Retry, writes
from loopwright.protocol import (
    InvocationEnded,
    InvocationId,
    ModelError,
    NoticeInjected,
    Price,
    Record,
    TurnCommitted,
)
from loopwright.stores import MemoryStore
from loopwright.testing import ScriptedModel, Step, VirtualClock, settle

pytestmark = pytest.mark.anyio


CENT, FREE = Decimal("0.01"), Decimal(0)


class Endpoint(ScriptedModel):
    """A scripted model with a name of its own."""

    def __init__(self, name: str, steps: Sequence[Step]) -> None:
        super().__init__(steps)
        self.name = name


def no_usage(kind: str) -> Any:
    """Say what a provider says that reports no usage: nothing, or nothing but names."""
    unreported: Any = None
    return None if kind == "absent" else Usage(unreported, unreported)


@pytest.mark.parametrize("kind", ["absent", "null"])
async def test_b45_usage_that_is_not_reported_is_estimated(kind: str) -> None:
    """B45: the reply is kept, and its usage is estimated, marked and charged; it is never 0."""
    model = ScriptedModel([ModelReply(Final("ok"), no_usage(kind))])
    price = Price("ScriptedModel", CENT, CENT)
    desk = Agent("desk", model=model, budget=Budget(max_tokens=10_000), prices=[price])
    async with Runtime([desk], clock=VirtualClock()) as runtime:
        outcome = await runtime.run("desk", "the goal")

    assert (outcome.reason, outcome.answer) == (Reason.COMPLETED, "ok")
    usage = outcome.usage
    assert usage.estimated
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0
    assert outcome.cost == price.cost(usage) > 0


@pytest.mark.parametrize("kind", ["absent", "null"])
async def test_b45_an_estimate_uses_up_a_budget(kind: str) -> None:
    """B45: a model that reports nothing does not run for nothing."""

    @tool(effect="read")
    async def look(n: int) -> int:
        return n

    looks: list[Step] = [
        ModelReply(batch(call("c", "look", {"n": n})), no_usage(kind)) for n in range(99)
    ]
    budget = Budget(max_steps=None, max_tokens=1_000)
    played = await play(looks, look, budget=budget)
    assert played.outcome.reason is Reason.TOKEN_BUDGET_EXHAUSTED
    assert played.outcome.usage.estimated
    assert 1 < played.model.calls < 50


async def test_b47_an_unknown_price_is_not_free() -> None:
    """B47: with a limit of cost and a model without a price nothing starts, and it is named."""
    model = Endpoint("m-x", [Final("never said")])
    other = Price("m-y", CENT, CENT)
    desk = Agent("desk", model=model, budget=Budget(max_cost=Decimal(1)), prices=[other])
    async with Runtime([desk], clock=VirtualClock()) as runtime:
        for budget in (None, Budget(max_cost=Decimal(0)), Budget(max_cost=Decimal(5))):
            with pytest.raises(ConfigurationError, match="m-x"):
                await runtime.start("desk", "the goal", budget=budget)
        assert model.calls == 0
        assert await runtime.invocations() == []
        # Nothing is limited, so nothing has to be known.
        outcome = await runtime.run("desk", "the goal", budget=Budget())
    assert outcome.completed
    assert outcome.cost == 0


@pytest.mark.parametrize("limit", [Decimal(0), Decimal("0.015")])
async def test_b47_a_free_model_that_fails_buys_nothing(limit: Decimal) -> None:
    """B47: with the money gone, or none from the start, the paid model behind it is not asked."""

    @tool(effect="read")
    async def look() -> None:
        return

    down = ModelError("503 Service Unavailable")
    free = Endpoint("m-free", [down, down])
    replies: list[Step] = [ModelReply(batch(call("c", "look")), Usage(10_000, 5_000))]
    paid = Endpoint("m-paid", replies)
    desk = Agent(
        "desk",
        model=FallbackChain([free, paid]),
        tools=[look],
        policy=Policy(retry=Retry(max_attempts=1)),
        budget=Budget(max_cost=limit),
        prices=[Price("m-free", FREE, FREE), Price("m-paid", Decimal(1), Decimal(1))],
    )
    async with Runtime([desk], clock=VirtualClock()) as runtime:
        outcome = await runtime.run("desk", "the goal")

    assert outcome.reason is Reason.COST_BUDGET_EXHAUSTED
    assert outcome.cost == limit
    assert (free.calls, paid.calls) == ((1, 0) if limit == 0 else (2, 1))


async def test_b47_the_price_that_is_used_is_the_one_of_the_start() -> None:
    """B47: prices are kept in the journal; a change meanwhile changes no running invocation."""
    store, clock = MemoryStore(), VirtualClock()

    @tool(effect="manual")
    async def pay() -> None:
        return

    def desk(price: Decimal, *steps: Step) -> Agent:
        return Agent(
            "desk",
            model=Endpoint("m", steps),
            tools=[pay],
            policy=Policy(ask=[writes()]),
            budget=Budget(max_cost=Decimal(1)),
            prices=[Price("m", price, price)],
        )

    steps: list[Step] = [ModelReply(batch(call("c", "pay")), Usage(1_000, 1_000))]
    async with Runtime([desk(Decimal(10), *steps)], store=store, clock=clock) as runtime:
        waiting = await runtime.run("desk", "the goal")
        assert waiting.proposal is not None
    done = ModelReply(Final("done"), Usage(1_000, 1_000))
    async with Runtime([desk(Decimal(500), done)], store=store, clock=clock) as runtime:
        await runtime.approve(waiting.invocation_id, waiting.proposal.digest, by="bo")
        outcome = await runtime.get(waiting.invocation_id).outcome()
    assert outcome.completed
    assert outcome.cost == Decimal("0.04")


@pytest.mark.parametrize(("used", "size"), [(5, 3), (0, 8)])
async def test_b49_a_batch_that_crosses_the_limit_starts_nothing(used: int, size: int) -> None:
    """B49: limit 6: with 5 used a batch of 3, and with 0 used a batch of 8, does not start."""
    ran: Counter[int] = Counter()

    @tool(effect="read")
    async def look(n: int) -> None:
        ran[n] += 1

    before: list[Step] = [batch(call(str(n), "look", {"n": n})) for n in range(used)]
    crossing = batch(*(call(f"x{n}", "look", {"n": 100 + n}) for n in range(size)))
    played = await play([*before, crossing], look, budget=Budget(max_tool_calls=6))

    assert played.outcome.reason is Reason.TOOL_BUDGET_EXHAUSTED
    assert ran.total() == played.outcome.tool_calls == used
    assert played.statuses == ["ok"] * used + ["not_started"] * size


async def test_b51_the_last_step_is_a_whole_one() -> None:
    """B51: max_steps=3 is three decisions; the calls of the third run, and there is no fourth."""
    ran: Counter[int] = Counter()

    @tool(effect="read")
    async def look(n: int) -> None:
        ran[n] += 1

    budget = Budget(max_steps=3)
    looks: list[Step] = [batch(call("c", "look", {"n": n})) for n in range(9)]
    endless = await play(looks, look, budget=budget)
    assert endless.outcome.reason is Reason.MAX_STEPS
    assert (endless.model.calls, endless.outcome.steps) == (3, 3)
    assert ran == {0: 1, 1: 1, 2: 1}
    assert [[r.status.value for r in t.results] for t in endless.outcome.history] == [["ok"]] * 3

    ending = await play([*looks[:2], Final("done")], look, budget=budget)
    assert ending.outcome.completed
    assert ending.outcome.steps == 3


@pytest.mark.parametrize("ends_on_9", [False, True])
async def test_b53_the_soft_stop_is_told_once_and_in_time(ends_on_9: bool) -> None:
    """B53: of 10 steps the 9th hears what is left, the 10th is not told anew, and there is no 11th;
    a model that comes to an end on the 9th completes.
    """

    @tool(effect="read")
    async def look(n: int) -> int:
        return n

    steps: list[Step] = [batch(call("c", "look", {"n": n})) for n in range(20)]
    if ends_on_9:
        steps[8] = Final("done")
    model = ScriptedModel(steps)
    desk = agent(model, look, budget=Budget(max_steps=10))
    async with Runtime([desk], clock=VirtualClock()) as runtime:
        outcome = await runtime.run("desk", "the goal")
        told = [
            (record.turn, record.notice)
            for record in await journal(runtime, outcome.invocation_id)
            if isinstance(record, NoticeInjected)
        ]

    notices = [request.notice for request in model.requests]
    assert notices[:8] == [None] * 8
    assert notices[8] is not None
    assert "2 steps" in notices[8]
    assert told == [(9, "soft_stop")]
    if ends_on_9:
        assert (outcome.reason, outcome.answer, model.calls) == (Reason.COMPLETED, "done", 9)
    else:
        assert (outcome.reason, model.calls) == (Reason.MAX_STEPS, 10)
        assert notices[9] is None


@pytest.mark.parametrize("obeys", [True, False], ids=["obedient", "stubborn"])
async def test_b54_a_hanging_model_does_not_outlast_the_deadline(obeys: bool) -> None:
    """B54: at 0.3 s a model call is given up, by 0.5 s it is abandoned, and the end is durable."""
    clock = VirtualClock()
    heard, let_go = asyncio.Event(), asyncio.Event()

    async def hang(request: ModelRequest) -> Final:
        try:
            await sleep(clock, 10)
        except asyncio.CancelledError:
            heard.set()
            if obeys:
                raise
            await let_go.wait()
        return Final("too late")

    model = ScriptedModel([hang])
    deadline = datetime.fromtimestamp(clock.now().wall + 0.3, UTC)
    desk = agent(model, policy=Policy(cancel_grace=0.2), budget=Budget(deadline=deadline))
    async with Runtime([desk], clock=clock) as runtime:
        await settle()
        before = tasks()
        run = await runtime.start("desk", "the goal")
        await clock.advance(0.299)
        assert not heard.is_set()
        await clock.advance(0.001 if obeys else 0.201)
        assert heard.is_set()
        outcome = await asyncio.wait_for(run.outcome(), 1)
        ended = (await journal(runtime, run.id))[-1]
        let_go.set()
        await settle()
        assert tasks() == before

    assert outcome.reason is Reason.DEADLINE_EXCEEDED
    assert isinstance(ended, InvocationEnded)
    assert ended.reason is Reason.DEADLINE_EXCEEDED
    assert outcome.history[:] == ()


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("more", "reason"), [(54, "completed"), (56, "time_budget_exhausted")])
async def test_b81_waiting_for_a_human_costs_no_running_time(
    more: float, reason: str, restarted: bool
) -> None:
    """B81: 5 s of 60 used, suspended for an hour, approved: 55 s are left, and not one more."""
    store, clock = MemoryStore(), VirtualClock()

    @tool(effect="read")
    async def think(seconds: float) -> None:
        await sleep(clock, seconds)

    @tool(effect="manual")
    async def pay() -> None:
        return

    def desk(*steps: Step) -> Agent:
        policy, budget = Policy(ask=[writes()]), Budget(max_active_seconds=60)
        return agent(ScriptedModel(steps), think, pay, policy=policy, budget=budget)

    before = [batch(call("a", "think", {"seconds": 5})), batch(call("b", "pay"))]
    after: list[Step] = [batch(call("c", "think", {"seconds": more})), Final("done")]
    runtime = Runtime([desk(*before, *after)], store=store, clock=clock)
    async with runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(5)
        waiting = await run.outcome()
        assert waiting.proposal is not None
        assert (waiting.reason, waiting.spent.active_seconds) == (Reason.APPROVAL_REQUIRED, 5)
        await clock.advance(3_600)
        if not restarted:
            await finish(runtime, clock, waiting.proposal.digest, run.id, reason)
    if restarted:
        async with Runtime([desk(*after)], store=store, clock=clock) as runtime:
            await finish(runtime, clock, waiting.proposal.digest, run.id, reason)


async def finish(
    runtime: Runtime, clock: VirtualClock, digest: str, invocation_id: str, reason: str
) -> None:
    """Say yes, let a minute pass, and see how it has ended."""
    await runtime.approve(invocation_id, digest, by="bo")
    await clock.advance(60)
    outcome = await runtime.get(invocation_id).outcome()
    assert outcome.reason.value == reason
    assert outcome.spent.active_seconds == pytest.approx(59 if outcome.completed else 60)


async def test_b120_no_clock_on_the_wall_decides_anything() -> None:
    """B120: the wall clock jumps back and forth during a run, and after a restart monotonic begins
    anew: only running time counts, and what was used before the restart still is.
    """
    store = MemoryStore()

    def desk(clock: VirtualClock, *naps: float) -> Agent:
        @tool(effect="read")
        async def nap(seconds: float) -> float:
            await sleep(clock, seconds)
            return seconds

        steps = [batch(call(f"c{n}", "nap", {"seconds": s})) for n, s in enumerate(naps)]
        return agent(ScriptedModel([*steps, Final("done")]), nap)

    clock = VirtualClock()
    budget = Budget(max_active_seconds=10)
    async with Runtime([desk(clock, 1, 60)], store=store, clock=clock) as runtime:
        run = await runtime.start("desk", "the goal", budget=budget)
        await clock.advance(0.5)
        clock.jump_wall(-3_600)
        await clock.advance(0.25)
        clock.jump_wall(7_200)
        await clock.advance(0.25)
        records = await journal_so_far(runtime, run.id)
        assert [r.active_seconds for r in records if isinstance(r, TurnCommitted)] == [1.0]

    clock = VirtualClock(monotonic=0.1)
    async with Runtime([desk(clock, 8.9, 60)], store=store, clock=clock) as runtime:
        (run,) = await runtime.recover()
        await clock.advance(8.9)
        records = await journal_so_far(runtime, run.id)
        spent = [r.active_seconds for r in records if isinstance(r, TurnCommitted)]
        assert spent == [1.0, pytest.approx(9.9)]
        await clock.advance(0.2)
        outcome = await run.outcome()
    assert outcome.reason is Reason.TIME_BUDGET_EXHAUSTED
    assert outcome.spent.active_seconds == pytest.approx(10, abs=0.11)
    assert [r.turn for r in records if isinstance(r, TurnCommitted)] == [1, 2]


async def journal_so_far(runtime: Runtime, invocation_id: str) -> list[Record]:
    """Read what is durable of an invocation that runs."""
    stored = await runtime.store.load(InvocationId(invocation_id))
    return [entry.record for entry in stored.entries()]
