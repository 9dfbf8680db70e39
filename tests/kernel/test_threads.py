"""Other threads, other loops, closed loops, uvloop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
import pytest

from loopwright.actors.kernel import (
    Actor,
    ActorDeadError,
    ActorRef,
    ActorSystem,
    AskTimeoutError,
    ChildSpec,
    Lane,
    Overloaded,
    WrongThreadError,
)

pytestmark = pytest.mark.anyio

T = TypeVar("T")


class Recorder(Actor):
    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.threads: set[int] = set()

    def on_receive(self, message: object) -> object:
        self.threads.add(threading.get_ident())
        if message == "all":
            return list(self.seen), set(self.threads)
        self.seen.append(message)
        return message


class Waiting(Actor):
    async def on_receive(self, message: asyncio.Future[Any]) -> object:
        return await message


async def in_thread(function: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(function)


async def test_tells_and_asks_of_many_threads_all_arrive_in_each_threads_order() -> None:
    async with ActorSystem() as system:
        ref = system.start(Recorder)

        def work(number: int) -> list[object]:
            answers: list[object] = []
            for i in range(200):
                ref.tell((number, i))
                if i % 20 == 0:
                    answers.append(ref.ask((number, i, "asked")))
            return answers

        answers = await asyncio.gather(*(in_thread(partial(work, n)) for n in range(4)))
        assert answers == [[(n, i, "asked") for i in range(0, 200, 20)] for n in range(4)]
        seen, threads = await ref.ask("all", block=False)
        assert threads == {threading.get_ident()}
        for number in range(4):
            own = [entry[1] for entry in seen if entry[0] == number and len(entry) == 2]
            assert own == list(range(200))


async def test_a_thread_gets_the_error_of_a_handler_and_may_wait_with_a_timeout() -> None:
    async with ActorSystem() as system:
        ref = system.start(Waiting)
        failed = system.loop.create_future()
        failed.set_exception(KeyError("x"))
        with pytest.raises(KeyError):
            await in_thread(lambda: ref.ask(failed))
        gate = system.loop.create_future()
        with pytest.raises(AskTimeoutError):
            await in_thread(lambda: ref.ask(gate, timeout=0.01))
        reply = await in_thread(lambda: ref.ask(gate, block=False, timeout=0.01))
        with pytest.raises(AskTimeoutError):
            await reply


async def test_a_full_mailbox_is_known_in_the_sending_thread() -> None:
    async with ActorSystem(mailbox_capacity=3) as system:
        ref = system.start(Recorder)
        failed: list[Exception] = []

        def send() -> None:
            for i in range(4):  # the loop, blocked in join(), takes none meanwhile
                try:
                    ref.tell(i)
                except Overloaded as error:
                    failed.append(error)

        thread = threading.Thread(target=send)
        thread.start()
        thread.join()
        assert len(failed) == 1
        with pytest.raises(Overloaded):
            ref.tell("from the loop")
        seen, _ = await in_thread(lambda: retry(lambda: ref.ask("all")))
        assert seen == [0, 1, 2]


def retry(function: Callable[[], T]) -> T:
    while True:
        try:
            return function()
        except Overloaded:
            pass


async def test_threads_may_stop_kill_and_watch() -> None:
    async with ActorSystem() as system:
        first, second, third = (system.start(Recorder) for _ in range(3))
        assert await in_thread(first.stop) is True
        assert await in_thread(first.stop) is False
        await in_thread(second.kill)
        await second.stopped()
        with pytest.raises(ActorDeadError):
            await in_thread(lambda: second.ask(1))
        with pytest.raises(ActorDeadError):
            await in_thread(lambda: second.tell(1))
        await asyncio.gather(in_thread(lambda: asyncio.run(third.stopped())), in_thread(third.stop))


async def test_a_stop_that_takes_too_long_times_out_and_goes_on() -> None:
    async with ActorSystem() as system:
        ref = system.start(Waiting)
        gate = system.loop.create_future()
        open_request = ref.ask(gate, block=False)
        with pytest.raises(AskTimeoutError):
            await in_thread(lambda: ref.stop(timeout=0.01))
        with pytest.raises(AskTimeoutError):
            await ref.stop(block=False, timeout=0.001)
        gate.set_result(1)
        assert await open_request == 1
        await ref.stopped()


async def test_a_closed_system_is_no_trap_for_threads() -> None:
    async with ActorSystem() as system:
        ref = system.start(Recorder)
        expired = ref.ask(1, block=False)

    def use() -> tuple[bool, bool]:
        ref.kill()
        asyncio.run(ref.stopped())
        with pytest.raises(ActorDeadError):
            ref.tell(1)
        return ref.is_alive(), ref.stop()

    assert await in_thread(use) == (False, False)
    assert await expired == 1


async def test_a_message_on_its_way_when_its_actor_dies_is_answered() -> None:
    async with ActorSystem() as system:
        ref = system.start(Recorder)
        replies: list[Any] = []

        def send() -> None:
            replies.append(ref.ask(1, block=False))
            ref.tell(2)

        thread = threading.Thread(target=send)
        thread.start()
        thread.join()
        ref.kill()
        with pytest.raises(ActorDeadError):
            await replies[0]


async def test_another_loop_may_await_an_answer() -> None:
    async with ActorSystem() as system:
        ref, waiting = system.start(Recorder), system.start(Waiting)
        gate = system.loop.create_future()

        async def elsewhere() -> list[object]:
            reply = waiting.ask(gate, block=False)

            async def wait() -> object:
                return await reply

            given_up = asyncio.get_running_loop().create_task(wait())
            await asyncio.sleep(0)
            given_up.cancel()
            answer = await ref.ask(1, block=False)
            system.loop.call_soon_threadsafe(gate.set_result, 2)
            return [answer, await reply, await reply]

        assert await in_thread(lambda: asyncio.run(elsewhere())) == [1, 2, 2]


async def test_starting_and_spawning_belong_to_the_loops_thread() -> None:
    async with ActorSystem() as system:
        with pytest.raises(WrongThreadError):
            await in_thread(lambda: system.start(Recorder))
        with pytest.raises(WrongThreadError):
            await in_thread(lambda: system.spawn(asyncio.sleep(0)))


async def test_a_supervisor_in_another_system_and_thread_is_told() -> None:
    async with ActorSystem() as system:
        boss = system.start(Recorder)

        async def elsewhere() -> None:
            async with ActorSystem() as other:
                other.start(Recorder, spec=ChildSpec(supervisor=boss)).kill()

        await in_thread(lambda: asyncio.run(elsewhere()))
        seen, _ = await boss.ask("all", block=False)
        assert [type(event).__name__ for event in seen] == ["ActorTerminated"]


def test_threads_that_wait_are_answered_when_the_system_closes() -> None:
    """Whatever a thread does while a system closes, it gets an answer or a typed error."""
    outcomes: list[object] = []
    started = threading.Barrier(5)

    def hammer(ref: ActorRef[Recorder]) -> None:
        started.wait()
        while True:
            try:
                ref.ask(1, lane=Lane.WORK)
            except ActorDeadError as error:
                outcomes.append(error)
                return

    async def main() -> list[threading.Thread]:
        async with ActorSystem() as system:
            ref = system.start(Recorder)
            threads = [threading.Thread(target=hammer, args=(ref,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            await in_thread(started.wait)
            await asyncio.sleep(0.01)
        return threads

    for thread in asyncio.run(main()):
        thread.join(timeout=10)
    assert len(outcomes) == 4


def test_a_loop_closed_under_its_system_leaves_no_thread_waiting() -> None:
    loop = asyncio.new_event_loop()
    system = ActorSystem()
    loop.run_until_complete(system.__aenter__())
    ref = system.start(Recorder)
    reply = ref.ask(1, block=False)  # never handled: the loop does not run again
    errors: list[Exception] = []

    def use() -> None:
        for call in (reply.get, lambda: ref.tell(1), ref.stop, lambda: ref.ask(1)):
            try:
                call()
            except ActorDeadError as error:
                errors.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    loop.close()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert len(errors) >= 3  # stop() answers that it was dead
    ref.kill()


def test_it_runs_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is an option, not a dependency")

    async def main() -> object:
        async with ActorSystem() as system:
            ref = system.start(Recorder)
            ref.tell(1)
            assert await in_thread(lambda: ref.ask(2)) == 2
            task = system.spawn(asyncio.sleep(0, 3))
            assert await task == 3
            seen, _ = await ref.ask("all", block=False)
            return seen

    assert uvloop.run(main()) == [1, 2]
