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
    Recover,
    ResultStatus,
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


def replies(driver: Driver) -> list[Said]:
    """Make every reply to what was said last, good and bad; some may be late by now."""
    made: list[Input] = []
    for output in _last_of_each(driver):
        match output:
            case Decide(turn=turn):
                tools = calls("read_a", "pay", "read_b", "mail")
                for decision in (tools, calls("read"), calls("transfer"), calls("read", "lost")):
                    made.append(Decided(turn, decision, Usage(10, 1)))
                made += [
                    Decided(turn, Clarification("which one?"), Usage(10, 1)),
                    Decided(turn, Final("done"), Usage(10, 1)),
                    Decided(turn, Malformed("no JSON", "{"), Usage(10, 1)),
                    DecideFailed(turn, "the provider is down"),
                ]
            case Validate(turn=turn):
                made += [Validated(turn, judge(output)), Validated(turn, Faulty("two finals"))]
            case Assess(turn=turn):
                made += [Assessed(turn), Assessed(turn, STALLED)]
            case Observe(turn=turn):
                made += [Observed(turn), Observed(turn, STALLED)]
            case _:
                pass
    for execute in driver.running.values():
        for result in (ok(execute), failed(execute)):
            made.append(Executed(execute.turn, execute.attempt_id, result))
    return [(0.0, reply) for reply in made]


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
        *((seconds, Tick()) for seconds in PASSING),
    ]


def everything(driver: Driver) -> list[Said]:
    """Make all of it."""
    return [*replies(driver), *store(driver), *stale(), *people(driver), *runtime(driver)]


def _last_of_each(driver: Driver) -> list[Output]:
    last: dict[type[Output], Output] = {}
    for output in driver.said:
        last[type(output)] = output
    return list(last.values())
