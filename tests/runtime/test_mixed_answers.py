"""Yeses and noes in one answer: if one of them is refused, none of them counts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from casebook.desk import agent, batch, call, journal

from loopwright import Final, Outcome, Policy, Runtime, tool
from loopwright.policy import Approver, writes
from loopwright.protocol import (
    AlreadyDecidedError,
    ApprovalDecided,
    ApprovalExpiredError,
    ApproverRefusedError,
    ConfigurationError,
    InvocationStateError,
    RemoteProtocolError,
    UnknownProposalError,
)
from loopwright.testing import ScriptedModel, Step, VirtualClock

pytestmark = pytest.mark.anyio


def _not_pay(approver: Approver) -> bool:
    """Only a lead approves payments."""
    return approver.by == "lead" or approver.ask.tool_name != "pay"


class Office:
    """Where a batch of three writes waits: a removal, a payment, and a mail."""

    def __init__(self, runtime: Runtime, clock: VirtualClock, done: list[str]) -> None:
        self.runtime = runtime
        self.clock = clock
        self.done = done
        self.told: Outcome
        """Whom answers are told: the one that asks, or its parent."""
        self.asks: Outcome

    @property
    def digest(self) -> str:
        assert self.asks.proposal is not None
        return self.asks.proposal.digest

    async def answer(self, answers: Any, *, by: str = "bo", digest: str | None = None) -> None:
        told = self.told.invocation_id
        await self.runtime.answer_approval(told, digest or self.digest, answers, by=by)

    async def answered(self) -> list[tuple[str, bool]]:
        """Read from the journal what has been said of which call."""
        return [
            (answer.call_id, answer.approved)
            for record in await journal(self.runtime, self.asks.invocation_id)
            if isinstance(record, ApprovalDecided)
            for answer in record.answers
        ]


@asynccontextmanager
async def office(*, child: bool = False, **options: Any) -> AsyncGenerator[Office]:
    done, clock = list[str](), VirtualClock()

    @tool(effect="manual")
    async def rm(path: str) -> None:
        done.append(f"rm {path}")

    @tool(effect="manual")
    async def pay(amount: int) -> None:
        done.append(f"pay {amount}")

    @tool(effect="manual")
    async def mail(to: str) -> None:
        done.append(f"mail {to}")

    three = batch(
        call("c1", "rm", {"path": "x"}),
        call("c2", "pay", {"amount": 5}),
        call("c3", "mail", {"to": "ann"}),
    )
    policy = Policy(ask=[writes()], may_approve=_not_pay, **options)
    desk = agent(ScriptedModel([three, Final("done")]), rm, pay, mail, policy=policy)
    steps: list[Step] = [batch(call("c1", "desk", {"goal": "go"})), Final("done")]
    boss = agent(ScriptedModel(steps), desk.as_tool(), name="boss")
    async with Runtime([desk, boss], clock=clock) as runtime:
        made = Office(runtime, clock, done)
        made.told = made.asks = await runtime.run("boss" if child else "desk", "the goal")
        if child:
            made.asks = await runtime.outcome(made.told.waits_for[0])
        yield made


THROUGH_A_PARENT = pytest.mark.parametrize("child", [False, True], ids=["itself", "parent"])


@THROUGH_A_PARENT
@pytest.mark.parametrize(
    ("answers", "by", "error"),
    [
        ({"c1": False, "c2": True}, "bo", ApproverRefusedError),
        ({"c1": False, "c2": True, "c3": True}, "bo", ApproverRefusedError),
        ({"c1": False, "c9": True}, "lead", UnknownProposalError),
        ({"c9": False, "c1": True}, "lead", UnknownProposalError),
        ({"c1": False, "c2": 1}, "lead", RemoteProtocolError),
        ({"c1": False, 2: True}, "lead", RemoteProtocolError),
        ({"c1": False, "c3": True}, " ", ConfigurationError),
    ],
)
async def test_of_answers_of_which_one_is_refused_none_counts(
    child: bool, answers: Any, by: str, error: type[Exception]
) -> None:
    """A no does not stand because it came first: the form is taken as a whole, or not at all."""
    async with office(child=child) as made:
        with pytest.raises(error):
            await made.answer(answers, by=by)
        assert await made.answered() == []
        assert (await made.runtime.outcome(made.asks.invocation_id)).proposal == made.asks.proposal
        assert made.done == []
        await made.answer({"c1": False, "c2": True, "c3": True}, by="lead")
        assert (await made.runtime.outcome(made.told.invocation_id)).completed
        assert made.done == ["pay 5", "mail ann"]


@THROUGH_A_PARENT
async def test_who_may_not_say_yes_may_say_no(child: bool) -> None:
    async with office(child=child) as made:
        await made.answer({"c1": True, "c2": False, "c3": True})
        assert (await made.runtime.outcome(made.told.invocation_id)).completed
        assert made.done == ["rm x", "mail ann"]


@THROUGH_A_PARENT
async def test_what_was_answered_before_stands_and_so_does_what_still_waits(child: bool) -> None:
    """Somebody has answered for one of them meanwhile: the whole form is refused."""
    async with office(child=child) as made:
        await made.answer({"c3": True})
        for answers in ({"c1": False, "c3": True}, {"c3": False, "c1": True}):
            with pytest.raises(AlreadyDecidedError, match="'c3' was answered before"):
                await made.answer(answers)
        assert await made.answered() == [("c3", True)]
        await made.answer({"c1": False, "c2": True}, by="lead")
        with pytest.raises(InvocationStateError):
            await made.answer({"c1": False, "c2": True}, by="lead")
        assert (await made.runtime.outcome(made.told.invocation_id)).completed
        assert made.done == ["pay 5", "mail ann"]


@THROUGH_A_PARENT
async def test_another_digest_is_refused_for_what_it_is(child: bool) -> None:
    async with office(child=child) as made:
        with pytest.raises(UnknownProposalError):
            await made.answer({"c1": False, "c2": True}, digest="0" * 64)
        assert await made.answered() == []


async def test_an_answer_that_comes_too_late_is_none() -> None:
    """Not even its noes; the calls are refused as expired."""
    async with office(approval_expires=600) as made:
        await made.clock.advance(601)
        with pytest.raises(ApprovalExpiredError):
            await made.answer({"c1": False, "c3": True})
        outcome = await made.runtime.outcome(made.asks.invocation_id)
        errors = [result.error.type for result in outcome.history[0].results if result.error]
        assert errors == ["ApprovalExpired"] * 3
    assert made.done == []
