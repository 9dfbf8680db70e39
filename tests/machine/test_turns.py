"""One turn after the other: what is dispatched when, and in how many commits."""

from __future__ import annotations

import pytest

from loopwright.actors.machine._core import LINGER
from loopwright.protocol import (
    CannotContinue,
    Clarification,
    Commit,
    Decide,
    Effect,
    Execute,
    Final,
    Malformed,
    Observe,
    Reason,
    RequestApproval,
    RunState,
    Stalled,
)
from machine.driver import Driver
from machine.samples import calls, failed, ok


def test_nothing_is_asked_before_the_start_is_durable() -> None:
    """The model is called once `InvocationStarted` is stored, never before."""
    run = Driver(hold=True).start()
    assert [type(output) for output in run.said] == [Commit]

    run.ack()
    assert [type(output) for output in run.said] == [Commit, Decide]


def test_fast_reads_end_in_the_one_commit_of_their_turn() -> None:
    """A read-only turn costs exactly one commit, with one record in it."""
    run = Driver().start().turn("read_a", "read_b").turn("read_a").finish()

    assert run.commits == [
        ("invocation_started",),
        ("turn_committed",),
        ("turn_committed",),
        ("turn_committed", "invocation_ended"),
    ]
    assert run.reason is Reason.COMPLETED
    assert run.outcome.answer == "all done"
    assert run.outcome.partial is None


def test_the_proposal_of_a_slow_read_is_written_ahead_after_lingering() -> None:
    """What nobody waits for waits for company, but not longer than `LINGER`."""
    run = Driver().start().propose("read_a", "read_b")
    assert run.machine.wake_at == LINGER

    run.later(LINGER / 2)
    assert run.commits[1:] == []
    run.later(LINGER / 2)
    assert run.commits[1:] == [("turn_proposed",)]
    assert run.machine.wake_at is None

    run.done("read_a")
    run.later(LINGER)
    assert run.commits[2:] == [("call_completed",)]

    run.done("read_b")
    assert run.commits[3:] == [("turn_committed",)]


def test_a_write_runs_only_once_its_dispatch_is_durable() -> None:
    """No `Execute` leaves before `Committed` of its `CallDispatched`."""
    run = Driver().start()
    run.hold = True
    run.propose("pay")
    assert run.all(Execute) == []

    run.ack()
    assert run.executed() == ["pay#1"]
    assert run.commits[1:] == [("turn_proposed", "call_dispatched")]


def test_a_second_write_shares_the_commit_of_the_first_ones_result() -> None:
    """Between two writes there is one sync, not two."""
    run = Driver().start().turn("pay_a", "pay_b")

    assert run.commits[1:] == [
        ("turn_proposed", "call_dispatched"),
        ("call_completed", "call_dispatched"),
        ("turn_committed",),
    ]


def test_nothing_moves_past_a_write() -> None:
    """Neighbouring reads run together, a write alone, in declared order."""
    run = Driver().start().propose("read_a", "read_b", "pay", "read_c")
    assert run.executed() == ["read_a#1", "read_b#1"]
    run.done("read_b")
    assert run.executed() == ["read_a#1", "read_b#1"]
    run.done("read_a")
    assert run.executed()[2:] == ["pay#1"]
    run.done("pay")
    assert run.executed()[3:] == ["read_c#1"]


@pytest.mark.parametrize("order", ["abc", "cba", "bca"])
def test_b05_results_are_in_declared_order_whatever_the_order_of_arrival(order: str) -> None:
    """A batch is observed and committed by position, never by speed."""
    run = Driver().start().propose("read_a", "read_b", "read_c")
    for letter in order:
        run.done(f"read_{letter}", ok(run.running[f"read_{letter}"], letter.upper()))

    assert [result.output for result in run.last(Observe).committed.results] == ["A", "B", "C"]
    assert [result.output for result in run.turns[0].results] == ["A", "B", "C"]


def test_b15_one_failing_call_keeps_the_results_of_its_siblings() -> None:
    """An error is the result of one call; the others have theirs."""
    run = Driver().start().propose("read_a", "read_b", "read_c")
    run.done("read_c").done("read_b", failed(run.running["read_b"])).done("read_a")

    assert run.statuses() == ["ok", "error", "ok"]
    assert run.turns[0].results[1].error is not None
    assert run.observed().finish().reason is Reason.COMPLETED
    assert len(run.all(Decide)) == 2


def test_a_write_carries_its_key_and_leaves_a_receipt() -> None:
    """The effect ledger says what the tool returned, under the key the tool was given."""
    run = Driver().start().propose("pay")
    execute = run.last(Execute)
    assert execute.effect is Effect.IDEMPOTENT
    assert execute.effect_key is not None
    assert [e.status for e in run.machine.folded.partial().effects] == ["dispatched"]

    run.done("pay", ok(execute, {"receipt": 7}))
    (effect,) = run.machine.folded.partial().effects
    assert (effect.effect_key, effect.status) == (execute.effect_key, "committed")
    assert effect.receipt == {"receipt": 7}


def test_the_next_model_call_waits_for_the_turn_to_be_durable() -> None:
    """No `Decide`, and no `Observe`, before `TurnCommitted` is stored."""
    run = Driver().start()
    run.hold = True
    run.propose("read").done("read")
    assert run.state is RunState.COMPACT_OR_SAVE
    assert (len(run.all(Observe)), len(run.all(Decide))) == (0, 1)

    run.ack().observed()
    assert len(run.all(Decide)) == 2
    assert run.last(Decide).history[0].outputs() == {"read": "done"}


def test_a_question_suspends_and_its_answer_goes_on() -> None:
    """A clarification costs a step, and its answer stands in the history."""
    run = Driver().start().decide(Clarification("which order?")).judged()
    assert run.reason is Reason.CLARIFICATION_REQUIRED
    assert run.outcome.question == "which order?"
    assert run.machine.wake_at is None

    run = run.reload().reply("order 7")
    assert run.last(Decide).history[0].answer == "order 7"
    assert run.finish().reason is Reason.COMPLETED
    assert run.outcome.question == ""


def test_a_model_that_gives_up_says_why() -> None:
    """`cannot_continue` ends the invocation with code and reason as the cause."""
    run = Driver().start().decide(CannotContinue("no_data", "the order is gone")).judged()
    assert run.reason is Reason.CANNOT_CONTINUE
    assert run.outcome.cause == "no_data: the order is gone"
    assert run.outcome.partial is not None


def test_a_model_may_ask_for_a_gate_itself() -> None:
    """`request_approval` waits for a human like a call that policy asks about."""
    decision = RequestApproval(calls("transfer").calls, "better ask")
    run = Driver().start().decide(decision).judged().assessed()
    assert run.reason is Reason.APPROVAL_REQUIRED


def test_a_model_error_can_be_resumed() -> None:
    """A provider that is down ends it; a resume asks the model again."""
    run = Driver().start().turn("read").fail_model("503")
    assert (run.reason, run.outcome.cause) == (Reason.MODEL_ERROR, "503")

    run = run.reload().grant()
    assert run.finish().reason is Reason.COMPLETED


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_stalled_plan_ends_it(when: str) -> None:
    """Stopped before it runs again, every call has a result that says so; after it, it ran."""
    run = Driver().start().turn("read").decide(calls("read")).judged()
    stalled = Stalled("repeated_plan", "3 times")
    if when == "before":
        run.assessed(stalled)
        assert run.statuses() == ["not_started"]
    else:
        run.assessed().done("read").observed(stalled)
        assert run.statuses() == ["ok"]

    assert (run.reason, run.outcome.cause) == (Reason.NO_PROGRESS, "repeated_plan: 3 times")


def test_what_the_model_was_shown_is_bound_to_its_proposal() -> None:
    """The context digest changes with every committed turn, and is kept as evidence."""
    run = Driver().start().turn("read").turn("read").finish()
    digests = [turn.proposal.context_digest for turn in run.turns]
    assert len(set(digests)) == 3
    assert run.turns[0].proposal.response_id == "r1"


def test_a_final_answer_is_stored_with_its_checked_output() -> None:
    """The Validator's output is what the outcome carries."""
    run = Driver().start().decide(Final("", {"raw": 1})).judged()
    assert run.reason is Reason.COMPLETED
    assert run.reload().state is RunState.FINISHED


def test_a_malformed_reply_is_kept_as_a_fault() -> None:
    """It never ran and has no calls, but it is a step, and the model sees what was wrong."""
    run = Driver().start().decide(Malformed("not JSON", "{oops"))
    assert run.turns[0].fault is not None
    assert run.turns[0].fault.level == "decision"
    assert run.finish().outcome.steps == 2
