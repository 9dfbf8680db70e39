"""Messages: telling, asking, lanes, bounds, and what of pykka is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pykka
import pytest
from pykka import messages

from loopwright.actors.kernel import (
    Actor,
    ActorDeadError,
    ActorRef,
    ActorSystem,
    AskTimeoutError,
    Lane,
    Overloaded,
    Reply,
    Request,
    RequestCancelledError,
    UnsupportedError,
    WouldDeadlockError,
)
from loopwright.protocol import ConfigurationError, LoopwrightError

pytestmark = pytest.mark.anyio


class Recorder(Actor):
    def __init__(self) -> None:
        self.seen: list[object] = []

    def on_receive(self, message: object) -> object:
        if message == "seen":
            return list(self.seen)
        self.seen.append(message)
        return message


class Failing(Actor):
    def on_receive(self, message: BaseException) -> None:
        raise message


class Waiting(Actor):
    """Answers with what the future it is sent comes to."""

    async def on_receive(self, message: asyncio.Future[Any]) -> object:
        return await message


async def test_an_ask_is_answered_and_tells_keep_their_order() -> None:
    async with ActorSystem() as system:
        ref = system.start(Recorder)
        for i in range(100):
            ref.tell(i)
        assert await ref.ask("seen", block=False) == list(range(100))


async def test_a_reply_may_be_awaited_often_and_read_without_waiting_once_it_is_there() -> None:
    async with ActorSystem() as system:
        reply = system.start(Recorder).ask(1, block=False)
        assert list(await asyncio.gather(reply, reply, reply)) == [1, 1, 1]
        assert reply.get() == await reply == 1


async def test_cancelling_one_who_waits_leaves_the_others_waiting() -> None:
    async with ActorSystem() as system:
        gate = system.loop.create_future()
        reply = system.start(Waiting).ask(gate, block=False)

        async def wait() -> object:
            return await reply

        first, second = system.loop.create_task(wait()), system.loop.create_task(wait())
        await asyncio.sleep(0)
        first.cancel()
        gate.set_result("late")
        assert await second == "late"
        assert first.cancelled()


async def test_what_a_handler_raises_is_the_answer_to_an_ask_and_no_crash() -> None:
    async with ActorSystem() as system:
        ref = system.start(Failing)
        error = ValueError("no")
        with pytest.raises(ValueError, match="no") as caught:
            await ref.ask(error, block=False)
        assert caught.value is error
        assert ref.is_alive()
        assert system.statistics().failures == 0


async def test_a_handler_that_raises_stop_iteration_is_an_error_too() -> None:
    async with ActorSystem() as system:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await system.start(Failing).ask(StopIteration(), block=False)


async def test_a_handler_that_raises_cancelled_does_not_cancel_who_asks() -> None:
    async with ActorSystem() as system:
        ref = system.start(Failing)
        with pytest.raises(RequestCancelledError):
            await ref.ask(asyncio.CancelledError(), block=False)
        assert ref.is_alive()


async def test_an_actor_goes_on_while_its_coroutines_handle_messages() -> None:
    async with ActorSystem() as system:
        ref = system.start(Waiting)
        gates = [system.loop.create_future() for _ in range(3)]
        replies = [ref.ask(gate, block=False) for gate in gates]
        for i, gate in reversed(list(enumerate(gates))):
            gate.set_result(i)
        assert await asyncio.gather(*replies) == [0, 1, 2]


async def test_a_cancelled_handling_is_answered() -> None:
    async with ActorSystem() as system:
        ref = system.start(Waiting)
        gate = system.loop.create_future()
        reply = ref.ask(gate, block=False)
        await asyncio.sleep(0)
        gate.cancel()
        with pytest.raises(RequestCancelledError):
            await reply
        assert ref.is_alive()


async def test_a_blocking_ask_or_stop_in_the_loop_raises_at_once() -> None:
    async with ActorSystem() as system:
        ref = system.start(Recorder)
        with pytest.raises(WouldDeadlockError):
            ref.ask(1)
        with pytest.raises(WouldDeadlockError):
            ref.stop()
        with pytest.raises(WouldDeadlockError):
            ref.ask(1, block=False).get(timeout=1)
        assert await ref.ask("seen", block=False) == [1]  # the refused ask was not sent


async def test_an_awaited_ask_times_out_with_an_error_that_is_also_pykkas() -> None:
    async with ActorSystem() as system:
        gate = system.loop.create_future()
        reply = system.start(Waiting).ask(gate, block=False, timeout=0.001)
        with pytest.raises(AskTimeoutError) as caught:
            await reply
        assert isinstance(caught.value, pykka.Timeout)
        assert isinstance(caught.value, LoopwrightError)
        gate.set_result("too late")
        await asyncio.sleep(0.01)
        with pytest.raises(AskTimeoutError):
            reply.get()


async def test_an_answer_in_time_ends_the_timer() -> None:
    async with ActorSystem() as system:
        reply = system.start(Recorder).ask(1, block=False, timeout=0.001)
        await asyncio.sleep(0.01)
        assert await reply == 1


@pytest.mark.parametrize("way", ["blocking", "awaited"])
@pytest.mark.parametrize("hops", [1, 2])
async def test_b115_an_actor_that_asks_itself_never_hangs(
    way: Literal["blocking", "awaited"], hops: int
) -> None:
    """A asks A, or A asks B which asks A, without an end: a typed error, at the bound at latest."""

    class Asker(Actor):
        next: ActorRef[Any]

        def on_receive(self, message: object) -> object:
            if isinstance(message, ActorRef):
                self.next = message
                return None
            return self.next.ask("you", block=True) if way == "blocking" else self.wait()

        async def wait(self) -> object:
            return await self.next.ask("you", block=False)

    async with ActorSystem(mailbox_capacity=50) as system:
        refs = [system.start(Asker) for _ in range(hops)]
        for i, ref in enumerate(refs):
            ref.tell(refs[(i + 1) % hops])
        with pytest.raises(WouldDeadlockError if way == "blocking" else Overloaded):
            await refs[0].ask("start", block=False)


async def test_control_is_served_before_work_and_kill_before_both() -> None:
    async with ActorSystem() as system:
        ref = system.start(Recorder)
        ref.tell("work 1")
        ref.tell("work 2")
        ref.tell("control 1", lane=Lane.CONTROL)
        ref.tell("control 2", lane=Lane.CONTROL)
        seen = await ref.ask("seen", block=False)
        assert seen == ["control 1", "control 2", "work 1", "work 2"]

        lost = ref.ask("control 3", block=False, lane=Lane.CONTROL)
        ref.kill()
        with pytest.raises(ActorDeadError):
            await lost


async def test_a_full_lane_raises_overloaded_and_takes_nothing() -> None:
    async with ActorSystem(mailbox_capacity=2) as system:
        ref = system.start(Recorder)
        ref.tell(1)
        ref.tell(2)
        with pytest.raises(Overloaded, match=r"work lane of Recorder .* full at 2"):
            ref.tell(3)
        with pytest.raises(Overloaded):
            ref.ask(3, block=False)
        ref.tell("c", lane=Lane.CONTROL)  # a bound of its own
        await asyncio.sleep(0)
        assert await ref.ask("seen", block=False) == ["c", 1, 2]


async def test_messages_handled_by_coroutines_count_against_the_bound() -> None:
    async with ActorSystem(mailbox_capacity=2) as system:
        ref = system.start(Waiting)
        gate = system.loop.create_future()
        replies = [ref.ask(gate, block=False) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            ref.tell(gate)
        gate.set_result(1)
        assert await asyncio.gather(*replies) == [1, 1]
        assert await ref.ask(gate, block=False) == 1


async def test_a_chain_of_idle_actors_takes_one_tick() -> None:
    class Hop(Actor):
        def __init__(self, after: ActorRef[Any] | None, end: asyncio.Future[None]) -> None:
            self.after = after
            self.end = end

        def on_receive(self, message: object) -> None:
            if self.after is None:
                self.end.set_result(None)
            else:
                self.after.tell(message)

    async with ActorSystem() as system:
        end = system.loop.create_future()
        ref: ActorRef[Hop] | None = None
        for _ in range(50):
            ref = system.start(Hop, ref, end)
        assert ref is not None
        ref.tell("go")
        await asyncio.sleep(0)
        assert end.done()


async def test_busy_actors_leave_the_loop_time_and_each_other_turns() -> None:
    class Endless(Actor):
        count = 0

        def on_receive(self, message: object) -> object:
            if message == "count":
                return self.count
            self.count += 1
            self.actor_ref.tell(message)
            return None

    async with ActorSystem() as system:
        first, second = system.start(Endless), system.start(Endless)
        first.tell("spin")
        second.tell("spin")
        for _ in range(5):
            await asyncio.sleep(0)
        counts = [await ref.ask("count", block=False) for ref in (first, second)]
        assert min(counts) > 0
        first.kill()
        second.kill()


@pytest.mark.parametrize(
    "message",
    [
        messages.ProxyCall(attr_path=("stop",), args=(), kwargs={}),
        messages.ProxyGetAttr(attr_path=("seen",)),
        messages.ProxySetAttr(attr_path=("seen",), value=[]),
    ],
)
async def test_pykkas_proxy_messages_are_refused_at_the_sender(message: object) -> None:
    async with ActorSystem() as system:
        ref = system.start(Recorder)
        with pytest.raises(UnsupportedError, match="refused"):
            ref.tell(message)
        with pytest.raises(UnsupportedError, match="refused"):
            ref.ask(message, block=False)
        with pytest.raises(UnsupportedError, match="proxy"):
            ref.proxy()
        assert await ref.ask("seen", block=False) == []


async def test_pykkas_start_and_derived_futures_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="use system"):
        Recorder.start()
    async with ActorSystem() as system:
        reply = system.start(Recorder).ask(1, block=False)
        refusals: list[Callable[[], object]] = [
            lambda: reply.map(str),
            lambda: reply.filter(bool),
            lambda: reply.reduce(max),
            lambda: reply.join(reply),
            lambda: reply.set_get_hook(bool),
        ]
        for refused in refusals:
            with pytest.raises(UnsupportedError, match="await"):
                refused()


async def test_pykkas_inbox_flag_and_future_keep_their_shape() -> None:
    async with ActorSystem() as system:
        ref = system.start(Recorder)
        assert isinstance(ref, pykka.ActorRef)
        assert not ref.actor_stopped.is_set()
        with pytest.raises(UnsupportedError):
            ref.actor_stopped.wait()
        with pytest.raises(UnsupportedError):
            ref.actor_stopped.clear()
        reply = ref.ask(1, block=False)
        assert not ref.actor_inbox.empty()
        with pytest.raises(UnsupportedError):
            ref.actor_inbox.put(ref.actor_inbox.get())
        ref.kill()
        assert ref.actor_stopped.wait()
        assert not reply.done()  # it was taken out of the inbox, by this test


async def test_pykkas_hooks_for_a_new_actor_type_are_there() -> None:
    class Open(Recorder):
        def hooks(self) -> tuple[object, Reply[Any]]:
            return self._create_actor_inbox(), self._create_future()

    inbox, future = Open().hooks()
    assert inbox is not Open().hooks()[0]
    assert isinstance(future, pykka.Future)
    asyncio.get_running_loop().call_soon(future.set, 1)
    assert await future == 1


def test_a_reply_is_set_once() -> None:
    reply = Reply[int]()
    reply.set(1)
    with pytest.raises(UnsupportedError, match="once"):
        reply.set(2)
    failed = Reply[int]()
    with pytest.raises(UnsupportedError, match="no error"):
        failed.set_exception()
    try:
        raise KeyError
    except KeyError:
        failed.set_exception()
    with pytest.raises(KeyError):
        failed.get()
    with pytest.raises(WouldDeadlockError):
        Reply[int]().get()


async def test_a_request_carries_its_reply_address() -> None:
    class Doubler(Actor):
        def on_receive(self, message: Request[int]) -> None:
            message.reply_to.tell(message.message * 2)

    async with ActorSystem() as system:
        recorder = system.start(Recorder)
        system.start(Doubler).tell(Request(21, recorder))
        await asyncio.sleep(0)
        assert await recorder.ask("seen", block=False) == [42]


async def test_an_unexpected_message_is_logged_as_pykka_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with ActorSystem() as system:
        assert await system.start(Actor).ask("what", block=False) is None
    assert "Unexpected message" in caplog.text


def test_a_mailbox_without_room_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        ActorSystem(mailbox_capacity=0)


async def test_what_is_told_last_is_served_before_the_task_has_ended() -> None:
    """A task's last word costs no tick: whoever hears of it, and whoever they tell, act at once."""
    heard: list[str] = []

    class Second(Actor):
        def on_receive(self, message: str) -> None:
            heard.append(f"second {message}")

    class First(Actor):
        def on_receive(self, message: str) -> None:
            heard.append(f"first {message}")
            second.tell(message)

    async with ActorSystem() as system:
        first, second = system.start(First), system.start(Second)

        async def work() -> None:
            first.tell_last("done")
            heard.append("task")

        await asyncio.create_task(work())
        assert heard == ["first done", "second done", "task"]

        # From another thread, and in a handler, it is an ordinary message.
        await asyncio.to_thread(first.tell_last, "elsewhere")
        await second.ask("flush", block=False)
        assert heard[3:5] == ["first elsewhere", "second elsewhere"]
