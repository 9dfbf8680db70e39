"""Writes that must not go out, or not again: the outbox, and what may be in effect already."""

from __future__ import annotations

import pytest

from loopwright.policy import Policy
from loopwright.protocol import (
    Accepted,
    Budget,
    CallId,
    Decide,
    Effect,
    EffectKey,
    ErrorCategory,
    JsonObject,
    Reconciled,
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
from machine.samples import calls, failed, ok, plan_of
from machine.ways import recovered


def two_alike(tool: str, arguments: JsonObject | None = None) -> ToolCalls:
    """Ask for the same thing twice in one batch."""
    given = arguments or {"order": 7}
    return ToolCalls((ToolCall(CallId("a"), tool, given), ToolCall(CallId("b"), tool, given)))


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


def test_what_a_person_has_taken_out_of_the_outbox_stays_out() -> None:
    """The same mutation again is refused, and not said to be queued."""
    run = Driver().start()
    key = EffectKey("letter:7")
    for turn in (1, 2):
        run.decide(calls("post"))
        plan = plan_of(run.last(Validate), calls("post"))
        call = plan.calls[0]._replace(effect_key=key)
        run.judged(Accepted(plan._replace(calls=(call,)))).assessed().observed()
        if turn == 1:
            run.settle("post", rejected("no such address"))
    assert [turn.results[0].status for turn in run.turns] == ["ok", "not_started"]
    assert len(run.outbox) == 1
    error = run.turns[1].results[0].error
    assert error is not None
    assert error.type == "AlreadyDecided"


def test_what_was_dispatched_once_does_not_go_into_the_outbox() -> None:
    """Its tool has changed meanwhile: a second way out would be a second effect."""
    before = Driver().start().propose("pay").reload().recover()
    plan = plan_of(before.last(Validate), calls("pay"))
    call = plan.calls[0]._replace(outbox=("tool:pay",))
    run = before.judged(Accepted(plan._replace(calls=(call,))))
    assert run.executed() == ["pay#2"]
    run.done("pay")
    assert run.outbox == []


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
    assert (result.error.type, result.error.category) == ("Unsettled", ErrorCategory.TRANSIENT)
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
