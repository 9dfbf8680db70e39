"""The outbox: what a committed turn has queued is delivered afterwards, whatever comes between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from casebook.desk import batch, call

from loopwright import (
    Final,
    ModelRequest,
    Policy,
    Reason,
    tool,
)
from loopwright.actors import ToolFailure
from loopwright.policy import Breaker, tool_named
from loopwright.protocol import (
    AlreadyDecidedError,
    Append,
    Claimed,
    EffectReconciled,
    EffectStatus,
    InvocationStateError,
    Reconciled,
    StoreError,
    TurnCommitted,
    applied,
    decode_record,
    not_applied,
    rejected,
    unknown,
)
from loopwright.stores import AppendResult
from loopwright.testing import (
    FailingStore,
    Step,
    WrappedStore,
    settle,
)
from runtime.outbox_office import BAD_LINE, LETTER, Office, Post, letters

pytestmark = pytest.mark.anyio


# ---------------------------------------------------------------- what is promised to the model
async def test_the_model_sees_that_it_is_queued_and_the_ledger_that_it_is_delivered() -> None:
    class Held(WrappedStore):
        free = asyncio.Event()

        async def claim(
            self, worker: str, agents: Sequence[str], *, limit: int = 16
        ) -> Sequence[Claimed]:
            await self.free.wait()
            return await super().claim(worker, agents, limit=limit)

    office = Office(Held)
    post = Post(office.clock)
    post.gate = asyncio.Event()
    async with office.runtime(post.tool(), steps=[letters("hello"), Final("done")]) as runtime:
        outcome = await runtime.run("desk", "go")
        (result,) = outcome.history[0].results
        assert result.output == {"queued": "letter:ana:hello"}
        (fact,) = await runtime.effects(invocation_id=outcome.invocation_id)
        assert (fact.entry.status, fact.entry.attempts) == ("prepared", 0)
        assert post.sent == []

        Held.free.set()
        await settle()
        (fact,) = await runtime.effects()
        assert (fact.entry.status, fact.entry.attempts) == ("dispatched", 1)
        assert post.sent == ["hello"]

        post.gate.set()
        await settle()
        (fact,) = await runtime.effects(effect_key="letter:ana:hello")
        assert (fact.entry.status, fact.entry.receipt) == ("committed", "receipt of hello")

    (context,) = post.contexts
    assert context.invocation_id == outcome.invocation_id
    assert (context.turn, context.call_id, context.attempt) == (1, "hello", 1)
    assert context.effect_key == "letter:ana:hello"
    assert context.attempt_id == "hello#1"


async def test_it_is_queued_in_the_transaction_that_commits_its_turn() -> None:
    queued: list[Append] = []

    class Watched(WrappedStore):
        async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
            queued.extend(append for append in batch if append.outbox)
            return await super().append(batch)

    office = Office(Watched)
    post = Post(office.clock)
    async with office.runtime(post.tool(), steps=[letters("a", "b"), Final("done")]) as runtime:
        await runtime.run("desk", "go")
        await settle()
    (append,) = queued
    assert [delivery.call_id for delivery in append.outbox] == ["a", "b"]
    assert isinstance(decode_record(append.lines[-1]), TurnCommitted)
    assert post.sent == ["a", "b"]


async def test_nothing_is_delivered_of_a_turn_that_is_not_durable() -> None:
    office = Office(FailingStore)
    assert isinstance(office.store, FailingStore)
    failing, post = office.store, Post(office.clock)

    def decide(_: ModelRequest) -> Step:
        failing.fail_next(StoreError("disk full"))
        return letters("hello")

    steps: list[Step] = [decide, letters("hello"), Final("done")]
    async with office.runtime(post.tool(), steps=steps) as runtime:
        outcome = await runtime.run("desk", "go")
        assert outcome.reason is Reason.CHECKPOINT_FAILED
        await office.clock.advance(10)
        assert post.sent == []
        assert (await runtime.resume(outcome.invocation_id)).completed
        await settle()
        assert post.sent == ["hello"]


# ---------------------------------------------------------------- order
async def test_the_order_of_each_resource_is_kept_over_failures() -> None:
    """A head that fails holds up what touches the same, and nothing else."""
    office = Office()
    post = Post(office.clock, BAD_LINE)
    steps = [letters("a1", "a2"), letters("b1", to="bo"), Final("done")]
    async with office.runtime(post.tool(), steps=steps) as runtime:
        await runtime.run("desk", "go")
        await settle()
        assert post.sent == ["a1", "b1"]
        assert await office.statuses() == ["prepared", "prepared", "committed"]
        await office.clock.advance(2)
        assert post.sent == ["a1", "b1", "a1", "a2"]
        assert await office.statuses() == ["committed"] * 3
    assert [context.attempt for context in post.contexts] == [1, 1, 2, 1]


async def test_resources_are_delivered_at_the_same_time() -> None:
    office = Office()
    post = Post(office.clock)
    post.gate = asyncio.Event()
    steps: list[Step] = [
        batch(
            *(
                call(f"{to}{n}", "letter", {"to": to, "text": f"{to}{n}"})
                for n in (1, 2)
                for to in ("ana", "bo", "cy")
            )
        ),
        Final("done"),
    ]
    async with office.runtime(post.tool(), steps=steps) as runtime:
        await runtime.run("desk", "go")
        await settle()
        assert post.sent == ["ana1", "bo1", "cy1"]
        post.gate.set()
        await settle()
        assert sorted(post.sent[3:]) == ["ana2", "bo2", "cy2"]


async def test_more_than_is_claimed_at_once_is_delivered_at_once() -> None:
    office = Office()
    post = Post(office.clock)
    post.gate = asyncio.Event()
    calls = [call(f"c{n}", "letter", {"to": f"box{n}", "text": f"t{n}"}) for n in range(40)]
    async with office.runtime(post.tool(), steps=[batch(*calls), Final("done")]) as runtime:
        await runtime.run("desk", "go")
        await settle()
        assert sorted(post.sent) == sorted(f"t{n}" for n in range(40))


# ---------------------------------------------------------------- failures of the tool
async def test_retries_come_later_and_later_under_the_same_key() -> None:
    office = Office()
    failures = [
        BAD_LINE,
        TimeoutError(),
        ToolFailure("too fast", category="rate_limited"),
        ToolFailure("down", category="unavailable"),
        KeyError("a bug"),
        ConnectionResetError(),
    ]
    post = Post(office.clock, *failures)
    async with office.runtime(post.tool(), steps=[letters("hello"), Final("done")]) as runtime:
        await runtime.run("desk", "go")
        seen: list[str] = []
        for seconds in (0, 1, 1, 2, 4, 8, 16):
            await office.clock.advance(seconds)
            seen += await office.statuses()
    # 0.5, 1, 2, 4, 8, 16 seconds, each up to the next look.
    assert post.times == [0, 1, 2, 4, 8, 16, 32]
    assert {context.effect_key for context in post.contexts} == {"letter:ana:hello"}
    assert [context.attempt for context in post.contexts] == [1, 2, 3, 4, 5, 6, 7]
    # What says nothing of the downstream is unknown, what says that it failed is not.
    failed, lost = "prepared", "outcome_unknown"
    assert seen == [failed, lost, failed, failed, failed, lost, "committed"]


async def test_the_delay_ends_at_a_minute() -> None:
    office = Office()
    post = Post(office.clock, *[BAD_LINE] * 20)
    steps, patient = [letters("hello"), Final("done")], Policy(breaker=Breaker(failures=0))
    async with office.runtime(post.tool(), steps=steps, policy=patient) as runtime:
        await runtime.run("desk", "go")
        await office.clock.advance(400)
    gaps = [b - a for a, b in zip(post.times, post.times[1:], strict=False)]
    assert gaps == [1, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]


@pytest.mark.parametrize("category", ["invalid_input", "permission", "permanent"])
async def test_what_the_downstream_refuses_for_good_is_rejected(
    category: str, caplog: pytest.LogCaptureFixture
) -> None:
    office = Office()
    post = Post(office.clock, ToolFailure("no such box", category=category))
    async with office.runtime(post.tool(), steps=[letters("a", "b"), Final("done")]) as runtime:
        await runtime.run("desk", "go")
        await office.clock.advance(100)
    assert post.sent == ["a", "b"]
    assert await office.statuses() == ["rejected", "committed"]
    (logged,) = caplog.messages
    assert "'letter:ana:a'" in logged
    assert "rejected: ToolFailure: no such box" in logged


async def test_a_delivery_that_takes_too_long_is_made_again() -> None:
    office = Office()
    post = Post(office.clock)
    post.gate = asyncio.Event()
    steps = [letters("hello"), Final("done")]
    async with office.runtime(post.tool(timeout=3.0), steps=steps) as runtime:
        await runtime.run("desk", "go")
        await office.clock.advance(3)
        assert await office.statuses() == ["outcome_unknown"]
        post.gate.set()
        await office.clock.advance(1)
        assert await office.statuses() == ["committed"]
    assert post.sent == ["hello", "hello"]


async def test_a_blocking_tool_delivers_in_its_threads() -> None:
    office = Office()
    done: list[str] = []

    @tool(effect="idempotent", dispatch="outbox", max_concurrency=1, writes=lambda a: [a.to])
    def letter(to: str, text: str) -> str:
        """Send a letter."""
        done.append(text)
        return text

    steps = [letters("a"), letters("b", to="bo"), Final("done")]
    async with office.runtime(letter, steps=steps) as runtime:
        await runtime.run("desk", "go")
        await office.reached("committed", "committed")
    assert sorted(done) == ["a", "b"]


# ---------------------------------------------------------------- asking first
@pytest.mark.parametrize(
    ("found", "status", "sent"),
    [
        (applied("it is there"), "committed", 1),
        (rejected("no such box"), "rejected", 1),
        (not_applied(), "committed", 2),
        (unknown("cannot say"), "outcome_unknown", 1),
    ],
)
async def test_a_reconcilable_delivery_asks_before_it_is_made_again(
    found: Reconciled, status: EffectStatus, sent: int
) -> None:
    office = Office()
    post = Post(office.clock, TimeoutError())
    letter = post.tool(effect="reconcilable")
    asked: list[str] = []

    @letter.reconcile
    async def look(key: str) -> Reconciled:
        asked.append(key)
        return found

    async with office.runtime(letter, steps=[letters("hello"), Final("done")]) as runtime:
        await runtime.run("desk", "go")
        await settle()
        assert (asked, await office.statuses()) == ([], ["outcome_unknown"])
        await office.clock.advance(1)
        assert (asked, await office.statuses()) == (["letter:ana:hello"], [status])
        assert len(post.sent) == sent
        if found.finding == "applied":
            assert (await office.ledger())[0].entry.receipt == "it is there"
        if found.finding == "unknown":
            # Whoever does not know is asked again, later and later; nothing is sent meanwhile.
            found = applied("now it is")
            await office.clock.advance(5)
            assert len(asked) == 2
            assert (await office.statuses(), len(post.sent)) == (["committed"], 1)


# ---------------------------------------------------------------- people
async def test_what_a_human_has_edited_is_what_is_delivered() -> None:
    office = Office()
    post = Post(office.clock)
    policy = Policy(ask=[tool_named("letter")])
    steps = [letters("hello"), Final("done")]
    async with office.runtime(post.tool(), steps=steps, policy=policy) as runtime:
        asking = await runtime.run("desk", "go")
        assert asking.proposal is not None
        await office.clock.advance(5)
        assert post.sent == []
        edits: dict[str, Any] = {"hello": {"to": "ana", "text": "dear"}}
        run = await runtime.approve(
            asking.invocation_id, asking.proposal.digest, by="bo", edits=edits
        )
        assert (await run.outcome()).completed
        await settle()
    assert post.sent == ["dear"]
    (fact,) = await office.ledger()
    assert (fact.entry.effect_key, fact.entry.status) == ("letter:ana:dear", "committed")


async def test_a_cancel_before_the_commit_delivers_nothing() -> None:
    office = Office()
    post = Post(office.clock)
    looking = asyncio.Event()

    @tool(effect="read")
    async def look() -> None:
        """Look."""
        looking.set()
        await asyncio.Event().wait()

    steps: list[Step] = [
        batch(call("l", "look", {}), call("m", "letter", LETTER)),
        Final("done"),
    ]
    async with office.runtime(post.tool(), look, steps=steps) as runtime:
        run = await runtime.start("desk", "go")
        await looking.wait()
        outcome = await runtime.cancel(run.id, "changed my mind")
        assert outcome.reason is Reason.CANCELLED
        await office.clock.advance(10)
    assert post.sent == []
    assert await office.ledger() == []


async def test_a_cancel_after_the_commit_stops_no_delivery() -> None:
    office = Office()
    post = Post(office.clock, BAD_LINE)

    async def think(_: ModelRequest) -> Step:
        await asyncio.Event().wait()
        raise AssertionError

    async with office.runtime(post.tool(), steps=[letters("hello"), think]) as runtime:
        run = await runtime.start("desk", "go")
        await settle()
        assert (await runtime.cancel(run.id, "enough")).reason is Reason.CANCELLED
        await office.clock.advance(2)
    assert post.sent == ["hello", "hello"]
    assert await office.statuses() == ["committed"]


async def test_a_person_can_take_a_delivery_out() -> None:
    """What fails without end is settled by a word; what waited for it goes on, and it is journaled."""
    office = Office()
    post = Post(office.clock, *[BAD_LINE] * 3)
    async with office.runtime(post.tool(), steps=[letters("a", "b"), Final("done")]) as runtime:
        outcome = await runtime.run("desk", "go")
        await office.clock.advance(1.6)
        assert post.sent == ["a", "a"]
        for found in (not_applied(), unknown()):
            with pytest.raises(InvocationStateError, match="outbox"):
                await runtime.settle(outcome.invocation_id, "a", found, by="bo")
        await runtime.settle(outcome.invocation_id, "a", applied("by hand"), by="bo")
        await office.clock.advance(100)
        with pytest.raises(AlreadyDecidedError):
            await runtime.settle(outcome.invocation_id, "a", applied("again"), by="cy")
        with pytest.raises(AlreadyDecidedError):
            # The relay has delivered it, which the journal does not say.
            await runtime.settle(outcome.invocation_id, "b", applied("again"), by="cy")
        records = [r async for r in runtime.get(outcome.invocation_id).events()]
    assert post.sent == ["a", "a", "b", "b"]
    assert await office.statuses() == ["committed", "committed"]
    assert [f.entry.receipt for f in await office.ledger()] == ["by hand", "receipt of b"]
    assert [r.by for r in records if isinstance(r, EffectReconciled)] == ["bo"]
