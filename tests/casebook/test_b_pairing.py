"""Casebook B: every call keeps its one result, through interruption."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from casebook.desk import Played, agent, batch, call, play, sleep
from loopwright import Final, ModelRequest, Policy, Reason, Runtime, ToolCalls, tool
from loopwright.policy import CHARS_PER_TOKEN, Context
from loopwright.protocol import calls_of
from loopwright.testing import ScriptedModel, Step, VirtualClock

pytestmark = pytest.mark.anyio


async def test_b08_a_cancelled_batch_has_a_result_for_every_call() -> None:
    """B08: done, running and queued calls each end with the one result that is true of them."""
    ran: Counter[str] = Counter()
    clock = VirtualClock()

    @tool(effect="read")
    async def quick() -> str:
        ran["c1"] += 1
        return "done"

    @tool(effect="read")
    async def slow() -> None:
        ran["c2"] += 1
        await sleep(clock, 5)

    @tool(effect="manual")
    async def write() -> None:
        ran["c3"] += 1

    model = ScriptedModel([batch(call("c1", "quick"), call("c2", "slow"), call("c3", "write"))])
    async with Runtime([agent(model, quick, slow, write)], clock=clock) as runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(0.05)
        outcome = await runtime.cancel(run.id)
        stored = await runtime.state(run.id)

    assert outcome.reason is Reason.CANCELLED
    assert Played(outcome, model).statuses == ["ok", "cancelled", "not_started"]
    assert ran == {"c1": 1, "c2": 1}
    for history in (outcome.history, stored.history()):
        (turn,) = history
        decision = turn.proposal.decision
        assert isinstance(decision, ToolCalls)
        assert [c.call_id for c in decision.calls] == [r.call_id for r in turn.results]


async def test_b09_a_running_write_is_never_said_not_to_have_run(tmp_path: Path) -> None:
    """B09: cancelled after it has begun: its outcome is unknown, and no text claims otherwise."""
    clock, marker = VirtualClock(), tmp_path / "marker"

    @tool(effect="manual")
    async def write() -> None:
        marker.touch()
        await sleep(clock, 5)
        raise AssertionError("it is abandoned by then")

    model = ScriptedModel([batch(call("c1", "write"))])
    desk = agent(model, write, policy=Policy(cancel_grace=1))
    async with Runtime([desk], clock=clock) as runtime:
        run = await runtime.start("desk", "the goal")
        await clock.advance(0.05)
        assert marker.exists()
        run.cancel("enough")
        await clock.advance(2)
        outcome = await run.outcome()
        (fact,) = await runtime.effects(invocation_id=run.id)

    assert outcome.reason is Reason.CANCELLED
    (result,) = outcome.history[0].results
    assert result.status == "outcome_unknown"
    assert result.error is not None
    assert "may or may not have taken effect" in result.error.message
    assert (fact.entry.status, fact.entry.attempts) == ("outcome_unknown", 1)
    assert [e.call_id for e in outcome.unresolved_effects] == ["c1"]
    assert not re.search(b"not.(run|started|executed)|never ran", outcome.history[0].body)


TURNS = 6


async def asked_with(max_tokens: int | None) -> list[ModelRequest]:
    """Play six turns of two reads each, of growing size; return what the model was asked."""

    @tool(effect="read")
    async def look(n: int) -> str:
        return "x" * 100 * n

    steps: list[Step] = [
        batch(call("c1", "look", {"n": n}), call("c2", "look", {"n": 1})) for n in range(6)
    ]
    policy = Policy(context=Context(max_tokens=max_tokens))
    played = await play([*steps, Final("done")], look, policy=policy)
    assert played.outcome.completed
    return played.model.requests


def check_pairs(request: ModelRequest) -> None:
    """Every call that is shown has its one result, in the same turn, and no result has no call."""
    shown = [turn.number for turn in request.history]
    assert shown == list(range(request.turn - len(shown), request.turn))
    for turn in request.history:
        calls = [c.call_id for c in calls_of(turn.proposal.decision)]
        assert calls == [r.call_id for r in turn.results] == ["c1", "c2"]


@pytest.mark.parametrize("keep", range(1, TURNS + 1))
async def test_b11_trimming_cuts_between_turns(keep: int) -> None:
    """B11: with room for the last 1..6 turns, those are shown, each call with its result."""
    whole = (await asked_with(None))[-1].history
    assert len(whole) == TURNS
    room = sum(turn.chars for turn in whole[-keep:]) // CHARS_PER_TOKEN + 1

    request = (await asked_with(room))[-1]
    assert len(request.history) == keep
    check_pairs(request)
    left_out = TURNS - keep
    assert request.summary.startswith(str(left_out)) if left_out else request.summary == ""


@pytest.mark.parametrize("max_tokens", [1, 50, 150, 300, 500, 800, 1_000_000])
async def test_b11_no_room_is_too_small_for_the_last_turn(max_tokens: int) -> None:
    """B11: whatever the room, at every step whole turns are shown, and the last one of them."""
    for request in await asked_with(max_tokens):
        check_pairs(request)
        assert len(request.history) >= min(1, request.turn - 1)
