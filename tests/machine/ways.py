"""A place a machine can be in, and ways to get there by real messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from loopwright.policy import Policy
from loopwright.protocol import (
    Accepted,
    Budget,
    CommitFailed,
    Committed,
    Decided,
    DecideFailed,
    Executed,
    Found,
    Input,
    InvocationEnded,
    NotDispatched,
    Proposal,
    Reason,
    RunState,
    TurnProposed,
    Usage,
    Validate,
    encode_record,
    unknown,
)
from machine.driver import Driver
from machine.samples import calls, plan_of

DEADLINE_IN = 1_000.0
"""Seconds after the start; no place is reached later than that."""
BUDGET = Budget(
    max_steps=6, max_tool_calls=5, deadline=datetime.fromtimestamp(1_000 + DEADLINE_IN, UTC)
)
GRACE = Policy(approval_grace=60)
STORE = frozenset({Committed, CommitFailed})
MODEL = frozenset({Decided, DecideFailed})
TOOLS = frozenset({Executed, NotDispatched})
OWNER = frozenset({Found})
NOTHING: frozenset[type[Input]] = frozenset()


@dataclass(frozen=True, slots=True)
class Place:
    """One place, and how to get there."""

    name: str
    state: RunState
    awaits: frozenset[type[Input]]
    """The replies that have a meaning here; any other reply is late."""
    build: Callable[[], Driver]


def fresh(policy: Policy | None = None, *, hold: bool = False) -> Driver:
    return Driver(BUDGET, policy, hold=hold)


def thinking() -> Driver:
    return fresh().start()


def held(driver: Driver) -> Driver:
    driver.hold = True
    return driver


def asked(policy: Policy | None = None) -> Driver:
    return fresh(policy).start().propose("transfer_a", "transfer_b")


def asked_held(policy: Policy | None = None) -> Driver:
    return held(fresh(policy).start()).propose("transfer_a")


def reloaded(driver: Driver) -> Driver:
    return driver.reload()


def broke_off() -> Driver:
    """Die with a write in flight whose dispatch is durable."""
    return thinking().propose("pay").reload()


def stopped_by_crash(*tools: str) -> Driver:
    """Fail for an error of ours, with an open turn: what a runtime may journal."""
    start = thinking()
    proposed = TurnProposed(1, Proposal(calls(*tools), Usage(1, 1)), 0.0)
    ended = InvocationEnded(Reason.INTERNAL_ERROR, 0.0, 0.0, cause="a bug")
    lines = [entry.line for entry in start.journal]
    return Driver(BUDGET, None, [*lines, encode_record(proposed), encode_record(ended)])


def failed_while_asked() -> Driver:
    """Fail for an error of ours while a human is asked."""
    run = asked(GRACE)
    lines = [entry.line for entry in run.journal]
    ended = InvocationEnded(Reason.INTERNAL_ERROR, 0.0, 0.0, cause="a bug")
    return Driver(BUDGET, GRACE, [*lines, encode_record(ended)])


def allowed_yesterday() -> Driver:
    """Die while a write runs that today's policy would ask a human about."""
    driver = thinking().decide(calls("transfer"))
    plan = plan_of(driver.last(Validate), calls("transfer"))
    return driver.judged(Accepted(plan)).assessed().reload()


def out_of_steps() -> Driver:
    return Driver(Budget(max_steps=1)).start().turn("read")


def store_lost_while_reading(*, fenced: bool = False) -> Driver:
    driver = held(thinking().propose("read_a", "read_b")).later(0.01)
    return driver.lose(fenced=fenced)


def store_lost_after_cancel(driver: Driver) -> Driver:
    return held(driver).cancel().lose()


def unknown_write(tool: str, policy: Policy | None = None) -> Driver:
    """Let the only write of a turn come to an unknown outcome."""
    return fresh(policy).start().propose(tool).lost(tool)


def unknown_recovered(tool: str) -> Driver:
    """Die with this write in flight, and take it over as it is judged again."""
    return thinking().propose(tool).reload().recover()


def two_unknown(*tools: str) -> Driver:
    """Die with two writes in flight: a batch in one stage, as an older planner may have had."""
    run = thinking().decide(calls(*tools))
    plan = plan_of(run.last(Validate), calls(*tools))
    run.judged(Accepted(plan._replace(stages=((0, 1),)))).assessed()
    return run.reload().recover().judged()


def given_up(tool: str = "mail") -> Driver:
    """Go on without ever knowing what became of the write of turn 1."""
    run = unknown_write("mail").settle("mail", unknown("nobody knows"))
    return run.judged().observed() if tool == "mail" else run


def failed_unknown() -> Driver:
    """Fail for the deadline with a write whose outcome nobody knows."""
    return thinking().propose("mail").later(DEADLINE_IN).later(5)


def late_recovery(tool: str) -> Driver:
    """Take it over, and have it judged, only when the deadline has passed."""
    run = held(unknown_recovered(tool))
    run.time = DEADLINE_IN
    return run


def recovered(run: Driver) -> Driver:
    """Take over what is durable of it, and judge it again."""
    return run.reload().recover().judged()
