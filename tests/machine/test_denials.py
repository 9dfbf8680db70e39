"""A denied call is a result; proposing it again asks nobody; and the patience for it ends."""

from __future__ import annotations

import pytest

from loopwright.policy import Policy
from loopwright.protocol import (
    Decide,
    Execute,
    Reason,
    RunState,
    Validate,
    call_fingerprint,
)
from machine.driver import Driver
from machine.samples import calls


def denied(run: Driver, times: int) -> Driver:
    """Propose something that policy denies, this often."""
    for _ in range(times):
        run.propose("ban").observed()
    return run


def test_a_denied_call_is_a_result_beside_others() -> None:
    """It never runs, its siblings do, and the model goes on."""
    run = Driver().start().propose("ban", "read", "pay").done("read").done("pay")
    assert run.statuses() == ["denied", "ok", "ok"]
    assert run.turns[0].fault is None
    assert run.machine.folded.protocol.denials == 1
    assert run.observed().finish().reason is Reason.COMPLETED


def test_the_third_denial_ends_it() -> None:
    """Its turn is committed with its results, and the cause says why."""
    run = denied(Driver().start(), 2)
    assert run.state is RunState.MODEL_THINKING
    run.propose("ban")
    assert run.reason is Reason.POLICY_DENIED
    assert run.outcome.cause == (
        "3 calls were denied, the last one, of ban, because: it may not run"
    )
    assert run.commits[-1] == ("turn_committed", "invocation_ended")
    assert (len(run.all(Decide)), run.all(Execute)) == (3, [])


def test_they_are_counted_by_call_and_over_the_whole_invocation() -> None:
    """Three in one batch are three; sound turns between them forgive nothing, a crash neither."""
    assert Driver().start().propose("ban_a", "ban_b", "ban_c").reason is Reason.POLICY_DENIED

    run = denied(Driver().start(), 1).turn("read")
    run = denied(run, 1).turn("read").reload().recover()
    assert run.machine.folded.protocol.denials == 2
    assert run.propose("ban").reason is Reason.POLICY_DENIED


@pytest.mark.parametrize(("limit", "left"), [(0, 0), (1, 0), (2, 1), (9, 8)])
def test_how_many_are_forgiven_is_a_matter_of_policy(limit: int, left: int) -> None:
    """With 0 as with 1 the first one ends it."""
    run = Driver(policy=Policy(max_denials=limit)).start()
    run = denied(run, left)
    assert not run.state.at_rest
    assert run.propose("ban").reason is Reason.POLICY_DENIED


def test_what_else_is_in_its_batch_runs_to_the_end() -> None:
    """The invocation ends with the turn, not within it."""
    run = Driver(policy=Policy(max_denials=1)).start().propose("ban", "pay")
    assert run.state is RunState.EXECUTE_TOOL
    assert run.done("pay").reason is Reason.POLICY_DENIED
    assert run.statuses() == ["denied", "ok"]


def test_a_humans_no_counts_as_well() -> None:
    """And is remembered: nobody is asked the same a second time, whatever turn it is in."""
    run = Driver().start().propose("transfer").approve(yes=False).judged().observed()
    assert run.machine.folded.protocol.denied == {call_fingerprint("transfer", {"of": "transfer"})}
    run = run.reload().recover().decide(calls("transfer"))
    assert run.last(Validate).refused == run.machine.folded.protocol.denied
    run.judged().assessed()
    assert run.statuses() == ["denied"]
    assert run.machine.folded.protocol.denials == 2


def test_another_call_of_the_same_tool_is_another_matter() -> None:
    """What was denied is the call with its arguments."""
    run = Driver().start().propose("transfer_a").approve(yes=False).judged().observed()
    run.propose("transfer_b")
    assert run.reason is Reason.APPROVAL_REQUIRED
