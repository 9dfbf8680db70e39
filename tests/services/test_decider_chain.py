"""The Decider: retries, fallback and breakers; what is told, what is charged, and who is not asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from loopwright import Agent, FallbackChain, Final, ModelRequest, Policy, Usage
from loopwright.actors.kernel import ActorSystem
from loopwright.actors.roles._breakers import Breakers
from loopwright.policy import Breaker, Retry
from loopwright.protocol import (
    NO_USAGE,
    Allowance,
    AttemptFailed,
    CancelDecide,
    Decided,
    DecideFailed,
    ModelError,
    ModelErrorKind,
    Price,
)
from loopwright.testing import ScriptedModel, Step, VirtualClock, settle
from services.bench import INVOCATION, decide
from services.deciding import DeciderBench, Named, decider

pytestmark = pytest.mark.anyio

DONE = Final("done")
NEVER = "never asked"
CANCELLED = DecideFailed(1, "the model call was cancelled")


def fails(kind: str = "transient", **options: Any) -> ModelError:
    return ModelError(kind, kind=kind, **options)


def policy(*, attempts: int = 3, failures: int = 0, cool_down: float = 30.0) -> Policy:
    """Wait 1 s, 2 s and so on, at the jitter that is half of what may be."""
    return Policy(
        retry=Retry(attempts, first=2.0, longest=60.0), breaker=Breaker(failures, cool_down)
    )


async def hangs(_: ModelRequest) -> Step:
    await asyncio.Event().wait()
    return DONE


class Stubborn:
    """A step that does not end before it is let go, whoever cancels."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def __call__(self, _: ModelRequest) -> Step:
        while not self.gate.is_set():
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                continue
        return Final("too late")


def told(bench: DeciderBench) -> list[tuple[str, str, float]]:
    """Endpoint, category and wait of each failed attempt."""
    return [(a.endpoint, a.category.value, a.retry_in) for a in bench.failed]


@asynccontextmanager
async def several(
    *models: Any, rule: Policy
) -> AsyncGenerator[tuple[VirtualClock, list[DeciderBench]], None]:
    """Run the Deciders of several agents of one runtime."""
    clock = VirtualClock()
    breakers = Breakers(clock)
    async with ActorSystem() as system:
        yield (
            clock,
            [
                DeciderBench(system, Agent(f"a{n}", model=m, policy=rule), clock, breakers)
                for n, m in enumerate(models)
            ],
        )


# ---------------------------------------------------------------- retries
async def test_a_failure_that_may_pass_is_tried_again_after_a_wait() -> None:
    """Each attempt is told before the wait; the decision says how many there were."""
    model = ScriptedModel([fails(), fails("rate_limited"), DONE])
    async with decider(model, policy=policy()) as bench:
        bench.ask()
        await settle()
        assert bench.asker.messages == [
            AttemptFailed(
                1, 1, "ScriptedModel", ModelErrorKind.TRANSIENT, "ModelError: transient",
                NO_USAGE, 1.0,
            )
        ]  # fmt: skip
        await bench.clock.advance(0.9)
        assert model.calls == 1
        await bench.clock.advance(0.1)
        assert model.calls == 2
        assert told(bench)[1:] == [("ScriptedModel", "rate_limited", 2.0)]
        await bench.clock.advance(1.9)
        assert model.calls == 2
        await bench.clock.advance(0.1)

    (decided,) = bench.answers
    assert isinstance(decided, Decided)
    assert (decided.decision, decided.attempts, decided.endpoint) == (DONE, 3, "ScriptedModel")


async def test_there_are_only_so_many_attempts() -> None:
    """The last one is told as well, and says that nothing is waited for."""
    model = ScriptedModel([fails(), fails(), fails(), NEVER])
    async with decider(model, policy=policy()) as bench:
        bench.ask()
        await bench.clock.advance(60)

    assert told(bench) == [("ScriptedModel", "transient", wait) for wait in (1.0, 2.0, 0.0)]
    assert [attempt.attempt for attempt in bench.failed] == [1, 2, 3]
    assert bench.answers == [DecideFailed(1, "ModelError: transient", ModelErrorKind.TRANSIENT)]
    assert model.calls == 3


async def test_no_wait_at_all_needs_no_time() -> None:
    """With a first wait of 0 the next attempt is made at once."""
    model = ScriptedModel([fails(), fails(), DONE])
    async with decider(model, policy=Policy(retry=Retry(first=0.0))) as bench:
        assert (await bench.decided()).attempts == 3


@pytest.mark.parametrize("kind", ["permanent", "refused", "context_too_long", "unavailable"])
async def test_what_will_not_pass_is_not_tried_again(kind: str) -> None:
    model = ScriptedModel([fails(kind), NEVER])
    async with decider(model, policy=policy()) as bench:
        answered = await bench.answer()
    assert answered == DecideFailed(1, f"ModelError: {kind}", ModelErrorKind(kind))
    assert told(bench) == [("ScriptedModel", kind, 0.0)]
    assert model.calls == 1


async def test_who_is_asked_to_wait_waits_at_least_so_long() -> None:
    """B99: and then the jitter, so that not all come back at once."""
    model = ScriptedModel([fails("rate_limited", retry_after="7"), DONE])
    async with decider(model, policy=policy()) as bench:
        bench.ask()
        await bench.clock.advance(7.9)
        assert model.calls == 1
        await bench.clock.advance(0.1)
        assert isinstance(bench.answers[0], Decided)
    assert told(bench) == [("ScriptedModel", "rate_limited", 8.0)]


async def test_two_decisions_wait_each_on_its_own() -> None:
    """A backoff of one invocation holds up no other one."""
    model = ScriptedModel([fails(), DONE, DONE])
    async with decider(model, policy=policy()) as bench:
        bench.ask(decide(1))
        await settle()
        assert isinstance(await bench.answer(decide(2)), Decided)
        await bench.clock.advance(1)
    assert [said.turn for said in bench.answers] == [2, 1]


TOO_LONG = [301, "301", 10**12, "Thu, 01 Jan 2037 00:00:00 GMT"]


@pytest.mark.parametrize("asked", TOO_LONG)
async def test_who_asks_for_too_long_a_wait_is_not_waited_for(asked: str | float) -> None:
    """Also where there is no deadline: it fails as it is, and says what was asked for."""
    model = ScriptedModel([fails("rate_limited", retry_after=asked), NEVER])
    async with decider(model, policy=policy()) as bench:
        answered = await bench.answer()
    assert isinstance(answered, DecideFailed)
    assert answered.category is ModelErrorKind.RATE_LIMITED
    assert answered.error.startswith("ModelError: rate_limited; it asks for a wait of ")
    assert answered.error.endswith(" s, and at most 300 s are waited")
    assert told(bench) == [("ScriptedModel", "rate_limited", 0.0)]


@pytest.mark.parametrize("asked", TOO_LONG)
async def test_where_the_wait_is_too_long_the_next_one_is_asked_at_once(asked: str | float) -> None:
    first, second = Named("a", [fails(retry_after=asked), NEVER]), Named("b", [DONE])
    async with decider(FallbackChain([first, second]), policy=policy()) as bench:
        decided = await bench.decided()
    assert (decided.endpoint, decided.attempts) == ("b", 2)
    assert "it asks for a wait of" in bench.failed[0].error


async def test_how_long_a_wait_may_be_is_a_matter_of_policy() -> None:
    """As long as that is waited for, and no longer."""
    model = ScriptedModel([fails(retry_after=900), fails(retry_after=901), NEVER])
    patient = Policy(retry=Retry(first=0.0, patience=900))
    async with decider(model, policy=patient) as bench:
        bench.ask()
        await bench.clock.advance(900)
        assert [said.retry_in for said in bench.failed] == [900.0, 0.0]
        assert isinstance(bench.answers[0], DecideFailed)
    assert model.calls == 2


# ---------------------------------------------------------------- no time left
async def test_no_wait_outlasts_the_decision() -> None:
    """B100: what would end too late is not waited for."""
    model = ScriptedModel([fails("rate_limited", retry_after=900), NEVER])
    async with decider(model, policy=policy()) as bench:
        answered = await bench.answer(decide(allowance=Allowance(until=bench.began + 10)))
    assert isinstance(answered, DecideFailed)
    assert answered.category is ModelErrorKind.RATE_LIMITED
    assert told(bench) == [("ScriptedModel", "rate_limited", 0.0)]


async def test_where_there_is_no_time_to_wait_the_next_one_is_asked_at_once() -> None:
    """B100: it has its own chance in what is left."""
    first, second = Named("a", [fails(retry_after=900)]), Named("b", [DONE])
    async with decider(FallbackChain([first, second]), policy=policy()) as bench:
        decided = await bench.decided(decide(allowance=Allowance(until=bench.began + 10)))
    assert (decided.endpoint, decided.attempts) == ("b", 2)


async def test_an_attempt_gets_what_its_model_says_and_no_more_than_is_left() -> None:
    """B100: 6 s each, and the second one only the 3 s that are left after a wait of 1 s."""
    model = Named("a", [hangs, hangs], timeout=6.0)
    async with decider(model, policy=policy(), instructions="i" * 400) as bench:
        bench.ask(decide(allowance=Allowance(until=bench.began + 10)))
        await bench.clock.advance(5.9)
        assert bench.asker.messages == []
        await bench.clock.advance(0.1)
        (first,) = bench.failed
        assert (first.category, first.retry_in) == ("transient", 1.0)
        assert first.error == "TimeoutError: it gave no reply within 6 s"
        assert first.usage == Usage(103, 0, estimated=True)
        await bench.clock.advance(3.9)
        assert bench.answers == []
        await bench.clock.advance(0.1)
        assert bench.failed[1].error == "TimeoutError: it gave no reply within 3 s"
    assert bench.answers == [
        DecideFailed(1, "TimeoutError: it gave no reply within 3 s", ModelErrorKind.TRANSIENT)
    ]


async def test_a_reply_in_time_is_not_timed_out() -> None:
    async with decider(Named("a", [DONE], timeout=6.0), policy=policy()) as bench:
        await bench.decided(decide(allowance=Allowance(until=bench.began + 10)))
        await bench.clock.advance(60)
        assert len(bench.asker.messages) == 1


async def test_a_model_that_does_not_obey_is_not_waited_for() -> None:
    """Its attempt is over at its limit, and whatever it says later is nobody's."""
    stubborn = Stubborn()
    model = Named("a", [stubborn, DONE], timeout=6.0)
    async with decider(model, policy=policy()) as bench:
        bench.ask()
        await bench.clock.advance(6)
        await bench.clock.advance(1)
        stubborn.gate.set()
        await settle()
    (decided,) = bench.answers
    assert isinstance(decided, Decided)
    assert decided.decision == DONE


# ---------------------------------------------------------------- fallback
async def test_each_model_gets_its_retries_before_the_next_one_is_asked() -> None:
    first = Named("a", [fails(), fails()])
    second = Named("b", [fails(), DONE])
    chain = FallbackChain([first, second])
    async with decider(chain, policy=policy(attempts=2)) as bench:
        bench.ask()
        await bench.clock.advance(1)
        assert told(bench) == [
            ("a", "transient", 1.0),
            ("a", "transient", 0.0),
            ("b", "transient", 1.0),
        ]
        await bench.clock.advance(1)
    (decided,) = bench.answers
    assert isinstance(decided, Decided)
    assert (decided.endpoint, decided.attempts) == ("b", 4)


@pytest.mark.parametrize("kind", ["permanent", "refused"])
async def test_what_a_model_says_of_a_request_no_other_one_is_asked(kind: str) -> None:
    """B101: a 400, a 401 and a refusal never fall back."""
    first, second = Named("a", [fails(kind)]), Named("b", [NEVER])
    async with decider(FallbackChain([first, second]), policy=policy()) as bench:
        answered = await bench.answer()
    assert isinstance(answered, DecideFailed)
    assert answered.category == kind
    assert (first.calls, second.calls) == (1, 0)


async def test_a_refusal_goes_to_who_is_there_for_it_once() -> None:
    """B101: it is asked for nothing else, and a refusal of its own is the end."""
    first, second, third = Named("a", [fails("refused")]), Named("b"), Named("c", [DONE])
    chain = FallbackChain([first, second], on_refusal=third)
    async with decider(chain, policy=policy()) as bench:
        assert (await bench.decided()).endpoint == "c"
    assert second.calls == 0

    first, third = Named("a", [fails("refused")]), Named("c", [fails("refused"), NEVER])
    async with decider(FallbackChain([first], on_refusal=third), policy=policy()) as bench:
        answered = await bench.answer()
    assert isinstance(answered, DecideFailed)
    assert answered.category is ModelErrorKind.REFUSED
    assert third.calls == 1

    first, third = Named("a", [fails("unavailable")]), Named("c", [NEVER])
    async with decider(FallbackChain([first], on_refusal=third), policy=policy()) as bench:
        await bench.answer()
    assert third.calls == 0


@pytest.mark.parametrize(
    ("windows", "asked"),
    [
        ((8_000, 4_000), "a"),
        ((8_000, 8_000), "a"),
        ((8_000, None), "a"),
        ((8_000, 32_000), "b"),
        ((None, 32_000), "b"),
        ((None, 3_500), "a"),
        ((8_000, 4_000, 32_000), "c"),
    ],
)
async def test_what_is_too_long_goes_only_to_a_model_that_can_hold_it(
    windows: tuple[int | None, ...], asked: str
) -> None:
    """B101: a request of 3,000 tokens needs room for the reply, and more room than was too little."""
    models = [
        Named(name, [fails("context_too_long") if name == "a" else DONE], context_window=window)
        for name, window in zip("abc", windows, strict=False)
    ]
    chain = FallbackChain(models)
    async with decider(chain, policy=policy(), instructions="i" * 12_000) as bench:
        answered = await bench.answer()
    if asked == "a":
        assert isinstance(answered, DecideFailed)
        assert answered.category is ModelErrorKind.CONTEXT_TOO_LONG
    else:
        assert isinstance(answered, Decided)
        assert (answered.endpoint, answered.attempts) == (asked, 2)
    assert [model.calls for model in models] == [int(m.name in ("a", asked)) for m in models]


async def test_what_was_too_long_stays_so_for_who_comes_after() -> None:
    """Also where the model that can hold it is down."""
    models = [
        Named("a", [fails("context_too_long")], context_window=8_000),
        Named("b", [fails("unavailable")], context_window=32_000),
        Named("c", [NEVER], context_window=4_000),
    ]
    async with decider(FallbackChain(models), policy=policy()) as bench:
        answered = await bench.answer()
    assert isinstance(answered, DecideFailed)
    assert models[2].calls == 0


async def test_the_end_of_a_budget_may_have_a_model_of_its_own() -> None:
    model, finishing = Named("a", [DONE]), Named("b", [DONE])
    async with decider(model, finish_model=finishing, policy=policy()) as bench:
        assert (await bench.decided(decide(1))).endpoint == "a"
        order = decide(2, allowance=Allowance(finish=True))
        assert (await bench.decided(order)).endpoint == "b"

    model = Named("a", [DONE])
    async with decider(model, policy=policy()) as bench:
        order = decide(2, allowance=Allowance(finish=True))
        assert (await bench.decided(order)).endpoint == "a"


# ---------------------------------------------------------------- what is charged
@pytest.mark.parametrize(
    ("error", "usage"),
    [
        (fails(), NO_USAGE),
        (fails(usage=Usage(5, 2)), Usage(5, 2)),
        (fails(usage=Usage(-5, 2)), Usage(3, 0, estimated=True)),
        (ConnectionError(), NO_USAGE),
        (TimeoutError(), Usage(3, 0, estimated=True)),
    ],
    ids=repr,
)
async def test_a_failed_attempt_is_charged_as_the_provider_says(
    error: Exception, usage: Usage
) -> None:
    """What it does not say is nothing, but for an attempt it was at work on: its input is estimated."""
    model = ScriptedModel([error])
    async with decider(model, policy=policy(attempts=1)) as bench:
        await bench.answer()
    assert [attempt.usage for attempt in bench.failed] == [usage]


async def test_with_no_tokens_left_nobody_is_asked_any_more() -> None:
    """Neither again nor the next one: the attempts have used them up."""
    first = Named("a", [fails(usage=Usage(30, 0)), fails(usage=Usage(30, 0)), NEVER])
    second = Named("b", [NEVER])
    async with decider(FallbackChain([first, second]), policy=policy()) as bench:
        bench.ask(decide(allowance=Allowance(tokens=60)))
        await bench.clock.advance(60)
    assert [attempt.retry_in for attempt in bench.failed] == [1.0, 0.0]
    text = "a was not asked: the token budget is used up"
    assert bench.answers == [DecideFailed(1, text, ModelErrorKind.UNAVAILABLE)]
    assert (first.calls, second.calls) == (2, 0)


async def test_what_a_reply_may_have_shrinks_with_what_attempts_have_used() -> None:
    """A budget is one for all of them."""
    model = ScriptedModel([fails(usage=Usage(100, 0)), DONE])
    async with decider(model, policy=policy()) as bench:
        bench.ask(decide(allowance=Allowance(tokens=1_000)))
        await bench.clock.advance(1)
    first, second = (request.max_output_tokens for request in model.requests)
    assert first is not None
    assert second == first - 100


PRICES = (Price("free", Decimal(0), Decimal(0)), Price("paid", Decimal(1), Decimal(1)))


@pytest.mark.parametrize("left", [Decimal(0), Decimal("-0.01")])
async def test_b47_with_no_money_left_only_a_free_model_is_asked(left: Decimal) -> None:
    """B47: the free one is down, and its stand-in costs: it is told why it was not asked."""
    free, paid = Named("free", [fails()]), Named("paid", [NEVER])
    chain = FallbackChain([free, paid])
    order = decide(allowance=Allowance(cost=left), prices=PRICES)
    async with decider(chain, policy=policy(attempts=1)) as bench:
        answered = await bench.answer(order)
    text = "paid was not asked: the cost budget is used up"
    assert answered == DecideFailed(1, text, ModelErrorKind.UNAVAILABLE)
    assert told(bench) == [("free", "transient", 0.0), ("paid", "unavailable", 0.0)]
    assert (free.calls, paid.calls) == (1, 0)


async def test_with_no_money_left_a_free_stand_in_is_asked() -> None:
    """What the first attempt has cost was the last of it; it is not waited to ask again."""
    paid, free = Named("paid", [fails(usage=Usage(1_000_000, 0)), NEVER]), Named("free", [DONE])
    chain = FallbackChain([paid, free])
    order = decide(allowance=Allowance(cost=Decimal(1)), prices=PRICES)
    async with decider(chain, policy=policy()) as bench:
        decided = await bench.decided(order)
    assert (decided.endpoint, decided.attempts) == ("free", 3)
    assert told(bench) == [("paid", "transient", 0.0), ("paid", "unavailable", 0.0)]
    assert paid.calls == 1


async def test_a_model_whose_failures_have_used_up_the_money_was_not_asked_again() -> None:
    """That is said by the category: it is the budget that ends it, not the model."""
    paid = Named("paid", [fails(usage=Usage(1_000_000, 0)), NEVER])
    order = decide(allowance=Allowance(cost=Decimal(1)), prices=PRICES)
    async with decider(paid, policy=policy()) as bench:
        answered = await bench.answer(order)
    text = "paid was not asked: the cost budget is used up"
    assert answered == DecideFailed(1, text, ModelErrorKind.UNAVAILABLE)


async def test_a_model_without_a_price_costs_what_nobody_knows() -> None:
    """It is not taken to be free."""
    model = Named("unheard of", [NEVER])
    async with decider(model, policy=policy()) as bench:
        answered = await bench.answer(decide(allowance=Allowance(cost=Decimal(0)), prices=PRICES))
    assert isinstance(answered, DecideFailed)
    assert model.calls == 0


# ---------------------------------------------------------------- cancelling
async def test_b94_a_wait_is_over_at_once_when_it_is_cancelled() -> None:
    """B94: there is an answer in the very tick, and nobody is asked afterwards."""
    model = ScriptedModel([fails(retry_after=30), NEVER])
    async with decider(model, policy=policy()) as bench:
        bench.ask()
        await bench.clock.advance(0.05)
        bench.cancel()
        await settle()
        assert bench.answers == [CANCELLED]
        await bench.clock.advance(60)
    assert bench.answers == [CANCELLED]
    assert model.calls == 1


async def test_a_call_that_fails_as_it_is_cancelled_is_not_made_again() -> None:
    async def unwinds(_: ModelRequest) -> Step:
        try:
            await asyncio.Event().wait()
        finally:
            raise ConnectionError("while unwinding")

    first, second = Named("a", [unwinds, NEVER]), Named("b", [NEVER])
    async with decider(FallbackChain([first, second]), policy=policy()) as bench:
        bench.ask()
        await settle()
        bench.cancel()
        await bench.clock.advance(60)
    assert bench.asker.messages == [DecideFailed(1, "ConnectionError: while unwinding")]


async def test_asked_anew_the_first_asking_is_over() -> None:
    """A rebuilt Supervisor asks again: two of them would be two sets of model calls."""
    model = ScriptedModel([fails(retry_after=30), DONE, NEVER])
    async with decider(model, policy=policy()) as bench:
        bench.ask()
        await settle()
        bench.ask()
        await settle()
        await bench.clock.advance(60)
    assert bench.answers[0] == CANCELLED
    assert isinstance(bench.answers[1], Decided)
    assert model.calls == 2


async def test_nothing_is_asked_again_once_all_is_closed() -> None:
    waiting, running = ScriptedModel([fails(), NEVER]), Named("b", [hangs], timeout=5)
    async with several(waiting, running, rule=policy()) as (clock, benches):
        for bench in benches:
            bench.ask()
        await settle()
    await clock.advance(60)
    assert waiting.calls == 1
    assert benches[1].failed == []


# ---------------------------------------------------------------- breakers
def down(count: int, *then: Step) -> Iterable[Step]:
    return [*(fails() for _ in range(count)), *then]


async def test_a_model_that_is_down_is_left_alone_by_all() -> None:
    """Two agents, two models of one name: the second one is not asked while the first is down."""
    first, second = Named("m", down(2)), Named("m", [NEVER])
    rule = policy(attempts=1, failures=2)
    async with several(first, second, rule=rule) as (_, (one, other)):
        await one.answer(decide(1))
        await one.answer(decide(2))
        text = "m was not asked: its breaker is open"
        assert await other.answer() == DecideFailed(1, text, ModelErrorKind.UNAVAILABLE)
    assert told(other) == [("m", "unavailable", 0.0)]
    assert other.failed[0].attempt == 1


async def test_a_model_that_is_left_alone_is_passed_over() -> None:
    """It counts as an attempt; after the cool-down it is asked once, and then again as ever."""
    first, second = Named("a", down(2, DONE, DONE)), Named("b", [DONE, DONE, DONE])
    rule = policy(attempts=1, failures=2, cool_down=30)
    async with decider(FallbackChain([first, second]), policy=rule) as bench:
        for turn, asked in ((1, "b"), (2, "b"), (3, "b")):
            decided = await bench.decided(decide(turn))
            assert (decided.endpoint, decided.attempts) == (asked, 2)
        assert first.calls == 2
        await bench.clock.advance(30)
        assert (await bench.decided(decide(4))).endpoint == "a"
        assert (await bench.decided(decide(5))).endpoint == "a"


async def test_it_is_not_waited_for_what_is_left_alone_by_then() -> None:
    """The failure that opens a breaker ends the retries: the next one is asked at once."""
    first, second = Named("a", down(2, NEVER)), Named("b", [DONE])
    async with decider(FallbackChain([first, second]), policy=policy(failures=2)) as bench:
        bench.ask()
        await bench.clock.advance(1)
        assert isinstance(bench.answers[0], Decided)
    assert told(bench) == [("a", "transient", 1.0), ("a", "transient", 0.0)]


async def test_a_wait_longer_than_the_cool_down_ends_in_a_probe() -> None:
    model = Named("a", [fails(retry_after=40), DONE])
    async with decider(model, policy=policy(failures=1, cool_down=30)) as bench:
        bench.ask()
        await bench.clock.advance(41)
        assert isinstance(bench.answers[0], Decided)


@pytest.mark.parametrize("kind", ["permanent", "refused", "context_too_long", "rate_limited"])
async def test_what_a_model_says_is_no_sign_that_it_is_down(kind: str) -> None:
    """A 4xx does not count: whoever says no is there."""
    model = ScriptedModel([fails(kind), fails(kind), fails(kind), DONE])
    async with decider(model, policy=policy(attempts=1, failures=2)) as bench:
        for turn in (1, 2, 3):
            await bench.answer(decide(turn))
        assert isinstance(await bench.answer(decide(4)), Decided)


async def test_a_model_that_times_out_is_down() -> None:
    model = Named("a", [hangs, NEVER], timeout=5)
    async with decider(model, policy=policy(attempts=1, failures=1)) as bench:
        bench.ask()
        await bench.clock.advance(5)
        answered = await bench.answer(decide(2))
    assert isinstance(answered, DecideFailed)
    assert answered.category is ModelErrorKind.UNAVAILABLE


@pytest.mark.parametrize("obeys", [True, False])
async def test_a_probe_that_is_cancelled_frees_its_place(obeys: bool) -> None:
    """Also one that does not obey."""
    stubborn = Stubborn()
    model = Named("a", [fails(), hangs if obeys else stubborn, DONE])
    async with decider(model, policy=policy(attempts=1, failures=1, cool_down=30)) as bench:
        await bench.answer(decide(1))
        await bench.clock.advance(30)
        bench.ask(decide(2))
        await settle()
        assert isinstance(await bench.answer(decide(3)), DecideFailed)
        bench.ask(CancelDecide(INVOCATION, 2))
        await settle()
        assert (await bench.decided(decide(4))).decision == DONE
        stubborn.gate.set()


async def test_a_probe_that_hangs_loses_its_place() -> None:
    model = Named("a", [fails(), hangs, DONE])
    async with decider(model, policy=policy(attempts=1, failures=1, cool_down=30)) as bench:
        await bench.answer(decide(1))
        await bench.clock.advance(30)
        bench.ask(decide(2))
        await bench.clock.advance(30)
        assert (await bench.decided(decide(3))).decision == DONE


async def test_an_agent_without_a_breaker_asks_all_the_same() -> None:
    """Whose rule is to count nothing is not held up by what others count."""
    careful, careless = Named("m", down(1)), Named("m", [DONE])
    clock = VirtualClock()
    breakers = Breakers(clock)
    async with ActorSystem() as system:
        rules = policy(attempts=1, failures=1), policy(attempts=1, failures=0)
        one, other = (
            DeciderBench(system, Agent("a", model=m, policy=p), clock, breakers)
            for m, p in zip((careful, careless), rules, strict=True)
        )
        await one.answer()
        assert (await other.decided()).decision == DONE
        assert isinstance(await one.answer(decide(2)), DecideFailed)
