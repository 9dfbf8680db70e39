"""The inbox query: everything that waits for a person, and nothing else."""

from __future__ import annotations

import pytest

from loopwright import Agent, Clarification, Final, Policy, Principal, Runtime, ToolCall, ToolCalls
from loopwright import tool as make_tool
from loopwright.policy import writes
from loopwright.protocol import CallId, Reason
from loopwright.testing import ScriptedModel, VirtualClock

CALL = ToolCalls((ToolCall(CallId("w"), "write", {}),))


@make_tool(effect="manual")
def write() -> str:
    """Write."""
    return "written"


@make_tool(effect="manual", effect_key=lambda a: "lost:1")
def lose() -> None:
    """Be lost on the way."""
    raise ConnectionError("the line went dead")


def agents() -> list[Agent]:
    asks = Policy(ask=[writes()])
    writer = Agent("writer", model=ScriptedModel([CALL, Final("ok")]), tools=[write], policy=asks)
    asker = Agent("asker", model=ScriptedModel([Clarification("Which one?"), Final("ok")]))
    lost = ToolCalls((ToolCall(CallId("l"), "lose", {}),))
    loser = Agent("loser", model=ScriptedModel([lost]), tools=[lose])
    done = Agent("done", model=ScriptedModel([Final("ok")]))
    return [writer, asker, loser, done]


@pytest.mark.anyio
async def test_each_kind_of_waiting_is_told_with_what_it_waits_for() -> None:
    clock = VirtualClock()
    async with Runtime(agents(), clock=clock) as runtime:
        ana = Principal("ana", "acme")
        asked = await runtime.run("writer", "write it", principal=ana)
        for name in ("asker", "loser", "done"):
            await runtime.run(name, "go")
        lost, question, proposal = await runtime.inbox()

        assert (proposal.reason, proposal.proposal) == (Reason.APPROVAL_REQUIRED, asked.proposal)
        assert (proposal.agent, proposal.principal, proposal.goal) == ("writer", ana, "write it")
        assert (question.question, question.proposal) == ("Which one?", None)
        assert lost.reason is Reason.RECONCILIATION_REQUIRED
        assert [entry.effect_key for entry in lost.unresolved] == ["lost:1"]
        assert proposal.since == clock.now().wall

        assert [one.agent for one in await runtime.inbox(limit=2)] == ["loser", "asker"]
        assert await runtime.inbox(agent="writer") == (proposal,)

        await runtime.answer(question.invocation_id, "that one", by="ana")
        await runtime.outcome(question.invocation_id)
        assert [one.agent for one in await runtime.inbox()] == ["loser", "writer"]


@pytest.mark.anyio
async def test_more_than_a_page_is_listed_whole() -> None:
    asker = Agent("asker", model=ScriptedModel([Clarification("Which one?")] * 250))
    async with Runtime([asker], clock=VirtualClock()) as runtime:
        ids = [(await runtime.run("asker", "go")).invocation_id for _ in range(250)]
        assert [one.invocation_id for one in await runtime.inbox(limit=1_000)] == ids[::-1]
        assert len(await runtime.inbox(limit=101)) == 101


@pytest.mark.anyio
async def test_a_parent_that_waits_for_its_child_is_not_there_the_child_is() -> None:
    """A person decides once, where the question is."""
    child = agents()[0]
    call = ToolCalls((ToolCall(CallId("c"), "writer", {"goal": "write it"}),))
    parent = Agent("parent", model=ScriptedModel([call, Final("ok")]), tools=[child.as_tool()])
    async with Runtime([parent, child], clock=VirtualClock()) as runtime:
        outcome = await runtime.run("parent", "have it written")
        assert outcome.reason is Reason.APPROVAL_REQUIRED
        (one,) = await runtime.inbox()
        assert (one.agent, outcome.waits_for) == ("writer", (one.invocation_id,))
