"""The handoff desk: every ticket takes its way, under one budget, and a person is the way out."""

from __future__ import annotations

import pytest

from loopwright import Handoff, Reason, Runtime
from loopwright.examples.handoff_desk import SCENARIOS, Scenario, handoffs, make_agents, play
from loopwright.examples.handoff_desk.__main__ import main
from loopwright.protocol import ResultStatus
from loopwright.stores import MemoryStore

pytestmark = pytest.mark.anyio

PLAIN, BILLING, NOBODYS, LARGE = SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.title)
async def test_each_ticket_is_resolved_by_whom_it_was_for(scenario: Scenario) -> None:
    """The typed output is that of the agent it ended with; each handoff is in the journal."""
    agents = {agent.name: agent for agent in make_agents()}
    async with Runtime(list(agents.values()), store=MemoryStore()) as runtime:
        waited, outcome = await play(runtime, scenario)
        handed = await handoffs(runtime, outcome)
    assert outcome.reason is Reason.COMPLETED
    assert agents[outcome.agent].parse_output(outcome) == scenario.resolution
    assert ("triage", *(handoff.target for handoff in handed)) == scenario.path
    assert [asked.reason for asked in waited] == ([scenario.asked] if scenario.asked else [])
    assert outcome.spent.handoffs == sum(not handoff.escaped for handoff in handed)


async def test_whoever_takes_over_has_the_evidence() -> None:
    """The note names call ids of committed turns, and they are in the history it goes on with."""
    async with Runtime(make_agents(), store=MemoryStore()) as runtime:
        _, outcome = await play(runtime, PLAIN)
    decisions = [turn.proposal.decision for turn in outcome.history]
    note = next(d for d in reversed(decisions) if isinstance(d, Handoff)).progress
    assert note.done == ("refunded 30.00 for order 7",)
    assert note.open == ("correct the invoice",)
    outputs = {c: output for turn in outcome.history for c, output in turn.outputs().items()}
    assert [outputs[call] for call in note.evidence] == ["RF-0007 of 30.00"]


async def test_a_child_is_charged_to_the_one_budget() -> None:
    """The clerk's two calls count at the root, with the call that started it and billing's."""
    async with Runtime(make_agents(), store=MemoryStore()) as runtime:
        _, outcome = await play(runtime, PLAIN)
    (book,) = (r for turn in outcome.history for r in turn.results if r.call_id == "book")
    assert book.status is ResultStatus.OK
    assert book.child is not None
    assert book.child.reason is Reason.COMPLETED
    assert book.child.tool_calls == 2
    assert outcome.tool_calls == 4


async def test_what_comes_back_unchanged_goes_to_a_person() -> None:
    """Refunds hands it back to triage, and nothing has changed: the person is told why."""
    async with Runtime(make_agents(), store=MemoryStore()) as runtime:
        (asked,), outcome = await play(runtime, NOBODYS)
        last = (await handoffs(runtime, outcome))[-1]
    assert asked.agent == "human-desk"
    assert NOBODYS.ticket in asked.question
    assert (last.source, last.target, last.escaped) == ("refunds", "human-desk", True)
    assert "nothing has changed" in last.reason


async def test_the_approval_of_a_child_is_asked_for_at_its_parent() -> None:
    """The parent waits with it, for the same reason, and says who asks; a no comes back typed."""
    async with Runtime(make_agents(), store=MemoryStore()) as runtime:
        waiting = await runtime.run("triage", LARGE.ticket)
        assert waiting.reason is Reason.APPROVAL_REQUIRED
        assert waiting.agent == "refunds"
        assert waiting.proposal is not None
        (ask,) = waiting.proposal.asks
        assert ask.arguments == {"order": 8, "amount": "250.00"}
        (child,) = waiting.waits_for
        assert (await runtime.outcome(child)).proposal == waiting.proposal
        run = await runtime.deny(
            waiting.invocation_id, waiting.proposal.digest, by="mia", reason="too much"
        )
        outcome = await run.outcome()
    assert outcome.reason is Reason.CANNOT_CONTINUE
    assert "not_booked" in str(outcome.cause)
    assert "too much" in str(outcome.cause)


async def test_it_tells_a_story(capsys: pytest.CaptureFixture[str]) -> None:
    """Every ticket, who had it, and who was asked."""
    await main()
    told = capsys.readouterr().out
    for scenario in SCENARIOS:
        assert scenario.title in told
        assert str(scenario.resolution) in told
    assert "refunds escapes to human-desk" in told
    assert "in between a child of it asked mia: approval_required: book_refund" in told
