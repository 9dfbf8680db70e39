"""Who waits because of whom, down a tree: what people say finds its way, and everybody goes on."""

from __future__ import annotations

import asyncio
import logging

import pytest
from casebook.desk import batch, call

from loopwright import Agent, Final, Reason, Runtime, tool
from loopwright.actors import Instant, Machine
from loopwright.protocol import (
    Decided,
    Input,
    InvocationId,
    InvocationStateError,
    Output,
    Reconciled,
    Rested,
    ResultStatus,
    applied,
    unknown,
)
from loopwright.stores import SQLiteStore
from loopwright.testing import ScriptedModel, Step, VirtualClock
from trees.lines import PAY, TO_CLERK, TO_MIDDLE, Shared, Till, opened

pytestmark = pytest.mark.anyio


async def test_a_yes_goes_through_three_levels() -> None:
    """Said to the root, for what its grandchild wants; then all three go on and end."""
    till = Till()
    async with Runtime(till.line()) as runtime:
        asked = await runtime.run("boss", "go")
        assert (asked.reason, till.paid) == (Reason.APPROVAL_REQUIRED, [])
        assert asked.proposal is not None
        assert asked.proposal.asks[0].arguments == {"amount": 5}
        await runtime.approve(asked.invocation_id, asked.proposal.digest, by="bo")
        after = await runtime.outcome(asked.invocation_id)
        reasons = [summary.head.reason for summary in await runtime.invocations()]
    assert after.completed
    assert reasons == [Reason.COMPLETED] * 3
    assert till.paid == [5]


async def test_a_no_goes_through_three_levels_and_everybody_sees_what_came_of_it() -> None:
    """The clerk sees the no; its parents see how it ended."""
    till = Till()
    async with Runtime(till.line()) as runtime:
        asked = await runtime.run("boss", "go")
        assert asked.proposal is not None
        below = _below(asked.waits_for, await _children(runtime))
        await runtime.deny(asked.invocation_id, asked.proposal.digest, by="bo", reason="too much")
        after, clerk = [await runtime.outcome(one) for one in (asked.invocation_id, below)]
    assert after.completed
    assert till.paid == []
    (denied,) = clerk.history[0].results
    assert denied.status is ResultStatus.DENIED
    assert denied.error is not None
    assert "too much" in denied.error.message


async def test_edited_arguments_go_through_three_levels() -> None:
    """They are checked against the tool of the one that asks, and its result says what ran."""
    till = Till()
    async with Runtime(till.line()) as runtime:
        asked = await runtime.run("boss", "go")
        assert asked.proposal is not None
        await runtime.approve(
            asked.invocation_id, asked.proposal.digest, by="bo", edits={"p": {"amount": 4}}
        )
        assert (await runtime.outcome(asked.invocation_id)).completed
    assert till.paid == [4]


async def test_a_root_shows_what_its_grandchild_asks_next(tmp_path: object) -> None:
    """Asked twice, both are shown by the root, also while those between are being told."""
    till = Till()
    twice = [batch(call("p", "pay", {"amount": n})) for n in (1, 2)]
    async with Runtime(till.line(clerk=[*twice, Final("paid")])) as runtime:
        asked = await runtime.run("boss", "go")
        for amount in (1, 2):
            assert asked.proposal is not None
            assert asked.proposal.asks[0].arguments == {"amount": amount}
            await runtime.approve(asked.invocation_id, asked.proposal.digest, by="bo")
            asked = await runtime.outcome(asked.invocation_id)
    assert asked.completed
    assert till.paid == [1, 2]


async def test_a_root_waits_for_what_its_child_waits_for_now() -> None:
    """A child that was answered may ask for something else: that is what its parent waits for."""
    till, question = Till(), {"kind": "clarification", "question": "which?"}
    pay = batch(call("p", "pay", {"amount": 5}))
    async with Runtime(till.line(clerk=[pay, question, Final("paid")])) as runtime:
        asked = await runtime.run("boss", "go")
        assert asked.proposal is not None
        await runtime.approve(asked.invocation_id, asked.proposal.digest, by="bo")
        then = await runtime.outcome(asked.invocation_id)
        assert (then.reason, then.question) == (Reason.CLARIFICATION_REQUIRED, "which?")
        assert then.proposal is None
        await runtime.answer(asked.invocation_id, "blue", by="bo")
        assert (await runtime.outcome(asked.invocation_id)).completed


@pytest.mark.parametrize("level", [1, 2])
async def test_those_above_are_woken_where_they_can_run(tmp_path: object, level: int) -> None:
    """The clerk is answered by a worker without its parents; `recover` elsewhere wakes them."""
    path, till = f"{tmp_path}/store.db", Till()
    async with Runtime(till.line(), store=SQLiteStore(path)) as runtime:
        asked = await runtime.run("boss", "go")
        assert asked.proposal is not None
        clerk = _below(asked.waits_for, await _children(runtime))
    fewer = till.line([], [Final("had it paid")], [Final("paid")])[3 - level :]
    async with Runtime(fewer, store=SQLiteStore(path)) as runtime:
        await runtime.approve(clerk, asked.proposal.digest, by="bo")
        assert (await runtime.outcome(clerk)).completed
        for one in asked.waits_for if level == 2 else ():
            assert (await runtime.outcome(one)).completed
    middle: list[Step] = [] if level == 2 else [Final("had it paid")]
    agents = till.line([Final("done")], middle, [])
    async with Runtime(agents, store=SQLiteStore(path)) as runtime:
        await runtime.recover()
        assert (await runtime.outcome(asked.invocation_id)).completed
    assert till.paid == [5]


async def test_two_roots_that_wait_do_not_get_in_each_others_way() -> None:
    """A digest is one proposal of one invocation: a yes to the one is none to the other."""
    till = Till()
    boss: list[Step] = [TO_MIDDLE, TO_MIDDLE, Final("done"), Final("done")]
    middle: list[Step] = [TO_CLERK, TO_CLERK, Final("so"), Final("so")]
    pay = batch(call("p", "pay", {"amount": 5}))
    async with Runtime(till.line(boss, middle, [pay, pay, Final("x"), Final("x")])) as runtime:
        one, two = [await runtime.run("boss", "go") for _ in range(2)]
        assert one.proposal is not None
        assert two.proposal is not None
        with pytest.raises(InvocationStateError):
            await runtime.approve(one.invocation_id, two.proposal.digest, by="bo")
        await runtime.approve(one.invocation_id, one.proposal.digest, by="bo")
        assert (await runtime.outcome(one.invocation_id)).completed
        assert till.paid == [5]
        still = await runtime.outcome(two.invocation_id)
        assert (still.reason, still.proposal) == (Reason.APPROVAL_REQUIRED, two.proposal)
        await runtime.deny(two.invocation_id, two.proposal.digest, by="bo")
        assert (await runtime.outcome(two.invocation_id)).completed
    assert till.paid == [5]


def in_doubt() -> list[Agent]:
    """Make a boss whose clerk does not know whether it has paid."""

    @tool(effect="reconcilable", writes=lambda _: ("till",))
    async def pay(amount: int) -> str:
        raise ConnectionError("the line is dead")

    @pay.reconcile
    async def _(effect_key: str) -> Reconciled:
        return unknown("nobody answers")

    clerk = Agent(
        "clerk",
        model=ScriptedModel([batch(call("p", "pay", {"amount": 5})), Final("paid")]),
        tools=[pay],
    )
    boss = Agent(
        "boss",
        model=ScriptedModel([TO_CLERK, Final("done")]),
        tools=[clerk.as_tool(), pay],
    )
    return [boss, clerk]


async def test_a_payment_of_a_child_is_settled_through_its_parent() -> None:
    """The child does not know what became of it, and its parent waits for the same reason."""
    async with Runtime(in_doubt()) as runtime:
        outcome = await runtime.run("boss", "go")
        assert outcome.reason is Reason.RECONCILIATION_REQUIRED
        await runtime.settle(outcome.invocation_id, "p", applied("found"), by="bo")
        assert (await runtime.outcome(outcome.invocation_id)).completed


async def test_one_whose_child_was_settled_elsewhere_is_woken_by_recovery(tmp_path: object) -> None:
    """Where a parent waits for a settlement of its child, recovery knows that it does."""
    path = f"{tmp_path}/store.db"
    async with Runtime(in_doubt(), store=SQLiteStore(path)) as runtime:
        outcome = await runtime.run("boss", "go")
        (child,) = outcome.waits_for
    alone = Agent(
        "clerk", model=ScriptedModel([Final("paid")]), tools=[*in_doubt()[1].tools.values()]
    )
    async with Runtime([alone], store=SQLiteStore(path)) as runtime:
        await runtime.settle(child, "p", applied("found"), by="bo")
        assert (await runtime.outcome(child)).completed
    boss, clerk = in_doubt()
    boss.model = ScriptedModel([Final("done")])
    async with Runtime([boss, clerk], store=SQLiteStore(path)) as runtime:
        await runtime.recover()
        assert (await runtime.outcome(outcome.invocation_id)).completed


async def test_its_own_write_is_settled_while_its_child_waits() -> None:
    """Then only the child is waited for, and shown; its answer lets both go on."""
    boss, clerk = in_doubt()
    boss.model = ScriptedModel(
        [batch(call("c", "clerk", {"goal": "x"}), call("p", "pay", {"amount": 1})), Final("done")]
    )
    clerk.model = ScriptedModel([{"kind": "clarification", "question": "which?"}, Final("7")])
    async with Runtime([boss, clerk]) as runtime:
        outcome = await runtime.run("boss", "go")
        assert (outcome.reason, len(outcome.waits_for)) == (Reason.RECONCILIATION_REQUIRED, 1)
        await runtime.settle(outcome.invocation_id, "p", applied("found"), by="bo")
        asked = await runtime.outcome(outcome.invocation_id)
        assert (asked.reason, asked.question) == (Reason.CLARIFICATION_REQUIRED, "which?")
        await runtime.answer(outcome.invocation_id, "blue", by="ana")
        assert (await runtime.outcome(outcome.invocation_id)).completed


async def test_a_corrected_ledger_does_not_make_it_forget_whom_it_waits_for(
    tmp_path: object,
) -> None:
    """What an earlier write has done is said while it waits for a child: recovery still finds it."""
    path = f"{tmp_path}/store.db"
    boss, clerk = in_doubt()
    boss.model = ScriptedModel([batch(call("p", "pay", {"amount": 1})), TO_CLERK])
    clerk.model = ScriptedModel([{"kind": "clarification", "question": "which?"}])
    async with Runtime([boss, clerk], store=SQLiteStore(path)) as runtime:
        first = await runtime.run("boss", "go")
        await runtime.settle(first.invocation_id, "p", unknown("nobody knows"), by="bo")
        asked = await runtime.outcome(first.invocation_id)
        assert asked.reason is Reason.CLARIFICATION_REQUIRED
        await runtime.settle(first.invocation_id, "p", applied("found"), by="bo")
    clerk.model, (child,) = ScriptedModel([Final("7")]), asked.waits_for
    alone = Agent("clerk", model=clerk.model, tools=[*clerk.tools.values()])
    async with Runtime([alone], store=SQLiteStore(path)) as runtime:
        await runtime.answer(child, "blue", by="ana")
        assert (await runtime.outcome(child)).completed
    boss.model = ScriptedModel([Final("done")])
    async with Runtime([boss, clerk], store=SQLiteStore(path)) as runtime:
        await runtime.recover()
        assert (await runtime.outcome(first.invocation_id)).completed


@pytest.mark.parametrize("times", [1, 2])
async def test_a_bug_in_a_child_does_not_leave_its_parent_asleep(
    times: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Rebuilt once, and given up at the second crash: whichever it is, its parent goes on."""
    caplog.set_level(logging.CRITICAL + 1)
    original, left = Machine.on, [times]

    def on(self: Machine, message: Input, now: Instant) -> tuple[Output, ...]:
        out = original(self, message, now)
        rests = any(isinstance(output, Rested) for output in out)
        decides = isinstance(message, Decided) and message.turn > 1
        if self.started.agent == "clerk" and left[0] and (rests if times == 1 else decides):
            left[0] -= 1
            raise KeyError("a bug")
        return out

    async with Runtime(Till().line(clerk=[PAY, Final("x"), Final("paid")])) as runtime:
        asked = await runtime.run("boss", "go")
        assert asked.proposal is not None
        monkeypatch.setattr(Machine, "on", on)
        await runtime.approve(asked.invocation_id, asked.proposal.digest, by="bo")
        async with asyncio.timeout(5):
            after = await runtime.outcome(asked.invocation_id)
            while not after.completed:
                await asyncio.sleep(0)
                after = await runtime.outcome(asked.invocation_id)
        ends = {s.head.agent: s.head.reason for s in await runtime.invocations()}
    assert not left[0]
    assert ends["clerk"] is (Reason.COMPLETED if times == 1 else Reason.INTERNAL_ERROR)


async def test_a_child_whose_parent_was_deleted_is_stopped() -> None:
    """An answer comes to a child of which nobody wants to hear any more."""
    clock = VirtualClock()
    store = await opened(clock)
    question: Step = {"kind": "clarification", "question": "which?"}
    async with Runtime(Till().line(clerk=[question]), store=Shared(store), clock=clock) as runtime:
        asked = await runtime.run("boss", "go")
        below = await _children(runtime)
        clerk = _below(asked.waits_for, below)
    for gone in [one for one in below if one != clerk]:
        store._invocations.pop(gone)  # pyright: ignore[reportPrivateUsage] - as if it was pruned
    async with Runtime(Till().line([], [], []), store=Shared(store), clock=clock) as runtime:
        with pytest.raises(InvocationStateError):
            await runtime.answer(clerk, "blue", by="ana")
        assert (await runtime.outcome(clerk)).reason is Reason.CANCELLED


async def _children(runtime: Runtime) -> dict[InvocationId, tuple[InvocationId, ...]]:
    """List whom each invocation waits for."""
    found: dict[InvocationId, tuple[InvocationId, ...]] = {}
    for summary in await runtime.invocations():
        state = await runtime.state(summary.invocation_id)
        turn = state.protocol.open
        found[summary.invocation_id] = () if turn is None else turn.children()
    return found


def _below(
    waits_for: tuple[InvocationId, ...], children: dict[InvocationId, tuple[InvocationId, ...]]
) -> InvocationId:
    """Find the last one that is waited for."""
    (child,) = waits_for
    return _below(children[child], children) if children.get(child) else child
