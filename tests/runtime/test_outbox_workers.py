"""Deliveries outlive their runtime, its store's failures and our own bugs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from casebook.desk import batch, call

from loopwright import (
    Agent,
    Final,
    ModelRequest,
    Outcome,
    Runtime,
    tool,
)
from loopwright.actors import AnyTool
from loopwright.protocol import (
    Claimed,
    EffectKey,
    EffectStatus,
    Reconciled,
    StoreError,
    applied,
    unknown,
)
from loopwright.stores import Store
from loopwright.testing import (
    ScriptedModel,
    Step,
    WrappedStore,
    settle,
)
from runtime.outbox_office import BAD_LINE, Office, Post, letters

pytestmark = pytest.mark.anyio


# ---------------------------------------------------------------- runtimes that come and go
async def left_behind(office: Office, post: Post, effect: str = "idempotent") -> Outcome:
    """Close a runtime in the middle of a delivery."""
    post.gate = asyncio.Event()
    letter = post.tool(effect=effect)
    if effect == "reconcilable":

        @letter.reconcile
        def look(key: str) -> Reconciled:
            return unknown()

    async with office.runtime(letter, steps=[letters("hello"), Final("done")]) as runtime:
        outcome = await runtime.run("desk", "go")
        await settle()
        assert post.sent == ["hello"]
    assert await office.statuses() == ["dispatched"]
    post.gate = None
    return outcome


async def test_the_next_runtime_delivers_what_is_left_under_the_same_key() -> None:
    office = Office()
    post = Post(office.clock)
    left = await left_behind(office, post)
    async with office.runtime(post.tool()):
        await settle()
    assert await office.statuses() == ["committed"]
    first, second = post.contexts
    assert (first.effect_key, first.attempt) == ("letter:ana:hello", 1)
    assert second == replace(first, attempt=2, attempt_id=second.attempt_id)
    assert second.invocation_id == left.invocation_id


async def test_the_next_runtime_asks_first_where_that_can_be() -> None:
    office = Office()
    post = Post(office.clock)
    await left_behind(office, post, "reconcilable")
    letter = post.tool(effect="reconcilable")
    asked: list[str] = []

    @letter.reconcile
    def look(key: str) -> Reconciled:
        asked.append(key)
        return applied("found")

    async with office.runtime(letter):
        await office.reached("committed")
    assert (asked, post.sent) == (["letter:ana:hello"], ["hello"])


def _other_letter() -> AnyTool:
    @tool(effect="idempotent", dispatch="outbox")
    async def letter(to: str, text: str, stamp: int) -> None:
        """Send a letter, which needs a stamp now."""
        raise AssertionError

    return letter


def _manual_letter() -> AnyTool:
    @tool(effect="manual")
    async def letter(to: str, text: str) -> None:
        """Send a letter, which may not be sent twice any more."""
        raise AssertionError

    return letter


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ([], "has no such tool any more"),
        ([_other_letter()], "its arguments do not fit the tool any more: stamp: Field required"),
        ([_manual_letter()], "the tool is manual now"),
    ],
)
async def test_what_cannot_be_delivered_stays_and_is_said_once(
    tools: list[AnyTool], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is neither lost nor guessed; once its tool is there again, it is delivered."""
    office = Office()
    post = Post(office.clock)
    await left_behind(office, post)
    async with office.runtime(*tools):
        await office.clock.advance(200)
    assert await office.statuses() == ["outcome_unknown"]
    assert post.sent == ["hello"]
    (logged,) = caplog.messages
    assert "stays in the outbox" in logged
    assert why in logged

    async with office.runtime(post.tool()):
        await office.clock.advance(60)
    assert (await office.statuses(), post.sent) == (["committed"], ["hello", "hello"])


async def test_deliveries_of_agents_that_are_not_here_are_left_alone() -> None:
    office = Office()
    post = Post(office.clock)
    await left_behind(office, post)
    other = Agent("other", model=ScriptedModel([]), tools=[post.tool()])
    async with Runtime([other], store=office.store, clock=office.clock):
        await office.clock.advance(5)
    assert await office.statuses() == ["dispatched"]
    assert post.sent == ["hello"]


# ---------------------------------------------------------------- the worker's own life
class Absent(WrappedStore):
    """A store that cannot be told that a worker is alive, while `away`."""

    away = False

    async def heartbeat(self, worker: str, ttl: float) -> None:
        if self.away:
            raise StoreError("away", transient=True)
        await super().heartbeat(worker, ttl)


async def test_nothing_is_claimed_unless_the_worker_is_safely_alive() -> None:
    office = Office(Absent)
    assert isinstance(office.store, Absent)
    post = Post(office.clock, BAD_LINE)
    async with office.runtime(post.tool(), steps=[letters("a", "b"), Final("done")]) as runtime:
        await runtime.run("desk", "go")
        await settle()
        office.store.away = True
        # The first retry fails, and by the next one the worker may be taken for dead.
        post.replies += [BAD_LINE] * 4
        await office.clock.advance(12)
        attempts = len(post.sent)
        await office.clock.advance(30)
        assert len(post.sent) == attempts
        office.store.away = False
        await office.clock.advance(20)
        assert await office.statuses() == ["committed", "committed"]


async def test_a_worker_that_got_a_new_name_does_not_deliver_beside_itself() -> None:
    """What it had claimed under its old name is on its way: the new claim is for just that."""
    office = Office(Absent)
    assert isinstance(office.store, Absent)
    post = Post(office.clock)
    post.gate = asyncio.Event()
    steps = [letters("a", "b"), Final("done")]
    async with office.runtime(post.tool(timeout=None), steps=steps) as runtime:
        await runtime.run("desk", "go")
        await settle()
        office.store.away = True
        await office.clock.advance(30)
        office.store.away = False
        await office.clock.advance(30)
        (fact, _) = await office.ledger()
        assert (fact.entry.status, fact.entry.attempts) == ("dispatched", 2)
        assert post.sent == ["a"]
        post.gate.set()
        await settle()
        assert post.sent == ["a", "b"]
        assert await office.statuses() == ["committed", "committed"]


# ---------------------------------------------------------------- our own bugs, and the store's
class Moody(WrappedStore):
    """A store whose claims and conclusions fail as told, the latter after they are stored."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.claims: list[Exception] = []
        self.conclusions: list[Exception] = []
        self.told = 0

    async def claim(
        self, worker: str, agents: Sequence[str], *, limit: int = 16
    ) -> Sequence[Claimed]:
        if self.claims:
            raise self.claims.pop(0)
        return await super().claim(worker, agents, limit=limit)

    async def conclude(self, number: int, worker: str, status: EffectStatus, **how: Any) -> bool:
        self.told += 1
        ours = await super().conclude(number, worker, status, **how)
        if self.conclusions:
            raise self.conclusions.pop(0)
        return ours


async def test_a_store_that_fails_loses_no_delivery() -> None:
    office = Office(Moody)
    assert isinstance(office.store, Moody)
    store, post = office.store, Post(office.clock)
    failures = [StoreError("busy", transient=True), StoreError("broken"), KeyError("a bug")]
    store.claims = list(failures)
    store.conclusions = list(failures)
    async with office.runtime(post.tool(), steps=[letters("a", "b"), Final("done")]) as runtime:
        await runtime.run("desk", "go")
        await office.clock.advance(20)
        assert await office.statuses() == ["committed", "committed"]
    assert post.sent == ["a", "b"]
    # The first conclusion was said already when it was said again.
    assert (store.claims, store.conclusions, store.told) == ([], [], 5)


async def test_a_relay_that_crashes_goes_on_from_the_store(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from loopwright.actors.roles._relay import Relay

    caplog.set_level(logging.CRITICAL + 1)
    original, left = Relay.on_receive, [2]

    def on_receive(self: Relay, message: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise KeyError("a bug")
        original(self, message)

    monkeypatch.setattr(Relay, "on_receive", on_receive)
    office = Office()
    post = Post(office.clock)
    async with office.runtime(post.tool(), steps=[letters("a", "b"), Final("done")]) as runtime:
        await runtime.run("desk", "go")
        await office.clock.advance(3)
        assert await office.statuses() == ["committed", "committed"]
    assert left == [0]


async def test_an_attempt_that_meets_a_bug_is_made_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from loopwright.actors import ToolExecutor

    caplog.set_level(logging.CRITICAL + 1)
    original, left = ToolExecutor.serve, [1]

    def serve(self: ToolExecutor, request: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise KeyError("a bug")
        original(self, request)

    monkeypatch.setattr(ToolExecutor, "serve", serve)
    office = Office()
    post = Post(office.clock)
    async with office.runtime(post.tool(), steps=[letters("a"), Final("done")]) as runtime:
        await runtime.run("desk", "go")
        await settle()
        assert await office.statuses() == ["outcome_unknown"]
        await office.clock.advance(2)
        assert await office.statuses() == ["committed"]


async def test_a_key_that_was_delivered_is_not_delivered_again() -> None:
    """The same business mutation, proposed again in a later turn, is one delivery."""
    office = Office()
    post = Post(office.clock)

    async def again(_: ModelRequest) -> Step:
        await office.reached("committed")
        return batch(call("b", "letter", {"to": "ana", "text": "a"}))

    steps: list[Step] = [letters("a"), again, Final("done")]
    async with office.runtime(post.tool(), steps=steps) as runtime:
        await runtime.run("desk", "go")
        await office.clock.advance(5)
        (fact,) = await runtime.effects(effect_key=EffectKey("letter:ana:a"))
    assert post.sent == ["a"]
    assert fact.entry.status == "committed"
