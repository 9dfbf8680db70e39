"""Compaction: a summary stands for the first turns, as a journaled fact; the turns stay."""

from __future__ import annotations

from decimal import Decimal

import pytest

from loopwright.actors.machine._thinking import SUMMARY_PAUSE
from loopwright.policy import Context, Policy, replaced_digest
from loopwright.protocol import (
    Budget,
    Compact,
    ContextCompacted,
    Decide,
    Late,
    Price,
    Reason,
    RunState,
    Usage,
)
from machine.driver import Driver
from machine.ways import SUMMARIES, compacting, handing_over, held


def test_what_is_too_much_is_summarized_before_the_model_is_asked_again() -> None:
    """All but the last turn at most; the model is shown the summary in their place."""
    run = compacting()
    assert run.state is RunState.COMPACT_OR_SAVE
    asked = run.last(Compact)
    assert (asked.turn, asked.upto, asked.summary, asked.summarized) == (3, 1, "", 0)
    assert [turn.number for turn in asked.history] == [1, 2]
    assert len(run.all(Decide)) == 2

    run.compacted("read a: done")
    decide = run.last(Decide)
    assert (decide.turn, decide.summary, decide.summarized) == (3, "read a: done", 1)
    assert [turn.number for turn in decide.history] == [1, 2]
    assert len(run.turns) == 2


def test_it_is_durable_before_the_model_is_asked() -> None:
    """With the digest of what it stands for, so that it can be told what was left out."""
    run = held(compacting()).compacted("in short")
    assert len(run.all(Decide)) == 2
    run.ack()
    record = run.journal[-1].record
    assert isinstance(record, ContextCompacted)
    turns = run.machine.folded.business.turns
    assert (record.upto, record.replaced) == (1, replaced_digest(turns[:1], ""))
    assert len(run.all(Decide)) == 3


def test_the_next_summary_stands_for_the_one_before_as_well() -> None:
    """It is made of that and of the turns since; each is journaled with what it replaced."""
    run = compacting().compacted("one").turn("read_c").compacted("one and two")
    assert [(c.upto, c.summary, c.summarized) for c in run.all(Compact)] == [
        (1, "", 0),
        (2, "one", 1),
    ]
    records = [e.record for e in run.journal if isinstance(e.record, ContextCompacted)]
    turns = run.machine.folded.business.turns
    assert records[1].replaced == replaced_digest(turns[1:2], "one")
    assert run.last(Decide).summarized == 2


def test_a_summary_survives_a_crash_and_is_what_the_digest_rests_on() -> None:
    """What the model was shown is bound to its proposal; it differs with the summary."""
    run = compacting().compacted("in short").reload().recover()
    assert (run.last(Decide).summary, run.last(Decide).summarized) == ("in short", 1)
    other = compacting().compacted("otherwise").reload()
    assert other.machine.folded.context_digest != run.machine.folded.context_digest


def test_without_a_summary_it_goes_on_and_is_asked_for_one_later() -> None:
    """What does not fit is left out all the same; nothing is journaled, and nobody is pestered."""
    run = Driver(policy=SUMMARIES).start().turn("read_a").turn("read_b").compacted("")
    assert run.state is RunState.MODEL_THINKING
    assert (run.last(Decide).summary, run.last(Decide).summarized) == ("", 0)
    assert "context_compacted" not in {entry.record.kind for entry in run.journal}
    for _ in range(SUMMARY_PAUSE):
        assert len(run.all(Compact)) == 1
        run.turn("read_c")
    assert run.last(Compact).turn == 3 + SUMMARY_PAUSE


def test_a_crash_before_it_is_there_asks_the_model_at_once() -> None:
    """A summary that is missing holds nothing up; it is made after the next turn."""
    run = compacting().reload().recover()
    assert run.state is RunState.MODEL_THINKING
    run.turn("read_c")
    assert run.last(Compact).upto == 2


def test_what_it_costs_is_charged_and_it_is_no_step() -> None:
    """At the price of the model that made it, as pinned at the start."""
    prices = (Price("m1", Decimal(1_000), Decimal(0)),)
    run = Driver(policy=SUMMARIES, prices=prices).start().turn("read_a").turn("read_b")
    before = run.machine.folded.spent
    run.compacted("in short", Usage(100, 5))
    spent = run.machine.folded.spent
    assert spent.usage == before.usage + Usage(100, 5)
    assert spent.cost == before.cost + Decimal("0.1")
    assert spent.steps == before.steps == 2


def test_a_summary_may_use_up_the_budget() -> None:
    """Then no model is asked any more, and what was made is there should more be granted."""
    budget = Budget(max_tokens=300)
    run = Driver(budget, SUMMARIES).start().turn("read_a").turn("read_b")
    run.compacted("in short", Usage(100))
    assert run.reason is Reason.TOKEN_BUDGET_EXHAUSTED
    run.grant(budget)
    assert run.last(Decide).summary == "in short"


@pytest.mark.parametrize("policy", [None, Policy(context=Context(max_tokens=50))])
def test_nothing_is_summarized_unless_somebody_can(policy: Policy | None) -> None:
    """Turns that do not fit are left out when the model is asked."""
    run = Driver(policy=policy).start()
    for _ in range(3):
        run.turn("read")
    assert run.all(Compact) == []


def test_a_cancel_does_not_wait_for_a_summary() -> None:
    """It is late then, and stands for nothing."""
    run = compacting().cancel()
    assert run.reason is Reason.CANCELLED
    run.compacted("in short")
    assert run.said[-1] == Late("Compacted")
    assert run.machine.folded.protocol.summarized == 0


def test_another_agent_is_shown_a_summary_as_well() -> None:
    """Too much is too much for whoever takes over."""
    run = Driver(policy=SUMMARIES).start().turn("read_a").decide(handing_over()).judged()
    run.compacted("in short")
    assert (run.last(Decide).summary, run.last(Decide).turn) == ("in short", 3)
