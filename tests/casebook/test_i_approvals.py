"""Casebook I: only a human's yes to exactly this call runs it, once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from casebook.desk import Wire, agent, batch, call, journal
from casebook.processes import Worker, lines
from casebook.worker import clerk, operator
from loopwright import Agent, Final, LoopwrightError, Outcome, Policy, Reason, Run, Runtime, tool
from loopwright.policy import over, writes
from loopwright.protocol import (
    NO_USAGE,
    AlreadyDecidedError,
    Append,
    ApprovalDecided,
    Budget,
    CallDispatched,
    Head,
    InvocationId,
    InvocationNotFoundError,
    InvocationStarted,
    InvocationStateError,
    JsonValue,
    Principal,
    Proposal,
    Record,
    RemoteProtocolError,
    ToolCall,
    ToolCalls,
    TurnCommitted,
    TurnProposed,
    UnknownProposalError,
    encode_record,
    parse_decision,
)
from loopwright.stores import MemoryStore, SQLiteStore
from loopwright.testing import ScriptedModel, VirtualClock

pytestmark = pytest.mark.anyio


@dataclass
class Bank:
    """An agent that may transfer with a human's yes, and what it has transferred."""

    model: ScriptedModel
    transferred: list[int] = field(default_factory=list[int])

    @property
    def agent(self) -> Agent:
        @tool(effect="manual")
        async def transfer(amount: int) -> int:
            self.transferred.append(amount)
            return amount

        return agent(self.model, transfer, policy=Policy(ask=[writes()]))


def transfers(*amounts: int) -> Wire:
    """A batch of transfers, c1, c2 and so on."""
    return batch(*(call(f"c{i}", "transfer", {"amount": a}) for i, a in enumerate(amounts, 1)))


def digest(outcome: Outcome) -> str:
    assert outcome.proposal is not None
    return outcome.proposal.digest


@asynccontextmanager
async def asked(*batches: Wire) -> AsyncGenerator[tuple[Runtime, Bank, list[Outcome]]]:
    """A runtime with one run for each batch, all of them waiting for a human."""
    bank = Bank(ScriptedModel([*batches, *(Final("done") for _ in batches)]))
    async with Runtime([bank.agent], clock=VirtualClock()) as runtime:
        outcomes = [await runtime.run("desk", "the goal") for _ in batches]
        assert [o.reason for o in outcomes] == [Reason.APPROVAL_REQUIRED] * len(batches)
        assert bank.transferred == []
        yield runtime, bank, outcomes


def statuses(outcome: Outcome) -> list[str]:
    return [result.status.value for result in outcome.history[0].results]


@pytest.mark.parametrize("answers", [{"c1": None}, {}, {"c1": "yes"}, {"c1": 1}])
async def test_b71_only_true_is_a_yes(answers: dict[str, object]) -> None:
    """B71: a missing answer and what merely looks like a yes leave the call waiting."""
    async with asked(transfers(1)) as (runtime, bank, [before]):
        with pytest.raises(RemoteProtocolError, match="answers"):
            await runtime.answer_approval(
                before.invocation_id, digest(before), cast("dict[str, bool]", answers), by="bo"
            )
        after = await runtime.outcome(before.invocation_id)
        assert after.reason is Reason.APPROVAL_REQUIRED
        assert digest(after) == digest(before)
        assert bank.transferred == []


async def test_b72_a_call_found_in_the_journal_is_not_assumed_approved() -> None:
    """B72: a run taken up at an unanswered call asks a human first."""
    bank, store, name = Bank(ScriptedModel([])), MemoryStore(), InvocationId("seeded")
    at = time.time()
    proposal = Proposal(parse_decision(transfers(1)), NO_USAGE)
    seeded: list[Record] = [
        InvocationStarted(name, "desk", "1", "1", "the goal", Principal(), Budget(), at),
        TurnProposed(1, proposal, at),
    ]
    await store.open()
    lines = tuple(encode_record(record) for record in seeded)
    head = Head("desk", "running", None, at, "the goal")
    assert list(await store.append([Append(name, 1, 1, lines, "a worker that died", head)])) == [
        None
    ]
    await store.close()

    async with Runtime([bank.agent], store=store) as runtime:
        (run,) = await runtime.recover()
        outcome = await run.outcome()

    assert outcome.reason is Reason.APPROVAL_REQUIRED
    assert outcome.proposal is not None
    assert [ask.call_id for ask in outcome.proposal.asks] == ["c1"]
    assert (bank.transferred, bank.model.calls) == ([], 0)


@pytest.mark.parametrize("order", ["approve first", "deny first"])
async def test_b73_an_approval_is_for_one_call(order: str) -> None:
    """B73: a yes to one transfer says nothing about another, in whichever order they come."""
    async with asked(transfers(1, 999)) as (runtime, bank, [before]):
        name, shown = before.invocation_id, digest(before)
        if order == "approve first":
            await runtime.approve(name, shown, by="bo", calls=["c2"])
            assert (await runtime.outcome(name)).reason is Reason.APPROVAL_REQUIRED
            assert bank.transferred == []
            run = await runtime.deny(name, shown, by="bo", calls=["c1"])
        else:
            await runtime.deny(name, shown, by="bo", calls=["c1"])
            run = await runtime.approve(name, shown, by="bo", calls=["c2"])
        outcome = await run.outcome()

    assert outcome.completed
    assert bank.transferred == [999]
    assert statuses(outcome) == ["denied", "ok"]


async def test_b74_parallel_approvals_are_answered_one_by_one() -> None:
    """B74: three calls are three questions; each answer reaches its own call."""
    async with asked(transfers(10, 20, 30)) as (runtime, bank, [before]):
        assert before.proposal is not None
        assert [ask.call_id for ask in before.proposal.asks] == ["c1", "c2", "c3"]
        answers = {"c1": True, "c2": False, "c3": True}
        run = await runtime.answer_approval(
            before.invocation_id, digest(before), answers, by="bo", reason="too much"
        )
        outcome = await run.outcome()

    assert outcome.completed
    assert statuses(outcome) == ["ok", "denied", "ok"]
    assert bank.transferred == [10, 30]
    assert bank.model.calls == 2
    denied = outcome.history[0].results[1].error
    assert denied is not None
    assert "too much" in denied.message


async def suspended_elsewhere(tmp_path: Path) -> tuple[SQLiteStore, Path, str, str]:
    """Let another process run until it waits for a human, and end."""
    path, ledger = tmp_path / "agents.db", tmp_path / "ledger"
    worker = Worker("suspend", path, ledger)
    invocation, reason, shown = await worker.said()
    assert reason == "approval_required"
    assert await worker.ended() == (0, "")
    return SQLiteStore(path), ledger, invocation, shown


async def test_b75_a_batch_waits_as_a_whole(tmp_path: Path) -> None:
    """B75: nothing of a batch starts before its approval; after it, in another process, each runs once."""
    store, ledger, invocation, shown = await suspended_elsewhere(tmp_path)
    assert lines(ledger) == []

    model = ScriptedModel([Final("done")])
    async with Runtime([clerk(model, ledger)], store=store) as runtime:
        run = await runtime.approve(invocation, shown, by="bo")
        outcome = await run.outcome()

    assert outcome.completed
    assert [line.split()[0] for line in lines(ledger)] == ["mail", "pay"]
    assert statuses(outcome) == ["ok", "ok"]


async def test_b83_a_process_with_only_the_store_goes_on(tmp_path: Path) -> None:
    """B83: after a restart the stored call runs once, with the stored arguments, in the new context."""
    store, ledger, invocation, shown = await suspended_elsewhere(tmp_path)

    model = ScriptedModel([Final("done")])
    async with Runtime([clerk(model, ledger)], store=store) as runtime:
        (listed,) = await runtime.invocations(status="suspended")
        assert (listed.invocation_id, listed.head.detail) == (invocation, shown)
        token = operator.set("process B")
        run = await runtime.approve(invocation, shown, by="bo")
        operator.reset(token)
        outcome = await run.outcome()
        kinds = [record.kind for record in await journal(runtime, invocation)]

    assert outcome.completed
    assert lines(ledger) == ["mail ana", "pay 7 30 for process B"]
    assert (kinds.count("approval_requested"), kinds.count("suspended")) == (1, 1)


async def test_b83_it_also_goes_on_after_the_process_that_approved_was_killed(
    tmp_path: Path,
) -> None:
    """B83, crash side: the yes is durable, its call is not begun: it runs once, elsewhere."""
    _, ledger, invocation, shown = await suspended_elsewhere(tmp_path)
    killer = Worker("approves", tmp_path / "agents.db", ledger, invocation, shown)
    assert await killer.ended() == (-9, "")
    assert lines(ledger) == []

    model = ScriptedModel([Final("done")])
    later = SQLiteStore(tmp_path / "agents.db", clock=lambda: time.monotonic() + 60)
    async with Runtime([clerk(model, ledger)], store=later) as runtime:
        (run,) = await runtime.recover()
        outcome = await run.outcome()
    assert outcome.completed
    assert [line.split()[0] for line in lines(ledger)] == ["mail", "pay"]
    assert statuses(outcome) == ["ok", "ok"]


class Till:
    """Takes payments up to 1,000; above 10, a human has to say yes."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(effect="manual")
        async def pay(amount: int) -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        self.desk = agent(
            ScriptedModel([batch(call("c1", "pay", {"amount": 100})), Final("done")]),
            pay,
            policy=Policy(ask=[over(10)], deny=[over(1000)]),
        )


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_b78_edited_arguments_are_what_runs(elsewhere: bool) -> None:
    """B78: proposed 100, approved 50, executed 50: the journal says all three, the model sees it."""
    till, store = Till(), MemoryStore()
    async with Runtime([till.desk], store=store) as runtime:
        before = await runtime.run("desk", "the goal")
        if not elsewhere:
            run = await runtime.approve(
                before.invocation_id, digest(before), by="bo", edits={"c1": {"amount": 50}}
            )
            await run.outcome()
    async with Runtime([till.desk], store=store) as runtime:
        if elsewhere:
            run = await runtime.approve(
                before.invocation_id, digest(before), by="bo", edits={"c1": {"amount": 50}}
            )
            await run.outcome()
        outcome = await runtime.outcome(before.invocation_id)
        records = await journal(runtime, before.invocation_id)

    assert outcome.completed
    assert till.paid == [50]
    (decided,) = [r for r in records if isinstance(r, ApprovalDecided)]
    (dispatched,) = [r for r in records if isinstance(r, CallDispatched)]
    turn = next(r for r in records if isinstance(r, TurnCommitted))
    assert isinstance(turn.proposal.decision, ToolCalls)
    (proposed,) = turn.proposal.decision.calls
    assert isinstance(proposed, ToolCall)
    assert proposed.arguments == {"amount": 100}
    assert [a.arguments for a in decided.answers] == [{"amount": 50}]
    assert dispatched.arguments == {"amount": 50}
    (seen,) = outcome.history[0].results
    assert (seen.arguments, seen.output) == ({"amount": 50}, "paid 50")


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"amount": "x"}, "amount"),
        ({"amount": 99999}, "over"),
        ({"sum": 50}, "amount"),
        ({"amount": float("nan")}, "nan"),
    ],
)
async def test_b78_an_edit_that_may_not_run_is_refused_to_the_approver(
    edit: dict[str, JsonValue], why: str
) -> None:
    """B78: it does not fit, or today's policy denies it: the proposal is still pending."""
    till = Till()
    async with Runtime([till.desk]) as runtime:
        before = await runtime.run("desk", "the goal")
        name, shown = before.invocation_id, digest(before)
        with pytest.raises(RemoteProtocolError, match=why):
            await runtime.approve(name, shown, by="bo", edits={"c1": edit})
        with pytest.raises(UnknownProposalError):
            await runtime.approve(name, shown, by="bo", edits={"ghost": {"amount": 50}})
        with pytest.raises(UnknownProposalError):
            await runtime.approve(name, "ghost", by="bo", edits={"c1": {"amount": 50}})
        assert (await runtime.outcome(name)).reason is Reason.APPROVAL_REQUIRED
        assert till.paid == []
        await (await runtime.approve(name, shown, by="bo")).outcome()
    assert till.paid == [100]


async def answers_of(runtime: Runtime, run: Run) -> list[ApprovalDecided]:
    return [r for r in await journal(runtime, run.id) if isinstance(r, ApprovalDecided)]


async def test_b77_the_first_answer_wins() -> None:
    """B77: of two yeses at once one counts, and a later no is told that it is too late."""
    async with asked(transfers(5)) as (runtime, bank, [before]):
        name, shown = before.invocation_id, digest(before)
        said = await asyncio.gather(
            runtime.approve(name, shown, by="bo"),
            runtime.approve(name, shown, by="cy"),
            return_exceptions=True,
        )
        (run,) = (one for one in said if isinstance(one, Run))
        (late,) = (one for one in said if isinstance(one, BaseException))
        assert isinstance(late, AlreadyDecidedError)
        assert (await run.outcome()).completed
        for too_late in (runtime.deny, runtime.approve):
            with pytest.raises(AlreadyDecidedError):
                await too_late(name, shown, by="dee")
        assert [a.by for a in await answers_of(runtime, run)] in (["bo"], ["cy"])
        assert bank.transferred == [5]


async def test_b77_an_approval_that_nobody_waits_for_is_refused() -> None:
    """B77: a ghost's, and another run's, is an error, runs nothing, and decides nothing."""
    async with asked(transfers(1), transfers(2)) as (runtime, bank, [one, other]):
        forged: Sequence[tuple[str, str, Iterable[str] | None, type[LoopwrightError]]] = [
            (one.invocation_id, "ghost", None, UnknownProposalError),
            (one.invocation_id, digest(one), ["ghost"], UnknownProposalError),
            (one.invocation_id, digest(other), ["c1"], UnknownProposalError),
            (other.invocation_id, digest(one), ["c1"], UnknownProposalError),
            ("ghost", digest(one), None, InvocationNotFoundError),
        ]
        for name, shown, calls, error in forged:
            with pytest.raises(error):
                await runtime.approve(name, shown, by="bo", calls=calls)
        assert bank.transferred == []
        run = await runtime.approve(one.invocation_id, digest(one), by="bo")
        assert (await run.outcome()).completed
        assert bank.transferred == [1]


async def test_b77_a_refused_approval_disturbs_nobody() -> None:
    """B77: who looks on meanwhile sees the run at rest, and it stays free for any other process."""
    async with asked(transfers(1)) as (runtime, _, [before]):
        name = before.invocation_id
        refused, outcome, records = await asyncio.gather(
            runtime.approve(name, "ghost", by="bo"),
            runtime.outcome(name),
            journal(runtime, name),
            return_exceptions=True,
        )
        assert isinstance(refused, UnknownProposalError)
        assert isinstance(outcome, Outcome)
        assert (outcome.reason, outcome.proposal) == (before.reason, before.proposal)
        assert isinstance(records, list)
        assert records[-1].kind == "suspended"
        assert runtime.statistics()[0] == 0
        (listed,) = await runtime.invocations()
        assert listed.owner is None


async def test_b82_a_cancel_beats_a_pending_approval() -> None:
    """B82: what was waiting is never started, a later yes finds nothing, and new runs work."""
    async with asked(transfers(1), transfers(2)) as (runtime, bank, [before, _]):
        name = before.invocation_id
        cancelled = await runtime.cancel(name, "changed my mind")
        assert cancelled.reason is Reason.CANCELLED
        assert statuses(cancelled) == ["not_started"]
        with pytest.raises(InvocationStateError, match=name):
            await runtime.approve(name, digest(before), by="bo")
        assert (await runtime.outcome(name)).reason is Reason.CANCELLED
        assert bank.transferred == []
        assert (await runtime.run("desk", "the goal")).completed
