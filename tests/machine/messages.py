"""What could be said to a machine next: what it waits for, what nobody waits for, and people."""

from __future__ import annotations

from loopwright.protocol import (
    Answer,
    AnswerApproval,
    Assess,
    Assessed,
    AttemptId,
    Budget,
    CallId,
    Cancel,
    Clarification,
    CommitFailed,
    Committed,
    Decide,
    Decided,
    DecideFailed,
    Executed,
    Faulty,
    Final,
    Grant,
    Input,
    Malformed,
    Observe,
    Observed,
    Output,
    ProposalDigest,
    Proposed,
    Recover,
    ResultStatus,
    ServiceFailed,
    Stalled,
    Start,
    Tick,
    Usage,
    Validate,
    Validated,
)
from machine.driver import Driver
from machine.places import DEADLINE_IN
from machine.samples import calls, failed, judge, ok, refusal, started

STALLED = Stalled("repeated_plan", "seen before")
STALE = 99
"""A turn, seq or attempt that nobody waits for."""
PASSING = (0.0, 0.01, 5.0, 60.0, DEADLINE_IN)
"""Seconds until a tick: nothing due, lingering over, each grace period over, the deadline."""

Said = tuple[float, Input]
"""A message, and how much later it comes."""


def stale() -> list[Said]:
    """Make replies of each kind that answer nothing."""
    result = refusal(CallId("read"), "read", ResultStatus.OK)
    replies: list[Input] = [
        Decided(STALE, Final("late"), Usage()),
        DecideFailed(STALE, "late"),
        Validated(STALE, Faulty("late")),
        Assessed(STALE),
        Observed(STALE),
        Executed(STALE, AttemptId("read#1"), result),
        Executed(1, AttemptId("ghost#1"), result),
        Committed(STALE),
        CommitFailed(STALE, "late"),
    ]
    return [(0.0, reply) for reply in replies]


def awaited(driver: Driver) -> list[Said]:
    """Make the replies that are most likely waited for: to the last question, and from tools."""
    asked = [o for o in driver.said if isinstance(o, Decide | Validate | Assess | Observe)]
    made = _replies_to(asked[-1]) if asked and not driver.running else []
    for execute in driver.running.values():
        for result in (ok(execute), failed(execute)):
            made.append(Executed(execute.turn, execute.attempt_id, result))
    return [(0.0, reply) for reply in made]


def replies(driver: Driver) -> list[Said]:
    """Make every reply to what was said last of each kind; most are late by now."""
    last = {type(output): output for output in driver.said}
    made = [(0.0, reply) for output in last.values() for reply in _replies_to(output)]
    return [*made, *awaited(driver)]


def _replies_to(output: Output) -> list[Input]:
    match output:
        case Decide(turn=turn):
            usage = Usage(10, 1)
            decisions: list[Proposed] = [
                calls("read_a", "pay", "read_b", "mail"),
                calls("transfer_a", "mail", "transfer_b"),
                calls("read_a", "read_b"),
                calls("read", "lost"),
                Clarification("which one?"),
                Final("done"),
                Malformed("no JSON", "{"),
            ]
            decided = [Decided(turn, decision, usage) for decision in decisions]
            return [*decided, DecideFailed(turn, "the provider is down")]
        case Validate(turn=turn):
            return [Validated(turn, judge(output)), Validated(turn, Faulty("two finals"))]
        case Assess(turn=turn):
            return [Assessed(turn), Assessed(turn, STALLED)]
        case Observe(turn=turn):
            return [Observed(turn), Observed(turn, STALLED)]
        case _:
            return []


def store(driver: Driver) -> list[Said]:
    """Make what the store could say of the oldest commit it was given."""
    if not driver.pending:
        return []
    seq = driver.pending[0].last_seq
    return [
        (0.0, Committed(seq)),
        (0.0, CommitFailed(seq, "disk full")),
        (0.0, CommitFailed(seq, "fenced", fenced=True)),
    ]


def people(driver: Driver) -> list[Said]:
    """Make what people could want."""
    proposal = driver.machine.folded.proposal()
    digest = proposal.digest if proposal is not None else ProposalDigest("none")
    made: list[Input] = [
        Cancel("", "ann"),
        Cancel("now", "ann", hard=True),
        AnswerApproval(digest, True, "ann"),
        AnswerApproval(digest, False, "ann"),
        AnswerApproval(digest, True, "bob", (CallId("transfer_a"),)),
        AnswerApproval(digest, True, "bob", (CallId("ghost"),)),
        AnswerApproval(ProposalDigest("foreign"), True, "eve"),
        Answer("order 7", "ann"),
        Grant(Budget(max_steps=2), "ann"),
    ]
    return [(0.0, message) for message in made]


def runtime(driver: Driver) -> list[Said]:
    """Make what the runtime could say."""
    return [
        (0.0, Start(started(driver.budget))),
        (0.0, Recover()),
        (0.0, ServiceFailed("Decider", "KeyError: 'x'")),
        *((seconds, Tick()) for seconds in PASSING),
    ]


def everything(driver: Driver) -> list[Said]:
    """Make all of it."""
    return [*replies(driver), *store(driver), *stale(), *people(driver), *runtime(driver)]
