"""What could be said to a machine next: what it waits for, what nobody waits for, and people."""

from __future__ import annotations

from loopwright.protocol import (
    Answer,
    AnswerApproval,
    Assess,
    Assessed,
    AttemptFailed,
    AttemptId,
    Budget,
    CallId,
    Cancel,
    ChildRested,
    Clarification,
    CommitFailed,
    Committed,
    Compact,
    Compacted,
    Decide,
    Decided,
    DecideFailed,
    DecideInstead,
    Execute,
    Executed,
    Expire,
    Faulty,
    Final,
    Found,
    Grant,
    Input,
    LeaseLost,
    Malformed,
    ModelErrorKind,
    NotDispatched,
    Observe,
    Observed,
    Output,
    ProposalDigest,
    Proposed,
    Reason,
    Reconcile,
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
    Verified,
    Verify,
    Wake,
    applied,
    not_applied,
    passed,
    rejected,
    unknown,
)
from loopwright.protocol import failed as failed_claim
from machine.driver import Driver
from machine.samples import (
    CHILDREN,
    at_once,
    calls,
    child_of,
    failed,
    judge,
    lost,
    ok,
    refusal,
    stand_of,
)
from machine.ways import DEADLINE_IN, handing_over

STALLED = Stalled("repeated_plan", "seen before")
STALE = 99
"""A turn, seq or attempt that nobody waits for."""
PASSING = (0.0, 0.01, 5.0, 60.0, DEADLINE_IN)
"""Seconds until a tick: nothing due, lingering over, each grace period over, the deadline."""

FINDINGS = (not_applied(), applied("receipt"), unknown("no trace"), rejected("no funds"))

CHILD_REASONS = (
    Reason.COMPLETED,
    Reason.APPROVAL_REQUIRED,
    Reason.MAX_STEPS,
    Reason.RECONCILIATION_REQUIRED,
    Reason.CANCELLED,
    None,
)
"""Why a child may have come to rest; the last: nobody knows."""

Said = tuple[float, Input]
"""A message, and how much later it comes."""


def stale() -> list[Said]:
    """Make replies of each kind that answer nothing."""
    result = refusal(CallId("read"), "read", ResultStatus.OK)
    replies: list[Input] = [
        Decided(STALE, Final("late"), Usage()),
        AttemptFailed(STALE, 1, "m1", ModelErrorKind.TRANSIENT, "late"),
        DecideFailed(STALE, "late"),
        Compacted(STALE, 1, "late"),
        Verified(STALE, 0, "sums", passed(), done=True),
        Verified(1, STALE, "sums", passed(), done=True),
        Validated(STALE, Faulty("late")),
        Assessed(STALE),
        Observed(STALE),
        Executed(STALE, AttemptId("read#1"), result),
        Executed(1, AttemptId("ghost#1"), result),
        ChildRested(STALE, AttemptId("hire#1"), result),
        ChildRested(1, AttemptId("ghost#1"), result),
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
    kinds = Decide | Validate | Assess | Observe | Verify | Compact
    asked = [output for output in driver.said if isinstance(output, kinds)]
    working = driver.running or driver.asking
    made = _replies_to(driver, asked[-1]) if asked and not working else []
    for execute in driver.running.values():
        made += _stands(driver, execute) or _results(execute)
    for question in driver.asking.values():
        made += _stands(driver, question)
        made += [Found(question.turn, question.attempt_id, found) for found in FINDINGS]
    for execute in driver.running.values():
        made.append(NotDispatched(execute.turn, execute.attempt_id, "the lease is stale"))
    return [(0.0, reply) for reply in made]


def _results(execute: Execute) -> list[Input]:
    results = [ok(execute), failed(execute)]
    if execute.effect.is_write:
        results.append(lost(execute))
    return [Executed(execute.turn, execute.attempt_id, result) for result in results]


def _stands(driver: Driver, order: Execute | Reconcile) -> list[Input]:
    """Say how a child may stand, if it is one: within what is kept aside for it."""
    if order.tool_name not in CHILDREN:
        return []
    used = min(2, driver.kept_aside(order).tool_calls or 0)
    stands = [stand_of(order, reason, used, Usage(10, 1)) for reason in CHILD_REASONS]
    return [ChildRested(order.turn, order.attempt_id, stand) for stand in stands]


def replies(driver: Driver) -> list[Said]:
    """Make every reply to what was said last of each kind; most are late by now."""
    last = {type(output): output for output in driver.said}
    made = [(0.0, reply) for output in last.values() for reply in _replies_to(driver, output)]
    return [*made, *awaited(driver)]


def _replies_to(driver: Driver, output: Output) -> list[Input]:
    match output:
        case Decide(turn=turn):
            usage = Usage(10, 1)
            decisions: list[Proposed] = [
                calls("read_a", "pay", "read_b", "mail"),
                calls("transfer_a", "mail", "transfer_b"),
                calls("wire", "pay", "post_a", "mail"),
                Final("done"),
                calls("read_a", "read_b"),
                calls("mail", "wire_a", "read"),
                calls("read", "lost"),
                calls("hire", "read", "hire_too"),
                Clarification("which one?"),
                handing_over("read", "pay"),
                calls("ban", "read"),
                handing_over(to="desk"),
                Malformed("no JSON", "{"),
            ]
            kind = ModelErrorKind.TRANSIENT
            return [
                *[Decided(turn, decision, usage, endpoint="m1") for decision in decisions],
                AttemptFailed(turn, 1, "m1", kind, "503", Usage(10)),
                DecideFailed(turn, "the provider is down"),
            ]
        case Validate(turn=turn):
            verdicts = [judge(output), at_once(judge(output)), Faulty("two finals")]
            return [Validated(turn, verdict) for verdict in verdicts]
        case Assess(turn=turn):
            return [Assessed(turn), Assessed(turn, STALLED)]
        case Observe(turn=turn):
            return [Observed(turn), Observed(turn, nudge=STALLED), Observed(turn, STALLED)]
        case Verify(turn=turn, number=number):
            name, done = driver.verifiers[number], number == len(driver.verifiers) - 1
            claims = (passed(), failed_claim("it does not add up"))
            return [Verified(turn, number, name, claim, done) for claim in claims]
        case Compact(turn=turn, upto=upto):
            usage = Usage(10, 1)
            return [Compacted(turn, upto, text, usage, "m1") for text in ("in short", "")]
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
        DecideInstead(calls("read", "pay"), "ann"),
        DecideInstead(Final("I say so"), "ann"),
        DecideInstead(handing_over("read"), "ann"),
        Expire("runtime"),
        *[Wake(child_of(call_id)) for call_id in ("hire", "hire_too", "ghost")],
    ]
    late: list[Said] = [(60.0, Expire("runtime")), (60.0, AnswerApproval(digest, True, "ann"))]
    return [*[(0.0, message) for message in [*made, *settlements(driver)]], *late]


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
        (0.0, Start(driver.start_of())),
        (0.0, Recover()),
        (0.0, ServiceFailed("Decider", "KeyError: 'x'")),
        (0.0, LeaseLost("no heartbeat in time")),
        *((seconds, Tick()) for seconds in PASSING),
    ]


def everything(driver: Driver) -> list[Said]:
    """Make all of it."""
    return [*replies(driver), *store(driver), *stale(), *people(driver), *runtime(driver)]
