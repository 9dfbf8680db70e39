"""The lives of actors and systems: start, stop, kill, exit, cancellation, leaks."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import weakref
from collections.abc import Coroutine
from typing import Any

import anyio
import pykka
import pytest

from loopwright.actors.kernel import (
    Actor,
    ActorDeadError,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    ChildSpec,
    Event,
    Reply,
    SystemClosedError,
    TaskFailed,
)
from loopwright.protocol import ConfigurationError

pytestmark = pytest.mark.anyio


class Echo(Actor):
    def on_receive(self, message: object) -> object:
        return message


class Diary(Actor):
    """Writes what happens to it into a list that outlives it."""

    def __init__(self, diary: list[str]) -> None:
        self.diary = diary

    async def pre_start(self) -> None:
        self.diary.append("pre_start")
        await asyncio.sleep(0)

    def on_start(self) -> None:
        self.diary.append("on_start")

    def on_receive(self, message: object) -> object:
        self.diary.append(str(message))
        return self.spawn(asyncio.sleep(3600)) if message == "spawn" else message

    def on_stop(self) -> None:
        self.diary.append("on_stop")

    async def post_stop(self) -> None:
        await asyncio.sleep(0)
        self.diary.append("post_stop")

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        self.diary.append(f"on_failure {exception_type.__name__}")


class Working(Actor):
    """Runs the coroutine it is sent, as its answer."""

    def on_receive(self, message: Coroutine[Any, Any, object]) -> object:
        return message


def other_tasks() -> set[asyncio.Task[Any]]:
    """All tasks of the loop but the test's own and its runner's."""
    own = asyncio.current_task()
    return {
        task
        for task in asyncio.all_tasks()
        if task is not own and "TestRunner" not in repr(task.get_coro())
    }


async def test_hooks_run_in_order_and_messages_wait_for_them() -> None:
    diary: list[str] = []
    async with ActorSystem() as system:
        ref = system.start(Diary, diary)
        ref.tell("message")
        assert await ref.stop(block=False) is True
    assert diary == ["pre_start", "on_start", "message", "on_stop", "post_stop"]


async def test_the_constructor_may_use_ref_and_system() -> None:
    class Eager(Actor):
        def __init__(self, *, text: str) -> None:
            self.actor_ref.tell(text)
            self.seen: list[object] = [self.system.name]

        def on_receive(self, message: object) -> object:
            self.seen.append(message)
            return self.seen

    async with ActorSystem("home") as system:
        assert await system.start(Eager, text="a").ask("b", block=False) == ["home", "a", "b"]


async def test_a_constructor_that_raises_starts_nothing() -> None:
    async with ActorSystem() as system:
        with pytest.raises(TypeError):
            system.start(Diary)
        assert system.refs == ()


async def test_stop_handles_what_was_taken_before_and_takes_nothing_after() -> None:
    async with ActorSystem() as system:
        ref = system.start(Echo)
        before = ref.ask("before", block=False)
        stopping = ref.stop(block=False)
        after = ref.ask("after", block=False)
        with pytest.raises(ActorDeadError, match="stopping"):
            ref.tell("after")
        assert await before == "before"
        assert await stopping is True
        with pytest.raises(pykka.ActorDeadError):
            await after
        assert not ref.is_alive()
        assert await ref.stop(block=False) is False
        await ref.stopped()
        with pytest.raises(pykka.ActorDeadError, match="dead"):
            ref.tell("after")


async def test_stop_waits_for_messages_that_coroutines_handle_and_cancels_what_was_spawned() -> (
    None
):
    class Both(Actor):
        def on_receive(self, message: asyncio.Future[Any]) -> object:
            self.task = self.spawn(asyncio.sleep(3600))
            return self.handle(message)

        async def handle(self, gate: asyncio.Future[Any]) -> object:
            return await gate, self.task

    async with ActorSystem() as system:
        ref = system.start(Both)
        gate = system.loop.create_future()
        answer = ref.ask(gate, block=False)
        stopping = ref.stop(block=False)
        await anyio.wait_all_tasks_blocked()
        assert ref.is_alive()
        gate.set_result("done")
        done, task = await answer
        assert done == "done"
        await stopping
        assert task.cancelled()


async def test_an_actor_may_stop_itself() -> None:
    class Once(Actor):
        def on_receive(self, message: object) -> object:
            self.stop()
            return message

    async with ActorSystem() as system:
        ref = system.start(Once)
        assert await ref.ask(1, block=False) == 1
        await ref.stopped()
        assert system.get(ref.actor_urn) is None


async def test_kill_answers_every_open_request_at_once_and_cancels_tasks() -> None:
    diary: list[str] = []
    async with ActorSystem() as system:
        ref = system.start(Diary, diary)
        task = await ref.ask("spawn", block=False)
        queued = ref.ask("queued", block=False)
        ref.kill()
        assert queued.done()
        assert not ref.is_alive()
        with pytest.raises(ActorDeadError, match="killed"):
            await queued
        await ref.stopped()
        assert task.cancelled()
        assert diary == ["pre_start", "on_start", "spawn", "on_stop", "post_stop"]


async def test_a_request_handled_in_a_coroutine_is_answered_when_its_actor_is_killed() -> None:
    async with ActorSystem() as system:
        ref = system.start(Working)
        reply = ref.ask(asyncio.sleep(3600), block=False)
        await asyncio.sleep(0)
        ref.kill()
        with pytest.raises(ActorDeadError):
            await reply


async def test_an_actor_that_kills_itself_still_answers_the_message_in_hand() -> None:
    class Suicidal(Actor):
        stopped = False

        def on_receive(self, message: object) -> object:
            self.actor_ref.kill()
            assert not self.stopped  # hooks don't run inside a handler
            return self.later() if message == "later" else message

        def on_stop(self) -> None:
            self.stopped = True

        async def later(self) -> None: ...

    async with ActorSystem() as system:
        assert await system.start(Suicidal).ask("last words", block=False) == "last words"
        with pytest.raises(ActorDeadError):
            await system.start(Suicidal).ask("later", block=False)


async def test_killing_during_pre_start_ends_it() -> None:
    class Slow(Actor):
        async def pre_start(self) -> None:
            await asyncio.sleep(3600)

    async with ActorSystem() as system:
        ref = system.start(Slow)
        reply = ref.ask(1, block=False)
        await anyio.wait_all_tasks_blocked()
        ref.kill()
        with pytest.raises(ActorDeadError):
            await reply
        await ref.stopped()


async def test_exit_stops_all_in_reverse_order_and_empties_the_registry() -> None:
    order: list[int] = []

    class Numbered(Actor):
        def __init__(self, number: int) -> None:
            self.number = number

        def on_receive(self, message: object) -> None:
            self.spawn(asyncio.sleep(3600))

        def on_stop(self) -> None:
            order.append(self.number)

        async def post_stop(self) -> None:
            await asyncio.sleep(0)

    system = ActorSystem()
    async with system:
        refs = [system.start(Numbered, i) for i in range(5)]
        for ref in refs:
            ref.tell("spawn")
    assert order == [4, 3, 2, 1, 0]
    assert system.refs == ()
    assert not any(ref.is_alive() for ref in refs)
    assert other_tasks() == set()


async def test_exit_handles_what_is_queued_and_cancels_what_runs() -> None:
    seen: list[object] = []

    class Seeing(Actor):
        def on_receive(self, message: object) -> object:
            seen.append(message)
            return asyncio.sleep(3600)

    async with ActorSystem() as system:
        reply = system.start(Seeing).ask("queued", block=False)
    assert seen == ["queued"]
    with pytest.raises(ActorDeadError):
        reply.get()


async def test_exit_by_an_exception_kills() -> None:
    seen: list[object] = []
    replies: list[Reply[Any]] = []

    class Seeing(Actor):
        def on_receive(self, message: object) -> None:
            seen.append(message)

    async def fail() -> None:
        async with ActorSystem() as system:
            replies.append(system.start(Seeing).ask("queued", block=False))
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert seen == []
    with pytest.raises(ActorDeadError):
        await replies[0]


async def test_exit_waits_for_what_was_ending_before() -> None:
    diary: list[str] = []
    async with ActorSystem() as system:
        ref = system.start(Diary, diary)
        await ref.ask("message", block=False)
        ref.kill()
    assert diary[-1] == "post_stop"


async def test_a_closed_system_starts_and_spawns_nothing() -> None:
    system = ActorSystem()
    refs: list[ActorRef[Echo]] = []
    for _ in range(2):
        with pytest.raises(SystemClosedError, match="not open"):
            system.start(Echo)
        with pytest.raises(SystemClosedError):
            system.spawn(asyncio.sleep(0))
        with pytest.raises(SystemClosedError):
            system.statistics()
        async with system:
            refs.append(system.start(Echo))
            with pytest.raises(ConfigurationError, match="open already"):
                await system.__aenter__()
    for ref in refs:
        with pytest.raises(ActorDeadError):
            ref.tell(1)
        ref.kill()
        await ref.stopped()


async def test_a_closing_system_starts_nothing() -> None:
    errors: list[Exception] = []

    class Late(Actor):
        def on_stop(self) -> None:
            try:
                self.system.start(Echo)
            except SystemClosedError as error:
                errors.append(error)

    async with ActorSystem() as system:
        system.start(Late)
    assert "closing" in str(errors[0])


def test_a_system_can_be_entered_again_in_another_loop() -> None:
    system = ActorSystem()

    async def once() -> tuple[ActorRef[Echo], object]:
        async with system:
            ref = system.start(Echo)
            return ref, await ref.ask(1, block=False)

    first, answer = asyncio.run(once())
    second, again = asyncio.run(once())
    assert answer == again == 1
    assert first.actor_urn != second.actor_urn
    with pytest.raises(ActorDeadError):
        first.tell(1)


async def test_two_systems_do_not_see_each_other_nor_pykkas_registry() -> None:
    async with ActorSystem("a") as a, ActorSystem("b") as b:
        ours, theirs = a.start(Echo), b.start(Echo)
        assert a.refs == (ours,)
        assert a.get(theirs.actor_urn) is None
        assert b.get(theirs.actor_urn) is theirs
        assert pykka.ActorRegistry.get_all() == []
        pykka.ActorRegistry.stop_all()
        ours.kill()
        assert await theirs.ask(1, block=False) == 1


async def test_statistics_count() -> None:
    async with ActorSystem() as system:
        ref = system.start(Working)
        for _ in range(3):
            ref.tell(asyncio.sleep(3600))
        assert (system.statistics().actors, system.statistics().queued) == (1, 3)
        await asyncio.sleep(0)
        after = system.statistics()
        assert (after.queued, after.tasks, after.handled) == (0, 3, 3)


async def test_a_task_of_the_system_that_fails_is_reported_and_ends_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        raise KeyError("lost")

    events: list[Event] = []
    async with ActorSystem() as system:
        unsubscribe = system.on_event(events.append)
        other = system.spawn(asyncio.sleep(3600))
        await asyncio.wait({system.spawn(fail(), name="fetcher")})
        await asyncio.sleep(0)
        unsubscribe()
        assert not other.done()
    assert other.cancelled()
    assert [type(event) for event in events] == [TaskFailed]
    assert "fetcher" in caplog.text


async def test_a_listener_that_raises_is_logged_and_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(event: Event) -> None:
        raise KeyError

    events: list[Event] = []
    async with ActorSystem() as system:
        system.on_event(broken)
        system.on_event(events.append)
        ref = system.start(Echo)
    assert events == [ActorTerminated(ref, "stopped")]
    assert "listener" in caplog.text


async def test_hooks_that_raise_at_the_end_are_logged_and_the_actor_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Clumsy(Actor):
        def on_stop(self) -> None:
            raise KeyError

        async def post_stop(self) -> None:
            raise ValueError

    async with ActorSystem() as system:
        assert await system.start(Clumsy).stop(block=False) is True
    assert "on_stop()" in caplog.text
    assert "post_stop()" in caplog.text


async def test_a_dead_actor_spawns_nothing() -> None:
    class Keeper(Actor):
        def on_receive(self, message: object) -> object:
            return self

    async with ActorSystem() as system:
        ref = system.start(Keeper)
        actor = await ref.ask("self", block=False)
        ref.kill()
        with pytest.raises(ActorDeadError):
            actor.spawn(asyncio.sleep(0))


# Context variables

request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")


async def test_handlers_see_the_systems_context_and_leak_nothing() -> None:
    class Reader(Actor):
        def on_receive(self, message: str) -> str:
            before = request.get()
            request.set(message)
            return before

    async with ActorSystem() as system:
        request.set("sender")
        ref = system.start(Reader)
        replies = [ref.ask(f"handler {i}", block=False) for i in range(3)]
        assert await asyncio.gather(*replies) == ["none"] * 3
        assert request.get() == "sender"


async def test_b112_a_task_sees_the_context_it_is_given_and_what_it_sets_stays_with_it() -> None:
    class Runner(Actor):
        def on_receive(self, message: contextvars.Context) -> object:
            return [self.spawn(self.read(), context=message) for _ in range(2)]

        async def read(self) -> str:
            before = request.get()
            request.set("x")
            await asyncio.sleep(0)
            return before

    async with ActorSystem() as system:
        ref = system.start(Runner)
        seen: list[str] = []
        for name in ("req-1", "req-2"):
            request.set(name)
            context = contextvars.copy_context()
            seen += await asyncio.gather(*await ref.ask(context, block=False))
            assert request.get() == context[request] == name
            task = system.spawn(asyncio.sleep(0, request.get()), context=context)
            assert await task == name
        assert seen == ["req-1", "req-1", "req-2", "req-2"]


# Cancellation


async def scenario(system: ActorSystem, log: list[object]) -> None:
    """A few awaits of different kinds: an ask, a coroutine's answer, a stop, the end of another."""
    async with system:
        echo, working = system.start(Echo), system.start(Working)
        diary = system.start(Diary, log)
        log.append(await echo.ask(1, block=False))
        log.append(await working.ask(asyncio.sleep(0, 2), block=False))
        working.tell(asyncio.sleep(3600))
        await diary.ask("spawn", block=False)
        await echo.stop(block=False)
        diary.kill()
        await diary.stopped()
        log.append("end")


@pytest.mark.parametrize("by", ["task", "scope"])
async def test_cancellation_at_every_tick_leaves_nothing_behind(by: str) -> None:
    for ticks in range(1, 200):
        system, log, scope = ActorSystem(), list[object](), anyio.CancelScope()
        task = asyncio.get_running_loop().create_task(in_scope(scope, scenario(system, log)))
        for _ in range(ticks):
            await asyncio.sleep(0)
        if task.done():
            assert ticks > 10
            assert "end" in log
            return

        if by == "task":
            task.cancel()
        else:
            scope.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled() if by == "task" else task.exception() is None
        assert system.refs == ()
        assert other_tasks() == set()
    pytest.fail("the scenario never finished")


async def in_scope(scope: anyio.CancelScope, coro: Coroutine[Any, Any, None]) -> None:
    with scope:
        await coro


async def test_a_cancelled_exit_cancels_even_a_hook_that_waits() -> None:
    class Stuck(Actor):
        async def post_stop(self) -> None:
            await asyncio.sleep(3600)

    system = ActorSystem()

    async def run() -> None:
        async with system:
            system.start(Stuck)

    task = asyncio.get_running_loop().create_task(run())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert system.refs == ()


async def test_cancelling_all_tasks_of_the_loop_during_exit_leaves_nothing_behind() -> None:
    """This is what `asyncio.run` does after an interrupt."""

    class Stuck(Actor):
        async def post_stop(self) -> None:
            await asyncio.sleep(3600)

    system = ActorSystem()

    async def run() -> None:
        async with system:
            system.start(Stuck)
            system.start(Echo)

    task = asyncio.get_running_loop().create_task(run())
    await anyio.wait_all_tasks_blocked()
    for each in other_tasks():
        each.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert system.refs == ()
    assert other_tasks() == set()


# Leaks


async def test_ten_thousand_actors_leave_no_task_and_no_entry() -> None:
    async with ActorSystem() as system:
        refs = [system.start(Echo) for _ in range(10_000)]
        assert await asyncio.gather(*(ref.ask(1, block=False) for ref in refs)) == [1] * 10_000
        assert other_tasks() == set()
        for ref in refs:
            ref.stop(block=False)
        await refs[-1].stopped()
        assert system.statistics().actors == 0
        assert system.statistics().tasks == 0


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
async def test_b114_ended_actors_are_freed_without_a_collection(end: str) -> None:
    class Busy(Actor):
        def on_receive(self, message: str) -> object:
            if message == "crash":
                raise ValueError
            self.spawn(asyncio.sleep(3600))
            return None

    logging.getLogger("loopwright.kernel").disabled = True
    gc.collect()
    gc.disable()
    try:
        async with ActorSystem() as system:
            alive: list[weakref.ref[Any]] = []
            for i in range(1000):
                ref = system.start(Busy, spec=ChildSpec())
                actor = ref.cell.actor
                assert actor is not None
                alive += [weakref.ref(actor), weakref.ref(ref)]
                del actor
                if i % 10 == 0:
                    await ref.ask("work", block=False)
                match end:
                    case "stop":
                        ref.stop(block=False)
                    case "kill":
                        ref.kill()
                    case _:
                        ref.tell("crash")
                await ref.stopped()
                del ref
            await asyncio.sleep(0)
            left = sum(entry() is not None for entry in alive)
            assert left == 0
    finally:
        gc.enable()
        logging.getLogger("loopwright.kernel").disabled = False
