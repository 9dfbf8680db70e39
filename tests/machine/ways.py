"""A place a machine can be in, and ways to get there by real messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from loopwright.policy import Context, Policy, Progress
from loopwright.protocol import (
    Accepted,
    AttemptFailed,
    Budget,
    ChildRested,
    CommitFailed,
    Committed,
    Compacted,
    Decided,
    DecideFailed,
    Executed,
    Found,
    Handoff,
    Input,
    InvocationEnded,
    NotDispatched,
    Price,
    ProgressNote,
    Proposal,
    Reason,
    RunState,
    TurnProposed,
    Usage,
    Validate,
    Verified,
    encode_record,
    unknown,
)
from machine.driver import Driver
from machine.samples import at_once, calls, judge, plan_of

DEADLINE_IN = 1_000.0
"""Seconds after the start; no place is reached later than that."""
BUDGET = Budget(
    max_steps=6, max_tool_calls=5, deadline=datetime.fromtimestamp(1_000 + DEADLINE_IN, UTC)
)
GRACE = Policy(approval_grace=60)
EXPIRES = Policy(approval_grace=60, approval_expires=30)
"""Nobody has answered before the wait is over."""
SUMMARIES = Policy(context=Context(max_tokens=50, summarize=lambda turns: turns.before))
"""Two turns are too much."""
ASKS = Policy(progress=Progress(on_stall="ask"))
LIMITS = Budget(max_tool_calls=9, max_tokens=1_000, max_cost=Decimal(1))
PRICES = (Price("m1", Decimal(1_000), Decimal(0)),)
"""A thousandth of a dollar for a token."""
VERIFIERS = ("sums", "style")
STORE = frozenset({Committed, CommitFailed})
MODEL = frozenset({Decided, AttemptFailed, DecideFailed})
TOOLS = frozenset({Executed, NotDispatched})
CHILD = frozenset({NotDispatched, ChildRested})
OWNER = frozenset({Found})
OWNER_OR_CHILD = frozenset({Found, ChildRested})
VERIFIER = frozenset({Verified})
SUMMARY = frozenset({Compacted})
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


def unknown_write(
    tool: str, policy: Policy | None = None, verifiers: tuple[str, ...] = ()
) -> Driver:
    """Let the only write of a turn come to an unknown outcome."""
    return Driver(BUDGET, policy, verifiers=verifiers).start().propose(tool).lost(tool)


def unknown_recovered(tool: str) -> Driver:
    """Die with this write in flight, and take it over as it is judged again."""
    return thinking().propose(tool).reload().recover()


def two_unknown(*tools: str) -> Driver:
    """Die with two writes in flight: a batch in one stage, as an older planner may have had."""
    run = thinking().decide(calls(*tools))
    plan = plan_of(run.last(Validate), calls(*tools))
    run.judged(Accepted(plan._replace(stages=((0, 1),)))).assessed()
    return run.reload().recover().judged()


def given_up(tool: str = "mail", verifiers: tuple[str, ...] = ()) -> Driver:
    """Go on without ever knowing what became of the write of turn 1."""
    run = unknown_write("mail", verifiers=verifiers).settle("mail", unknown("nobody knows"))
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


def verifying(*, hold: bool = False) -> Driver:
    """Claim to be done where two verifiers look at that."""
    run = Driver(BUDGET, verifiers=VERIFIERS).start()
    return (held(run) if hold else run).finish()


def verified_before() -> Driver:
    """Die when one verifier has passed the answer, and the other is asked no more today."""
    run = verifying().verified()
    run.verifiers = VERIFIERS[:1]
    return run.reload().recover()


def compacting() -> Driver:
    return fresh(SUMMARIES).start().turn("read_a").turn("read_b")


def handing_over(*tools: str, to: str = "refunds") -> Handoff:
    """Hand over to another agent, once these tools have run."""
    return Handoff(to, "not mine", ProgressNote(("looked",), ("pay",)), calls(*tools).calls)


def hired(budget: Budget = LIMITS) -> Driver:
    """Let one child work; its parent has used a step of 100 tokens in and 10 out."""
    return Driver(budget, prices=PRICES).start().propose("hire")


def two_hired() -> Driver:
    """Let two children work at the same time, as an older planner may have had it."""
    run = thinking().decide(calls("hire", "hire_too"))
    return run.judged(at_once(judge(run.last(Validate)))).assessed()


def child_waits(policy: Policy | None = None) -> Driver:
    """Wait for a child that waits for a human."""
    run = fresh(policy).start().propose("hire")
    return run.child_rested("hire", Reason.APPROVAL_REQUIRED)
