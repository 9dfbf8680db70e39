"""Whatever is said in whatever order, over any number of processes; `Watched` says what holds."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from random import Random
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.actors.machine import _core
from loopwright.actors.machine._results import LATE_RESULT
from loopwright.policy import Context, Policy, Progress
from loopwright.protocol import (
    Answer,
    AnswerApproval,
    Budget,
    Cancel,
    Committed,
    DecideInstead,
    Expire,
    Grant,
    Input,
    Price,
    Recover,
    RunState,
    Settle,
    Start,
    Wake,
)
from machine.driver import Driver
from machine.messages import FINDINGS, awaited, everything, replies
from machine.samples import calls
from machine.watched import Watched
from machine.ways import ASKS, DEADLINE_IN, SUMMARIES, VERIFIERS

BUDGETS = st.builds(
    Budget,
    max_steps=st.sampled_from([9, 20, 6, 2, 0]),
    max_tool_calls=st.sampled_from([30, 90, 9, 4, 0]),
    max_tokens=st.sampled_from([None, 300, 30]),
    max_active_seconds=st.sampled_from([None, 70.0]),
    deadline=st.sampled_from([None, datetime.fromtimestamp(1_000 + DEADLINE_IN, UTC)]),
    max_cost=st.sampled_from([None, Decimal("0.0009")]),
    max_tool_failures=st.sampled_from([None, 2]),
    max_handoffs=st.sampled_from([4, 1, None]),
    reserve_steps=st.sampled_from([0, 1]),
)
POLICIES = st.builds(
    Policy,
    approval_grace=st.sampled_from([0.0, 60.0, 10.0]),
    max_repairs=st.integers(0, 2),
    max_faulty_turns=st.sampled_from([3, 9, 0]),
    max_attempts=st.sampled_from([5, 1, 2]),
    approval_expires=st.sampled_from([None, 30.0]),
    max_denials=st.sampled_from([3, 1, 9]),
    max_verifications=st.sampled_from([3, 1]),
    progress=st.sampled_from([Progress(), ASKS.progress]),
    context=st.sampled_from([Context(), SUMMARIES.context]),
)
MORE = Budget(max_steps=4, max_tool_calls=9, max_tokens=90, max_cost=Decimal(1))
RUNS = st.builds(
    partial(Driver, prices=(Price("m1", Decimal(10), Decimal(10)),)),
    BUDGETS,
    POLICIES,
    verifiers=st.sampled_from([(), VERIFIERS[:1], VERIFIERS]),
    escape=st.sampled_from([None, "human"]),
)


def step(watched: Watched, random: Random) -> None:
    """Let one thing happen: mostly what is waited for, now and then anything at all."""
    run, chance = watched.run, random.random()
    expected = awaited(run)
    if chance < 0.02:
        watched.crash()
    elif chance < 0.12:
        after, message = random.choice(everything(run))
        if not isinstance(message, Committed):
            watched.say(message, after)
    elif run.state is RunState.CREATED and not run.pending:
        watched.say(Recover())
    elif run.pending and chance < 0.6:
        watched.store()
    elif (proposal := run.machine.folded.proposal()) is not None and chance < 0.8:
        some = (random.choice(proposal.asks).call_id,)
        watched.say(AnswerApproval(proposal.digest, chance < 0.75, "ann", some))
    elif watched.stranded and not run.pending:
        watched.revive()
    elif run.state.at_rest or chance > 0.97:
        go_on: list[Input] = [
            Answer("that one", "ann"),
            Grant(MORE, "ann"),
            DecideInstead(calls("hire", "read"), "ann"),
            Expire("runtime"),
        ]
        open_turn = run.machine.folded.protocol.open
        go_on += [Wake(child) for child in (open_turn.children() if open_turn else ())]
        unknown = [e.call_id for e in run.machine.folded.business.effects.values() if not e.settled]
        if unknown and chance < 0.99:
            found = random.choice(FINDINGS)
            go_on.append(Settle(random.choice(unknown), found, random.choice(["ann", LATE_RESULT])))
        watched.say(random.choice(go_on))
    elif expected:
        # What leads on comes first in these lists, and is said more often.
        after, message = expected[int(random.random() ** 3 * len(expected))]
        watched.say(message, after)


def settle(watched: Watched) -> None:
    """Bring it to rest: recover it if the store was lost, cancel it, and let all report."""
    if watched.stranded:
        watched.crash()
    run = watched.run
    if run.state is RunState.CREATED and not run.pending:
        watched.say(Recover() if run.journal else Start(run.start_of()))
    watched.say(Cancel("", "ann"))
    while run.pending or not run.state.at_rest:
        if run.pending:
            watched.store()
            continue
        for _, message in replies(run):
            watched.say(message)
    if watched.stranded:
        # Its lease or its store was lost on the way: whoever takes over comes to the end.
        settle(watched)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(RUNS, st.integers(0, 150), st.integers(0, 2**32))
def test_no_order_of_messages_breaks_the_machine(run: Driver, steps: int, seed: int) -> None:
    """It only ever raises `ProtocolError`, and ends with one result a call and one end.

    The messages come from a seed: choices of Hypothesis would rarely lead far enough.
    """
    watched, random = Watched(run), Random(seed)
    with patch.object(_core, "SNAPSHOT_EVERY", 1):
        watched.say(Start(run.start_of()))
        for _ in range(steps):
            step(watched, random)
        settle(watched)
    assert watched.run.state.at_rest
    assert watched.run.machine.folded.protocol.status == "ended"


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.permutations(["read_a", "read_b", "read_c", "read_d"]), st.integers(0, 4))
def test_the_order_of_arrival_never_shows(order: list[str], crash_after: int) -> None:
    """The committed turn is the same whichever call returns first, crash or no crash."""
    run = Driver().start().propose("read_a", "read_b", "read_c", "read_d")
    for index, call_id in enumerate(order):
        if index == crash_after:
            run = run.later(0.01).reload().recover().judged()
        if call_id in run.running:
            run.done(call_id)
    for call_id in list(run.running):
        run.done(call_id)
    assert [r.call_id for r in run.turns[0].results] == ["read_a", "read_b", "read_c", "read_d"]
    assert run.turns[0].tool_calls == 4
