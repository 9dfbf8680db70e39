"""The runtime as a service uses it: entering, starting, waiting, following, closing."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from loopwright import (
    Agent,
    Budget,
    ConfigurationError,
    Final,
    ModelRequest,
    Outcome,
    Overloaded,
    Principal,
    Reason,
    Runtime,
    SyncRuntime,
    tool,
)
from loopwright.protocol import (
    InvocationNotFoundError,
    InvocationStateError,
    LeaseHeldError,
    RemoteProtocolError,
    RuntimeClosedError,
    StoreError,
)
from loopwright.stores import MemoryStore, SQLiteStore
from loopwright.testing import ScriptedModel, Step, WrappedStore

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def look(n: int) -> int:
    """Look."""
    return n


def calls(*ids: str) -> dict[str, object]:
    batch = [{"call_id": i, "tool_name": "look", "arguments": {"n": 1}} for i in ids]
    return {"kind": "tool_calls", "calls": batch}


def desk(*steps: Step, name: str = "desk", **more: Any) -> Agent:
    return Agent(name, model=ScriptedModel(steps), tools=[look], **more)


class Gate:
    """A model that waits until it is let go, then answers."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.asked = asyncio.Event()

    async def step(self, _: ModelRequest) -> Step:
        self.asked.set()
        await self.open.wait()
        return Final("done")


# ---------------------------------------------------------------- entering and leaving
async def test_a_runtime_can_be_entered_again_with_what_it_kept() -> None:
    """Left and entered again, it goes on with the same store."""
    runtime = Runtime([desk(Final("one"), Final("two"))])
    async with runtime:
        first = await runtime.run("desk", "go")
    async with runtime:
        assert (await runtime.outcome(first.invocation_id)).answer == "one"
        assert (await runtime.run("desk", "go")).answer == "two"


def test_one_runtime_serves_one_loop_after_another() -> None:
    """It may be built at import time, and entered in any loop."""
    runtime = Runtime([desk(Final("one"), Final("two"))])

    async def once() -> str:
        async with runtime:
            return (await runtime.run("desk", "go")).answer

    assert [asyncio.run(once()), asyncio.run(once())] == ["one", "two"]


def test_it_runs_on_uvloop(tmp_path: Path) -> None:
    """Another event loop is nothing special."""
    uvloop = pytest.importorskip("uvloop", reason="not made for this platform")

    async def once() -> Outcome:
        agent = desk(calls("a", "b"), Final("done"))
        async with Runtime([agent], store=SQLiteStore(tmp_path / "store.db")) as runtime:
            return await runtime.run("desk", "go", budget=Budget(max_active_seconds=60))

    assert uvloop.run(once()).completed


async def test_it_cannot_be_entered_twice_or_used_outside() -> None:
    """Both say so in one sentence."""
    runtime = Runtime([desk()])
    with pytest.raises(RuntimeClosedError, match="not entered"):
        await runtime.run("desk", "go")
    async with runtime:
        with pytest.raises(ConfigurationError, match="entered already"):
            await runtime.__aenter__()


async def test_of_two_who_enter_at_once_one_is_refused(tmp_path: Path) -> None:
    runtime = Runtime([desk(Final("done"))], store=SQLiteStore(tmp_path / "store.db"))

    async def enter() -> Outcome:
        async with runtime:
            return await runtime.run("desk", "go")

    done, refused = await asyncio.gather(enter(), enter(), return_exceptions=True)
    assert isinstance(done, Outcome)
    assert done.completed
    assert isinstance(refused, ConfigurationError)


async def test_a_store_that_fails_at_the_end_takes_nothing_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What was done is done; that others cannot be told of the end is only logged."""

    class Mute(WrappedStore):
        async def heartbeat(self, worker: str, ttl: float) -> None:
            if ttl == 0:
                raise StoreError("the disk is full")
            await super().heartbeat(worker, ttl)

    async with Runtime([desk(Final("done"))], store=Mute(MemoryStore())) as runtime:
        assert (await runtime.run("desk", "go")).completed
    assert "the disk is full" in caplog.text


async def test_what_runs_when_it_is_closed_is_left_to_be_recovered(tmp_path: Path) -> None:
    """Whoever waits hears of it, and another runtime goes on at once: the worker is gone."""
    path, gate = tmp_path / "store.db", Gate()
    async with Runtime([desk(gate.step)], store=SQLiteStore(path)) as runtime:
        run = await runtime.start("desk", "go")
        waiting = asyncio.ensure_future(run.outcome())
        await gate.asked.wait()
    with pytest.raises(RuntimeClosedError, match="recover"):
        await waiting

    async with Runtime([desk(Final("done"))], store=SQLiteStore(path)) as runtime:
        (recovered,) = await runtime.recover()
        assert recovered.id == run.id
        assert (await recovered.outcome()).completed


# ---------------------------------------------------------------- starting
async def test_what_cannot_be_started_is_refused_before_anything_happens() -> None:
    """Wrong agent, blank goal, metadata that is not JSON: one sentence each, and no model call."""
    agent = desk(Final("never"))
    async with Runtime([agent]) as runtime:
        with pytest.raises(ConfigurationError, match="no agent named 'desc'; it has: desk"):
            await runtime.start("desc", "go")
        with pytest.raises(ConfigurationError, match="goal is blank"):
            await runtime.start("desk", " \n")
        with pytest.raises(RemoteProtocolError, match=r"metadata\.s"):
            await runtime.start("desk", "go", metadata={"s": {1}})
        with pytest.raises(RemoteProtocolError, match=r"goal: .* lone surrogate"):
            await runtime.start("desk", "half an emoji: \ud83d")
        with pytest.raises(RemoteProtocolError, match=r"key: .* lone surrogate"):
            await runtime.start("desk", "go", key="\ud83d")
        assert await runtime.invocations() == []


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two agents named 'desk'"):
        Runtime([desk(), desk()])


def test_limits_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        Runtime([desk()], max_live=0)
    with pytest.raises(ConfigurationError, match=r"at least 0\.1 seconds"):
        Runtime([desk()], lease_ttl=0)


async def test_the_same_key_is_the_same_invocation(tmp_path: Path) -> None:
    """Also where several start it at once, in one process and in another."""
    path = tmp_path / "store.db"
    agent = desk(*[Final("done")] * 9)
    async with Runtime([agent], store=SQLiteStore(path)) as runtime:
        runs = await asyncio.gather(*(runtime.start("desk", "go", key="k") for _ in range(8)))
        assert len({run.id for run in runs}) == 1
        assert (await runs[7].outcome()).answer == "done"
        assert (await runtime.start("desk", "go", key="other")).id != runs[0].id
    async with Runtime([agent], store=SQLiteStore(path)) as runtime:
        assert (await runtime.start("desk", "go", key="k")).id == runs[0].id


async def test_max_live_is_a_limit_or_a_wait() -> None:
    """Past it, `start` raises, or waits for room if told to."""
    gate = Gate()
    async with Runtime([desk(gate.step, gate.step)], max_live=1) as runtime:
        first = await runtime.start("desk", "go")
        with pytest.raises(Overloaded, match="1 invocations are live"):
            await runtime.start("desk", "go")
        second = asyncio.ensure_future(runtime.start("desk", "go", wait=True))
        await gate.asked.wait()
        assert not second.done()
        gate.open.set()
        assert (await first.outcome()).completed
        assert (await (await second).outcome()).completed


async def test_principal_metadata_and_instructions_reach_the_model() -> None:
    model = ScriptedModel([Final("done")])
    agent = Agent("desk", model=model, instructions="be kind")
    async with Runtime([agent]) as runtime:
        principal, metadata = Principal("ana", tenant="acme", roles=("clerk",)), {"n": [1]}
        run = await runtime.start("desk", "go", principal=principal, metadata=metadata)
        metadata["n"].append(2)  # too late to reach anybody
        outcome = await run.outcome()
        state = await runtime.state(outcome.invocation_id)
    (request,) = model.requests
    assert (request.principal, request.metadata, request.instructions) == (
        principal,
        {"n": [1]},
        "be kind",
    )
    assert state.protocol.started.principal == principal


# ---------------------------------------------------------------- waiting and following
async def test_events_are_the_journal_as_it_grows() -> None:
    """Each record once, in order, up to the end; and from the middle, if asked."""
    gate = Gate()
    async with Runtime([desk(calls("a"), gate.step)]) as runtime:
        run = await runtime.start("desk", "go")
        live: list[str] = []

        async def follow() -> None:
            live.extend([record.kind async for record in run.events()])

        following = asyncio.ensure_future(follow())
        await gate.asked.wait()
        gate.open.set()
        await run.outcome()
        await following
        assert live == [
            "invocation_started",
            "turn_committed",
            "turn_committed",
            "invocation_ended",
        ]
        assert [record.kind async for record in run.events(after=2)] == live[2:]


async def test_any_number_may_wait_and_one_who_gives_up_disturbs_nobody() -> None:
    gate = Gate()
    async with Runtime([desk(gate.step)]) as runtime:
        run = await runtime.start("desk", "go")
        waiting = [asyncio.ensure_future(run.outcome()) for _ in range(3)]
        await gate.asked.wait()
        waiting[0].cancel()
        gate.open.set()
        assert (await waiting[1]).completed
        assert await waiting[2] == await waiting[1]


async def test_a_cancelled_run_ends_durably_and_the_cancellation_goes_on() -> None:
    """Cancelling the awaiting task is not only a way to stop waiting."""
    gate = Gate()
    async with Runtime([desk(gate.step)]) as runtime:
        task = asyncio.ensure_future(runtime.run("desk", "go"))
        await gate.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (summary,) = await runtime.invocations()
        assert summary.head.reason is Reason.CANCELLED


async def test_a_handle_can_cancel_from_any_thread() -> None:
    gate = Gate()
    async with Runtime([desk(gate.step)]) as runtime:
        run = await runtime.start("desk", "go")
        await gate.asked.wait()
        thread = threading.Thread(target=run.cancel, args=("user left",))
        thread.start()
        outcome = await run.outcome()
        thread.join()
        assert (outcome.reason, outcome.cause) == (Reason.CANCELLED, "user left")
        run.cancel()  # it is over: nothing to do, nothing wrong


async def test_what_does_not_exist_or_has_no_meaning_is_said() -> None:
    async with Runtime([desk(Final("done"))]) as runtime:
        with pytest.raises(InvocationNotFoundError):
            await runtime.get("nothing").outcome()
        done = await runtime.run("desk", "go")
        with pytest.raises(InvocationStateError, match=r"is over \(completed\)"):
            await runtime.answer(done.invocation_id, "blue", by="bo")
        with pytest.raises(InvocationStateError, match=r"is over \(completed\)"):
            await runtime.cancel(done.invocation_id)
        assert (await runtime.resume(done.invocation_id)) == done
        with pytest.raises(ConfigurationError, match="needs a name"):
            await runtime.approve(done.invocation_id, "digest", by=" ")


# ---------------------------------------------------------------- going on
async def test_a_question_is_answered_in_another_runtime(tmp_path: Path) -> None:
    """The model sees what was asked and what was said."""
    path = tmp_path / "store.db"
    question: dict[str, object] = {"kind": "clarification", "question": "which one?"}
    async with Runtime([desk(question)], store=SQLiteStore(path)) as runtime:
        asked = await runtime.run("desk", "go")
        assert (asked.reason, asked.question) == (Reason.CLARIFICATION_REQUIRED, "which one?")
        with pytest.raises(InvocationStateError, match="suspended"):
            await runtime.resume(asked.invocation_id)
    model = ScriptedModel([Final("the blue one it is")])
    async with Runtime([Agent("desk", model=model)], store=SQLiteStore(path)) as runtime:
        run = await runtime.answer(asked.invocation_id, "the blue one", by="bo")
        assert (await run.outcome()).completed
    assert model.requests[0].history[0].answer == "the blue one"


async def test_a_used_up_budget_goes_on_with_a_grant() -> None:
    agent = desk(calls("a"), calls("b"), Final("done"), budget=Budget(max_steps=1))
    async with Runtime([agent]) as runtime:
        stopped = await runtime.run("desk", "go")
        assert stopped.reason is Reason.MAX_STEPS
        outcome = await runtime.resume(stopped.invocation_id, grant=Budget(max_steps=2))
    assert (outcome.answer, outcome.steps, outcome.budget.max_steps) == ("done", 3, 3)


async def test_a_stored_invocation_needs_its_agent(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    question: dict[str, object] = {"kind": "clarification", "question": "?"}
    async with Runtime([desk(question)], store=SQLiteStore(path)) as runtime:
        asked = await runtime.run("desk", "go")
    async with Runtime([desk(name="other")], store=SQLiteStore(path)) as runtime:
        with pytest.raises(ConfigurationError, match="no agent named 'desk'"):
            await runtime.answer(asked.invocation_id, "yes", by="bo")
    # It was given back: who has the agent can go on.
    async with Runtime([desk(Final("done"))], store=SQLiteStore(path)) as runtime:
        run = await runtime.answer(asked.invocation_id, "yes", by="bo")
        assert (await run.outcome()).completed


async def test_a_live_owner_is_not_replaced(tmp_path: Path) -> None:
    """Neither by recover nor by a resume from elsewhere."""
    path, gate = tmp_path / "store.db", Gate()
    async with Runtime([desk(gate.step)], store=SQLiteStore(path)) as owner:
        run = await owner.start("desk", "go")
        await gate.asked.wait()
        async with Runtime([desk()], store=SQLiteStore(path)) as other:
            assert (await other.recover()).runs == ()
            with pytest.raises(LeaseHeldError):
                await other.resume(run.id)
            with pytest.raises(InvocationStateError, match="running, but not here"):
                await other.outcome(run.id)
        assert (await owner.recover()).runs == ()
        gate.open.set()
        assert (await run.outcome()).completed


# ---------------------------------------------------------------- without a loop
def test_a_sync_runtime_does_the_same_from_threads(tmp_path: Path) -> None:
    """Start, approve, answer, cancel, resume, list: from several threads at once."""
    question: dict[str, object] = {"kind": "clarification", "question": "?"}
    agent = desk(
        Final("one"), question, Final("two"), calls("a"), Final("three"), question,
        budget=Budget(max_steps=10),
    )  # fmt: skip
    store = SQLiteStore(tmp_path / "store.db")
    with SyncRuntime(Runtime([agent], store=store)) as runtime:
        assert runtime.run("desk", "go").answer == "one"
        waiting = runtime.start("desk", "go", key="k")
        assert runtime.outcome(waiting).reason is Reason.CLARIFICATION_REQUIRED
        runtime.answer(waiting, "blue", by="bo")
        assert runtime.outcome(waiting).answer == "two"
        short = runtime.run("desk", "go", budget=Budget(max_steps=1))
        assert runtime.resume(short.invocation_id, grant=Budget(max_steps=1)).answer == "three"
        asked = runtime.run("desk", "go")
        assert runtime.cancel(asked.invocation_id, "never mind").reason is Reason.CANCELLED
        assert runtime.recover() == []
        assert len(runtime.invocations(agent="desk")) == 4
        assert runtime.state(waiting).protocol.turn == 2
        with pytest.raises(InvocationStateError):
            runtime.approve(waiting, "digest", by="bo")
        with pytest.raises(InvocationStateError):
            runtime.deny(waiting, "digest", by="bo")
        with pytest.raises(InvocationStateError):
            runtime.answer_approval(waiting, "digest", {"a": True}, by="bo")
    with pytest.raises(RuntimeClosedError):
        runtime.run("desk", "go")


def test_a_sync_runtime_takes_many_threads_at_once() -> None:
    agent = desk(*[Final("done")] * 16)
    with SyncRuntime(Runtime([agent], store=MemoryStore())) as runtime:
        answers: list[str] = []
        threads = [
            threading.Thread(target=lambda: answers.append(runtime.run("desk", "go").answer))
            for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == ["done"] * 16
