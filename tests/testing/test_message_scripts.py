"""Scripts against the pure machine and against one actor: strict both ways, readable failures."""

from __future__ import annotations

import pytest
from trajectories.notation import turn_of

from loopwright.actors import Machine, ProgressTracker
from loopwright.actors.kernel import Actor, ActorSystem, Request
from loopwright.actors.machine._terms import Terms
from loopwright.policy import Policy, Progress, Tracking
from loopwright.protocol import (
    Accepted,
    Assess,
    Assessed,
    Budget,
    Commit,
    Committed,
    Decide,
    Decided,
    Final,
    InvocationEnded,
    InvocationId,
    InvocationStarted,
    InvocationState,
    Observe,
    Observed,
    Principal,
    Reason,
    Rested,
    Start,
    TurnCommitted,
    Usage,
    Validate,
    Validated,
    calls_of,
)
from loopwright.testing import (
    Advance,
    Expect,
    MessageStep,
    Probe,
    ScriptMismatchError,
    Send,
    VirtualClock,
    commit_of,
    like,
    run_actor_script,
    run_script,
)
from loopwright.testing.scripts._patterns import differences

STARTED = InvocationStarted(
    InvocationId("inv-1"), "desk", "1", "1", "refund order 7", Principal(), Budget(), 0.0
)


def machine(budget: Budget | None = None) -> Machine:
    started = InvocationStarted(
        STARTED.invocation_id, "desk", "1", "1", STARTED.goal, Principal(), budget or Budget(), 0.0
    )
    return Machine(InvocationState(started), {"desk": Terms(Policy())}, worker="w1", fence=1)


BEGIN: tuple[MessageStep, ...] = (
    Send(Start(STARTED)),
    Expect(commit_of(InvocationStarted)),
    Send(Committed(1)),
)


def test_a_whole_invocation_is_a_list_of_messages() -> None:
    """Given these messages, exactly those come out."""
    run_script(
        machine(),
        [
            *BEGIN,
            Expect(like(Decide, turn=1, notice=None)),
            Send(Decided(1, Final("done"), Usage(10, 5))),
            Expect(like(Validate, turn=1, decision=Final("done"))),
            Send(Validated(1, Accepted())),
            Expect(commit_of(TurnCommitted, like(InvocationEnded, reason=Reason.COMPLETED))),
            Send(Committed(3)),
            Expect(like(Rested, outcome=like(object, answer="done", steps=1))),
        ],
    )


def test_time_advances_only_when_the_script_says_so() -> None:
    """A machine that asked to be woken gets its tick at that time."""
    steps = [
        *BEGIN,
        Expect(Decide),
        Advance(29.0),
        Advance(1.0),
        Expect(like(object, turn=1)),
    ]
    run_script(machine(Budget(max_active_seconds=30)), steps)


def test_a_differing_field_is_named_with_both_values() -> None:
    """The report has the step, the messages, and the path of each field that differs."""
    wrong = like(Decide, turn=2, goal="refund order 7", principal=Principal("ana"))
    with pytest.raises(ScriptMismatchError) as failed:
        run_script(machine(), [*BEGIN, Expect(wrong)])
    said = str(failed.value)
    assert said.startswith("step 4 of 4\n  expected: like(Decide, turn=2,")
    assert "\n  turn: expected 2, got 1" in said
    assert "\n  principal.actor: expected 'ana', got 'anonymous'" in said
    assert "goal: expected" not in said


def test_an_exact_value_is_compared_field_by_field() -> None:
    """Also inside of lists: what is missing and what is too much is told with its index."""
    with pytest.raises(
        ScriptMismatchError, match=r"records\[1\]: expected TurnCommitted, got noth"
    ):
        run_script(machine(), [BEGIN[0], Expect(commit_of(InvocationStarted, TurnCommitted))])
    with pytest.raises(ScriptMismatchError, match=r"last_seq: expected 3, got 1"):
        run_script(machine(), [BEGIN[0], Expect(like(Commit, append=like(object, last_seq=3)))])


def test_a_message_of_another_type_is_the_difference() -> None:
    with pytest.raises(ScriptMismatchError, match=r"message: expected Commit, got Decide\("):
        run_script(machine(), [*BEGIN, Expect(Commit)])


def test_an_unexpected_message_fails_before_the_next_one_goes_in() -> None:
    with pytest.raises(ScriptMismatchError, match="before step 2 of 2") as failed:
        run_script(machine(), [BEGIN[0], Send(Committed(1))])
    assert "expected: no message\n  got:      Commit(" in str(failed.value)


def test_an_unexpected_message_fails_also_at_the_end() -> None:
    with pytest.raises(ScriptMismatchError, match="after the last step"):
        run_script(machine(), [BEGIN[0]])


def test_an_expected_message_has_to_come() -> None:
    with pytest.raises(ScriptMismatchError, match=r"step 3 of 3\n.*Commit\n.*no message"):
        run_script(machine(), [*BEGIN[:2], Expect(Commit)])


def test_messages_of_two_types_are_never_equal() -> None:
    """Messages are tuples, but an `Assessed` in place of an `Observed` is a difference."""
    found = list(differences(Assessed(1), Observed(1)))
    assert [str(difference) for difference in found] == [
        "message: expected Assessed(turn=1, stalled=None), got Observed(turn=1, stalled=None, nudge=None)"
    ]


def test_a_pattern_with_an_unknown_field_is_refused() -> None:
    """A typing error in a pattern must not be a pattern that matches nothing, or everything."""
    with pytest.raises(TypeError, match="Decide has no field 'trun'; it has: invocation_id"):
        like(Decide, trun=1)


@pytest.mark.anyio
async def test_a_service_actor_runs_a_script() -> None:
    """The probe is the reply address; a repeated plan is stalled from the second time on."""
    async with ActorSystem() as system:
        probe = Probe(system)
        tracker = system.start(ProgressTracker, Tracking(Progress.exact(1), {}))
        ran = turn_of(1, "look(at=a) -> 1")
        calls = calls_of(ran.proposal.decision)
        await run_actor_script(
            tracker,
            [
                Send(Request(Assess(1, calls), probe.ref)),
                Expect(Assessed(1)),
                Send(Request(Observe(1, ran), probe.ref)),
                Expect(Observed),
                Send(Request(Assess(2, calls), probe.ref)),
                Expect(like(Assessed, stalled=like(object, signal="repeated_plan"))),
            ],
            probe=probe,
        )


class Doubler(Actor):
    """Says everything twice to whoever asks."""

    def on_receive(self, message: Request[str]) -> None:
        if message.message == "crash":
            raise RuntimeError("asked to")
        for _ in range(2):
            message.reply_to.tell(message.message)


@pytest.mark.anyio
async def test_an_actor_that_says_too_much_fails_the_script() -> None:
    async with ActorSystem() as system:
        probe = Probe(system)
        doubler = system.start(Doubler)
        with pytest.raises(ScriptMismatchError, match="after the last step"):
            await run_actor_script(
                doubler, [Send(Request("a", probe.ref)), Expect("a")], probe=probe
            )


@pytest.mark.anyio
async def test_an_actor_that_died_is_said_to_be_dead() -> None:
    async with ActorSystem() as system:
        probe = Probe(system)
        doubler = system.start(Doubler)
        with pytest.raises(ScriptMismatchError, match="no message; the actor is dead"):
            await run_actor_script(
                doubler,
                [Send(Request("crash", probe.ref)), Expect("a")],
                probe=probe,
                patience=0.01,
            )


@pytest.mark.anyio
async def test_advance_needs_a_clock() -> None:
    async with ActorSystem() as system:
        probe = Probe(system)
        doubler = system.start(Doubler)
        with pytest.raises(TypeError, match="pass clock="):
            await run_actor_script(doubler, [Advance(1)], probe=probe)
        await run_actor_script(doubler, [Advance(1)], probe=probe, clock=VirtualClock())
