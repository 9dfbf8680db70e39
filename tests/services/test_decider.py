"""The Decider: whatever a model does, the Supervisor hears of it once, in our own types."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from loopwright import (
    CannotContinue,
    Clarification,
    Final,
    ModelReply,
    ModelRequest,
    Policy,
    RequestApproval,
    ToolCalls,
    Usage,
    tool,
)
from loopwright.policy import Retry
from loopwright.protocol import (
    CancelDecide,
    Decided,
    DecideFailed,
    Malformed,
    ModelErrorKind,
)
from loopwright.testing import ScriptedModel, Step, settle
from services.bench import INVOCATION, Gate, decide, escaping
from services.deciding import Says, decider

pytestmark = pytest.mark.anyio

ONCE = Policy(retry=Retry(max_attempts=1))


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class OddError(BaseException):
    """Neither an Exception nor anything Python knows."""


async def failure(said: object) -> str:
    """Ask a model once; the attempt is told, and then that there is no reply, with the same text."""
    async with decider(Says(said), policy=ONCE) as bench:
        answered = await bench.answer()
    assert isinstance(answered, DecideFailed)
    (attempt,) = bench.failed
    assert (attempt.turn, attempt.attempt, attempt.endpoint) == (1, 1, "Says")
    assert (attempt.error, attempt.category) == (answered.error, answered.category)
    assert attempt.retry_in == 0.0
    return answered.error


@pytest.mark.parametrize(
    "said", [None, Final("done"), {"kind": "final"}, "text", (ModelReply(Final("x")), None)]
)
async def test_a_reply_of_another_type_is_the_models_failure(said: object) -> None:
    """Also a decision without its reply: a model that forgets the usage is told so."""
    expected = f"TypeError: the model returned {type(said).__name__}; decide() must return a "
    assert (await failure(said)).startswith(expected)


@pytest.mark.parametrize("fields", [{"model": None}, {"response_id": 7}])
async def test_a_reply_with_fields_of_other_types_is_the_models_failure(
    fields: dict[str, Any],
) -> None:
    """All of a reply goes into the journal; nothing there may be unreadable."""
    error = await failure(ModelReply(Final("done"), **fields))

    assert error.startswith("TypeError: the model replied with model=")
    assert error.endswith("give texts")


@pytest.mark.parametrize("word", ["x" * 1_000_000, "a\x1b[31m\n", "\ud800"])
async def test_words_of_a_provider_are_bounded_and_safe_to_show(word: str) -> None:
    """They are kept with the turn, and printed: no reply may fill the journal with them."""
    reply = ModelReply(Final("ok"), Usage(1, 1), word, word, word)
    async with decider(Says(reply)) as bench:
        decided = await bench.decided()

    for kept in (decided.model, decided.response_id, decided.stop_reason):
        assert kept.isprintable()
        assert len(kept) < 1_100
        assert kept.startswith(word[:1] if word.isascii() else "\\xd800")


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {"input_tokens": 1},
        Usage(-1, 0),
        Usage(0, -1),
        Usage(cast("int", None), cast("int", None)),
        Usage(cast("int", 1.5), 1),
        Usage(3, 1, cached_tokens=4),
        Usage(3, 1, cached_tokens=-1),
        Usage(3, 1, cast("bool", "no")),
        Usage(2**32 - 1, 1),
        Usage(1, 10**5_000),
    ],
)
async def test_b45_a_usage_that_cannot_be_charged_is_estimated(usage: Any) -> None:
    """B45: what was said is kept, and budgets never see nothing, less than nothing, or a text."""
    async with decider(Says(ModelReply(Final("ok"), usage))) as bench:
        decided = await bench.decided()

    assert decided.decision == Final("ok")
    assert decided.usage.input_tokens > 0
    assert decided.usage.output_tokens == len(repr(Final("ok"))) // 4 + 1
    assert decided.usage.estimated


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionError("no route"), "ConnectionError: no route"),
        (ExceptionGroup("g", [ExceptionGroup("h", [ValueError("deep")])]), "ValueError: deep"),
        (MuteError(), "MuteError: <its text cannot be read>"),
        (OddError("odd"), "OddError: odd"),
        (SystemExit(3), "SystemExit: 3"),
        (BaseExceptionGroup("g", [SystemExit(4)]), "SystemExit: 4"),
        (ValueError("y" * 3_000), "ValueError: " + "y" * 2_000 + "… (3000 characters)"),
        (asyncio.CancelledError("own"), "the model call was cancelled"),
        (GeneratorExit("own"), "GeneratorExit: own"),
    ],
)
async def test_a_model_that_raises_has_failed(error: BaseException, text: str) -> None:
    """Whatever it raises, there is an answer, bounded, with the first real cause."""
    assert await failure(error) == text


async def test_a_model_that_cancels_itself_is_not_asked_again() -> None:
    """Nobody has cancelled it: that is a bug in the model object."""
    async with decider(Says(asyncio.CancelledError("own"))) as bench:
        answered = await bench.answer()
    expected = DecideFailed(1, "the model call was cancelled", ModelErrorKind.PERMANENT)
    assert answered == expected


async def test_it_goes_on_after_a_failure() -> None:
    """A failed call is no crash: the next one is served by the same actor."""
    async with decider(ScriptedModel([ValueError("no"), Final("done")])) as bench:
        assert isinstance(await bench.answer(decide(1)), DecideFailed)
        assert (await bench.decided(decide(2))).decision == Final("done")


@pytest.mark.parametrize(
    ("reply", "problem", "raw"),
    [
        ("{", "decision: not valid JSON", "{"),
        (b"\xff", "decision: byte 0 is not valid UTF-8", "\ufffd"),
        ("[]", "decision: must be a JSON object with a `kind`, not list", "[]"),
        ({"kind": "dance"}, "decision: Input tag 'dance'", "{'kind': 'dance'}"),
        ({"kind": "final", "extra": 1}, "decision.final.extra: ", "{'kind': 'final', 'extra': 1}"),
        ("z" * 5_000, "decision: not valid JSON", "z" * 2_000 + "… (5000 characters)"),
        ("a\x00b", "decision: not valid JSON", "a\\x00b"),
    ],
)
async def test_a_malformed_reply_is_kept_bounded(reply: Any, problem: str, raw: str) -> None:
    """It counts as said, with what was wrong and a printable beginning of it."""
    async with decider(ScriptedModel([reply])) as bench:
        decided = await bench.decided()

    assert isinstance(decided.decision, Malformed)
    assert decided.decision.problem.startswith(problem)
    assert decided.decision.raw == raw
    assert decided.usage == Usage(10, 5)


@pytest.mark.parametrize(
    "decision",
    [
        Final("done", {"x": 1}),
        ToolCalls((), "none"),
        RequestApproval((), "why not"),
        Clarification("which?"),
        CannotContinue("lost", "no idea"),
    ],
)
async def test_a_typed_decision_is_handed_on(decision: Step) -> None:
    """With the usage, the model and the response id of its reply."""
    reply = ModelReply(cast("Final", decision), Usage(3, 4), "m-1", "r-1")
    async with decider(ScriptedModel([reply])) as bench:
        decided = await bench.decided(decide(9))

    said = cast("Final", decision)
    assert decided == Decided(9, said, Usage(3, 4), "m-1", "r-1", 1, "ScriptedModel")


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ('{"kind":"final","answer":"ok"}', 8),
        (b'{"kind":"final","answer":"ok"}', 8),
        ('{"kind":"final","answer":"' + "x" * 40_000 + '"}', 10_008),
        ("?" * 40_000, 10_001),
        (Final("x" * 40_000), len(repr(Final("x" * 40_000))) // 4 + 1),
    ],
)
async def test_usage_that_is_not_reported_is_estimated(raw: Any, tokens: int) -> None:
    """From all that was shown and said, four characters a token, never 0, and marked as estimate."""
    model = ScriptedModel([raw], usage=None)
    async with decider(model, instructions="i" * 400) as bench:
        decided = await bench.decided(decide(notice="n" * 400))

    shown = len("the goal") + 2 + 400 + 400
    assert decided.usage == Usage(shown // 4 + 1, tokens, estimated=True)


async def test_a_reported_usage_of_nothing_is_believed() -> None:
    """A provider that says 0 is not corrected."""
    async with decider(ScriptedModel([Final("x")], usage=Usage())) as bench:
        assert (await bench.decided()).usage == Usage()


async def test_a_model_is_shown_everything_a_decision_may_rest_on() -> None:
    """The agent's definition, the invocation's own data, and the notice of this turn."""

    @tool(effect="read")
    def find() -> None: ...

    model = ScriptedModel([Final("x")])
    async with decider(model, instructions="Be brief.", tools=[find], policy=Policy()) as bench:
        order = decide(3, notice="the end is near")
        await bench.decided(order)

    (request,) = model.requests
    assert request == ModelRequest(
        INVOCATION,
        3,
        "desk",
        "Be brief.",
        order.goal,
        order.history,
        (find.spec,),
        order.principal,
        "the end is near",
        {"ticket": 7},
    )


async def test_a_call_that_is_cancelled_is_answered() -> None:
    """It is answered once, also where nobody hears of the cancel in time or at all."""
    gate = Gate()

    async def wait(_: ModelRequest) -> Final:
        await gate.wait("model")
        return Final("late")

    async with decider(ScriptedModel([wait])) as bench:
        bench.ask(CancelDecide(INVOCATION, 1))
        bench.ask(decide(1))
        await settle()
        bench.ask(CancelDecide(INVOCATION, 2))
        bench.ask(CancelDecide(INVOCATION, 1))
        bench.ask(CancelDecide(INVOCATION, 1))
        await bench.asker.received()
        await settle()

    assert bench.asker.messages == [DecideFailed(1, "the model call was cancelled")]


async def test_a_call_that_is_cancelled_before_it_has_begun_is_answered() -> None:
    """In the very tick it was asked for."""

    async def wait(_: ModelRequest) -> Final:
        await Gate().wait("model")
        return Final("late")

    async with decider(ScriptedModel([wait])) as bench:
        bench.ask(decide(1))
        bench.ask(CancelDecide(INVOCATION, 1))
        assert await bench.asker.received() == [DecideFailed(1, "the model call was cancelled")]


async def test_a_turn_asked_anew_is_answered_whatever_the_first_call_does() -> None:
    """A model may outlive its cancel and end after the same turn is asked again: each gets its own."""
    gates = [Gate(), Gate()]
    asked = 0

    async def stubborn(_: ModelRequest) -> Final:
        nonlocal asked
        asked += 1
        mine = asked
        while not gates[mine - 1].open.is_set():
            try:
                await gates[mine - 1].open.wait()
            except asyncio.CancelledError:
                continue
        return Final(f"reply {mine}")

    async with decider(ScriptedModel([stubborn, stubborn])) as bench:
        bench.ask(decide(1))
        await settle()
        bench.ask(CancelDecide(INVOCATION, 1))
        await settle()
        bench.ask(decide(1))
        await settle()
        for gate in gates:
            gate.open.set()
            await settle()

    said = [message.decision for message in bench.asker.messages]
    assert said == [Final("reply 1"), Final("reply 2")]


@pytest.mark.parametrize("grouped", [False, True])
def test_a_keyboard_interrupt_is_not_the_models(grouped: bool) -> None:
    """It reaches whoever runs the loop, also out of a group."""
    error: BaseException = KeyboardInterrupt("stop")
    if grouped:
        error = BaseExceptionGroup("g", [error])

    async def main() -> None:
        async with decider(Says(error)) as bench:
            bench.ask(decide())
            await asyncio.Event().wait()

    assert isinstance(escaping(main()), KeyboardInterrupt)
