"""Hard limits stop before the next model call or batch; the soft stop is told once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from loopwright.protocol import (
    Budget,
    Clarification,
    Decide,
    Execute,
    Observe,
    Reason,
    RunState,
    Usage,
    Validate,
)
from machine.driver import Driver
from machine.samples import calls


def deadline(seconds: float, max_steps: int | None = 20) -> Budget:
    """Limit the time until an instant this long after the start."""
    return Budget(deadline=datetime.fromtimestamp(1_000 + seconds, UTC), max_steps=max_steps)


def test_b51_three_steps_are_three_decisions_and_their_calls_still_run() -> None:
    """The calls of the last allowed step run and are committed; there is no fourth call."""
    run = Driver(Budget(max_steps=3)).start().turn("read").turn("read").turn("read")
    assert run.reason is Reason.MAX_STEPS
    assert len(run.all(Decide)) == 3
    assert run.statuses() == ["ok"]
    assert run.outcome.steps == 3

    run = Driver(Budget(max_steps=3)).start().turn("read").turn("read").finish()
    assert (run.reason, run.outcome.steps) == (Reason.COMPLETED, 3)


@pytest.mark.parametrize(("used", "batch"), [(5, 3), (0, 8)])
def test_b49_a_batch_that_would_cross_the_limit_starts_none_of_its_calls(
    used: int, batch: int
) -> None:
    """Calls are counted per batch, before any starts, and each gets a result that says so."""
    run = Driver(Budget(max_tool_calls=6)).start()
    for _ in range(used):
        run.turn("read")
    run.decide(calls(*(f"read_{n}" for n in range(batch)))).judged()

    assert run.reason is Reason.TOOL_BUDGET_EXHAUSTED
    assert run.statuses() == ["not_started"] * batch
    assert len(run.all(Execute)) == run.outcome.tool_calls == used


def test_refused_calls_cost_no_tool_call() -> None:
    """Only what would be dispatched is counted."""
    run = Driver(Budget(max_tool_calls=1)).start().propose("read", "get_dat").done("read")
    assert run.statuses() == ["ok", "unknown_tool"]


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget(max_steps=0), Reason.MAX_STEPS),
        (Budget(max_tokens=0), Reason.TOKEN_BUDGET_EXHAUSTED),
        (Budget(max_active_seconds=0), Reason.TIME_BUDGET_EXHAUSTED),
        (deadline(0), Reason.DEADLINE_EXCEEDED),
    ],
)
def test_zero_is_a_real_limit(budget: Budget, reason: Reason) -> None:
    """With nothing to spend the model is never asked."""
    run = Driver(budget).start()
    assert run.reason is reason
    assert run.all(Decide) == []


def test_no_tool_calls_at_all_is_a_real_limit() -> None:
    """The model may answer, but run nothing."""
    run = Driver(Budget(max_tool_calls=0)).start().decide(calls("read")).judged()
    assert run.reason is Reason.TOOL_BUDGET_EXHAUSTED
    assert Driver(Budget(max_tool_calls=0)).start().finish().reason is Reason.COMPLETED


def test_tokens_stop_the_next_model_call() -> None:
    """Input and output count together; what was asked for still runs."""
    run = Driver(Budget(max_tokens=300)).start()
    run.decide(calls("read"), Usage(250, 50)).judged().assessed().done("read").observed()
    assert run.reason is Reason.TOKEN_BUDGET_EXHAUSTED
    assert run.statuses() == ["ok"]
    assert run.outcome.usage == Usage(250, 50)


def test_running_time_interrupts_what_runs() -> None:
    """At the limit the machine wakes up, stops, and every call has a result."""
    run = Driver(Budget(max_active_seconds=10)).start().propose("read", "pay")
    run.later(4)
    assert run.machine.wake_at == 10
    run.later(6)
    assert run.state is RunState.CANCELLING
    run.done("read")
    assert run.reason is Reason.TIME_BUDGET_EXHAUSTED
    assert run.statuses() == ["ok", "not_started"]
    assert run.outcome.spent.active_seconds == 10


def test_running_time_goes_on_after_a_restart_and_does_not_count_downtime() -> None:
    """What was used is journaled; the new process has the rest of it."""
    run = Driver(Budget(max_active_seconds=10)).start()
    run.time = 7
    run.turn("read")
    run = run.reload()
    run.time = 1_000
    run.recover()
    assert run.machine.wake_at == 1_003
    assert run.later(3).state is RunState.CANCELLING


def test_waiting_for_people_costs_no_running_time() -> None:
    """The clock stands while a question is open, also in the machine that asked it."""
    run = Driver(Budget(max_active_seconds=10)).start()
    run.time = 4
    run.decide(Clarification("which?")).judged()
    run.time = 5_000
    run.reply()
    assert run.machine.wake_at == 5_006


def test_the_deadline_counts_everything() -> None:
    """It is an instant: while the model thinks, and while people think."""
    run = Driver(deadline(100)).start()
    assert run.machine.wake_at == 100
    run.later(100).fail_model("cancelled")
    assert run.reason is Reason.DEADLINE_EXCEEDED

    run = Driver(deadline(100)).start().decide(Clarification("which?")).judged()
    run.time = 200
    run.reply()
    assert run.reason is Reason.DEADLINE_EXCEEDED
    assert len(run.all(Decide)) == 1


@pytest.mark.parametrize("yes", [True, False])
def test_an_approval_after_the_deadline_starts_nothing(yes: bool) -> None:
    """Limits of time hold before every batch as well, should no tick come in between."""
    run = Driver(deadline(100)).start().propose("transfer")
    run.time = 200
    run.approve(yes=yes).judged()
    assert run.reason is Reason.DEADLINE_EXCEEDED
    assert run.all(Execute) == []
    assert run.statuses() == ["not_started" if yes else "denied"]


def test_a_jump_of_the_wall_clock_does_not_move_the_deadline() -> None:
    """It is compared with the wall clock once, and then kept on the monotonic one."""
    run = Driver(deadline(100)).start()
    before = run.machine.wake_at
    run.turn("read")
    assert run.machine.wake_at == before == 100


def test_the_soft_stop_is_told_once() -> None:
    """At 80 % the model is told what is left; the next turn doesn't hear it again."""
    run = Driver(Budget(max_steps=10)).start()
    for _ in range(8):
        run.turn("read")
    notices = [decide.notice for decide in run.all(Decide)]
    assert notices[:8] == [None] * 8
    assert notices[8] is not None
    assert "2 steps" in notices[8]

    run.turn("read")
    assert run.last(Decide).notice is None
    assert run.commits[9] == ("notice_injected", "turn_committed")
    assert run.last(Decide).history[8].notice == notices[8]


def test_a_grant_arms_the_soft_stop_again() -> None:
    """Under a new budget the model is told again when that one runs out."""
    run = Driver(Budget(max_steps=5)).start()
    for _ in range(5):
        run.turn("read")
    assert run.reason is Reason.MAX_STEPS

    run = run.reload().grant(Budget(max_steps=5))
    assert run.machine.folded.protocol.budget.max_steps == 10
    told: list[bool] = []
    for _ in range(4):
        told.append(run.last(Decide).notice is not None)
        run.turn("read")
    assert told == [False, False, False, True]


def test_a_grant_that_gives_nothing_changes_nothing() -> None:
    """It ends for the same reason again, without a model call."""
    run = Driver(Budget(max_steps=1)).start().turn("read").reload().grant()
    assert run.reason is Reason.MAX_STEPS
    assert run.all(Decide) == []
    assert [e.record.kind for e in run.journal].count("invocation_ended") == 2


@pytest.mark.parametrize("reload", [True, False])
def test_after_a_grant_every_limit_is_the_new_one(reload: bool) -> None:
    """A machine that rested goes on exactly like one made from the journal."""
    run = Driver(deadline(100, max_steps=1)).start().turn("read")
    run = run.reload() if reload else run
    run.time = 50
    run.grant(deadline(900, max_steps=5))
    assert run.machine.wake_at == 900
    assert run.cancel().state is RunState.CANCELLING


def test_nothing_is_due_once_it_stops() -> None:
    """A limit that was reached does not wake the machine again and again."""
    run = Driver(deadline(100)).start().propose("pay").later(100)
    assert run.state is RunState.CANCELLING
    assert run.machine.wake_at == 105
    run.later(5)
    assert run.machine.wake_at is None
    assert run.reason is Reason.DEADLINE_EXCEEDED
    assert (len(run.all(Validate)), len(run.all(Observe))) == (1, 0)
