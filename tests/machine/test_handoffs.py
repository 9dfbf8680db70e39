"""Another agent takes over: same journal, same budget, its policy; and not round and round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright.actors.machine._terms import Terms
from loopwright.policy import Policy
from loopwright.protocol import (
    Budget,
    Decide,
    HandedOff,
    Handoff,
    HandOver,
    Observe,
    ProgressNote,
    Reason,
    ResultStatus,
    RunState,
    Verify,
    unknown,
)
from machine.driver import Driver
from machine.samples import failed
from machine.ways import handing_over, held

NOTE = ProgressNote(("looked",), ("pay",))


def to(target: str, done: str = "looked") -> Handoff:
    """Hand over, with this much done."""
    return Handoff(target, "not mine", replace(NOTE, done=(done,)))


class Unlike(Driver):
    """A desk that nobody verifies, and refunds with a policy and a verifier of its own."""

    def terms(self) -> dict[str, Terms]:
        """Let the agents differ."""
        strict = Terms(Policy(max_denials=1), verifiers=("sums",))
        return {**super().terms(), "refunds": strict}


def handoffs(run: Driver) -> list[tuple[str, str]]:
    """List who handed over to whom."""
    return [(h.source, h.target) for h in run.machine.folded.protocol.handoffs]


def test_a_handoff_is_a_turn_and_durable_before_the_other_agent_decides() -> None:
    """Turn and handoff are one commit; then the runtime is told, and then the model is asked."""
    run = held(Driver().start().turn("read")).decide(handing_over()).judged()
    assert run.all(HandOver) == []
    run.ack()
    assert run.commits[-1] == ("turn_committed", "handed_off")
    assert [type(output) for output in run.said[-2:]] == [HandOver, Decide]
    assert run.last(HandOver).agent == "refunds"
    assert run.last(Decide).turn == 3
    p = run.machine.folded.protocol
    assert (p.agent, p.steps, run.machine.folded.spent.handoffs) == ("refunds", 2, 1)
    (handed,) = p.handoffs
    assert (handed.source, handed.reason, handed.progress) == ("desk", "not mine", NOTE)
    assert run.finish().ack().outcome.agent == "refunds"


def test_its_calls_are_finished_before() -> None:
    """The other agent finds them done; nobody watches a batch whose agent is gone."""
    run = Driver().start().decide(handing_over("read", "pay")).judged().assessed()
    assert run.state is RunState.EXECUTE_TOOL
    run.done("read")
    assert run.all(HandOver) == []
    run.done("pay")
    assert run.statuses() == ["ok", "ok"]
    assert run.all(Observe) == []
    assert handoffs(run) == [("desk", "refunds")]
    spent = run.machine.folded.spent
    assert (spent.steps, spent.tool_calls) == (1, 2)


def test_calls_of_a_handoff_may_need_an_approval_or_be_unknown() -> None:
    """It is handed over once they are settled, in whatever process."""
    run = Driver().start().decide(handing_over("transfer", "mail")).judged().assessed()
    assert run.reason is Reason.APPROVAL_REQUIRED
    run = run.reload().approve().judged().done("transfer").lost("mail")
    assert run.reason is Reason.RECONCILIATION_REQUIRED
    assert handoffs(run) == []
    run = run.reload().settle("mail", unknown()).judged()
    assert handoffs(run) == [("desk", "refunds")]
    assert run.statuses() == ["ok", "outcome_unknown"]


@pytest.mark.parametrize("tool", ["nonsense", "ban"])
def test_a_faulty_batch_hands_nothing_over(tool: str) -> None:
    """The model has to repair it first; a call that is denied is none of its faults."""
    run = Driver().start().decide(handing_over("read", tool)).judged().assessed().done("read")
    assert (handoffs(run) == []) == (tool == "nonsense")
    assert run.machine.folded.protocol.agent == ("desk" if tool == "nonsense" else "refunds")


def test_a_failed_call_is_handed_over_with_the_rest() -> None:
    """It has its result: what to do about it is for whoever takes over."""
    run = Driver().start().decide(handing_over("read")).judged().assessed()
    run.done("read", failed(run.running["read"]))
    assert run.statuses() == ["error"]
    assert handoffs(run) == [("desk", "refunds")]


@pytest.mark.parametrize("crash", [False, True])
def test_from_then_on_the_other_agents_terms_count(crash: bool) -> None:
    """Its policy and its verifiers, also in a process that only reads of the handoff."""
    run = Unlike().start().decide(to("refunds")).judged()
    if crash:
        run = run.reload().recover()
    run.finish()
    assert run.state is RunState.VERIFY_ANSWER
    assert run.last(Verify).claim.agent == "refunds"

    run = Unlike().start().propose("ban").observed().decide(to("refunds")).judged()
    if crash:
        run = run.reload().recover()
    assert run.propose("ban").reason is Reason.POLICY_DENIED


def test_b110_handing_it_on_and_on_ends_with_the_limit() -> None:
    """Four are granted, the fifth is the end: its turn is committed, and nobody is handed to."""
    run = Driver().start()
    for number, target in enumerate(("refunds", "desk", "refunds", "desk")):
        run.decide(to(target, f"step {number}")).judged()
    assert run.state is RunState.MODEL_THINKING
    run.decide(to("refunds", "step 4")).judged()

    assert run.reason is Reason.HANDOFF_LIMIT
    assert run.outcome.cause == "it was handed over 4 times, the limit"
    assert len(handoffs(run)) == 4
    assert len(run.all(Decide)) == run.outcome.steps == 5
    assert run.commits[-1] == ("turn_committed", "invocation_ended")


def test_returning_where_nothing_has_changed_is_one_too_many() -> None:
    """Before the limit: the one it came from has seen exactly this already."""
    run = Driver().start().decide(to("refunds")).judged().decide(to("desk")).judged()
    assert run.reason is Reason.HANDOFF_LIMIT
    assert run.outcome.cause == "it came from 'desk' and nothing has changed since"


@pytest.mark.parametrize("what", ["note", "read", "write"])
def test_returning_with_something_new_is_none(what: str) -> None:
    """Something is done that was not, or found, or written."""
    run = Driver().start().decide(to("refunds")).judged()
    if what != "note":
        run.turn("read" if what == "read" else "pay")
    run.decide(to("desk", "paid" if what == "note" else "looked")).judged()
    assert handoffs(run) == [("desk", "refunds"), ("refunds", "desk")]


def test_going_round_through_others_is_found_as_well() -> None:
    """Each may be asked once in the same state."""
    run = Driver().start()
    for target in ("refunds", "billing", "desk"):
        run.decide(to(target)).judged()
    assert run.reason is Reason.HANDOFF_LIMIT


def test_the_escape_agent_takes_over_once() -> None:
    """Instead of the one it was wanted for, beside the limit; if that one hands it on, it ends."""
    run = Driver(Budget(max_handoffs=1), escape="human").start()
    run.decide(to("refunds")).judged().decide(to("billing", "more")).judged()
    assert handoffs(run) == [("desk", "refunds"), ("refunds", "human")]
    records = [entry.record for entry in run.journal]
    handed = [record for record in records if isinstance(record, HandedOff)]
    assert [record.escaped for record in handed] == [False, True]
    assert handed[-1].reason == "not mine (it was handed over 1 times, the limit)"
    assert run.machine.folded.spent.handoffs == 1

    run = run.reload().recover().decide(to("desk", "even more")).judged()
    assert run.reason is Reason.HANDOFF_LIMIT


def test_the_escape_agent_finishes_like_any_other() -> None:
    """It has what is left of the same budget."""
    run = Driver(Budget(max_handoffs=0, max_steps=2), escape="human").start()
    run.decide(to("refunds")).judged().finish()
    assert (run.reason, run.outcome.agent, run.outcome.steps) == (Reason.COMPLETED, "human", 2)


def test_the_budget_is_the_one_of_the_invocation() -> None:
    """A handoff is a step; another agent brings no budget of its own."""
    run = Driver(Budget(max_steps=1)).start().decide(to("refunds")).judged()
    assert run.reason is Reason.MAX_STEPS
    assert run.outcome.agent == "refunds"
    assert len(run.all(Decide)) == 1


def test_a_handoff_that_is_not_durable_did_not_happen() -> None:
    """The former agent decides again; a model that was asked meanwhile is not listened to."""
    run = held(Driver().start()).decide(to("refunds")).judged().reload()
    run.hold = False
    run.recover()
    assert run.machine.folded.protocol.agent == "desk"
    assert run.last(Decide).turn == 1


def test_a_cancel_while_it_is_stored_goes_before_it() -> None:
    """It is handed over by then, and nobody is asked any more."""
    run = held(Driver().start()).decide(to("refunds")).judged().cancel().ack()
    assert (run.reason, run.outcome.agent) == (Reason.CANCELLED, "refunds")
    assert (len(run.all(Decide)), run.all(HandOver)) == (1, [])


def test_calls_of_a_handoff_that_was_cut_short_have_their_results() -> None:
    """It is not handed over any more."""
    run = Driver().start().decide(handing_over("read", "pay")).judged().assessed().cancel()
    run.done("read", failed(run.running["read"], ResultStatus.CANCELLED))
    assert run.statuses() == ["cancelled", "not_started"]
    assert (handoffs(run), run.reason) == ([], Reason.CANCELLED)


def test_a_person_may_hand_it_over() -> None:
    """Instead of a model that is stuck, like any decision."""
    run = Driver(Budget(max_steps=3)).start().fail_model()
    run.decide_instead(to("refunds")).judged()
    assert handoffs(run) == [("desk", "refunds")]
    assert (run.machine.folded.spent.steps, run.last(Decide).turn) == (1, 2)
