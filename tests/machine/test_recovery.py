"""A new process takes over at any point: what is durable stays, what was not is done anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loopwright.actors.machine._outcomes import outcome_of
from loopwright.policy import Policy
from loopwright.protocol import (
    Accepted,
    Budget,
    CallCompleted,
    CallDispatched,
    Clarification,
    Decide,
    Effect,
    EffectKey,
    Execute,
    Faulty,
    Malformed,
    Plan,
    PlannedCall,
    Reason,
    ResultStatus,
    RunState,
    ToolCalls,
    Validate,
    applied,
    encode_record,
    not_applied,
    unknown,
)
from machine.driver import Driver
from machine.samples import ok, plan_of, refusal
from machine.snapshot import plain


def recovered(run: Driver) -> Driver:
    """Take over what is durable of it."""
    return run.reload().recover()


def to_the_end(run: Driver) -> Driver:
    """Answer whatever is asked until it is at rest: humans say yes, tools work, the model ends."""
    for _ in range(20):
        if run.state is RunState.SUSPENDED and run.machine.folded.proposal() is not None:
            run.approve()
        elif run.machine.folded.protocol.reason is Reason.RECONCILIATION_REQUIRED:
            before = run.machine.folded.protocol.open
            assert before is not None
            run.settle(before.unsettled()[0], applied())
        elif run.state is RunState.SUSPENDED:
            run.reply()
        elif run.state is RunState.FAILED:
            run.grant(Budget(max_steps=5))
        elif run.state.at_rest:
            return run
        elif run.state is RunState.MODEL_THINKING:
            run.finish()
        elif run.state is RunState.DECIDE_ACTION:
            run.judged()
        elif run.state is RunState.EXECUTE_TOOL:
            run.done(next(iter(run.running)))
        elif run.state is RunState.COMPACT_OR_SAVE:
            run.observed()
    raise AssertionError(run.state)


def test_k1_k2_without_a_proposal_the_model_is_asked_again() -> None:
    """After the start, or with a reply that was not stored, turn 1 runs."""
    run = recovered(Driver().start().propose("read"))
    assert [decide.turn for decide in run.all(Decide)] == [1]


def test_k3_a_stored_proposal_is_judged_again_and_the_model_not_asked() -> None:
    """Nothing was dispatched that is known of: everything is, once."""
    run = recovered(Driver().start().propose("read_a", "read_b").later(0.01))
    assert run.all(Decide) == []
    assert run.state is RunState.DECIDE_ACTION
    run.judged()
    assert run.executed() == ["read_a#1", "read_b#1"]


def test_k4_reads_run_again_unless_their_result_is_stored() -> None:
    """A journaled read is not repeated, and still counts as a call."""
    before = Driver().start().propose("read_a", "read_b").later(0.01).done("read_a").later(0.01)
    run = recovered(before).judged()
    assert run.executed() == ["read_b#1"]
    run.done("read_b")
    assert run.statuses() == ["ok", "ok"]
    assert run.turns[0].tool_calls == 2


def test_k5_k6_an_idempotent_write_is_dispatched_again_under_the_same_key() -> None:
    """A second attempt, which the owner of the data can tell from a second effect."""
    before = Driver().start().propose("pay")
    run = recovered(before).judged()

    (again,) = run.all(Execute)
    assert (again.attempt_id, again.attempt) == ("pay#2", 2)
    assert again.effect_key == before.last(Execute).effect_key
    attempts = [e.record.attempt for e in run.journal if isinstance(e.record, CallDispatched)]
    assert attempts == [1, 2]

    run.done("pay")
    assert run.statuses() == ["ok"]
    assert len(run.machine.folded.partial().effects) == 1


def test_k5_k6_a_manual_write_is_never_dispatched_again_unless_a_person_says_so() -> None:
    """Nobody can say whether it happened: nothing else of the batch runs before a person has."""
    run = recovered(Driver().start().propose("mail", "read")).judged()
    assert run.executed() == []
    assert run.reason is Reason.RECONCILIATION_REQUIRED
    assert run.effects == {"mail": "outcome_unknown"}

    run.settle("mail", applied("seen in the outbox")).judged()
    assert run.executed() == ["read#1"]
    run.done("read")
    assert run.statuses() == ["ok", "ok"]
    assert run.turns[0].results[0].output == "seen in the outbox"
    assert run.turns[0].tool_calls == 2


def test_k5_k6_the_owner_of_the_data_is_asked_first() -> None:
    """What a reconcilable write came to is asked before anything is dispatched."""
    run = recovered(Driver().start().propose("wire", "read")).judged()
    assert run.executed() == []
    run.found("wire", not_applied())
    assert run.executed() == ["wire#2"]
    run.done("wire").done("read")
    assert run.statuses() == ["ok", "ok"]


@pytest.mark.parametrize("whole", [False, True], ids=["call", "decision"])
def test_k6_a_write_that_is_refused_today_waits_for_a_person(whole: bool) -> None:
    """Its tool is gone, or its decision is unusable now; but it was dispatched, so it may have run."""
    run = recovered(Driver().start().propose("pay", "read"))
    request = run.last(Validate)
    assert isinstance(request.decision, ToolCalls)
    pay, read = (
        PlannedCall(call.call_id, call.tool_name, Effect.READ, {}, refused=refused)
        for call in request.decision.calls
        for refused in [refusal(call.call_id, call.tool_name, ResultStatus.UNKNOWN_TOOL)]
    )
    plan = Plan((pay, read), (), fault="there is no tool 'pay'")
    verdict = Faulty("there is no tool 'pay'") if whole else Accepted(plan)
    run.judged(verdict)
    assert run.reason is Reason.RECONCILIATION_REQUIRED
    assert run.effects == {"pay": "outcome_unknown"}

    run.settle("pay", unknown("lost in the mail")).judged(verdict)
    assert run.all(Execute) == []
    assert run.statuses() == ["outcome_unknown", "not_started" if whole else "unknown_tool"]
    assert run.effects == {"pay": "outcome_unknown"}
    assert run.turns[0].fault is not None


def test_a_second_attempt_keeps_the_key_of_the_first() -> None:
    """Also where the tool of today would give another one."""
    before = Driver().start().propose("pay")
    run = recovered(before)
    request = run.last(Validate)
    assert isinstance(request.decision, ToolCalls)
    plan = plan_of(request, request.decision)
    other = plan.calls[0]._replace(effect_key=EffectKey("another"))
    run.judged(Accepted(plan._replace(calls=(other,))))
    assert run.last(Execute).effect_key == before.last(Execute).effect_key


@pytest.mark.parametrize("stop", ["cancel", "deadline"])
@pytest.mark.parametrize("judged", [False, True], ids=["before", "after"])
def test_a_write_of_a_former_worker_is_never_called_not_started(stop: str, judged: bool) -> None:
    """Also where its second dispatch was prepared and then stopped."""
    budget = Budget(max_active_seconds=100)
    run = recovered(Driver(budget).start().propose("pay", "read"))
    run.hold = True
    if judged:
        run.judged()
    if stop == "cancel":
        run.cancel()
    else:
        run.later(100)
    run.ack()

    assert run.all(Execute) == []
    assert run.statuses() == ["outcome_unknown", "not_started"]
    assert run.turns[0].results[0].attempts == 1
    assert run.turns[0].tool_calls == 1
    assert run.outcome.partial is not None
    assert [e.status for e in run.outcome.partial.effects] == ["outcome_unknown"]


def test_k7_with_all_results_stored_nothing_runs_again() -> None:
    """Only the turn's own commit is missing."""
    before = Driver().start().propose("read", "pay").done("read")
    completed = CallCompleted(1, ok(before.last(Execute), "paid"), 0.0)
    journal = [*(entry.line for entry in before.journal), encode_record(completed)]
    run = Driver(journal=journal).recover().judged()
    assert run.all(Execute) == []
    assert run.statuses() == ["ok", "ok"]
    assert run.turns[0].results[1].output == "paid"
    assert run.turns[0].tool_calls == 2


def test_k8_after_a_committed_turn_the_next_one_begins() -> None:
    """The commit is the point of no return."""
    run = recovered(Driver().start().turn("read"))
    assert [decide.turn for decide in run.all(Decide)] == [2]


def test_k9_a_pending_approval_is_still_pending() -> None:
    """Same digest, nothing judged, nothing run; it is suspended, for its grace period is over."""
    before = Driver(policy=Policy(approval_grace=60)).start().propose("transfer")
    digest = before.machine.folded.proposal()
    run = recovered(before)
    assert run.reason is Reason.APPROVAL_REQUIRED
    assert run.outcome.proposal == digest
    assert run.all(Validate) == []


def test_k10_what_was_approved_is_judged_again_and_runs_once() -> None:
    """Under today's policy, with the answers of the human at hand."""
    before = Driver(policy=Policy(approval_grace=60)).start().propose("transfer")
    run = recovered(before.approve())
    request = run.last(Validate)
    assert (request.approved, request.digest) == (
        ("transfer",),
        before.last(Validate).digest,
    )
    run.judged()
    assert run.executed() == ["transfer#1"]


def test_k12_a_requested_cancel_is_carried_out() -> None:
    """No new dispatch, and the dispatched write has an unknown outcome."""
    run = recovered(Driver().start().propose("pay", "read").cancel())
    assert run.reason is Reason.CANCELLED
    assert (run.all(Execute), run.all(Validate)) == ([], [])
    assert run.statuses() == ["outcome_unknown", "not_started"]


def test_k13_an_end_is_an_end() -> None:
    """What is loaded of it is at rest, with the outcome as it was."""
    before = Driver().start().turn("pay").finish()
    run = before.reload()
    assert run.state is RunState.FINISHED
    outcome = outcome_of(run.machine.folded, Reason.COMPLETED)
    assert plain(outcome) == plain(before.outcome)


def story_of_reads_and_writes() -> Driver:
    """Two turns with everything in them, slow and fast, and the end."""
    run = Driver().start().propose("read_a", "pay", "read_b", "mail").later(0.01)
    while run.running:
        run.done(next(iter(run.running))).later(0.01)
    return run.observed().turn("read_a").finish()


def story_of_approvals() -> Driver:
    """Two calls asked about, answered one by one, with a grace period in between."""
    run = Driver(policy=Policy(approval_grace=60)).start().propose("transfer_a", "transfer_b")
    run.approve("transfer_a").later(60).approve("transfer_b", yes=False)
    return run.judged().done("transfer_a").observed().finish()


def story_of_trouble() -> Driver:
    """A fault, a question, a used-up budget and a grant."""
    run = Driver(Budget(max_steps=3)).start().decide(Malformed("no JSON", "{"))
    run.decide(Clarification("which?")).judged().reply().turn("pay")
    return run.grant(Budget(max_steps=3)).turn("read").finish()


def prefixes(story: Callable[[], Driver]) -> list[tuple[Driver, int]]:
    """List how many records are durable after each commit of a story."""
    run, seq, found = story(), 0, list[tuple[Driver, int]]()
    for commit in run.commits:
        seq += len(commit)
        found.append((run, seq))
    return found


STORIES = (story_of_reads_and_writes, story_of_approvals, story_of_trouble)


@pytest.mark.parametrize(
    ("run", "seq"),
    [
        pytest.param(run, seq, id=f"{story.__name__}-{seq}")
        for story in STORIES
        for run, seq in prefixes(story)
    ],
)
def test_every_prefix_of_a_journal_can_be_driven_to_its_end(run: Driver, seq: int) -> None:
    """Each call of each turn has one result, and no write ever gets a second key or, if manual, run."""
    lines = [entry.line for entry in run.journal[:seq]]
    again = Driver(run.budget, run.policy, lines)
    if not again.state.at_rest:
        again.recover()
    to_the_end(again)
    assert again.state is RunState.FINISHED

    for turn in again.turns:
        declared = [call.call_id for call in getattr(turn.proposal.decision, "calls", ())]
        assert [result.call_id for result in turn.results] == declared
    dispatched = [e.record for e in again.journal if isinstance(e.record, CallDispatched)]
    keys = {(d.turn, d.call_id): d.effect_key for d in dispatched}
    assert len(set(keys.values())) == len(keys)
    assert all(keys[d.turn, d.call_id] == d.effect_key for d in dispatched)
    assert all(d.attempt == 1 for d in dispatched if d.tool_name == "mail")
    effects = again.machine.folded.partial().effects
    assert {effect.effect_key for effect in effects} == set(keys.values())
    assert "dispatched" not in {effect.status for effect in effects}
