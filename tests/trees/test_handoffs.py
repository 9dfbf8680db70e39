"""Handoffs: one invocation, one agent after the other; nobody passes it on without end."""

from __future__ import annotations

import pytest
from casebook.desk import batch, call, journal

from loopwright import (
    Agent,
    Budget,
    ConfigurationError,
    Final,
    Handoff,
    Policy,
    ProgressNote,
    Reason,
    Runtime,
    tool,
)
from loopwright.policy import writes
from loopwright.protocol import HandedOff
from loopwright.stores import SQLiteStore
from loopwright.testing import ScriptedModel, Step

pytestmark = pytest.mark.anyio


def to(target: str, *done: str, calls: object = ()) -> Step:
    """Hand over to an agent, with this done."""
    wire: dict[str, object] = {
        "kind": "handoff",
        "target": target,
        "reason": f"{target} knows more",
        "progress": {"done": list(done), "open": ["the rest"]},
        "calls": calls,
    }
    return wire


@tool(effect="read")
async def look(of: int = 0) -> str:
    return f"looked at {of}"


@tool(effect="read")
async def refund_rules() -> str:
    return "up to 100"


def agents(a: list[Step], b: list[Step], *, escape: str | None = None) -> list[Agent]:
    """Make two agents that may hand over to each other, and a human desk."""
    human = Agent(
        "human-desk",
        model=ScriptedModel([{"kind": "clarification", "question": "what now?"}, Final("settled")]),
    )
    one = Agent("a", model=ScriptedModel(a), tools=[look], handoffs=["b"], escape=escape)
    two = Agent("b", model=ScriptedModel(b), tools=[refund_rules], handoffs=["a"], escape=escape)
    return [one, two, human]


async def test_another_agent_goes_on_with_its_own_tools_and_the_same_journal() -> None:
    """Calls beside a handoff are finished first; then model, tools and policy are the target's."""
    crew = agents(
        [to("b", "found it", calls=[call("l", "look", {"of": 1})])],
        [batch(call("r", "refund_rules"), call("l", "look")), Final("done by b")],
    )
    async with Runtime(crew) as runtime:
        outcome = await runtime.run("a", "the goal")
        records = await journal(runtime, outcome.invocation_id)
    assert outcome.completed
    assert (outcome.agent, outcome.steps, outcome.spent.handoffs) == ("b", 3, 1)
    assert [r.status.value for t in outcome.history for r in t.results] == [
        "ok",
        "ok",
        "unknown_tool",
    ]
    (handed,) = [record for record in records if isinstance(record, HandedOff)]
    assert (handed.source, handed.target, handed.progress.done) == ("a", "b", ("found it",))
    shown = crew[1].model
    assert isinstance(shown, ScriptedModel)
    assert shown.requests[0].agent == "b"
    assert [spec.name for spec in shown.requests[0].tools] == ["refund_rules"]
    assert shown.requests[0].handoffs == ("a",)


async def test_b110_the_fifth_handoff_is_one_too_many() -> None:
    """B110: four are accepted, the fifth ends it; five model calls."""
    crew = agents(
        [to("b", "1"), to("b", "1", "2", "3"), to("b", "1", "2", "3", "4", "5")],
        [to("a", "1", "2"), to("a", "1", "2", "3", "4")],
    )
    async with Runtime(crew) as runtime:
        outcome = await runtime.run("a", "the goal", budget=Budget(max_handoffs=4))
        records = await journal(runtime, outcome.invocation_id)
    assert outcome.reason is Reason.HANDOFF_LIMIT
    assert sum(isinstance(record, HandedOff) for record in records) == 4
    assert outcome.steps == 5
    assert outcome.cause is not None
    assert "4 times" in outcome.cause


async def test_returning_with_nothing_changed_is_stopped() -> None:
    """An agent that gets back what it has given away, as it was, will only give it away again."""
    crew = agents([to("b", "nothing")], [to("a", "nothing")])
    async with Runtime(crew) as runtime:
        outcome = await runtime.run("a", "the goal")
    assert outcome.reason is Reason.HANDOFF_LIMIT
    assert outcome.cause is not None
    assert "nothing has changed" in outcome.cause


async def test_the_escape_agent_takes_over_instead() -> None:
    """With an escape, a round trip ends at whoever can decide; once."""
    crew = agents([to("b", "nothing")], [to("a", "nothing")], escape="human-desk")
    async with Runtime(crew) as runtime:
        outcome = await runtime.run("a", "the goal")
        assert outcome.reason is Reason.CLARIFICATION_REQUIRED
        assert (outcome.agent, outcome.question) == ("human-desk", "what now?")
        after = await (await runtime.answer(outcome.invocation_id, "pay", by="bo")).outcome()
        records = await journal(runtime, outcome.invocation_id)
    assert after.completed
    assert after.answer == "settled"
    assert [(r.target, r.escaped) for r in records if isinstance(r, HandedOff)] == [
        ("b", False),
        ("human-desk", True),
    ]


async def test_a_handoff_to_a_stranger_is_unusable() -> None:
    """Only agents that are named as targets can be handed to; the model is told which."""
    crew = agents([to("human-desk", "x"), to("a", "x"), Final("done")], [])
    async with Runtime(crew) as runtime:
        outcome = await runtime.run("a", "the goal")
    assert outcome.reason is Reason.INVALID_DECISION
    assert outcome.history[0].fault is not None
    assert "b" in outcome.history[0].fault.problem


def test_a_runtime_must_have_everybody() -> None:
    """Days later an invocation would stand before a door that is not there."""
    crew = agents([], [])
    with pytest.raises(ConfigurationError, match="hands over to, or calls, agent 'b'"):
        Runtime([crew[0], crew[2]])
    with pytest.raises(ConfigurationError, match="to itself"):
        Agent("a", model=ScriptedModel([]), handoffs=["a"])


async def test_whoever_took_over_goes_on_after_a_restart(tmp_path: object) -> None:
    """The agent of today's turn is read from the journal: its policy asks, its tools run."""
    mailed: list[str] = []

    @tool(effect="manual")
    async def mail(text: str) -> str:
        mailed.append(text)
        return "sent"

    def crew(a: list[Step], b: list[Step]) -> list[Agent]:
        return [
            Agent("a", model=ScriptedModel(a), handoffs=["b"]),
            Agent("b", model=ScriptedModel(b), tools=[mail], policy=Policy(ask=[writes()])),
        ]

    path = f"{tmp_path}/store.db"
    typed = Handoff("b", "it writes letters", ProgressNote(("understood",), ("a letter",)))
    first = crew([typed], [batch(call("m", "mail", {"text": "hello"}))])
    async with Runtime(first, store=SQLiteStore(path)) as runtime:
        outcome = await runtime.run("a", "the goal")
        assert outcome.reason is Reason.APPROVAL_REQUIRED
        assert outcome.proposal is not None
    async with Runtime(crew([], [Final("done")]), store=SQLiteStore(path)) as runtime:
        run = await runtime.approve(outcome.invocation_id, outcome.proposal.digest, by="bo")
        after = await run.outcome()
    assert after.completed
    assert mailed == ["hello"]
