"""Compaction: a journaled summary stands for the first turns, which stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from casebook.desk import agent, batch, call, journal, play

from loopwright import Budget, Final, Policy, Runtime, Usage, tool
from loopwright.policy import Context, Summary, ToSummarize, replaced_digest
from loopwright.protocol import ContextCompacted
from loopwright.stores import SQLiteStore
from loopwright.testing import ScriptedModel, Step, VirtualClock

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def look(n: int) -> str:
    """Look."""
    return f"page {n}: " + "x" * 400


def reads(count: int) -> list[Step]:
    """Read pages, one a turn."""
    return [batch(call("c", "look", {"n": n})) for n in range(1, count + 1)]


async def count(asked: ToSummarize) -> Summary:
    """Summarize."""
    text = f"{asked.before}[{asked.history[0].number}-{asked.history[-1].number}]"
    return Summary(text, Usage(100, 10), "small")


POLICY = Policy(context=Context(max_tokens=1_000, summarize=count))


async def test_a_summary_is_a_fact_with_the_digest_of_what_it_stands_for() -> None:
    """The model is shown it and the turns behind it; its usage is charged; nothing is lost."""
    model = ScriptedModel([*reads(20), Final("done")])
    desk = agent(model, look, policy=POLICY, budget=Budget(max_steps=30))
    async with Runtime([desk], clock=VirtualClock()) as runtime:
        outcome = await runtime.run("desk", "the goal")
        records = await journal(runtime, outcome.invocation_id)
    compacted = [record for record in records if isinstance(record, ContextCompacted)]

    assert outcome.completed
    assert 2 <= len(compacted) <= 8
    upto, before = 0, ""
    for record in compacted:
        assert record.upto > upto
        assert record.summary == f"{before}[{upto + 1}-{record.upto}]"
        assert record.replaced == replaced_digest(outcome.history[upto : record.upto], before)
        upto, before = record.upto, record.summary
    for request in model.requests:
        shown = [turn.number for turn in request.history]
        assert shown == list(range(request.turn - len(shown), request.turn))
        # The numbers of all turns before it are in the summary, or among those shown.
        first = shown[0] if shown else 1
        assert request.summary.endswith(f"-{first - 1}]") if first > 1 else not request.summary
    assert len(outcome.history) == 21
    assert outcome.usage == Usage(21 * 10 + 100 * len(compacted), 21 * 5 + 10 * len(compacted))


async def test_a_summary_is_there_again_after_a_restart(tmp_path: Path) -> None:
    """It is read back, not made again."""
    path = tmp_path / "store.db"
    question: Step = {"kind": "clarification", "question": "go on?"}
    first, second = ScriptedModel([*reads(8), question]), ScriptedModel([Final("done")])
    async with Runtime([agent(first, look, policy=POLICY)], store=SQLiteStore(path)) as runtime:
        asked = await runtime.run("desk", "the goal")
    shown = first.requests[-1]
    assert shown.summary

    async with Runtime([agent(second, look, policy=POLICY)], store=SQLiteStore(path)) as runtime:
        run = await runtime.answer(asked.invocation_id, "yes", by="ann")
        assert (await run.outcome()).completed

    (request,) = second.requests
    assert request.summary == shown.summary
    assert request.history[:-1] == shown.history[:]


async def test_without_a_summary_turns_are_left_out_all_the_same() -> None:
    """One that fails ends nothing and is told to nobody but the trace."""

    def fail(_: ToSummarize) -> str:
        raise ValueError("no model today")

    policy = Policy(context=Context(max_tokens=1_000, summarize=fail))
    played = await play([*reads(9), Final("done")], look, policy=policy)

    assert played.outcome.completed
    last = played.model.requests[-1]
    left_out = 9 - len(last.history)
    assert left_out > 0
    assert last.summary == f"{left_out} earlier turns are not shown."
