"""Casebook K: what is tried again, when, and by whom; what falls back; who is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from email.utils import formatdate
from typing import Any

import pytest

from casebook.desk import Played, batch, call, journal
from loopwright import (
    Agent,
    Budget,
    FallbackChain,
    Final,
    ModelRequest,
    Outcome,
    Policy,
    Reason,
    Runtime,
    ToolFailure,
    Usage,
    tool,
)
from loopwright.actors import AnyTool, Run
from loopwright.policy import Breaker, Retry
from loopwright.protocol import ModelAttempted, ModelError, Price, TurnCommitted
from loopwright.testing import ScriptedModel, Step, VirtualClock, settle

pytestmark = pytest.mark.anyio

DONE = Final("done")
NEVER = "never asked"


class Response:
    """As the clients of HTTP have it."""

    def __init__(self, **headers: str) -> None:
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class StatusError(Exception):
    """As the SDKs of providers raise it: a status, and the response it came with."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        self.response = Response(**headers)


class Endpoint(ScriptedModel):
    """A scripted model with a name, and perhaps a window and a limit of time."""

    def __init__(
        self,
        name: str,
        steps: Sequence[Step],
        *,
        context_window: int | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(steps)
        self.name = name
        self.context_window = context_window
        self.timeout = timeout


@asynccontextmanager
async def started(
    model: Any, *tools: AnyTool, **options: Any
) -> AsyncGenerator[tuple[VirtualClock, Run], None]:
    """Start one invocation on a clock of its own, and let everything happen that needs no time."""
    clock = VirtualClock()
    desk = Agent("desk", model=model, tools=tools, **options)
    async with Runtime([desk], clock=clock) as runtime:
        run = await runtime.start("desk", "the goal")
        await settle()
        yield clock, run


async def ended(run: Run) -> Outcome:
    """Take its outcome, which is there already."""
    return await asyncio.wait_for(run.outcome(), 1)


# ---------------------------------------------------------------- B99
@pytest.mark.parametrize("form", ["seconds", "date", "milliseconds", "said"])
async def test_b99_retry_after_is_waited(form: str) -> None:
    """B99: 429 and `Retry-After: 7`: the second attempt is at 7 s or later, and there are two."""
    wall = VirtualClock().now().wall
    error: Exception = {
        "seconds": StatusError(429, retry_after="7"),
        "date": StatusError(429, Retry_After=formatdate(wall + 7, usegmt=True)),
        "milliseconds": StatusError(429, retry_after_ms="7000"),
        "said": ModelError("slow down", kind="rate_limited", retry_after=7),
    }[form]
    model = ScriptedModel([error, DONE])
    async with started(model) as (clock, run):
        await clock.advance(6.99)
        assert model.calls == 1
        await clock.advance(0.51)
        outcome = await ended(run)
        assert model.calls == 2
        (turn,) = [r async for r in run.events() if isinstance(r, TurnCommitted)]
    assert outcome.completed
    assert outcome.spent.steps == 1
    assert turn.proposal is not None
    assert turn.proposal.attempts == 2


@pytest.mark.parametrize("garbage", ["-5", "abc", "NaN", "inf", "", "-inf"])
async def test_b99_garbage_is_waited_as_ever(garbage: str) -> None:
    """B99: it is ignored: the usual backoff, no exception, and no endless or negative wait."""
    model = ScriptedModel([StatusError(429, retry_after=garbage), DONE])
    async with started(model, policy=Policy(retry=Retry(first=2.0))) as (clock, run):
        assert model.calls == 1
        await clock.advance(2)
        assert (await ended(run)).completed
    assert model.calls == 2


# ---------------------------------------------------------------- B100
@pytest.mark.parametrize("fallback", [True, False])
async def test_b100_nobody_sleeps_past_the_deadline(fallback: bool) -> None:
    """B100 (a): 10 s are left and 900 s are asked for: the fallback is asked, or it is over, at once."""
    first = Endpoint("first", [StatusError(429, retry_after="900")])
    second = Endpoint("second", [DONE])
    model = FallbackChain([first, second]) if fallback else first
    budget = Budget(max_active_seconds=10)
    async with started(model, budget=budget) as (_, run):
        outcome = await ended(run)
    assert first.calls == 1
    assert outcome.reason is (Reason.COMPLETED if fallback else Reason.MODEL_ERROR)
    assert outcome.spent.active_seconds < 10


async def test_b100_an_attempt_gets_no_more_than_what_is_left() -> None:
    """B100 (b): 10 s in all and 6 s an attempt: the second one gets 4 s at most."""
    asked, gave_up = list[float](), list[float]()
    clock = VirtualClock()

    async def slow(_: ModelRequest) -> Step:
        asked.append(clock.now().monotonic)
        try:
            await asyncio.Event().wait()
        finally:
            gave_up.append(clock.now().monotonic)
        return NEVER

    model = Endpoint("slow", [slow, slow, slow], timeout=6)
    desk = Agent("desk", model=model, budget=Budget(max_active_seconds=10))
    async with Runtime([desk], clock=clock) as runtime:
        began = clock.now().monotonic
        run = await runtime.start("desk", "the goal")
        await clock.advance(10)
        outcome = await ended(run)
        await clock.advance(60)
    assert [round(until - since, 6) for since, until in zip(asked, gave_up, strict=True)] == [
        6.0,
        round(began + 10 - asked[1], 6),
    ]
    assert gave_up[1] - asked[1] <= 4
    assert outcome.reason in (Reason.DEADLINE_EXCEEDED, Reason.TIME_BUDGET_EXHAUSTED)
    assert model.calls == 2


# ---------------------------------------------------------------- B101
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StatusError(400), Reason.MODEL_ERROR),
        (StatusError(401), Reason.MODEL_ERROR),
        (ModelError("content policy", kind="refused"), Reason.MODEL_REFUSED),
        (ModelError("too long", kind="context_too_long"), Reason.MODEL_ERROR),
    ],
    ids=str,
)
async def test_b101_what_must_not_fall_back_does_not(error: Exception, reason: Reason) -> None:
    """B101: one attempt, and a healthy fallback with a smaller window is not asked."""
    first = Endpoint("first", [error], context_window=32_000)
    second = Endpoint("second", [NEVER], context_window=8_000)
    async with started(FallbackChain([first, second])) as (clock, run):
        outcome = await ended(run)
        await clock.advance(60)
    assert outcome.reason is reason
    assert (first.calls, second.calls) == (1, 0)


async def test_b101_a_request_that_is_too_long_goes_to_a_larger_window() -> None:
    """B101: the fallback is asked where it is known to hold it."""
    first = Endpoint("first", [ModelError("too long", kind="context_too_long")])
    second = Endpoint("second", [DONE], context_window=128_000)
    async with started(FallbackChain([first, second])) as (_, run):
        assert (await ended(run)).completed
    assert (first.calls, second.calls) == (1, 1)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_b101_these_are_tried_again(status: int) -> None:
    """B101: of the 4xx only 408, 409 and 429, and then the fallback is asked."""
    first = Endpoint("first", [StatusError(status)] * 3)
    second = Endpoint("second", [DONE])
    async with started(FallbackChain([first, second])) as (clock, run):
        await clock.advance(60)
        outcome = await ended(run)
        attempts = [r async for r in run.events() if isinstance(r, ModelAttempted)]
    assert outcome.completed
    assert (first.calls, second.calls) == (3, 1)
    assert [(a.attempt, a.model) for a in attempts] == [(n, "first") for n in (1, 2, 3)]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_b101_the_others_are_not(status: int) -> None:
    """B101: one attempt."""
    model = ScriptedModel([StatusError(status)])
    async with started(model) as (clock, run):
        outcome = await ended(run)
        await clock.advance(60)
    assert (outcome.reason, model.calls) == (Reason.MODEL_ERROR, 1)


async def test_b101_who_is_there_for_refusals_is_asked_once() -> None:
    """B101: it answers, or the refusal is the end."""
    for said, reason in (
        (DONE, Reason.COMPLETED),
        (ModelError("no", kind="refused"), Reason.MODEL_REFUSED),
    ):
        first = Endpoint("first", [ModelError("no", kind="refused")])
        second, third = Endpoint("second", [NEVER]), Endpoint("third", [said])
        chain = FallbackChain([first, second], on_refusal=third)
        async with started(chain) as (_, run):
            assert (await ended(run)).reason is reason
        assert (first.calls, second.calls, third.calls) == (1, 0, 1)


# ---------------------------------------------------------------- and what follows from them
async def test_b94_a_cancel_is_heard_during_our_own_backoff() -> None:
    """B94: 503 and 30 s to wait; a cancel at 50 ms ends it then, and nobody is asked afterwards."""
    model = ScriptedModel([StatusError(503, retry_after="30"), NEVER])
    async with started(model) as (clock, run):
        await clock.advance(0.05)
        run.cancel("enough")
        await settle()
        outcome = await ended(run)
        await clock.advance(60)
    assert outcome.reason is Reason.CANCELLED
    assert model.calls == 1


async def test_retries_and_fallbacks_are_charged_and_are_no_steps() -> None:
    """What a failed attempt has used is in the journal, with its price, and in what is spent."""
    first = Endpoint("first", [ModelError("503", usage=Usage(1_000, 0))] * 2)
    second = Endpoint("second", [DONE])
    desk = Agent(
        "desk",
        model=FallbackChain([first, second]),
        prices=[Price(name, Decimal(1), Decimal(1)) for name in ("first", "second")],
        policy=Policy(retry=Retry(2, first=0.0)),
    )
    async with Runtime([desk], clock=VirtualClock()) as runtime:
        outcome = await runtime.run("desk", "the goal")
        attempts = [
            record
            for record in await journal(runtime, outcome.invocation_id)
            if isinstance(record, ModelAttempted)
        ]
    assert outcome.completed
    assert outcome.spent.steps == 1
    assert outcome.usage.input_tokens == 2_000 + 10
    assert [(a.model, a.usage) for a in attempts] == [("first", Usage(1_000, 0))] * 2
    assert [a.cost for a in attempts] == [Decimal("0.001")] * 2
    assert outcome.cost == Decimal("0.002") + Decimal("0.000015")


async def test_a_model_that_is_down_is_left_alone_by_all_invocations() -> None:
    """Five failures in a row, of whomever: the sixth invocation goes to the fallback at once."""
    first = Endpoint("first", [StatusError(503)] * 5)
    second = Endpoint("second", [DONE] * 6)
    desk = Agent(
        "desk", model=FallbackChain([first, second]), policy=Policy(retry=Retry(max_attempts=1))
    )
    async with Runtime([desk], clock=VirtualClock()) as runtime:
        for _ in range(6):
            assert (await runtime.run("desk", "the goal")).completed
    assert (first.calls, second.calls) == (5, 6)


@pytest.mark.parametrize("effect", ["read", "manual", "idempotent"])
async def test_a_tool_that_stays_down_ends_with_tool_unavailable(effect: str) -> None:
    """Its breaker opens; a write it refuses has not run, and nothing is left to settle."""
    runs = 0

    @tool(effect=effect)
    async def fetch(n: int) -> None:
        nonlocal runs
        runs += 1
        raise ToolFailure("down", category="unavailable")

    steps = [batch(call(f"c{n}", "fetch", {"n": n})) for n in range(20)]
    model = ScriptedModel(steps)
    policy = Policy(breaker=Breaker(failures=2), max_unavailable_turns=3)
    desk = Agent("desk", model=model, tools=[fetch], policy=policy)
    async with Runtime([desk], clock=VirtualClock()) as runtime:
        outcome = await runtime.run("desk", "the goal")
        effects = await runtime.effects()
    played = Played(outcome, model)
    assert outcome.reason is Reason.TOOL_UNAVAILABLE
    assert runs == 2
    assert played.statuses[:2] == ["error", "error"]
    assert set(played.statuses[2:]) <= {"not_started"}
    assert outcome.unresolved_effects == ()
    assert {fact.entry.status for fact in effects} <= {"rejected", "not_applied"}


async def test_a_read_is_tried_again_before_the_model_hears_of_it() -> None:
    """One call, one result, two tries; the model is asked twice in all."""
    runs = 0

    @tool(effect="read")
    async def fetch() -> str:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise ConnectionError("gone")
        return "found"

    model = ScriptedModel([batch(call("c", "fetch")), DONE])
    async with started(model, fetch) as (clock, run):
        await clock.advance(1)
        outcome = await ended(run)
    (result,) = Played(outcome, model).results
    assert (result.status, result.output, result.attempts) == ("ok", "found", 2)
    assert model.calls == 2
    assert outcome.spent.tool_calls == 1
