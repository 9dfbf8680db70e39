"""Children: what a call starts is an invocation of its own, and belongs to its parent."""

from __future__ import annotations

from decimal import Decimal

import pytest
from casebook.desk import batch, call, journal

from loopwright import (
    Agent,
    Budget,
    ConfigurationError,
    Final,
    ModelRequest,
    Policy,
    Principal,
    Reason,
    Runtime,
    tool,
)
from loopwright.actors import AnyTool
from loopwright.policy import Access, writes
from loopwright.protocol import (
    Ending,
    ErrorCategory,
    InvocationStarted,
    InvocationStateError,
    Price,
    ResultStatus,
    Suspended,
    Usage,
)
from loopwright.stores import SQLiteStore
from loopwright.testing import ScriptedModel, Step, VirtualClock

pytestmark = pytest.mark.anyio

DELEGATE = batch(call("c", "clerk", {"goal": "look it up"}))


@tool(effect="read")
async def look(of: int = 0) -> str:
    return f"looked at {of}"


def family(
    parent: list[Step],
    child: list[Step],
    *,
    budget: Budget | None = None,
    child_policy: Policy | None = None,
    limits: Budget | None = None,
    tools: tuple[AnyTool, ...] = (),
) -> tuple[Agent, Agent]:
    """Make a boss that has a clerk as a tool."""
    clerk = Agent(
        "clerk",
        model=ScriptedModel(child),
        tools=[look, *tools],
        policy=child_policy,
    )
    boss = Agent(
        "boss",
        model=ScriptedModel(parent),
        tools=[clerk.as_tool(budget=limits), look],
        budget=budget,
    )
    return boss, clerk


async def test_the_answer_of_a_child_is_the_result_of_the_call() -> None:
    """Own journal, same principal, its reason typed in the parent, its use counted there."""
    boss, clerk = family(
        [DELEGATE, Final("done")], [batch(call("l", "look", {"of": 1})), Final("it is 7")]
    )
    async with Runtime([boss, clerk]) as runtime:
        outcome = await runtime.run("boss", "the goal", principal=Principal("ana", "acme"))
        (result,) = outcome.history[0].results
        assert result.child is not None
        started = (await journal(runtime, result.child.invocation_id))[0]
    assert outcome.completed
    assert (result.status, result.output) == (ResultStatus.OK, "it is 7")
    assert result.child.reason is Reason.COMPLETED
    assert isinstance(started, InvocationStarted)
    assert (started.goal, started.principal) == ("look it up", Principal("ana", "acme"))
    assert started.parent is not None
    assert started.parent.invocation_id == outcome.invocation_id
    # Two replies of the parent and two of the child; its one call, and that of the child.
    assert outcome.usage == Usage(40, 20)
    assert outcome.tool_calls == 2
    assert outcome.steps == 2


@pytest.mark.parametrize(
    ("child", "limits", "reason", "category"),
    [
        (
            [batch(call("l", "look"))],
            Budget(max_steps=1),
            Reason.MAX_STEPS,
            ErrorCategory.PERMANENT,
        ),
        ([RuntimeError("down")], None, Reason.MODEL_ERROR, ErrorCategory.TRANSIENT),
        (
            [{"kind": "cannot_continue", "code": "x", "reason": "no"}],
            None,
            Reason.CANNOT_CONTINUE,
            ErrorCategory.PERMANENT,
        ),
    ],
)
async def test_a_childs_ending_comes_back_typed(
    child: list[Step], limits: Budget | None, reason: Reason, category: ErrorCategory
) -> None:
    """A child that fails is one failed call of its parent, which goes on and sees why."""
    boss, clerk = family([DELEGATE, Final("without it")], child, limits=limits)
    async with Runtime([boss, clerk]) as runtime:
        outcome = await runtime.run("boss", "the goal")
    (result,) = outcome.history[0].results
    assert outcome.completed
    assert result.status is ResultStatus.ERROR
    assert result.error is not None
    assert (result.error.type, result.error.category) == (str(reason), category)
    assert result.child is not None
    assert result.child.reason is reason
    assert not outcome.unresolved_effects


async def test_children_of_a_batch_run_at_once_and_share_what_is_left() -> None:
    """Each gets its share of the tool calls that are left; together they stay within the root's."""
    greedy: list[Step] = [batch(call(f"l{i}", "look", {"of": i})) for i in range(9)]
    seen: list[int] = []

    def ask(request: ModelRequest) -> Step:
        seen.append(len(request.history))
        return greedy[len(request.history)]

    clerk = Agent("clerk", model=ScriptedModel([ask] * 30), tools=[look])
    both = batch(call("a", "clerk", {"goal": "one"}), call("b", "clerk", {"goal": "two"}))
    boss = Agent(
        "boss",
        model=ScriptedModel([both, Final("done")]),
        tools=[clerk.as_tool()],
        budget=Budget(max_tool_calls=8),
    )
    async with Runtime([boss, clerk]) as runtime:
        outcome = await runtime.run("boss", "the goal")
    assert outcome.completed
    assert outcome.tool_calls == 8
    assert seen[:4] == [0, 0, 1, 1], "they were at work at the same time"
    for result in outcome.history[0].results:
        assert result.child is not None
        assert result.child.reason is Reason.TOOL_BUDGET_EXHAUSTED
        assert result.child.tool_calls == 3


async def test_the_cost_of_a_child_is_the_parents() -> None:
    """Prices are those of the child's agent; where it has none, nothing starts under a cost limit."""
    prices = [Price("ScriptedModel", Decimal(1_000), Decimal(0))]
    for known in (True, False):
        clerk = Agent("clerk", model=ScriptedModel([Final("7")]), prices=prices if known else ())
        boss = Agent(
            "boss",
            model=ScriptedModel([DELEGATE, Final("done")]),
            tools=[clerk.as_tool()],
            prices=prices,
            budget=Budget(max_cost=Decimal("0.10")),
        )
        async with Runtime([boss, clerk]) as runtime:
            if not known:
                with pytest.raises(ConfigurationError, match="'clerk' has a limit of cost"):
                    await runtime.run("boss", "the goal")
                assert await runtime.invocations() == []
                continue
            outcome = await runtime.run("boss", "the goal")
        (result,) = outcome.history[0].results
        assert outcome.completed
        assert outcome.cost == Decimal("0.03")
        assert result.status is ResultStatus.OK


async def test_an_approval_of_a_child_suspends_its_parent_and_is_given_through_it(
    tmp_path: object,
) -> None:
    """The parent shows the child's proposal; a yes to it lets both go on, days later as well."""
    paid: list[int] = []

    @tool(effect="manual")
    async def pay(amount: int) -> str:
        paid.append(amount)
        return "receipt"

    def agents() -> tuple[Agent, Agent]:
        return family(
            [DELEGATE, Final("done")],
            [batch(call("p", "pay", {"amount": 5})), Final("paid")],
            child_policy=Policy(ask=[writes()]),
            tools=(pay,),
        )

    store = SQLiteStore(f"{tmp_path}/store.db")
    async with Runtime(agents(), store=store) as runtime:
        outcome = await runtime.run("boss", "the goal")
        assert outcome.reason is Reason.APPROVAL_REQUIRED
        assert outcome.proposal is not None
        assert outcome.proposal.asks[0].arguments == {"amount": 5}
        (child,) = outcome.waits_for
        with pytest.raises(InvocationStateError):
            await runtime.resume(outcome.invocation_id)
    boss, clerk = family(
        [Final("done")],
        [Final("paid")],
        child_policy=Policy(ask=[writes()]),
        tools=(pay,),
    )
    async with Runtime([boss, clerk], store=SQLiteStore(f"{tmp_path}/store.db")) as runtime:
        run = await runtime.approve(outcome.invocation_id, outcome.proposal.digest, by="bo")
        after = await run.outcome()
        assert after.completed
        assert (await runtime.outcome(child)).completed
    assert paid == [5]
    assert after.history[0].results[0].output == "paid"


async def test_a_question_of_a_child_is_answered_through_its_parent() -> None:
    """The parent waits for the same reason as its child, and shows its question."""
    boss, clerk = family(
        [DELEGATE, Final("done")],
        [{"kind": "clarification", "question": "which order?"}, Final("7")],
    )
    async with Runtime([boss, clerk]) as runtime:
        outcome = await runtime.run("boss", "the goal")
        assert outcome.reason is Reason.CLARIFICATION_REQUIRED
        assert outcome.question == "which order?"
        run = await runtime.answer(outcome.invocation_id, "the blue one", by="ana")
        assert (await run.outcome()).completed


async def test_cancelling_a_parent_that_waits_for_a_child_cancels_the_child() -> None:
    """B95 for those that sleep: nobody is left to wait for an answer nobody wants."""
    boss, clerk = family([DELEGATE], [{"kind": "clarification", "question": "which order?"}])
    async with Runtime([boss, clerk]) as runtime:
        outcome = await runtime.run("boss", "the goal")
        (child,) = outcome.waits_for
        ended = await runtime.cancel(outcome.invocation_id, "not wanted", by="ana")
        assert ended.reason is Reason.CANCELLED
        assert (await runtime.outcome(child)).reason is Reason.CANCELLED
        assert ended.history[0].results[0].status is ResultStatus.CANCELLED


async def test_b95_a_cancel_reaches_the_whole_tree() -> None:
    """B95: parent, two children and a grandchild end; no model is asked any more."""
    clock = VirtualClock()
    asked: list[str] = []

    def never(name: str, *delegates: Step) -> Step:
        async def step(request: ModelRequest) -> Step:
            asked.append(name)
            if delegates and not request.history:
                return delegates[0]
            from casebook.desk import sleep

            await sleep(clock, 3600)
            return Final("never")

        return step

    down = batch(call("g", "grandchild", {"goal": "deeper"}))
    grandchild = Agent("grandchild", model=ScriptedModel([never("grandchild")] * 3))
    one = Agent("one", model=ScriptedModel([never("one", down)] * 3), tools=[grandchild.as_tool()])
    two = Agent("two", model=ScriptedModel([never("two")] * 3))
    both = batch(call("1", "one", {"goal": "x"}), call("2", "two", {"goal": "y"}))
    boss = Agent("boss", model=ScriptedModel([both]), tools=[one.as_tool(), two.as_tool()])
    async with Runtime([boss, one, two, grandchild], clock=clock) as runtime:
        run = await runtime.start("boss", "the goal")
        await clock.advance(1)
        assert sorted(asked) == ["grandchild", "one", "two"]
        run.cancel("enough")
        await clock.advance(5)
        outcome = await run.outcome()
        reasons = {
            summary.head.agent: summary.head.reason for summary in await runtime.invocations()
        }
    assert outcome.reason is Reason.CANCELLED
    assert set(reasons) == {"boss", "one", "two", "grandchild"}
    assert set(reasons.values()) == {Reason.CANCELLED}
    assert len(asked) == 3, "nobody was asked after the cancel"
    # The parent's reply, and that of the child which had one.
    assert outcome.usage.total == 30


async def test_a_child_is_found_again_by_a_parent_that_went_on_elsewhere(tmp_path: object) -> None:
    """Killed while the child is at work: both go on, the child is not started twice."""
    clock = VirtualClock()
    from casebook.desk import sleep

    async def slow(_: ModelRequest) -> Step:
        await sleep(clock, 60)
        return Final("too late")

    path = f"{tmp_path}/store.db"
    boss, clerk = family([DELEGATE], [slow])
    async with Runtime([boss, clerk], store=SQLiteStore(path), clock=clock) as runtime:
        run = await runtime.start("boss", "the goal")
        while len(await runtime.invocations()) < 2:
            await clock.advance(0.1)
    boss, clerk = family([Final("done")], [Final("7")])
    async with Runtime([boss, clerk], store=SQLiteStore(path), clock=clock) as runtime:
        await runtime.recover()
        outcome = await runtime.outcome(run.id)
        assert len(await runtime.invocations()) == 2
    assert outcome.completed
    assert outcome.history[0].results[0].output == "7"


async def test_what_a_parent_may_not_do_its_child_may_not_either() -> None:
    """A child runs under its own agent's policy, for the same principal."""
    asked: list[Access] = []

    def nobody(access: Access) -> bool:
        asked.append(access)
        return True

    boss, clerk = family(
        [DELEGATE, Final("done")],
        [batch(call("l", "look")), batch(call("l", "look")), batch(call("l", "look"))],
        child_policy=Policy(deny=[nobody]),
    )
    async with Runtime([boss, clerk]) as runtime:
        outcome = await runtime.run("boss", "the goal", principal=Principal("ana"))
    (result,) = outcome.history[0].results
    assert result.error is not None
    assert result.error.type == str(Reason.POLICY_DENIED)
    assert {access.principal.actor for access in asked} == {"ana"}


async def test_invocations_do_not_stand_above_one_another_without_end() -> None:
    """An agent that only ever calls itself through others is stopped, whatever its budget."""
    clerk = Agent("clerk", model=ScriptedModel([]))

    def deeper(request: ModelRequest) -> Step:
        if request.history:
            return Final("enough")
        return batch(call("c", "clerk", {"goal": "deeper"}))

    clerk = Agent("clerk", model=ScriptedModel([deeper] * 100), tools=[clerk.as_tool(), look])
    async with Runtime([clerk]) as runtime:
        outcome = await runtime.run("clerk", "the goal")
        everybody = await runtime.invocations()
    assert outcome.completed
    assert len(everybody) == 9


async def test_a_parent_whose_child_ended_elsewhere_is_woken_by_recovery(tmp_path: object) -> None:
    """The worker died after the child had ended and before its parent was told."""
    path = f"{tmp_path}/store.db"
    boss, clerk = family([DELEGATE], [{"kind": "clarification", "question": "which order?"}])
    async with Runtime([boss, clerk], store=SQLiteStore(path)) as runtime:
        outcome = await runtime.run("boss", "the goal")
    (child,) = outcome.waits_for
    alone = Agent("clerk", model=ScriptedModel([Final("7")]), tools=[look])
    async with Runtime([alone], store=SQLiteStore(path)) as runtime:
        assert (await (await runtime.answer(child, "7", by="ana")).outcome()).completed
    boss, clerk = family([Final("done")], [])
    async with Runtime([boss, clerk], store=SQLiteStore(path)) as runtime:
        await runtime.recover()
        after = await runtime.outcome(outcome.invocation_id)
        records = await journal(runtime, outcome.invocation_id)
    assert after.completed
    assert sum(isinstance(record, Suspended) for record in records) == 1
    assert after.reason.outcome is Ending.FINISHED
