"""The Verifier: whatever a verifier does, there is one verdict, and it never fails open."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from loopwright import Claim, Verification, failed, passed
from loopwright.protocol import (
    JsonValue,
    Verified,
)
from loopwright.testing import settle
from services.bench import Gate
from services.verifying import CLAIM, PAID, bench, ok, ok_too, verdict

pytestmark = pytest.mark.anyio


# ---------------------------------------------------------------- what it answers
@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("said", [passed(), failed("no receipt"), failed("two\nlines")], ids=repr)
async def test_what_it_says_is_the_verdict(said: Verification, sync: bool) -> None:
    """Async, or in a thread."""
    assert await verdict(lambda: said, sync=sync) == said


async def test_the_answer_names_turn_number_and_verifier() -> None:
    """And the last one of all says so: only then the claim stands."""
    async with bench(ok, ok_too) as opened:
        assert await opened.verified(0, turn=3) == Verified(3, 0, "ok", passed(), done=False)
        assert await opened.verified(1, turn=3) == Verified(3, 1, "ok_too", passed(), done=True)


async def test_it_is_shown_the_claim() -> None:
    """All of it: the answer, the history, and the ledger."""
    seen: list[Claim] = []

    def look(claim: Claim) -> Verification:
        seen.append(claim)
        return passed()

    async with bench(look) as opened:
        await opened.verified()
    assert seen == [CLAIM]


async def test_it_cannot_change_what_it_looks_at() -> None:
    """The answer that counts and the ledger are not its to correct."""

    def meddle(claim: Claim) -> Verification:
        for shown in (claim.output, claim.metadata, claim.effects[0].receipt):
            assert isinstance(shown, dict)
            shown["id"] = "forged"
        return passed()

    output: JsonValue = {"id": "r-1"}
    async with bench(meddle) as opened:
        assert (await opened.verified(claim=CLAIM._replace(output=output))).verification.passed
    assert output == PAID.receipt == {"id": "r-1"}
    assert CLAIM.metadata == {"ticket": 7}


async def test_an_object_may_be_one() -> None:
    """With an async `__call__` it runs in the loop; a plain function may return something to await."""
    threads: list[int] = []

    class Checks:
        async def __call__(self, _: Claim) -> Verification:
            threads.append(threading.get_ident())
            return passed()

    def indirect(claim: Claim) -> Any:
        threads.append(threading.get_ident())
        return ok_too(claim)

    async with bench(Checks(), indirect) as opened:
        assert await opened.verified(0) == Verified(1, 0, "Checks", passed(), done=False)
        assert await opened.verified(1) == Verified(1, 1, "indirect", passed(), done=True)
    assert threads[0] == threading.get_ident() != threads[1]


async def test_it_sees_the_context_of_whoever_is_worked_for() -> None:
    """A copy: what it sets is its own."""
    variable = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    def look(_: Claim) -> Verification:
        seen.append(variable.get())
        variable.set("by a verifier")
        return passed()

    async def look_too(claim: Claim) -> Verification:
        return look(claim)

    async with bench(look, look_too) as opened:
        opened.foreign.run(variable.set, "ann")
        for number in (0, 1, 0, 1):
            await opened.verified(number)
    assert seen == ["ann"] * 4


# ---------------------------------------------------------------- it never fails open
class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class OddError(BaseException):
    """Neither an Exception nor anything Python knows."""


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AssertionError("no"), "AssertionError: no"),
        (TimeoutError("slow"), "TimeoutError: slow"),
        (MuteError(), "MuteError: <its text cannot be read>"),
        (OddError("odd"), "OddError: odd"),
        (SystemExit(0), "SystemExit: 0"),
        (StopIteration(3), "RuntimeError: "),
        (ExceptionGroup("g", [KeyError("x")]), "KeyError: 'x'"),
        (asyncio.CancelledError("own"), "CancelledError: own"),
        (GeneratorExit("own"), "GeneratorExit: own"),
    ],
    ids=repr,
)
async def test_one_that_raises_has_not_let_it_pass(
    error: BaseException, reason: str, sync: bool
) -> None:
    """Not even by leaving with exit code 0; it is named, with what it raised."""

    def fail() -> object:
        raise error

    said = await verdict(fail, sync=sync)
    assert not said.passed
    assert said.reason.startswith(f"verifier 'checks' failed with {reason}")


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    ("nonsense", "kind"),
    [
        (None, "NoneType"),
        (True, "bool"),
        ("passed", "str"),
        (1, "int"),
        ({"passed": True}, "dict"),
        ((True, ""), "tuple"),
        (passed, "function"),
        (Verification(cast("bool", 1)), "a verification of int and str"),
        (Verification(cast("bool", "no")), "a verification of str and str"),
        (
            Verification(passed=True, reason=cast("str", None)),
            "a verification of bool and NoneType",
        ),
    ],
    ids=repr,
)
async def test_one_that_answers_nonsense_has_not_let_it_pass(
    nonsense: object, kind: str, sync: bool
) -> None:
    """Only a verification is read as one; `True` is no yes."""
    expected = f"verifier 'checks' returned {kind}; return passed() or failed(reason)"
    assert await verdict(lambda: nonsense, sync=sync) == failed(expected)


async def test_a_reason_is_made_to_fit_the_journal() -> None:
    """It is bounded, and holds nothing that cannot be stored; without one, that is said."""
    assert len((await verdict(lambda: failed("x" * 9_000), sync=False)).reason) < 2_100
    odd = (await verdict(lambda: failed("a\x00\ud800b"), sync=False)).reason
    assert odd.encode() == b"a\\x00\\xd800b"
    blank = await verdict(lambda: failed(" "), sync=False)
    assert blank == failed("verifier 'checks' gives no reason")


@pytest.mark.parametrize("own", [None, 2.5])
async def test_one_that_hangs_is_given_up(own: float | None) -> None:
    """After its own limit, or 60 seconds; what it says later is dropped."""
    gate, limit = Gate(), own or 60.0

    class Slow:
        async def __call__(self, _: Claim) -> Verification:
            await gate.wait("slow")
            return passed()

    slow = Slow()
    if own is not None:
        slow.__dict__["timeout"] = own
    async with bench(slow) as opened:
        opened.ask()
        await opened.clock.advance(limit - 0.1)
        assert opened.answers == []
        await opened.clock.advance(0.1)
        gate.open.set()
        await settle()
        reason = f"verifier 'Slow' did not answer within {limit} s"
        assert opened.answers == [(1, False, reason)]


async def test_one_that_does_not_obey_is_not_waited_for() -> None:
    """It swallows its cancellation and lets the claim pass: too late."""
    gate = Gate()

    async def stubborn(_: Claim) -> Verification:
        while not gate.open.is_set():
            try:
                await gate.wait("stubborn")
            except asyncio.CancelledError:
                continue
        return passed()

    async with bench(stubborn) as opened:
        opened.ask()
        await opened.clock.advance(60)
        gate.open.set()
        await settle()
        assert [ok for _, ok, _ in opened.answers] == [False]


@pytest.fixture
def leave() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


async def test_a_blocking_one_holds_up_nobody(leave: threading.Event) -> None:
    """Neither the loop nor another verifier; its thread is abandoned when its time is over."""

    def blocking(_: Claim) -> Verification:
        leave.wait(30)
        return passed()

    async with bench(blocking, ok) as opened:
        opened.ask(0, turn=1)
        await settle()
        assert (await opened.verified(1, turn=2)).verification.passed
        await opened.clock.advance(60)
        assert opened.answers[1:] == [
            (1, False, "verifier 'blocking' did not answer within 60.0 s")
        ]
        leave.set()
        await settle()
        assert len(opened.answers) == 2


async def test_an_answer_in_time_leaves_no_timer() -> None:
    """Much later nothing more is said."""
    async with bench(ok) as opened:
        await opened.verified()
        await opened.clock.advance(1_000)
        assert opened.answers == [(1, True, "")]
