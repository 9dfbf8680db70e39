"""Supervision: what a crash means, rebuilding, intensity, events, process-ending errors."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from loopwright.actors.kernel import (
    Actor,
    ActorDeadError,
    ActorFailed,
    ActorSystem,
    ActorTerminated,
    ChildSpec,
    Event,
)
from loopwright.actors.kernel._messages import Restart
from loopwright.protocol import ConfigurationError

pytestmark = pytest.mark.anyio

PERMANENT = ChildSpec(restart="permanent")


class Crash(Exception):
    pass


class Counter(Actor):
    """Counts; crashes on a Crash; awaits a future; spawns a coroutine function."""

    def __init__(self, start: int = 0) -> None:
        self.count = start

    def on_receive(self, message: object) -> object:
        if asyncio.isfuture(message):
            return self.wait(message)
        match message:
            case Crash():
                raise message
            case "spawn":
                return self.spawn(self.fail())
            case _:
                self.count += 1
                return self.count

    async def wait(self, future: asyncio.Future[Any]) -> object:
        return await future

    async def fail(self) -> None:
        raise Crash


async def ticks(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_temporary_actor_that_crashes_is_dead_and_its_queue_is_answered() -> None:
    events: list[Event] = []
    error = Crash()
    async with ActorSystem() as system:
        system.on_event(events.append)
        ref = system.start(Counter)
        ref.tell(error)
        lost = ref.ask("next", block=False)
        with pytest.raises(ActorDeadError, match="failed") as caught:
            await lost
        assert caught.value.__cause__ is error
        assert system.get(ref.actor_urn) is None
    assert events == [ActorFailed(ref, error, False), ActorTerminated(ref, "failed", error)]


@pytest.mark.parametrize("restart", ["permanent", "transient"])
async def test_a_rebuilt_actor_keeps_ref_and_queue_and_starts_with_a_clean_state(
    restart: Restart,
) -> None:
    async with ActorSystem() as system:
        ref = system.start(Counter, start=10, spec=ChildSpec(restart=restart))
        assert await ref.ask("count", block=False) == 11
        ref.tell(Crash())
        queued = ref.ask("count", block=False)
        assert await queued == 11
        assert ref.is_alive()
        assert (system.statistics().failures, system.statistics().restarts) == (1, 1)


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_ending_a_permanent_actor_from_outside_is_final(end: str) -> None:
    async with ActorSystem() as system:
        ref = system.start(Counter, spec=PERMANENT)
        if end == "stop":
            ref.stop(block=False)
        else:
            ref.kill()
        await ref.stopped()
        assert system.refs == ()


async def test_what_a_crash_interrupts_is_answered_and_its_tasks_are_cancelled() -> None:
    async with ActorSystem() as system:
        ref = system.start(Counter, spec=PERMANENT)
        gate = system.loop.create_future()
        open_request = ref.ask(gate, block=False)
        await asyncio.sleep(0)
        ref.tell(Crash())
        with pytest.raises(ActorDeadError, match="rebuilt"):
            await open_request
        await ticks(3)
        assert gate.cancelled()
        assert system.statistics().tasks == 0
        assert await ref.ask("count", block=False) == 1


async def test_a_spawned_task_that_raises_is_a_crash_of_its_actor() -> None:
    async with ActorSystem() as system:
        ref = system.start(Counter, spec=PERMANENT)
        await asyncio.wait({await ref.ask("spawn", block=False)})
        await asyncio.sleep(0)
        assert system.statistics().restarts == 1
        assert await ref.ask("count", block=False) == 1


async def test_a_coroutine_that_raises_after_a_tell_is_a_crash_after_an_ask_it_is_the_answer() -> (
    None
):
    async with ActorSystem() as system:
        ref = system.start(Counter, spec=PERMANENT)
        gate = system.loop.create_future()
        reply = ref.ask(gate, block=False)
        gate.set_exception(Crash())
        with pytest.raises(Crash):
            await reply
        assert system.statistics().failures == 0
        ref.tell(gate)
        await ticks(3)
        assert system.statistics().failures == 1


async def test_intensity_allows_so_many_rebuilds_within_the_period() -> None:
    clock = Clock()
    async with ActorSystem(clock=clock) as system:
        ref = system.start(Counter, spec=ChildSpec(restart="permanent", intensity=2, period=10.0))
        for now, alive in ((0, True), (9, True), (10, True), (18, False)):
            clock.now = now
            ref.tell(Crash())
            reply = ref.ask("count", block=False)
            if alive:
                assert await reply == 1
            else:
                with pytest.raises(ActorDeadError, match="failed"):
                    await reply
        assert system.statistics().failures == 4
        assert not ref.is_alive()


async def test_a_constructor_that_keeps_failing_uses_up_the_intensity() -> None:
    class Once(Actor):
        built = 0

        def __init__(self) -> None:
            type(self).built += 1
            if self.built > 1:
                raise Crash

        def on_receive(self, message: object) -> None:
            raise Crash

    async with ActorSystem() as system:
        ref = system.start(Once, spec=ChildSpec(restart="permanent", intensity=3))
        ref.tell("go")
        lost = ref.ask("lost", block=False)
        with pytest.raises(ActorDeadError):
            await lost
        assert Once.built == 4


@pytest.mark.parametrize("hook", ["pre_start", "on_start"])
async def test_a_start_hook_that_raises_is_a_crash(hook: str) -> None:
    class Fragile(Actor):
        async def pre_start(self) -> None:
            if hook == "pre_start":
                raise Crash

        def on_start(self) -> None:
            if hook == "on_start":
                raise Crash

    async with ActorSystem() as system:
        ref = system.start(Fragile, spec=PERMANENT)
        with pytest.raises(ActorDeadError):
            await ref.ask("lost", block=False)
        assert system.statistics().failures == 4


async def test_on_failure_runs_instead_of_on_stop() -> None:
    calls: list[object] = []

    class Noting(Counter):
        def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
            calls.append((exception_type, exception_value, traceback))
            raise ValueError  # logged: there is no one to raise it to

        def on_stop(self) -> None:
            calls.append("on_stop")

        async def post_stop(self) -> None:
            calls.append("post_stop")

    error = Crash()
    async with ActorSystem() as system:
        ref = system.start(Noting)
        ref.tell(error)
        await ref.stopped()
    assert calls == [(Crash, error, error.__traceback__)]


async def test_a_supervisor_hears_of_its_children_before_its_other_work() -> None:
    class Boss(Actor):
        def __init__(self) -> None:
            self.heard: list[object] = []

        def on_receive(self, message: object) -> object:
            self.heard.append(message)
            return self.heard

    called: list[ActorFailed] = []
    async with ActorSystem(mailbox_capacity=1) as system:
        boss = system.start(Boss)
        spec = ChildSpec(
            restart="permanent", intensity=1, supervisor=boss, on_failure=called.append
        )
        child = system.start(Counter, spec=spec)
        errors = [Crash(), Crash()]
        for error in errors:
            child.tell(error)
            boss_work = boss.ask("work", block=False)
            await boss_work
            await anyio.wait_all_tasks_blocked()
        heard = await boss.ask("end", block=False)
    failed = [ActorFailed(child, errors[0], True), ActorFailed(child, errors[1], False)]
    assert called == failed
    assert [event for event in heard if not isinstance(event, str)] == [
        *failed,
        ActorTerminated(child, "failed", errors[1]),
    ]


async def test_a_dead_supervisor_stops_nobody() -> None:
    async with ActorSystem() as system:
        boss = system.start(Counter)
        child = system.start(Counter, spec=ChildSpec(restart="permanent", supervisor=boss))
        boss.kill()
        child.tell(Crash())
        assert await child.ask("count", block=False) == 1


async def test_a_failure_stops_no_other_actor() -> None:
    async with ActorSystem() as system:
        other, ref = system.start(Counter), system.start(Counter)
        ref.tell(Crash())
        await ref.stopped()
        assert await other.ask("count", block=False) == 1


async def test_the_spawn_of_a_replaced_actor_is_refused() -> None:
    class Keeper(Counter):
        def on_receive(self, message: object) -> object:
            return self if message == "self" else super().on_receive(message)

    async with ActorSystem() as system:
        ref = system.start(Keeper, spec=PERMANENT)
        former = await ref.ask("self", block=False)
        ref.tell(Crash())
        assert await ref.ask("count", block=False) == 1
        with pytest.raises(ActorDeadError):
            former.spawn(asyncio.sleep(0))


def test_a_spec_that_allows_no_count_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="intensity"):
        ChildSpec(intensity=-1)
    with pytest.raises(ConfigurationError, match="period"):
        ChildSpec(period=0)


class Exiting(Actor):
    """Raises an error where it is told to; where it starts, only when it is rebuilt."""

    built = 0

    def __init__(self, where: str, error: BaseException) -> None:
        self.where = where
        self.error = error
        type(self).built += 1
        self.raise_at("constructor")

    def raise_at(self, where: str) -> None:
        if where == self.where and self.built > 1:
            raise self.error

    def on_start(self) -> None:
        self.raise_at("on_start")

    def on_receive(self, message: str) -> object:
        if message == "crash":
            raise Crash
        if self.where == "handler":
            raise self.error
        return self.fail(self.error)

    async def fail(self, error: BaseException) -> None:
        raise error


@pytest.mark.parametrize("where", ["handler", "coroutine", "on_start", "constructor"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_what_ends_the_process_reaches_the_loops_caller_and_the_asker_is_answered(
    error: BaseException, where: str
) -> None:
    """The loop is left in the middle; run again, it answers, and the actor is not rebuilt."""
    loop = asyncio.new_event_loop()
    system = ActorSystem()
    Exiting.built = 0

    async def ask() -> object:
        ref = system.start(Exiting, where, error, spec=PERMANENT)
        if where in ("on_start", "constructor"):
            ref.tell("crash")
        try:
            return await ref.ask("question", block=False)
        except ActorDeadError as dead:
            return dead

    try:
        loop.run_until_complete(system.__aenter__())
        task = loop.create_task(ask())
        with pytest.raises(type(error)) as caught:
            loop.run_until_complete(task)
        assert caught.value is error
        answer = loop.run_until_complete(task)
        assert isinstance(answer, ActorDeadError)
        assert answer.__cause__ is error
        assert system.refs == ()
        loop.run_until_complete(system.__aexit__(None, None, None))
    finally:
        loop.close()


async def test_a_handler_that_kills_its_actor_and_raises_is_logged_and_final(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Last(Actor):
        def on_receive(self, message: object) -> None:
            self.actor_ref.kill()
            raise Crash

    async with ActorSystem() as system:
        ref = system.start(Last, spec=PERMANENT)
        ref.tell("go")
        await ref.stopped()
        assert system.statistics().failures == 0
    assert "which was killed" in caplog.text


@pytest.mark.parametrize("how", ["spawned", "handling"])
async def test_what_a_cancelled_task_raises_while_it_unwinds_is_logged(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Messy(Actor):
        def on_receive(self, message: object) -> object:
            if how == "handling":
                return self.work()
            self.spawn(self.work())
            return None

        async def work(self) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                raise Crash

    async with ActorSystem() as system:
        ref = system.start(Messy)
        ref.tell("go")
        await ticks(2)
        ref.kill()
        await ref.stopped()
    assert "while it unwound" in caplog.text


async def test_a_pre_start_that_is_cancelled_from_outside_is_a_crash() -> None:
    class Waits(Actor):
        def __init__(self, tasks: list[asyncio.Task[Any] | None]) -> None:
            self.tasks = tasks

        async def pre_start(self) -> None:
            self.tasks.append(asyncio.current_task())
            await asyncio.sleep(3600)

    async with ActorSystem() as system:
        tasks: list[asyncio.Task[Any] | None] = []
        ref = system.start(Waits, tasks)
        await ticks(2)
        (task,) = tasks
        assert task is not None
        task.cancel()
        await ref.stopped()
        assert system.statistics().failures == 1
