"""Replies are heard while they come, and nothing that is heard counts before it is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import cast

import pytest

from loopwright import Agent, Final, ModelReply, ModelRequest, Policy, Runtime, ToolCalls, tool
from loopwright.policy import Redactor, Retry
from loopwright.protocol import (
    CallId,
    Discarded,
    Live,
    LiveText,
    ModelError,
    Reason,
    Record,
    TextDelta,
    ToolCall,
    TurnCommitted,
    Usage,
)

Piece = TextDelta | ModelReply | BaseException | asyncio.Event

pytestmark = pytest.mark.anyio


class Speaker:
    """A model that says pieces: one list of them for each attempt."""

    name = "speaker"

    def __init__(self, *attempts: Sequence[Piece]) -> None:
        self._attempts = iter(attempts)
        self.closed = 0
        self.ended = 0

    async def decide(self, request: ModelRequest) -> ModelReply:
        raise AssertionError("a model that can be heard is asked by stream")

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelReply]:
        try:
            for piece in next(self._attempts):
                if isinstance(piece, BaseException):
                    raise piece
                if isinstance(piece, asyncio.Event):
                    await piece.wait()
                else:
                    yield piece
        finally:
            self.ended += 1

    async def aclose(self) -> None:
        self.closed += 1


def reply(answer: str) -> ModelReply:
    return ModelReply(Final(answer), Usage(1, 1))


def texts(*pieces: str) -> list[TextDelta]:
    return [TextDelta(piece) for piece in pieces]


NO_WAIT = Policy(retry=Retry(first=0.0, longest=0.0))


async def heard_of(model: Speaker, policy: Policy = NO_WAIT) -> list[Record | Live]:
    async with Runtime([Agent("a", model=model, policy=policy)]) as runtime:
        run = await runtime.start("a", "go")
        return [event async for event in run.events(live=True)]


async def test_text_is_told_as_it_comes_and_before_its_turn() -> None:
    heard = await heard_of(Speaker([*texts("Hel", "lo"), reply("Hello")]))
    live = [event for event in heard if isinstance(event, LiveText)]
    assert "".join(event.text for event in live) == "Hello"
    assert {(event.turn, event.attempt, event.endpoint) for event in live} == {(1, 1, "speaker")}
    committed = next(e for e in heard if isinstance(e, TurnCommitted))
    assert max(map(heard.index, live)) < heard.index(committed)


async def test_b44_a_listener_is_told_that_an_attempt_was_discarded() -> None:
    dropped: list[Piece] = [*texts("Hel"), ModelError("the line went dead")]
    heard = await heard_of(Speaker(dropped, [*texts("Hello"), reply("Hello")]))
    live = [event for event in heard if isinstance(event, LiveText | Discarded)]
    assert live == [
        LiveText(1, 1, "speaker", "Hel"),
        Discarded(1, 1, "speaker", "ModelError: the line went dead"),
        LiveText(1, 2, "speaker", "Hello"),
    ]
    turns = [event for event in heard if isinstance(event, TurnCommitted)]
    assert [turn.proposal.decision for turn in turns] == [Final("Hello")]
    assert turns[0].proposal.attempts == 2


async def test_who_has_heard_nothing_is_not_told_that_it_was_discarded() -> None:
    heard = await heard_of(Speaker([ModelError("no")], [reply("ok")]))
    assert not [event for event in heard if isinstance(event, Discarded)]


@pytest.mark.parametrize("text", [None, 5, b"x"])
async def test_what_is_no_text_is_the_models_failure_and_not_the_listeners(text: object) -> None:
    delta = TextDelta(cast("str", text))
    heard = await heard_of(Speaker([*texts("x"), delta, reply("ok")]))
    live = [event for event in heard if isinstance(event, LiveText | Discarded)]
    assert live[0] == LiveText(1, 1, "speaker", "x")
    told = f"TypeError: the model gave a TextDelta of {type(text).__name__}; give texts"
    assert live[1:] == [Discarded(1, 1, "speaker", told)]


async def test_an_attempt_that_was_heard_is_charged() -> None:
    """Whoever has begun to speak has read the request, and is paid for what was said (B45)."""
    dropped: list[Piece] = [*texts("a" * 400), ModelError("the line went dead")]
    silent: list[Piece] = [ModelError("the line went dead")]
    charged = list[Usage]()
    for attempt in (dropped, silent):
        model = Speaker(attempt, [reply("ok")])
        async with Runtime([Agent("a", model=model, policy=NO_WAIT)]) as runtime:
            outcome = await runtime.run("a", "go")
        charged.append(outcome.usage)
    assert charged[0].output_tokens == 1 + 100
    assert charged[0].input_tokens > 1
    assert charged[0].estimated
    assert charged[1] == Usage(1, 1)


async def test_a_stream_without_a_reply_is_a_failed_attempt() -> None:
    model = Speaker(texts("half"), [reply("whole")])
    async with Runtime([Agent("a", model=model, policy=NO_WAIT)]) as runtime:
        outcome = await runtime.run("a", "go")
    assert (outcome.answer, outcome.history[0].proposal.attempts) == ("whole", 2)


async def test_a_slow_reader_gets_each_turn_in_order_and_text_in_one_piece() -> None:
    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    calls = ToolCalls((ToolCall(CallId("c"), "look", {}),))
    model = Speaker(
        [*texts("a", "b", "c"), ModelReply(calls, Usage(1, 1))], [*texts("d", "e"), reply("de")]
    )
    async with Runtime([Agent("a", model=model, tools=[look])]) as runtime:
        run = await runtime.start("a", "go")
        events = run.events(live=True)
        first = await anext(events)
        await run.outcome()
        heard = [first, *[event async for event in events]]
    told = [
        event.text if isinstance(event, LiveText) else f"turn {event.turn}"
        for event in heard
        if isinstance(event, LiveText | TurnCommitted)
    ]
    assert told == ["abc", "turn 1", "de", "turn 2"]


async def test_a_cancelled_stream_is_closed() -> None:
    never = asyncio.Event()
    model = Speaker([*texts("x"), never])
    async with Runtime([Agent("a", model=model)]) as runtime:
        run = await runtime.start("a", "go")
        live = list[Live]()
        async for event in run.events(live=True):
            if isinstance(event, LiveText):
                run.cancel("enough")
            if isinstance(event, LiveText | Discarded):
                live.append(event)
        outcome = await run.outcome()
    assert outcome.reason is Reason.CANCELLED
    assert model.ended == 1
    # Whoever asks for this turn again begins with attempt 1 once more.
    gone = Discarded(1, 1, "speaker", "the model call was cancelled")
    assert live == [LiveText(1, 1, "speaker", "x"), gone]


async def test_where_the_runtime_redacts_nothing_is_told_in_pieces() -> None:
    model = Speaker([*texts("my card is 4111 1111", " 1111 1111"), reply("done")])
    async with Runtime([Agent("a", model=model)], redact=Redactor()) as runtime:
        run = await runtime.start("a", "go")
        heard = [event async for event in run.events(live=True)]
    assert not [event for event in heard if isinstance(event, LiveText)]


async def test_a_runtime_that_is_closed_closes_its_models_and_may_be_entered_again() -> None:
    model = Speaker([reply("one")], [reply("two")])
    runtime = Runtime([Agent("a", model=model)])
    for answer, closed in (("one", 1), ("two", 2)):
        async with runtime:
            assert (await runtime.run("a", "go")).answer == answer
        assert model.closed == closed


@dataclass
class Plain:
    """A model that is a dataclass, as anybody would write it: it cannot be hashed."""

    closed: int = 0

    async def decide(self, request: ModelRequest) -> ModelReply:
        return reply("done")

    async def aclose(self) -> None:
        self.closed += 1


async def test_a_model_that_cannot_be_hashed_is_closed_once() -> None:
    model = Plain()
    async with Runtime([Agent("a", model=model, finish_model=model)]) as runtime:
        assert (await runtime.run("a", "go")).answer == "done"
    assert model.closed == 1


async def _fails() -> None:
    raise OSError("no")


async def _hangs() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("close", [_fails, _hangs])
async def test_a_model_that_cannot_be_closed_holds_up_nobody(
    close: Callable[[], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loopwright.actors.roles._decider.CLOSE_TIMEOUT", 0.01)
    model = Speaker([reply("one")])
    monkeypatch.setattr(model, "aclose", close)
    async with Runtime([Agent("a", model=model)]) as runtime:
        assert (await runtime.run("a", "go")).answer == "one"
    assert "speaker could not be closed" in caplog.text
