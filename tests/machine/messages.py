"""What could be said to a machine next: what it waits for, what nobody waits for, and people."""

from __future__ import annotations

from loopwright.protocol import (
    Accepted,
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
    Found,
    Grant,
    Input,
    LeaseLost,
    Malformed,
    NotDispatched,
    Observe,
    Observed,
    Output,
    ProposalDigest,
    Proposed,
    Recover,
    ResultStatus,
    ServiceFailed,
    Settle,
    Stalled,
    Start,
    Tick,
    Usage,
    Validate,
    Validated,
    ValidationVerdict,
    applied,
    not_applied,
    rejected,
    unknown,
)
from machine.driver import Driver
from machine.samples import calls, failed, judge, lost, ok, refusal, started
from machine.ways import DEADLINE_IN

STALLED = Stalled("repeated_plan", "seen before")
STALE = 99
"""A turn, seq or attempt that nobody waits for."""
PASSING = (0.0, 0.01, 5.0, 60.0, DEADLINE_IN)
"""Seconds until a tick: nothing due, lingering over, each grace period over, the deadline."""

FINDINGS = (not_applied(), applied("receipt"), unknown("no trace"), rejected("no funds"))

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
        NotDispatched(STALE, AttemptId("read#1"), "late"),
        NotDispatched(1, AttemptId("ghost#1"), "late"),
        Found(STALE, AttemptId("wire#1"), unknown()),
        Found(1, AttemptId("ghost#1"), applied()),
        Committed(STALE),
        CommitFailed(STALE, "late"),
    ]
    return [(0.0, reply) for reply in replies]


def awaited(driver: Driver) -> list[Said]:
    """Make the replies that are most likely waited for: to the last question, and from tools."""
    asked = [o for o in driver.said if isinstance(o, Decide | Validate | Assess | Observe)]
    made = _replies_to(asked[-1]) if asked and not (driver.running or driver.asking) else []
    for execute in driver.running.values():
        results = [ok(execute), failed(execute)]
        if execute.effect.is_write:
            results.append(lost(execute))
        for result in results:
            made.append(Executed(execute.turn, execute.attempt_id, result))
    for question in driver.asking.values():
        made += [Found(question.turn, question.attempt_id, found) for found in FINDINGS]
    for execute in driver.running.values():
        made.append(NotDispatched(execute.turn, execute.attempt_id, "the lease is stale"))
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
                calls("wire", "pay", "post_a", "mail"),
                calls("read_a", "read_b"),
                calls("mail", "wire_a", "read"),
                calls("read", "lost"),
                Clarification("which one?"),
                Final("done"),
                Malformed("no JSON", "{"),
            ]
            decided = [Decided(turn, decision, usage) for decision in decisions]
            return [*decided, DecideFailed(turn, "the provider is down")]
        case Validate(turn=turn):
            verdicts = [judge(output), at_once(judge(output)), Faulty("two finals")]
            return [Validated(turn, verdict) for verdict in verdicts]
        case Assess(turn=turn):
            return [Assessed(turn), Assessed(turn, STALLED)]
        case Observe(turn=turn):
            return [Observed(turn), Observed(turn, STALLED)]
        case _:
            return []


def at_once(verdict: ValidationVerdict) -> ValidationVerdict:
    """Plan a batch in one stage, as the planner does not do today: more may be unknown at once."""
    if not isinstance(verdict, Accepted) or verdict.plan is None:
        return verdict
    stage = tuple(index for stage in verdict.plan.stages for index in stage)
    return Accepted(verdict.plan._replace(stages=(stage,) if stage else ()))


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
    return [(0.0, message) for message in [*made, *settlements(driver)]]


def settlements(driver: Driver) -> list[Input]:
    """Make every word on every write there ever was, and on one there never was."""
    made: list[Input] = [
        Settle(effect.call_id, found, "ann", turn)
        for effect in driver.machine.folded.business.effects.values()
        for found in FINDINGS
        for turn in (None, effect.turn)
    ]
    return [*made, Settle(CallId("ghost"), applied(), "ann")]


def runtime(driver: Driver) -> list[Said]:
    """Make what the runtime could say."""
    return [
        (0.0, Start(started(driver.budget))),
        (0.0, Recover()),
        (0.0, ServiceFailed("Decider", "KeyError: 'x'")),
        (0.0, LeaseLost("no heartbeat in time")),
        *((seconds, Tick()) for seconds in PASSING),
    ]


def everything(driver: Driver) -> list[Said]:
    """Make all of it."""
    return [*replies(driver), *store(driver), *stale(), *people(driver), *runtime(driver)]
