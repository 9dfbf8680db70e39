"""Effect classes: what becomes of a write in flight, and what must be durable before what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright.policy import Policy
from loopwright.protocol import (
    Accepted,
    Budget,
    CallId,
    Commit,
    Decide,
    Effect,
    EffectKey,
    ErrorCategory,
    Execute,
    JsonObject,
    Plan,
    PlannedCall,
    Reason,
    Reconcile,
    Reconciled,
    Rested,
    ResultStatus,
    RunState,
    ToolCall,
    ToolCalls,
    ToolError,
    Validate,
    applied,
    not_applied,
    rejected,
    unknown,
)
from machine.driver import Driver
from machine.samples import calls, failed, ok, plan_of, refusal
from machine.ways import two_unknown

WRITES = ("pay", "wire", "mail")


def recovered(run: Driver) -> Driver:
    """Take over what is durable of it, and judge it again."""
    return run.reload().recover().judged()


def two_alike(tool: str, arguments: JsonObject | None = None) -> ToolCalls:
    """Ask for the same thing twice in one batch."""
    given = arguments or {"order": 7}
    return ToolCalls((ToolCall(CallId("a"), tool, given), ToolCall(CallId("b"), tool, given)))


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


def test_a_retry_that_is_due_while_its_stage_runs_waits_for_it() -> None:
    """Nothing is due meanwhile, and then it goes at once."""
    decision = calls("pay", "mail")
    run = Driver().start().decide(decision)
    plan = plan_of(run.last(Validate), decision)
    run.judged(Accepted(plan._replace(stages=((0, 1),)))).assessed()
    run.lost("pay").later(1)
    assert run.machine.wake_at is None
    assert run.done("mail").executed() == ["pay#1", "mail#1", "pay#2"]


# ---------------------------------------------------------------- cancelling
@pytest.mark.parametrize("tool", ["pay", "mail"])
def test_cancel_gives_grace_and_then_the_outcome_is_unknown(tool: str) -> None:
    """Rows 2 and 4: nothing is sent again, and nobody is asked."""
    run = Driver().start().propose(tool).cancel().later(4.9)
    assert run.interrupted() == []
    run.later(0.1)
    assert run.interrupted() == [f"{tool}#1"]
    assert run.reason is Reason.CANCELLED
    assert run.effects == {tool: "outcome_unknown"}
    assert (len(run.executed()), run.all(Reconcile)) == (1, [])


@pytest.mark.parametrize(
    ("found", "effect"),
    [
        (applied("r"), "committed"),
        (rejected("no"), "rejected"),
        (not_applied(), "not_applied"),
        (unknown(), "outcome_unknown"),
    ],
)
def test_cancel_gives_grace_and_then_asks(found: Reconciled, effect: str) -> None:
    """Row 3: what was found is the result; `not_applied` sends nothing any more."""
    run = Driver().start().propose("wire", "read").cancel()
    assert run.all(Reconcile) == []
    run.later(5)
    assert run.last(Reconcile).attempt_id == "wire#1"
    assert run.state is RunState.CANCELLING
    run.found("wire", found)
    assert run.reason is Reason.CANCELLED
    assert run.effects == {"wire": effect}
    assert run.executed() == ["wire#1"]
    assert run.commits[-1] == ("effect_reconciled", "turn_committed", "invocation_ended")


def test_a_write_that_reports_an_unknown_outcome_in_the_grace_is_asked_about() -> None:
    """It need not wait until its grace is over."""
    run = Driver().start().propose("wire").cancel().later(1).lost("wire")
    assert [r.attempt_id for r in run.all(Reconcile)] == ["wire#1"]
    run.found("wire", applied())
    assert (run.reason, run.effects) == (Reason.CANCELLED, {"wire": "committed"})


def test_who_is_asked_gets_as_long_as_the_write_did() -> None:
    """Then the outcome stays unknown, for a person to settle."""
    run = Driver().start().propose("wire").cancel().later(5).later(4.9)
    assert run.state is RunState.CANCELLING
    run.later(0.1)
    assert (run.reason, run.effects) == (Reason.CANCELLED, {"wire": "outcome_unknown"})
    error = run.turns[0].results[0].error
    assert error is not None
    assert "did not answer in time" in error.message


def test_cancel_while_an_owner_is_asked_waits_for_the_answer() -> None:
    """It is the same question; it is not asked a second time, and nothing is sent."""
    run = Driver().start().propose("wire").lost("wire").cancel()
    assert run.state is RunState.CANCELLING
    run.found("wire", not_applied())
    assert (run.reason, run.effects) == (Reason.CANCELLED, {"wire": "not_applied"})
    assert (run.executed(), len(run.all(Reconcile))) == (["wire#1"], 1)


def test_who_could_not_tell_is_not_asked_again_on_the_way_out() -> None:
    """One question an attempt, until a person lets it go on."""
    run = two_unknown("wire", "mail")
    run.hold = True
    run.found("wire", unknown()).cancel().ack()
    assert (run.reason, len(run.all(Reconcile))) == (Reason.CANCELLED, 1)


@pytest.mark.parametrize("soft_first", [False, True])
def test_a_hard_cancel_asks_nobody(soft_first: bool) -> None:
    """Whoever cancels so does not want to wait; the write is unknown."""
    run = Driver().start().propose("wire")
    if soft_first:
        run.cancel()
    run.cancel(hard=True).later(0)
    assert run.all(Reconcile) == []
    assert (run.reason, run.effects) == (Reason.CANCELLED, {"wire": "outcome_unknown"})


def test_a_hard_cancel_ends_the_asking() -> None:
    """What it was asked for is not waited for any longer."""
    run = Driver().start().propose("wire").cancel().later(5).cancel(hard=True)
    assert (run.reason, run.effects) == (Reason.CANCELLED, {"wire": "outcome_unknown"})


def test_k12_a_cancelled_invocation_asks_and_dispatches_nothing() -> None:
    """The worker died in the drain: the next one asks what can be asked, and ends it."""
    run = Driver().start().propose("wire", "pay").cancel().reload().recover()
    assert [r.attempt_id for r in run.all(Reconcile)] == ["wire#1"]
    assert (run.all(Execute), run.all(Validate)) == ([], [])
    run.found("wire", applied("r"))
    assert run.reason is Reason.CANCELLED
    assert run.statuses() == ["ok", "not_started"]
    assert run.all(Execute) == []


def test_a_deadline_that_has_passed_meanwhile_asks_too() -> None:
    """Taken over too late: nothing runs, and what can be asked is, before it ends."""
    budget = Budget(max_active_seconds=10)
    run = Driver(budget).start().propose("wire", "read").reload().recover()
    run.time = 11
    run.judged()
    assert [r.attempt_id for r in run.all(Reconcile)] == ["wire#1"]
    run.found("wire", applied())
    assert run.reason is Reason.TIME_BUDGET_EXHAUSTED
    assert run.statuses() == ["ok", "not_started"]


@pytest.mark.parametrize("tool", WRITES)
def test_a_write_that_had_not_begun_is_not_started(tool: str) -> None:
    """It waited for its turn in the executor: it is taken out, and nobody is asked about it."""
    run = Driver().start().propose(tool).cancel()
    run.done(tool, failed(run.running[tool], ResultStatus.NOT_STARTED))
    assert (run.reason, run.all(Reconcile)) == (Reason.CANCELLED, [])
    assert (run.statuses(), run.effects) == (["not_started"], {tool: "not_applied"})


# ---------------------------------------------------------------- definitions that changed
def changed(
    run: Driver, effect: Effect, *, gone: bool = False, status: ResultStatus | None = None
) -> Driver:
    """Take it over with a tool that is of this class today, is gone, or refuses the call."""
    again = run.reload().recover()
    decision = again.last(Validate).decision
    assert isinstance(decision, ToolCalls)
    call = decision.calls[0]
    refused = None
    if gone or status is not None:
        refused = refusal(call.call_id, call.tool_name, status or ResultStatus.UNKNOWN_TOOL)
    key = None if effect is Effect.READ else EffectKey("another")
    planned = PlannedCall(call.call_id, call.tool_name, effect, {"of": "today"}, key, refused)
    plan = Plan((planned,), () if refused else ((0,),), b"", fault="gone" if refused else None)
    return again.judged(Accepted(plan))


@pytest.mark.parametrize(
    ("was", "today", "then"),
    [
        ("pay", Effect.IDEMPOTENT, "sent"),
        ("pay", Effect.RECONCILABLE, "asked"),
        ("pay", Effect.MANUAL, "suspended"),
        ("pay", Effect.READ, "sent"),
        ("wire", Effect.IDEMPOTENT, "asked"),
        ("wire", Effect.MANUAL, "suspended"),
        ("wire", Effect.READ, "asked"),
        ("mail", Effect.IDEMPOTENT, "suspended"),
        ("mail", Effect.RECONCILABLE, "suspended"),
        ("mail", Effect.READ, "suspended"),
    ],
)
def test_of_two_effect_classes_the_stricter_counts(was: str, today: Effect, then: str) -> None:
    """The one it was dispatched under, or today's; and the key it was dispatched under."""
    before = Driver().start().propose(was)
    key = before.last(Execute).effect_key
    run = changed(before, today)
    if then == "sent":
        assert (run.last(Execute).attempt, run.last(Execute).effect_key) == (2, key)
    elif then == "asked":
        assert (run.last(Reconcile).effect_key, run.all(Execute)) == (key, [])
    else:
        assert run.reason is Reason.RECONCILIATION_REQUIRED
        assert run.all(Execute) == []


@pytest.mark.parametrize("status", [ResultStatus.UNKNOWN_TOOL, ResultStatus.INVALID_ARGUMENTS])
def test_what_does_not_run_today_ends_as_that_once_it_was_not_applied(
    status: ResultStatus,
) -> None:
    """Its tool is gone or does not take its arguments: it is asked about, and never sent again."""
    run = changed(Driver().start().propose("wire"), Effect.RECONCILABLE, status=status)
    assert run.state is RunState.RECONCILE
    run.found("wire", not_applied())
    assert run.all(Execute) == []
    assert run.statuses() == [status]
    assert run.effects == {"wire": "not_applied"}


def test_what_does_not_run_today_may_have_run_then() -> None:
    """That its tool is gone says nothing about what it did."""
    run = changed(Driver().start().propose("wire"), Effect.READ, gone=True)
    run.found("wire", applied("r"))
    assert run.statuses() == ["ok"]
    assert run.effects == {"wire": "committed"}


def test_a_dispatched_write_is_never_not_started_also_where_its_batch_is_broken_today() -> None:
    """It was dispatched, and took no effect: that is what its result says."""
    status = ResultStatus.NOT_STARTED
    run = changed(Driver().start().propose("wire"), Effect.RECONCILABLE, status=status)
    run.found("wire", not_applied())
    assert run.statuses() == ["error"]
    assert run.effects == {"wire": "not_applied"}


# ---------------------------------------------------------------- results the store did not take
@pytest.mark.parametrize("tool", WRITES)
def test_b13_a_result_that_could_not_be_stored_is_not_lost(tool: str) -> None:
    """The same process goes on with what it has: nothing runs, or is asked about, again."""
    run = Driver().start().propose(tool)
    run.hold = True
    run.done(tool).lose()
    assert run.reason is Reason.CHECKPOINT_FAILED
    rested = run.last(Rested)
    assert not rested.durable
    assert [(r.call_id, r.status) for r in rested.unsaved] == [(tool, "ok")]

    run = run.reload(rested.unsaved)
    run.hold = False
    run.recover().judged()
    assert (run.all(Execute), run.all(Reconcile)) == ([], [])
    assert run.statuses() == ["ok"]
    assert run.observed().finish().reason is Reason.COMPLETED


def test_b13_also_where_the_next_write_could_not_be_announced() -> None:
    """The result was to be stored with the next dispatch."""
    run = Driver().start().propose("mail", "pay")
    run.hold = True
    run.done("mail").lose()
    run = run.reload(run.last(Rested).unsaved)
    run.hold = False
    run.recover().judged()
    assert run.executed() == ["pay#1"]
    assert run.commits[0] == ("call_completed", "call_dispatched")


def test_b13_also_where_it_is_cancelled_then() -> None:
    """The turn ends with the result that it has."""
    run = Driver().start().propose("mail")
    run.hold = True
    run.cancel().ack().done("mail").lose()
    run = run.reload(run.last(Rested).unsaved)
    run.hold = False
    assert run.recover().statuses() == ["ok"]


def test_what_is_known_is_given_back_until_it_is_stored() -> None:
    """It fails again before it has come to that: the process still must not lose it."""
    run = Driver().start().propose("mail")
    run.hold = True
    run.done("mail").lose()
    run = run.reload(run.last(Rested).unsaved)
    run.recover().lose_lease()
    assert run.reason is Reason.LEASE_LOST
    assert run.last(Rested).unsaved == ()  # another worker goes on

    run = Driver().start().propose("mail")
    run.hold = True
    run.done("mail").lose()
    run = run.reload(run.last(Rested).unsaved).recover()
    run.cancel().lose()
    assert [r.call_id for r in run.last(Rested).unsaved] == ["mail"]


def test_only_words_are_kept_of_what_could_not_be_stored() -> None:
    """Neither reads, nor unknown outcomes, nor what was only put into the outbox."""
    run = Driver().start().propose("read", "post", "mail").done("read")
    run.hold = True
    run.lost("mail").lose()
    assert run.last(Rested).unsaved == ()


@pytest.mark.parametrize("other", ["attempt", "key"])
def test_what_is_known_is_known_of_one_attempt(other: str) -> None:
    """A result of another attempt, or under another key, says nothing."""
    run = Driver().start().propose("mail")
    known = ok(run.running["mail"])
    if other == "attempt":
        known = replace(known, attempts=2)
    else:
        known = replace(known, effect_key=EffectKey("other"))
    run = run.reload([known]).recover().judged()
    assert run.reason is Reason.RECONCILIATION_REQUIRED


def test_what_is_known_is_known_of_one_turn() -> None:
    """A call of the same id, key and attempt in the next turn is another one."""
    run = Driver(policy=Policy(max_attempts=1)).start().propose("pay")
    known = ok(run.running["pay"])
    run = run.reload([known]).recover().judged().observed()
    assert run.statuses() == ["ok"]
    run.decide(calls("pay"))
    plan = plan_of(run.last(Validate), calls("pay"))
    call = plan.calls[0]._replace(effect_key=known.effect_key)
    again = Accepted(plan._replace(calls=(call,)))
    run.judged(again).assessed().lost("pay").grant().judged(again)
    assert run.reason is Reason.RECONCILIATION_REQUIRED


# ---------------------------------------------------------------- a lease that is not held
def test_a_dispatch_that_was_refused_stops_everything() -> None:
    """Another worker may own it: nothing more is dispatched, and nothing is written."""
    run = Driver().start().propose("mail", "pay")
    journal = len(run.journal)
    run.refuse_dispatch("mail")
    assert (run.reason, run.outcome.cause) == (Reason.LEASE_LOST, "the lease is stale")
    assert not run.last(Rested).durable
    assert (len(run.journal), run.pending) == (journal, [])
    assert run.executed() == ["mail#1"]


def test_whoever_goes_on_does_not_know_that_it_was_refused() -> None:
    """Its dispatch is durable: the new owner asks, or leaves it to a person."""
    run = recovered(Driver().start().propose("mail").refuse_dispatch("mail"))
    assert run.reason is Reason.RECONCILIATION_REQUIRED


def test_a_lost_lease_waits_for_what_runs_and_says_nothing() -> None:
    """Reads are interrupted, writes get their grace; their results are nobody's business here."""
    run = Driver().start().propose("mail").lose_lease()
    assert run.state is RunState.CANCELLING
    journal = len(run.journal)
    run.done("mail")
    assert run.reason is Reason.LEASE_LOST
    assert len(run.journal) == journal
    assert run.last(Rested).unsaved == ()


def test_a_lease_lost_while_the_model_thinks() -> None:
    """Its reply comes to nothing."""
    run = Driver().start().lose_lease().decide(calls("read"))
    assert (run.reason, run.state) == (Reason.LEASE_LOST, RunState.FAILED)


def test_a_lease_lost_on_the_way_out_does_not_mask_the_reason() -> None:
    """It is attached to the cause."""
    run = Driver().start().propose("mail").cancel().lose_lease().done("mail")
    assert run.reason is Reason.CANCELLED
    assert run.outcome.cause == "not wanted any more; then the lease: no heartbeat in time"
    assert not run.last(Rested).durable


def test_a_lost_lease_asks_nobody() -> None:
    """Whoever owns it now does; what is asked already is waited for no longer than it takes."""
    run = Driver().start().propose("wire").lose_lease().lost("wire")
    assert (run.reason, run.all(Reconcile)) == (Reason.LEASE_LOST, [])


# ---------------------------------------------------------------- the outbox
def test_a_write_of_the_outbox_goes_out_with_its_turn() -> None:
    """It is not dispatched: its result says `queued`, and the turn's commit has the delivery."""
    run = Driver().start().propose("read", "post").done("read")
    assert run.commits[1:] == [("turn_committed",)]
    assert run.executed() == ["read#1"]
    (result,) = run.turns[0].results[1:]
    assert (result.status, result.output) == ("ok", {"queued": result.effect_key})
    assert run.turns[0].tool_calls == 2
    (delivery,) = run.outbox
    assert (delivery.turn, delivery.call_id, delivery.effect) == (1, "post", Effect.IDEMPOTENT)
    assert (delivery.effect_key, delivery.arguments) == (result.effect_key, {"of": "post"})
    assert delivery.resources == ("tool:post",)
    assert run.effects == {"post": "prepared"}


def test_a_batch_of_nothing_but_outbox_writes() -> None:
    """One commit for the turn, and nothing runs."""
    run = Driver().start().propose("post_a", "post_b")
    assert run.commits[1:] == [("turn_committed",)]
    assert [d.call_id for d in run.outbox] == ["post_a", "post_b"]
    assert run.observed().state is RunState.MODEL_THINKING


@pytest.mark.parametrize("how", ["cancel", "deadline", "store"])
def test_nothing_goes_out_of_a_turn_that_is_cut_short(how: str) -> None:
    """It is not started; the ledger never heard of it."""
    run = Driver(Budget(max_active_seconds=100)).start().propose("post", "mail")
    match how:
        case "cancel":
            run.cancel().done("mail")
        case "deadline":
            run.later(100).done("mail")
        case _:
            run.hold = True
            run.done("mail").lose()
    assert run.outbox == []
    assert "post" not in run.effects
    if how != "store":
        assert run.statuses() == ["not_started", "ok"]
        assert run.turns[0].tool_calls == 1


def test_an_outbox_write_is_put_there_anew_after_a_crash() -> None:
    """Nothing of it was durable before its turn is."""
    run = recovered(Driver().start().propose("post", "pay"))
    run.done("pay")
    assert [d.call_id for d in run.outbox] == ["post"]


def test_what_was_dispatched_once_does_not_go_into_the_outbox() -> None:
    """Its tool has changed meanwhile: a second way out would be a second effect."""
    before = Driver().start().propose("pay").reload().recover()
    plan = plan_of(before.last(Validate), calls("pay"))
    call = plan.calls[0]._replace(outbox=("tool:pay",))
    run = before.judged(Accepted(plan._replace(calls=(call,))))
    assert run.executed() == ["pay#2"]
    run.done("pay")
    assert run.outbox == []


# ---------------------------------------------------------------- edited arguments
def test_b78_what_was_approved_with_edits_is_what_runs_and_what_is_kept() -> None:
    """Proposed, approved and executed are all on record, and the model sees which ran."""
    run = Driver().start().propose("transfer")
    run.approve(edits={CallId("transfer"): {"amount": 50}})
    assert run.last(Validate).edits == {"transfer": {"amount": 50}}
    run.judged()
    assert run.last(Execute).arguments == {"amount": 50}
    run.done("transfer")
    (result,) = run.turns[0].results
    assert result.arguments == {"amount": 50}
    decision = run.turns[0].proposal.decision
    assert isinstance(decision, ToolCalls)
    assert decision.calls[0] == ToolCall(CallId("transfer"), "transfer", {"of": "transfer"})
    key = run.last(Execute).effect_key
    assert key is not None
    assert run.ledger[key].arguments == {"amount": 50}


@pytest.mark.parametrize("how", ["crash", "unknown"])
def test_edits_hold_for_every_attempt(how: str) -> None:
    """After a crash, too, and they are in an unknown outcome."""
    run = Driver().start().propose("transfer")
    run.approve(edits={CallId("transfer"): {"amount": 50}}).judged()
    if how == "crash":
        run = recovered(run)
    else:
        run.lost("transfer").later(0.1)
    assert run.last(Execute).arguments == {"amount": 50}
    run.cancel().later(5)
    assert run.turns[0].results[0].arguments == {"amount": 50}


# ---------------------------------------------------------------- writes that may be in effect
@pytest.mark.parametrize("tool", ["mail", "wire"])
def test_the_same_again_is_not_dispatched_before_it_is_settled(tool: str) -> None:
    """A person gave up on it: the same tool and arguments might be a second effect."""
    run = Driver().start().propose(tool).lost(tool)
    if tool == "wire":
        run.found("wire", unknown())
    run.settle(tool, unknown("nobody knows")).judged().observed()
    assert run.statuses() == ["outcome_unknown"]
    run.propose(tool)
    assert run.executed() == [f"{tool}#1"]
    (result,) = run.turns[1].results
    assert (result.status, result.effect_key) == ("not_started", None)
    assert result.error is not None
    assert (result.error.type, result.error.category) == ("Unsettled", ErrorCategory.UNAVAILABLE)
    assert f"call '{tool}' of turn 1" in result.error.message

    run.observed().settle(tool, not_applied()).propose(tool)
    assert len(run.executed()) == 2


def test_other_arguments_are_another_mutation() -> None:
    """And so is another tool."""
    run = Driver().start().propose("mail").lost("mail").settle("mail", unknown()).judged()
    run.observed().propose("mail_b")
    assert run.executed()[-1] == "mail_b#1"


def test_an_idempotent_write_may_be_proposed_again() -> None:
    """Its downstream can tell, if it has a key of its own."""
    run = Driver(policy=Policy(max_attempts=1)).start().propose("pay").lost("pay")
    run.settle("pay", unknown()).judged().observed().propose("pay")
    assert len(run.executed()) == 2


@pytest.mark.parametrize(
    ("finding", "kind"),
    [(applied("r"), "AlreadyApplied"), (unknown(), "Unsettled"), (rejected("no"), None)],
)
def test_a_key_that_is_in_effect_is_not_dispatched_again(
    finding: Reconciled, kind: str | None
) -> None:
    """The key names one business mutation, whatever the arguments; one that was refused may be tried."""

    def with_key(run: Driver, arguments: JsonObject) -> Driver:
        decision = ToolCalls((ToolCall(CallId("mail"), "mail", arguments),))
        run.decide(decision)
        plan = plan_of(run.last(Validate), decision)
        call = plan.calls[0]._replace(effect_key=EffectKey("order:7"))
        return run.judged(Accepted(plan._replace(calls=(call,)))).assessed()

    run = with_key(Driver().start(), {"n": 1}).lost("mail").settle("mail", finding)
    plan = plan_of(run.last(Validate), ToolCalls((ToolCall(CallId("mail"), "mail", {"n": 1}),)))
    run.judged(Accepted(plan)).observed()
    with_key(run, {"n": 2})
    assert len(run.executed()) == (2 if kind is None else 1)
    if kind is not None:
        error = run.turns[1].results[0].error
        assert error is not None
        assert error.type == kind


@pytest.mark.parametrize(
    ("status", "second"),
    [(ResultStatus.OK, 2), (ResultStatus.ERROR, 2), (ResultStatus.NOT_STARTED, 2)],
)
def test_the_same_twice_in_one_batch(status: ResultStatus, second: int) -> None:
    """What is known of the first counts, also before it is durable."""
    run = Driver().start().decide(two_alike("mail")).judged().assessed()
    result = ok(run.running["a"]) if status is ResultStatus.OK else failed(run.running["a"], status)
    run.done("a", result)
    assert len(run.executed()) == second


def test_the_same_twice_in_one_batch_of_which_the_first_is_unknown() -> None:
    """It is asked for again by mistake, or on purpose; first has to be known what the first did."""
    run = Driver().start().decide(two_alike("mail")).judged().assessed().lost("a")
    run.settle("a", unknown()).judged()
    assert run.executed() == ["a#1"]
    assert run.statuses() == ["outcome_unknown", "not_started"]


def test_what_may_not_be_sent_again_now_ends_as_what_is_known_of_it() -> None:
    """Two alike in one stage: one stays unknown, and the other, not applied, must wait for that."""
    decision = two_alike("mail")
    run = Driver().start().decide(decision)
    plan = plan_of(run.last(Validate), decision)
    run.judged(Accepted(plan._replace(stages=((0, 1),)))).assessed().lost("a").lost("b")
    run.settle("a", unknown()).settle("b", not_applied()).judged()
    assert run.statuses() == ["outcome_unknown", "error"]
    assert run.effects == {"a": "outcome_unknown", "b": "not_applied"}
    assert run.turns[0].results[1].error == ToolError(
        ErrorCategory.TRANSIENT,
        "NotApplied",
        "it was dispatched and has taken no effect",
        retryable=True,
    )


def test_the_model_is_asked_only_once_everything_is_known() -> None:
    """No turn ends with a write in the air, unless a person has said that nobody will know."""
    run = Driver().start().propose("mail").lost("mail")
    assert len(run.all(Decide)) == 1
    run.settle("mail", applied()).judged().observed()
    assert len(run.all(Decide)) == 2
