"""What is said to a parent reaches the child it waits for, and nothing else; findings of reviewers."""

from __future__ import annotations

import pytest
from casebook.desk import batch, call

from loopwright import (
    Agent,
    Budget,
    Final,
    Handoff,
    Policy,
    Progress,
    ProgressNote,
    Reason,
    Reconciled,
    Runtime,
    applied,
    rejected,
    tool,
    unknown,
)
from loopwright.policy import Context, MaxToolCalls, Summary, ToSummarize, writes
from loopwright.protocol import InvocationStateError, ResultStatus, Usage
from loopwright.stores import SQLiteStore
from loopwright.testing import ScriptedModel, Step, VirtualClock, settle

pytestmark = pytest.mark.anyio

TO_CLERK = batch(call("c1", "clerk", {"goal": "pay it"}))
PAY = batch(call("c1", "pay", {"amount": 5}))


@tool(effect="reconcilable", timeout=1)
async def pay(amount: int) -> str:
    raise ConnectionError("the line is dead")


@pay.reconcile
async def _(_: str) -> Reconciled:
    return unknown("nobody answers")


@tool(effect="read")
async def look(of: int = 0) -> str:
    return f"looked at {of}"


def family(parent: list[Step], child: list[Step], name: str = "clerk") -> list[Agent]:
    clerk = Agent("clerk", model=ScriptedModel(child), tools=[pay])
    boss = Agent("boss", model=ScriptedModel(parent), tools=[clerk.as_tool(name=name), look])
    return [boss, clerk]


async def test_a_settlement_goes_to_the_childs_write_also_under_the_same_call_id() -> None:
    """The call of the parent is no effect: neither listed as one, nor settled as one."""
    async with Runtime(family([TO_CLERK, Final("done")], [PAY, Final("paid")])) as runtime:
        outcome = await runtime.run("boss", "go")
        assert outcome.reason is Reason.RECONCILIATION_REQUIRED
        assert outcome.unresolved_effects == ()
        (fact,) = await runtime.effects(statuses=["outcome_unknown"])
        (child,) = outcome.waits_for
        assert fact.invocation_id == child
        run = await runtime.settle(outcome.invocation_id, "c1", applied("r-1"), by="bo")
        after = await run.outcome()
        (settled,) = await runtime.effects(invocation_id=child)
    assert after.completed
    assert after.history[0].results[0].output == "paid"
    assert (settled.entry.status, settled.entry.receipt) == ("committed", "r-1")


async def test_the_call_of_a_child_that_waits_for_a_yes_cannot_be_settled_away() -> None:
    """It would leave the child waiting below a parent that is over."""
    clerk = Agent("clerk", model=ScriptedModel([PAY]), tools=[pay], policy=Policy(ask=[writes()]))
    boss = Agent("boss", model=ScriptedModel([TO_CLERK]), tools=[clerk.as_tool()])
    async with Runtime([boss, clerk]) as runtime:
        outcome = await runtime.run("boss", "go")
        for word in (applied("x"), rejected("no"), unknown()):
            with pytest.raises(InvocationStateError):
                await runtime.settle(outcome.invocation_id, "c1", word, by="bo")
        after = await runtime.outcome(outcome.invocation_id)
    assert after.reason is Reason.APPROVAL_REQUIRED
    assert after.proposal == outcome.proposal


async def test_a_child_is_followed_whatever_its_tool_is_called_today(tmp_path: object) -> None:
    """Between two releases the tool got another name; the child that waits is found all the same."""
    path, question = f"{tmp_path}/store.db", {"kind": "clarification", "question": "which?"}
    async with Runtime(family([TO_CLERK], [question]), store=SQLiteStore(path)) as runtime:
        outcome = await runtime.run("boss", "go")
    renamed = family([Final("done")], [Final("7")], name="bookkeeper")
    async with Runtime(renamed, store=SQLiteStore(path)) as runtime:
        run = await runtime.answer(outcome.invocation_id, "this one", by="bo")
        after = await run.outcome()
    assert after.completed
    assert after.history[0].results[0].output == "7"


async def test_whoever_takes_over_has_repeated_nothing_yet() -> None:
    """Its first batch runs, whatever the agent before it did how often."""
    note = ProgressNote(("looked",), ("the rest",))
    same = [batch(call("l", "look", {"of": 1}))] * 3
    a = Agent(
        "a",
        model=ScriptedModel([*same, Handoff("b", "it knows", note)]),
        tools=[look],
        policy=Policy(progress=Progress(max_repeats=5)),
        handoffs=["b"],
    )
    b = Agent(
        "b",
        model=ScriptedModel([batch(call("l", "look", {"of": 1})), Final("done")]),
        tools=[look],
        policy=Policy(progress=Progress(max_repeats=2)),
    )
    async with Runtime([a, b]) as runtime:
        outcome = await runtime.run("a", "go")
    assert outcome.completed
    assert [len(turn.results) for turn in outcome.history] == [1, 1, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("budget", "policy"),
    [
        (Budget(max_tokens=30), Policy()),
        (Budget(max_steps=2), Policy()),
        (Budget(), Policy(stop=MaxToolCalls(2))),
    ],
)
async def test_no_summary_is_made_where_no_model_may_be_asked(
    budget: Budget, policy: Policy
) -> None:
    """It costs tokens like a reply: past the limit it would be the last straw, for nobody."""
    made: list[ToSummarize] = []

    def summarize(given: ToSummarize) -> Summary:
        made.append(given)
        return Summary("short", Usage(1_000, 1_000))

    @tool(effect="read")
    async def read(of: int) -> str:
        return "x" * 3_000

    steps: list[Step] = [batch(call("r", "read", {"of": n})) for n in range(9)]
    policy = Policy(stop=policy.stop, context=Context(max_tokens=900, summarize=summarize))
    desk = Agent("desk", model=ScriptedModel(steps), tools=[read], budget=budget, policy=policy)
    async with Runtime([desk]) as runtime:
        outcome = await runtime.run("desk", "go")
    assert outcome.reason.resumable
    assert made == []
    assert outcome.usage.total <= 45


async def test_what_the_soft_stop_refuses_is_not_out_of_order() -> None:
    """Steps kept for summing up are not lost to `tool_unavailable`."""
    steps: list[Step] = [batch(call("l", "look", {"of": n})) for n in range(9)]
    desk = Agent(
        "desk",
        model=ScriptedModel([*steps, Final("what I know")]),
        tools=[look],
        policy=Policy(soft_stop="restrict"),
        budget=Budget(max_steps=10, soft_ratio=0.3),
    )
    async with Runtime([desk]) as runtime:
        outcome = await runtime.run("desk", "go")
    assert outcome.completed
    assert outcome.history[8].results[0].status is ResultStatus.NOT_STARTED


async def test_expiry_denies_nothing_for_good() -> None:
    """Nobody's no counts against no limit, and the same call may be asked about again."""
    clock = VirtualClock()

    @tool(effect="manual")
    async def wire(amount: int) -> str:
        return f"wired {amount}"

    three = batch(*[call(f"w{n}", "wire", {"amount": n}) for n in range(3)])
    again = batch(call("w0", "wire", {"amount": 0}))
    desk = Agent(
        "desk",
        model=ScriptedModel([three, again, Final("done")]),
        tools=[wire],
        policy=Policy(ask=[writes()], approval_expires=600),
    )
    async with Runtime([desk], clock=clock, adopt=True) as runtime:
        run = await runtime.start("desk", "go")
        await clock.advance(630)
        await settle()
        outcome = await runtime.outcome(run.id)
        assert outcome.reason is Reason.APPROVAL_REQUIRED
        assert outcome.proposal is not None
        assert [ask.call_id for ask in outcome.proposal.asks] == ["w0"]
        after = await (await runtime.approve(run.id, outcome.proposal.digest, by="bo")).outcome()
    assert after.completed
    assert after.history[1].results[0].output == "wired 0"


async def test_a_proposal_expires_as_its_journal_says_whoever_made_it() -> None:
    """After a handoff it is another agent's policy that counts than the one listed."""
    clock = VirtualClock()
    note = ProgressNote(("read",), ("pay",))
    a = Agent("a", model=ScriptedModel([Handoff("b", "it pays", note)]), handoffs=["b"])
    b = Agent(
        "b",
        model=ScriptedModel([PAY, Final("then not")]),
        tools=[pay],
        policy=Policy(ask=[writes()], approval_expires=600),
    )
    async with Runtime([a, b], clock=clock, adopt=True) as runtime:
        run = await runtime.start("a", "go")
        await clock.advance(590)
        assert (await runtime.outcome(run.id)).reason is Reason.APPROVAL_REQUIRED
        await clock.advance(30)
        await settle()
        assert (await runtime.outcome(run.id)).completed


async def test_a_grant_for_what_cannot_go_on_is_refused() -> None:
    """It would be taken for granted, and be lost."""
    desk = Agent("desk", model=ScriptedModel([Final("done")]))
    async with Runtime([desk]) as runtime:
        outcome = await runtime.run("desk", "go")
        with pytest.raises(InvocationStateError, match=r"is over \(completed\)"):
            await runtime.resume(outcome.invocation_id, grant=Budget(max_steps=1))
        assert (await runtime.resume(outcome.invocation_id)).completed


async def test_a_parent_waits_longer_for_its_children_than_they_for_their_writes() -> None:
    """30-durability: children end first; what they have used is then known, and no more charged."""
    clock = VirtualClock()

    @tool(effect="manual")
    async def slow(amount: int) -> str:
        from casebook.desk import sleep

        await sleep(clock, 4.9)
        return "done late"

    clerk = Agent(
        "clerk",
        model=ScriptedModel([batch(call("s", "slow", {"amount": 1}))]),
        tools=[slow],
        budget=Budget(max_tool_calls=10),
    )
    boss = Agent("boss", model=ScriptedModel([TO_CLERK]), tools=[clerk.as_tool()])
    async with Runtime([boss, clerk], clock=clock) as runtime:
        run = await runtime.start("boss", "go")
        await clock.advance(0.01)
        run.cancel("enough")
        await clock.advance(10)
        outcome = await run.outcome()
    assert outcome.reason is Reason.CANCELLED
    assert outcome.history[0].results[0].status is ResultStatus.CANCELLED
    assert outcome.tool_calls == 2
