"""A claim before its verifiers, in a runtime: crashes, corrections of the ledger, cancels."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopwright import (
    Agent,
    Claim,
    Final,
    Policy,
    Reason,
    Run,
    Runtime,
    ToolCall,
    ToolCalls,
    Verification,
    applied,
    failed,
    passed,
    tool,
    unknown,
)
from loopwright.protocol import AnswerVerified, CallId, TurnCommitted
from loopwright.stores import MemoryStore
from loopwright.testing import ScriptedModel, Step

pytestmark = pytest.mark.anyio

PAY = ToolCalls((ToolCall(CallId("pay"), "pay", {}),))


class Watched:
    """Two verifiers: the first lets everything pass, the second waits to be let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.statuses: list[list[str]] = []
        """What the ledger said at each question."""
        self.waits = asyncio.Event()
        self.open = asyncio.Event()
        self.interrupted = False

    async def first(self, claim: Claim) -> Verification:
        self._note("first", claim)
        return passed()

    async def second(self, claim: Claim) -> Verification:
        self._note("second", claim)
        self.waits.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.interrupted = True
            raise
        return passed()

    def _note(self, who: str, claim: Claim) -> None:
        self.asked.append(who)
        self.statuses.append([effect.status for effect in claim.effects])


@tool(effect="manual")
async def pay() -> None:
    """Pay; the line goes dead."""
    raise ConnectionError("no route")


def desk(watched: Watched, *steps: Step, **more: Any) -> Agent:
    model = ScriptedModel(steps)
    return Agent(
        "desk", model=model, tools=[pay], verifiers=[watched.first, watched.second], **more
    )


async def verdicts(run: Run) -> list[AnswerVerified]:
    return [record async for record in run.events() if isinstance(record, AnswerVerified)]


async def test_each_verdict_is_journaled_with_what_it_was_bound_to() -> None:
    """In their order, before the turn they are about is committed; a failed one with its reason."""

    def sceptical(claim: Claim) -> Verification:
        return passed() if claim.answer == "better" else failed("say it better")

    watched = Watched()
    model = ScriptedModel([Final("done"), Final("better")])
    agent = Agent("desk", model=model, verifiers=[watched.first, sceptical])
    async with Runtime([agent]) as runtime:
        run = await runtime.start("desk", "go")
        outcome = await run.outcome()
        records = [record async for record in run.events()]

    assert outcome.answer == "better"
    said = [record for record in records if isinstance(record, AnswerVerified)]
    assert [(v.turn, v.verifier, v.passed, v.reason) for v in said] == [
        (1, "first", True, ""),
        (1, "sceptical", False, "say it better"),
        (2, "first", True, ""),
        (2, "sceptical", True, ""),
    ]
    assert said[0].bound == said[1].bound != said[2].bound == said[3].bound
    order = [r.turn for r in records if isinstance(r, AnswerVerified | TurnCommitted)]
    assert order == [1, 1, 1, 2, 2, 2]
    fault = outcome.history[0].fault
    assert fault is not None
    assert (fault.level, "say it better" in fault.problem) == ("answer", True)


async def test_k11_verifiers_run_again_after_a_crash() -> None:
    """The model is not asked again, nor whoever's verdict still holds; whoever had not answered is."""
    store, before, after = MemoryStore(), Watched(), Watched()
    async with Runtime([desk(before, Final("done"))], store=store) as runtime:
        run = await runtime.start("desk", "go")
        await before.waits.wait()
    assert (before.asked, before.interrupted) == (["first", "second"], True)

    after.open.set()
    async with Runtime([desk(after)], store=store) as runtime:
        await runtime.recover()
        outcome = await runtime.outcome(run.id)
        said = await verdicts(runtime.get(run.id))

    assert outcome.reason is Reason.COMPLETED
    assert outcome.answer == "done"
    assert after.asked == ["second"]
    assert [(v.verifier, v.passed) for v in said] == [("first", True), ("second", True)]


async def test_a_verdict_is_void_once_the_ledger_says_something_else() -> None:
    """A person corrects it while the second verifier looks: both look again, at what is true now."""
    watched = Watched()
    async with Runtime([desk(watched, PAY, Final("done"))]) as runtime:
        waiting = await runtime.run("desk", "go")
        assert waiting.reason is Reason.RECONCILIATION_REQUIRED
        run = await runtime.settle(waiting.invocation_id, "pay", unknown("who knows"), by="ana")
        await watched.waits.wait()
        await runtime.settle(run.id, "pay", applied("r-1"), by="ana", turn=1)
        watched.open.set()
        outcome = await run.outcome()
        said = await verdicts(run)

    assert outcome.reason is Reason.COMPLETED
    assert watched.asked == ["first", "second", "first", "second"]
    assert watched.statuses == [["outcome_unknown"]] * 2 + [["committed"]] * 2
    assert len({verdict.bound for verdict in said}) == 2
    assert [v.verifier for v in said if v.bound == said[-1].bound] == ["first", "second"]


async def test_a_cancel_ends_the_looking() -> None:
    """The verifier is interrupted; the claim never counts."""
    watched = Watched()
    async with Runtime([desk(watched, Final("done"))]) as runtime:
        run = await runtime.start("desk", "go")
        await watched.waits.wait()
        run.cancel("enough")
        outcome = await run.outcome()
        said = await verdicts(run)

    assert (outcome.reason, outcome.answer) == (Reason.CANCELLED, "")
    assert watched.interrupted
    assert [verdict.verifier for verdict in said] == ["first"]


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_claims_that_never_hold_end_it(limit: int) -> None:
    """With the last verdict as the cause; the first failed claim ends it where none is forgiven."""

    def never(_: Claim) -> Verification:
        return failed("no")

    model = ScriptedModel([Final("done")] * 3)
    policy = Policy(max_verifications=limit)
    agent = Agent("desk", model=model, verifiers=[never], policy=policy)
    async with Runtime([agent]) as runtime:
        outcome = await runtime.run("desk", "go")

    assert outcome.reason is Reason.VERIFICATION_FAILED
    assert outcome.cause == "the answer does not stand up to never: no"
    assert outcome.steps == max(limit, 1)
    assert outcome.answer == ""
