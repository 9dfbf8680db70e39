"""The Summarizer: whatever an agent's `summarize` does, there is one answer, and no crash."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from loopwright import Agent, Policy, Usage
from loopwright.actors.kernel import ActorRef, ActorSystem, Request
from loopwright.actors.roles._summarizer import Summarizer
from loopwright.policy import Context, Summary, ToSummarize
from loopwright.protocol import Compact, Compacted, History
from loopwright.testing import Probe, ScriptedModel, VirtualClock, settle
from services.bench import INVOCATION, Gate, escaping
from services.test_requests import turns

pytestmark = pytest.mark.anyio


class SummarizerBench:
    """A Summarizer, its clock, and a probe that is told its answers."""

    def __init__(self, system: ActorSystem, summarize: Any) -> None:
        self.clock = VirtualClock()
        self.asker = Probe(system)
        context = Context(max_tokens=1, max_result_chars=200, summarize=summarize)
        agent = Agent("desk", model=ScriptedModel([]), policy=Policy(context=context))
        self.ref: ActorRef[Any] = system.start(Summarizer, agent, self.clock)

    def ask(self, *, turn: int = 6, upto: int = 4, summary: str = "", summarized: int = 0) -> None:
        history = History(turns(*[1_000] * (turn - 1)))
        order = Compact(INVOCATION, turn, "the goal", upto, history, summary, summarized)
        self.ref.tell(Request(order, self.asker.ref))

    async def answer(self, **fields: Any) -> Compacted:
        before = len(self.asker.messages)
        self.ask(**fields)
        messages = await self.asker.received(before + 1)
        await settle()
        assert len(messages) == before + 1
        compacted: Compacted = messages[-1]
        return compacted


@asynccontextmanager
async def summarizer(summarize: Any) -> AsyncGenerator[SummarizerBench, None]:
    async with ActorSystem() as system:
        yield SummarizerBench(system, summarize)


def saying(said: object, *, sync: bool) -> Any:
    def blocking(_: ToSummarize) -> object:
        if isinstance(said, BaseException):
            raise said
        return said

    async def waiting(asked: ToSummarize) -> object:
        return blocking(asked)

    return blocking if sync else waiting


@pytest.mark.parametrize("sync", [False, True])
async def test_a_text_is_a_summary(sync: bool) -> None:
    """Or a Summary, which says what it has cost."""
    async with summarizer(saying("they read", sync=sync)) as bench:
        assert await bench.answer() == Compacted(6, 4, "they read")
    said = Summary("they read", Usage(30, 4), "small-model")
    async with summarizer(saying(said, sync=sync)) as bench:
        assert await bench.answer() == Compacted(6, 4, "they read", Usage(30, 4), "small-model")


async def test_it_is_given_the_turns_it_is_to_stand_for() -> None:
    """Those behind the earlier summary, as a model was shown them, and that summary."""
    given: list[ToSummarize] = []

    async def summarize(asked: ToSummarize) -> str:
        given.append(asked)
        return "more"

    async with summarizer(summarize) as bench:
        await bench.answer(summary="they began", summarized=1)

    (asked,) = given
    assert (asked.goal, asked.before) == ("the goal", "they began")
    assert [turn.number for turn in asked.history] == [2, 3, 4]
    assert {len(str(result.output)) for turn in asked.history for result in turn.results} == {200}


async def test_a_blocking_one_runs_in_a_thread() -> None:
    """The loop goes on meanwhile; what it returns may be something to await, in the loop."""
    threads: list[int] = []
    open_, came = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def inner() -> str:
        threads.append(threading.get_ident())
        return "they read"

    def summarize(_: ToSummarize) -> Awaitable[str]:
        threads.append(threading.get_ident())
        loop.call_soon_threadsafe(came.set)
        open_.wait(5)
        return inner()

    async with summarizer(summarize) as bench:
        bench.ask()
        await came.wait()
        open_.set()
        (answered,) = await bench.asker.received()
    assert answered.summary == "they read"
    assert threads[0] != threads[1] == threading.get_ident()


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class OddText(str):
    __slots__ = ()


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    ("said", "error"),
    [
        (ValueError("broken"), "ValueError: broken"),
        (ExceptionGroup("g", [KeyError("x")]), "KeyError: 'x'"),
        (MuteError(), "MuteError: <its text cannot be read>"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError("own"), "it was cancelled"),
        (None, "TypeError: summarize returned NoneType; return a text, or a Summary of"),
        (b"bytes", "TypeError: summarize returned bytes"),
        (("text", Usage()), "TypeError: summarize returned tuple"),
        ("", "TypeError: summarize returned a text without words"),
        (" \n", "TypeError: summarize returned a text without words"),
        ("\ud800", "RemoteProtocolError: summary: a string holds a lone surrogate"),
        (OddText("x"), "TypeError: summarize returned a Summary with a OddText"),
        (Summary("x", Usage(-1, 0)), "TypeError: summarize returned Summary"),
        (Summary("x", cast("Usage", None)), "TypeError: summarize returned Summary"),
        (Summary(cast("str", 7)), "TypeError: summarize returned a Summary with a int"),
        (Summary("x", endpoint=cast("str", None)), "TypeError: summarize returned a Summary with"),
    ],
    ids=repr,
)
async def test_whatever_goes_wrong_is_said_and_there_is_no_summary(
    said: object, error: str, sync: bool
) -> None:
    """Turns are then only left out; and the next order is served by the same actor."""
    async with summarizer(saying(said, sync=sync)) as bench:
        for _ in range(2):
            compacted = await bench.answer()
            assert (compacted.turn, compacted.upto, compacted.summary) == (6, 4, "")
            assert compacted.usage == Usage()
            assert compacted.error.startswith(error)


async def test_a_summary_is_bounded_as_a_result_is() -> None:
    """It would be shown at every turn."""
    async with summarizer(saying("x" * 1_000, sync=False)) as bench:
        compacted = await bench.answer()
    assert len(compacted.summary) == 200
    assert compacted.summary.endswith("… [cut: the whole has 1000 characters]")


@pytest.mark.parametrize("stubborn", [False, True])
async def test_one_that_takes_too_long_is_given_up(stubborn: bool) -> None:
    """Also if it does not obey; what it says later is not heard."""
    gate = Gate()

    async def summarize(_: ToSummarize) -> str:
        while not gate.open.is_set():
            try:
                await gate.wait("summarizer")
            except asyncio.CancelledError:
                if not stubborn:
                    raise
        return "late"

    async with summarizer(summarize) as bench:
        bench.ask()
        await settle()
        await bench.clock.advance(59)
        assert bench.asker.messages == []
        await bench.clock.advance(1)
        gate.open.set()
        await settle()
        assert bench.asker.messages == [Compacted(6, 4, "", error="it took longer than 60 s")]


async def test_several_are_made_at_the_same_time() -> None:
    """It is shared by all invocations of its agent."""
    gate = Gate()

    async def summarize(asked: ToSummarize) -> str:
        return await gate.wait(f"{len(asked.history)} turns")

    async with summarizer(summarize) as bench:
        bench.ask(upto=4)
        bench.ask(upto=2)
        await settle()
        assert gate.came == ["4 turns", "2 turns"]
        gate.open.set()
        said = await bench.asker.received(2)
    assert [(compacted.upto, compacted.summary) for compacted in said] == [
        (4, "4 turns"),
        (2, "2 turns"),
    ]


def test_a_keyboard_interrupt_is_not_its_own() -> None:
    """It reaches whoever runs the loop."""

    async def main() -> None:
        async with summarizer(saying(KeyboardInterrupt("stop"), sync=False)) as bench:
            bench.ask()
            await asyncio.Event().wait()

    assert isinstance(escaping(main()), KeyboardInterrupt)
