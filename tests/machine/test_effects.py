"""Effect classes: what becomes of a write in flight, and what must be durable before what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright.policy import Policy
from loopwright.protocol import (
    Accepted,
    Commit,
    ErrorCategory,
    Execute,
    Reason,
    Reconcile,
    Reconciled,
    Rested,
    ResultStatus,
    RunState,
    ToolError,
    Validate,
    applied,
    not_applied,
    rejected,
    unknown,
)
from machine.driver import Driver
from machine.samples import calls, failed, plan_of
from machine.ways import recovered

WRITES = ("pay", "wire", "mail")


# ---------------------------------------------------------------- one effect class per tool
def test_a_read_runs_again_after_a_crash() -> None:
    """Row 1: a new attempt, nobody is asked, nothing is in the ledger."""
    run = recovered(Driver().start().propose("read").later(0.01))
    assert run.executed() == ["read#1"]
    assert run.effects == {}


@pytest.mark.parametrize("how", ["crash", "timeout"])
def test_an_idempotent_write_of_unknown_outcome_is_sent_again(how: str) -> None:
    """Row 2: with the same effect key, for the downstream to tell that it has it already."""
    run = Driver().start().propose("pay")
    first = run.last(Execute)
    run = recovered(run) if how == "crash" else run.lost("pay").later(0.1)
    again = run.last(Execute)
    assert (again.attempt, again.effect_key) == (2, first.effect_key)
    assert run.all(Reconcile) == []
    assert run.done("pay").statuses() == ["ok"]
    assert run.turns[0].results[0].attempts == 2


@pytest.mark.parametrize("how", ["crash", "timeout"])
@pytest.mark.parametrize(
    ("found", "status", "effect"),
    [(applied("r"), "ok", "committed"), (rejected("no"), "error", "rejected")],
)
def test_a_reconcilable_write_is_asked_about_first(
    how: str, found: Reconciled, status: str, effect: str
) -> None:
    """Row 3: nothing is dispatched meanwhile, and what was found is the result."""
    run = Driver().start().propose("wire", "read")
    run = recovered(run) if how == "crash" else run.lost("wire")
    assert run.state is RunState.RECONCILE
    asked = run.last(Reconcile)
    assert (asked.attempt_id, asked.tool_name) == ("wire#1", "wire")
    assert "read#1" not in run.executed()

    run.found("wire", found).done("read")
    assert run.statuses() == [status, "ok"]
    assert run.effects == {"wire": effect}
    assert run.turns[0].results[0].output == found.receipt


@pytest.mark.parametrize("how", ["crash", "timeout"])
def test_a_reconcilable_write_is_sent_again_only_if_it_was_not_applied(how: str) -> None:
    """Row 3: and then under the same key; the next unknown outcome is asked about again."""
    run = Driver().start().propose("wire")
    key = run.last(Execute).effect_key
    run = recovered(run) if how == "crash" else run.lost("wire")
    run.found("wire", not_applied())
    assert (run.last(Execute).attempt, run.last(Execute).effect_key) == (2, key)
    run.lost("wire")
    assert run.last(Reconcile).attempt_id == "wire#2"
    run.found("wire", applied("r"))
    assert run.statuses() == ["ok"]
    assert run.turns[0].results[0].attempts == 2


@pytest.mark.parametrize("how", ["crash", "timeout"])
@pytest.mark.parametrize("tool", ["mail", "wire"])
def test_what_nobody_can_tell_waits_for_a_person(how: str, tool: str) -> None:
    """Row 4, and row 3 where the owner cannot tell: nothing is dispatched, and it is durable so."""
    run = Driver().start().propose(tool, "read")
    run = recovered(run) if how == "crash" else run.lost(tool)
    if tool == "wire":
        run.found("wire", unknown("no trace"))
    assert run.reason is Reason.RECONCILIATION_REQUIRED
    assert run.last(Rested).durable
    assert [effect.call_id for effect in run.outcome.unresolved_effects] == [tool]
    assert "read#1" not in run.executed()
    head = run.last(Commit).append.head
    assert head is not None
    assert (head.status, head.detail) == ("suspended", f"{tool} ({tool})")


@pytest.mark.parametrize("tool", WRITES)
def test_a_write_runs_alone(tool: str) -> None:
    """Neighbours on both sides wait for it."""
    run = Driver().start().propose("read_a", tool, "read_b")
    assert list(run.running) == ["read_a"]
    assert list(run.done("read_a").running) == [tool]
    assert list(run.done(tool).running) == ["read_b"]


def test_a_write_that_has_failed_is_not_repeated_for_any_class() -> None:
    """Its tool's word that it failed is a result, for the model to see."""
    run = Driver().start().propose(*WRITES)
    for tool in WRITES:
        run.done(tool, failed(run.running[tool]))
    assert run.statuses() == ["error"] * 3
    assert set(run.effects.values()) == {"rejected"}
    assert run.executed() == ["pay#1", "wire#1", "mail#1"]


@pytest.mark.parametrize(
    ("category", "definite"),
    [
        (ErrorCategory.INTERNAL, False),
        (ErrorCategory.TRANSIENT, False),
        (ErrorCategory.PERMANENT, True),
        (ErrorCategory.INVALID_INPUT, True),
    ],
)
def test_a_later_attempt_that_fails_says_nothing_of_the_first(
    category: ErrorCategory, definite: bool
) -> None:
    """The first may have taken effect: only the tool's own refusal holds for every attempt."""
    run = recovered(Driver(policy=Policy(max_attempts=2)).start().propose("pay"))
    run.done("pay", replace(failed(run.running["pay"]), error=ToolError(category, "Boom", "no")))
    if definite:
        assert (run.statuses(), run.effects) == (["error"], {"pay": "rejected"})
    else:
        assert run.reason is Reason.RECONCILIATION_REQUIRED
        assert run.effects == {"pay": "outcome_unknown"}


# ---------------------------------------------------------------- how often
def test_an_idempotent_write_is_sent_again_after_a_growing_moment() -> None:
    """What failed gets time to recover: a tenth of a second, doubled each time, to five seconds."""
    run = Driver(policy=Policy(max_attempts=9)).start().propose("pay")
    waits: list[float] = []
    for attempt in range(1, 9):
        began = run.time
        wake_at = run.lost("pay").later(0.01).machine.wake_at
        assert wake_at is not None
        waits.append(round(wake_at - began, 6))
        assert len(run.executed()) == attempt
        run.time = wake_at
        run.later(0)
        assert len(run.executed()) == attempt + 1
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_the_next_call_waits_for_the_one_that_is_sent_again() -> None:
    """Order holds: what comes after a write may rest on it."""
    run = Driver().start().propose("pay", "read").lost("pay")
    assert run.executed() == ["pay#1"]
    run.later(0.1)
    assert run.executed() == ["pay#1", "pay#2"]
    assert list(run.done("pay").running) == ["read"]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_without_a_persons_word_it_is_sent_only_so_often(limit: int) -> None:
    """Then it waits for a person: idempotent writes too."""
    run = Driver(policy=Policy(max_attempts=limit)).start().propose("pay")
    for _ in range(limit):
        run.lost("pay").later(5)
    assert len(run.executed()) == limit
    assert run.reason is Reason.RECONCILIATION_REQUIRED

    run.settle("pay", not_applied()).judged()
    assert run.executed()[limit:] == [f"pay#{limit + 1}"]
    run.lost("pay").later(5)
    assert run.reason is Reason.RECONCILIATION_REQUIRED
    assert len(run.executed()) == limit + 1


def test_attempts_before_a_crash_count() -> None:
    """A crash loop is no way around the limit."""
    run = Driver(policy=Policy(max_attempts=2)).start().propose("pay")
    run = recovered(run)
    assert run.executed() == ["pay#2"]
    assert recovered(run).reason is Reason.RECONCILIATION_REQUIRED


def test_a_reconciler_lets_it_be_sent_only_so_often() -> None:
    """After that its `not_applied` is the result: it may be proposed anew."""
    run = Driver(policy=Policy(max_attempts=2)).start().propose("wire")
    run.lost("wire").found("wire", not_applied()).lost("wire").found("wire", not_applied())
    assert run.executed() == ["wire#1", "wire#2"]
    (result,) = run.turns[0].results
    assert (result.status, result.effect, result.attempts) == ("error", "not_applied", 2)
    assert result.error is not None
    assert result.error.retryable
    assert run.effects == {"wire": "not_applied"}


def test_an_attempt_that_never_ran_says_nothing_of_the_one_before() -> None:
    """No thread was free for the second attempt: the first may have taken effect all the same."""
    run = Driver(policy=Policy(max_attempts=2)).start().propose("pay").lost("pay").later(0.1)
    never_ran = failed(run.running["pay"], ResultStatus.NOT_STARTED)
    run.done("pay", never_ran)
    assert run.reason is Reason.RECONCILIATION_REQUIRED
    assert run.effects == {"pay": "outcome_unknown"}


def test_a_first_attempt_that_never_ran_is_not_applied() -> None:
    """Its dispatch is taken back: nothing has happened."""
    run = Driver().start().propose("mail")
    run.done("mail", failed(run.running["mail"], ResultStatus.NOT_STARTED))
    assert run.statuses() == ["not_started"]
    assert run.effects == {"mail": "not_applied"}
    assert run.turns[0].tool_calls == 0


# ---------------------------------------------------------------- when a commit is awaited
def test_what_is_durable_before_what() -> None:
    """The table "When a commit is awaited", by the records of each commit."""
    run = Driver().start()
    assert run.commits == [("invocation_started",)]
    run.propose("read", "pay", "mail").done("read")
    assert run.commits[1:] == [("turn_proposed", "call_completed", "call_dispatched")]
    run.done("pay")
    assert run.commits[2:] == [("call_completed", "call_dispatched")]
    run.done("mail")
    assert run.commits[3:] == [("turn_committed",)]
    run.observed().propose("transfer")
    assert run.commits[4:] == [("turn_proposed", "approval_requested", "suspended")]
    run.approve()
    assert run.commits[5:] == [("approval_decided", "resumed")]
    run.judged()
    assert run.commits[6:] == [("call_dispatched",)]
    run.done("transfer").observed().finish()
    assert run.commits[7:] == [("turn_committed",), ("turn_committed", "invocation_ended")]


@pytest.mark.parametrize(
    ("found", "commits"),
    [
        (not_applied(), [("effect_reconciled", "call_dispatched")]),
        (applied(), [("call_completed", "effect_reconciled", "call_dispatched")]),
        (unknown(), [("call_completed", "effect_reconciled", "suspended")]),
    ],
)
def test_what_is_durable_of_a_finding(found: Reconciled, commits: list[tuple[str, ...]]) -> None:
    """It is stored with what follows from it, and nothing is dispatched before it is."""
    run = Driver().start().propose("wire", "mail").lost("wire")
    before, dispatched = len(run.commits), len(run.executed())
    run.hold = True
    run.found("wire", found)
    assert len(run.executed()) == dispatched
    run.ack()
    assert run.commits[before:] == commits
    assert len(run.executed()) == dispatched + (found.finding != "unknown")


def test_a_finding_about_the_last_write_is_stored_with_the_turn() -> None:
    """One transaction: the turn's result rests on it."""
    run = Driver().start().propose("wire").lost("wire").found("wire", applied())
    assert run.commits[2:] == [("effect_reconciled", "turn_committed")]


def test_what_is_durable_of_a_settlement() -> None:
    """The suspension with the unknown result; the word with what it lets go on."""
    run = Driver().start().propose("mail").lost("mail")
    assert run.commits[2:] == [("call_completed", "suspended")]
    run.settle("mail", not_applied())
    assert run.commits[3:] == [("effect_reconciled", "resumed")]
    run.judged()
    assert run.commits[4:] == [("call_dispatched",)]


@pytest.mark.parametrize("tool", WRITES)
def test_a_write_is_dispatched_only_once_that_is_durable(tool: str) -> None:
    """Also a second time."""
    run = Driver().start()
    run.hold = True
    run.propose(tool)
    assert run.all(Execute) == []
    run.ack()
    assert len(run.all(Execute)) == 1
    run.lost(tool)
    if tool == "wire":
        run.found("wire", not_applied())
    elif tool == "mail":
        run.ack().settle("mail", not_applied()).ack().judged()
    else:
        run.later(0.1)
    assert len(run.all(Execute)) == 1
    assert len(run.ack().all(Execute)) == 2


def test_an_unknown_outcome_does_not_linger_while_its_owner_is_asked() -> None:
    """It is journaled after a moment, and the machine wants to be woken for nothing in the past."""
    run = Driver().start().propose("wire").lost("wire").later(0.01)
    assert run.commits[2:] == [("call_completed",)]
    assert run.machine.wake_at is None
    run.found("wire", applied())
    assert run.commits[3:] == [("effect_reconciled", "turn_committed")]


def test_no_retry_is_due_while_an_owner_is_asked() -> None:
    """The one that is sent again waits until everything is known; nothing is due before that."""
    decision = calls("pay", "wire")
    run = Driver().start().decide(decision)
    plan = plan_of(run.last(Validate), decision)
    run.judged(Accepted(plan._replace(stages=((0, 1),)))).assessed()
    run.lost("pay").lost("wire").later(1)
    assert run.state is RunState.RECONCILE
    assert run.machine.wake_at is None
    run.found("wire", applied())
    assert run.executed() == ["pay#1", "wire#1", "pay#2"]


def test_no_retry_is_due_while_it_is_being_suspended() -> None:
    """It is suspended once, and nothing is sent before a person has said what became of the other."""
    decision = calls("pay", "mail")
    run = Driver().start().decide(decision)
    plan = plan_of(run.last(Validate), decision)
    run.judged(Accepted(plan._replace(stages=((0, 1),)))).assessed()
    run.hold = True
    run.lost("pay").lost("mail").later(1)
    assert run.machine.wake_at is None
    run.ack()
    assert [entry.record.kind for entry in run.journal].count("suspended") == 1
    assert run.executed() == ["pay#1", "mail#1"]


def test_a_retry_that_is_due_while_its_stage_runs_waits_for_it() -> None:
    """Nothing is due meanwhile, and then it goes at once."""
    decision = calls("pay", "mail")
    run = Driver().start().decide(decision)
    plan = plan_of(run.last(Validate), decision)
    run.judged(Accepted(plan._replace(stages=((0, 1),)))).assessed()
    run.lost("pay").later(1)
    assert run.machine.wake_at is None
    assert run.done("mail").executed() == ["pay#1", "mail#1", "pay#2"]
