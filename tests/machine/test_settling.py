"""Settling: a person, a late result or an owner says what became of a write, at any time."""

from __future__ import annotations

import pytest

from loopwright.policy import Policy
from loopwright.protocol import (
    AlreadyDecidedError,
    Budget,
    CallId,
    Clarification,
    Commit,
    Decide,
    Execute,
    Found,
    Head,
    InvocationStateError,
    Late,
    Reason,
    Reconcile,
    Reconciled,
    Rested,
    RunState,
    UnknownProposalError,
    Validate,
    applied,
    not_applied,
    rejected,
    unknown,
)
from machine.driver import Driver
from machine.places import PLACES
from machine.ways import Place, two_unknown

FINDINGS = [applied("receipt 9"), rejected("no funds"), not_applied(), unknown("nobody knows")]
named = pytest.mark.parametrize("found", FINDINGS, ids=lambda found: found.finding)


def suspended(tool: str = "mail", policy: Policy | None = None) -> Driver:
    """Wait for a person to say what became of this write; a read comes after it."""
    return Driver(policy=policy).start().propose(tool, "read").lost(tool)


def given_up() -> Driver:
    """Go on without ever knowing what became of the write of turn 1."""
    run = Driver().start().propose("mail").lost("mail").settle("mail", unknown("nobody knows"))
    return run.judged().observed()


def place(name: str) -> Driver:
    """Go to a place."""
    return next(place for place in PLACES if place.name == name).build()


def head_of(run: Driver) -> Head:
    """Return the head of the last commit."""
    head = run.last(Commit).append.head
    assert head is not None
    return head


# ---------------------------------------------------------------- a turn that waits for it
@named
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_persons_word_lets_the_turn_go_on(found: Reconciled, elsewhere: bool) -> None:
    """In the same process or another one; the turn is judged again, and the rest of it runs."""
    run = suspended()
    if elsewhere:
        run = run.reload()
    run.settle("mail", found).judged()
    if found.finding == "not_applied":
        assert run.executed()[-1] == "mail#2"
        run.done("mail")
    assert run.executed()[-1] == "read#1"
    run.done("read")

    status = {"applied": "ok", "rejected": "error", "not_applied": "ok"}.get(found.finding)
    assert run.statuses() == [status or "outcome_unknown", "ok"]
    assert run.turns[0].tool_calls == 2
    assert run.observed().state is RunState.MODEL_THINKING


@named
def test_what_a_word_makes_of_the_result(found: Reconciled) -> None:
    """A receipt becomes the output, a refusal an error; the ledger says the same."""
    run = suspended().settle("mail", found)
    effects = {"applied": "committed", "rejected": "rejected", "not_applied": "not_applied"}
    assert run.effects == {"mail": effects.get(found.finding, "outcome_unknown")}
    if found.finding == "not_applied":
        return
    result = run.judged().done("read").turns[0].results[0]
    assert result.output == found.receipt
    assert (result.error is None) == (found.finding == "applied")
    if found.finding == "rejected":
        assert result.error is not None
        assert "no funds" in result.error.message


def test_a_persons_unknown_is_a_last_word() -> None:
    """It goes on with `outcome_unknown`, and says so until somebody knows better."""
    run = suspended().settle("mail", unknown("nobody knows")).judged().done("read").observed()
    assert run.statuses() == ["outcome_unknown", "ok"]
    assert run.finish().reason is Reason.COMPLETED
    assert [effect.call_id for effect in run.outcome.unresolved_effects] == ["mail"]


def test_a_word_holds_after_a_crash() -> None:
    """It is durable with the resumption: nobody is asked a second time."""
    run = suspended().settle("mail", applied("r")).reload().recover().judged()
    assert run.executed() == ["read#1"]
    run = suspended().settle("mail", not_applied()).reload().recover().judged()
    assert run.executed() == ["mail#2"]


def test_a_permission_to_send_again_is_for_one_attempt() -> None:
    """Of the next one nothing is known, should the process die then."""
    run = suspended().settle("mail", not_applied()).judged().reload().recover().judged()
    assert run.executed() == []
    assert run.reason is Reason.RECONCILIATION_REQUIRED


@named
def test_what_an_owner_could_not_tell_a_person_can(found: Reconciled) -> None:
    """A reconciler's `unknown` is no last word, in this process or the next."""
    for elsewhere in (False, True):
        run = suspended("wire").found("wire", unknown("no trace"))
        if elsewhere:
            run = run.reload()
        run.settle("wire", found).judged()
        assert run.executed()[-1] == ("wire#2" if found.finding == "not_applied" else "read#1")


# ---------------------------------------------------------------- the first word stands
@named
def test_there_is_one_word_on_an_attempt(found: Reconciled) -> None:
    """A second one is refused, whatever it says, while the first is on its way and afterwards."""
    run = suspended()
    run.hold = True
    run.settle("mail", found)
    with pytest.raises(AlreadyDecidedError, match="'mail' is settled at this moment"):
        run.settle("mail", applied())
    run.ack()
    with pytest.raises(AlreadyDecidedError, match="there is nothing to settle"):
        run.settle("mail", applied())
    assert [e.record.kind for e in run.journal].count("effect_reconciled") == 1


def test_there_is_one_word_on_a_write_of_long_ago() -> None:
    """At rest, or at work: while the first is on its way, too."""
    for run in (given_up(), given_up().finish()):
        run.hold = True
        run.settle("mail", applied())
        with pytest.raises(AlreadyDecidedError, match="is settled at this moment"):
            run.settle("mail", rejected("no"))
        run.ack()
        with pytest.raises(AlreadyDecidedError, match="is committed; there is nothing to settle"):
            run.settle("mail", rejected("no"))


def test_unknown_may_be_known_better_later() -> None:
    """A person gave it up, and then it turned up: that is no second word."""
    run = given_up().settle("mail", unknown("still nobody")).settle("mail", applied("found"))
    assert run.effects == {"mail": "committed"}


@pytest.mark.parametrize("call_id", ["ghost", "read", "\x1b[31m" + "x" * 500])
def test_a_call_that_was_never_unknown_is_refused(call_id: str) -> None:
    """Typed, with the name bounded and escaped; nothing has changed."""
    run = suspended()
    with pytest.raises(InvocationStateError, match="whose effect is unknown") as caught:
        run.settle(call_id, applied())
    assert not isinstance(caught.value, AlreadyDecidedError)
    assert len(str(caught.value)) < 250
    assert "\x1b" not in str(caught.value)
    assert run.state is RunState.SUSPENDED


def test_a_turn_that_has_no_such_call_is_refused() -> None:
    """Who names the turn means that one."""
    run = suspended()
    with pytest.raises(InvocationStateError):
        run.settle("mail", applied(), turn=7)
    run.settle("mail", applied(), turn=1)
    assert run.state is RunState.DECIDE_ACTION


@pytest.mark.parametrize("tool", ["pay", "wire", "mail"])
def test_what_is_under_way_is_not_settled(tool: str) -> None:
    """Its own result is waited for: the refusal does not say that it was decided."""
    run = Driver().start().propose(tool)
    with pytest.raises(InvocationStateError, match=f"call '{tool}' is dispatched") as caught:
        run.settle(tool, applied())
    assert not isinstance(caught.value, AlreadyDecidedError)


def test_what_was_never_unknown_has_been_decided() -> None:
    """Its own result is the first word."""
    run = Driver().start().propose("mail", "read").done("mail").done("read").observed()
    with pytest.raises(AlreadyDecidedError, match="is committed"):
        run.settle("mail", rejected("no"))


# ---------------------------------------------------------------- several
def test_several_are_settled_one_by_one() -> None:
    """It goes on with the last word; until then it is suspended, and says for whom it waits."""
    run = two_unknown("mail_a", "mail_b")
    assert head_of(run).detail == "mail_a (mail_a), mail_b (mail_b)"
    run = run.reload()
    run.settle("mail_b", applied("b"))
    assert run.state is RunState.SUSPENDED
    assert run.reason is Reason.RECONCILIATION_REQUIRED
    head = head_of(run)
    # With it the ownership is given up again: the next word may come from anywhere.
    assert (head.status, head.detail) == ("suspended", "mail_a (mail_a)")
    run = run.reload()
    run.settle("mail_a", applied("a")).judged()
    assert run.statuses() == ["ok", "ok"]


def test_several_words_at_once() -> None:
    """Neither waits for the other to be durable."""
    run = two_unknown("mail_a", "mail_b")
    run.hold = True
    run.settle("mail_a", applied()).settle("mail_b", not_applied()).ack()
    assert run.state is RunState.DECIDE_ACTION
    run.judged().ack()
    assert run.executed() == ["mail_b#2"]


def test_words_that_come_while_the_suspension_is_on_its_way() -> None:
    """What an owner has found meanwhile counts with them, though it is not durable yet."""
    run = two_unknown("wire", "mail")
    run.hold = True
    run.found("wire", applied("w")).settle("mail", applied("m")).ack()
    assert run.state is RunState.DECIDE_ACTION
    run.judged().ack()
    assert [r.output for r in run.turns[0].results] == ["w", "m"]


def test_a_word_on_what_an_owner_has_just_settled_is_refused() -> None:
    """Also where that is not durable yet."""
    run = two_unknown("wire", "mail")
    run.hold = True
    run.found("wire", applied("w"))
    with pytest.raises(InvocationStateError):
        run.settle("wire", rejected("no"))


def test_a_word_on_the_way_into_suspension_counts_if_it_is_cancelled_then() -> None:
    """Three commits on their way; the turn ends with what the person said."""
    run = Driver().start().propose("mail")
    run.hold = True
    run.lost("mail").settle("mail", applied("seen")).cancel().ack()
    assert run.reason is Reason.CANCELLED
    assert run.statuses() == ["ok"]
    assert run.effects == {"mail": "committed"}


def test_a_word_after_a_cancel_of_a_suspension_on_its_way_counts() -> None:
    """The turn ends with it, and nothing goes on."""
    run = Driver().start().propose("mail")
    run.hold = True
    run.lost("mail").cancel().settle("mail", applied("seen")).ack()
    assert run.reason is Reason.CANCELLED
    assert (run.statuses(), run.effects) == (["ok"], {"mail": "committed"})


# ---------------------------------------------------------------- while an owner is asked
@named
def test_a_person_may_know_sooner_than_the_one_who_is_asked(found: Reconciled) -> None:
    """It goes on at once; the answer that comes then is late."""
    run = suspended("wire")
    asked = run.last(Reconcile)
    run.settle("wire", found)
    assert run.executed()[-1] == ("wire#2" if found.finding == "not_applied" else "read#1")
    late = run.tell(Found(asked.turn, asked.attempt_id, rejected("too late")))
    assert late == (Late("Found"),)


def test_of_two_that_are_asked_about_one_may_be_told() -> None:
    """The other is still waited for."""
    run = two_unknown("wire_a", "wire_b").settle("wire_a", applied("a"))
    assert run.state is RunState.RECONCILE
    run.found("wire_b", applied("b"))
    assert [r.output for r in run.turns[0].results] == ["a", "b"]


def test_a_word_while_it_is_cancelled_counts() -> None:
    """A late result, for one: nothing is sent, and its effect is known."""
    run = Driver().start().propose("wire").cancel().later(5).settle("wire", applied("late"))
    assert run.reason is Reason.CANCELLED
    assert (run.statuses(), run.effects) == (["ok"], {"wire": "committed"})

    run = Driver().start().propose("wire").cancel().later(5).settle("wire", not_applied())
    assert (run.executed(), run.effects) == (["wire#1"], {"wire": "not_applied"})


def test_a_grant_asks_the_owners_again() -> None:
    """Their service works again, say; nobody has to look it up by hand."""
    run = suspended("wire").found("wire", unknown("down"))
    run.grant()
    assert run.state is RunState.DECIDE_ACTION
    run.judged()
    assert [r.attempt_id for r in run.all(Reconcile)] == ["wire#1", "wire#1"]
    run.found("wire", applied("r")).done("read")
    assert run.statuses() == ["ok", "ok"]


def test_a_grant_where_nobody_can_be_asked_changes_nothing() -> None:
    """It is suspended again, for the same reason."""
    run = suspended().grant().judged()
    assert run.reason is Reason.RECONCILIATION_REQUIRED
    assert run.executed() == ["mail#1"]


def test_no_grant_goes_around_a_question_or_an_approval() -> None:
    """What they wait for is to be said."""
    for run in (
        Driver().start().propose("transfer"),
        Driver().start().decide(Clarification("which?")).judged(),
    ):
        with pytest.raises(InvocationStateError, match="say what it waits for"):
            run.grant()


def test_what_waits_for_a_settlement_takes_neither_text_nor_approval() -> None:
    """And says what it waits for."""
    run = suspended()
    with pytest.raises(InvocationStateError, match="reconciliation_required, not for a text"):
        run.reply()
    assert run.machine.folded.proposal() is None
    approved = Driver().start().propose("transfer", "mail")
    proposal = approved.outcome.proposal
    assert proposal is not None
    approved.approve().judged().done("transfer").lost("mail")
    with pytest.raises(AlreadyDecidedError):
        approved.approve()


# ---------------------------------------------------------------- long ago
def rest(how: str) -> Driver:
    """Come to rest with a write of turn 1 of which nobody knows."""
    match how:
        case "finished":
            return given_up().finish()
        case "failed":
            return given_up().fail_model()
        case "cancelled":
            return given_up().cancel().fail_model()
        case "asked":
            return given_up().propose("transfer")
        case "question":
            return given_up().decide(Clarification("which?")).judged()
        case _:
            return given_up().propose("wire").lost("wire").found("wire", unknown())


RESTS = ("finished", "failed", "cancelled", "asked", "question", "unknown")


@named
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("how", RESTS)
def test_at_rest_a_word_only_corrects(how: str, elsewhere: bool, found: Reconciled) -> None:
    """The ledger and the history; it rests for the same reason, with the same head."""
    run = rest(how)
    before, head = run.outcome, head_of(run)
    digest = run.machine.folded.context_digest
    if elsewhere:
        run = run.reload()
    run.settle("mail", found)

    assert run.state.at_rest
    after = run.outcome
    assert (after.reason, after.answer, after.cause) == (before.reason, before.answer, before.cause)
    assert (after.question, after.proposal) == (before.question, before.proposal)
    assert run.last(Rested).durable
    corrected = head_of(run)
    assert (corrected.status, corrected.reason) == (head.status, head.reason)
    assert corrected.detail == head.detail
    assert run.commits[-1] == ("effect_reconciled",)
    known = {"applied": "ok", "rejected": "error", "not_applied": "error"}
    (result,) = run.machine.folded.business.turns[0].results
    assert result.status == known.get(found.finding, "outcome_unknown")
    assert result.output == found.receipt
    assert run.machine.folded.context_digest != digest


@pytest.mark.parametrize("how", RESTS)
def test_what_rests_goes_on_as_ever_after_a_correction(how: str) -> None:
    """The model is shown the corrected result."""
    run = rest(how).settle("mail", applied("receipt 9"))
    match how:
        case "asked":
            run.approve().judged().done("transfer").observed()
        case "question":
            run.reply()
        case "failed":
            run.grant(Budget(max_steps=5))
        case "unknown":
            run.settle("wire", applied()).judged().observed()
        case _:
            return
    (result,) = run.last(Decide).history[0].results
    assert (result.status, result.output) == ("ok", "receipt 9")


def test_a_correction_while_it_is_at_work_changes_nothing_else() -> None:
    """The next turn is shown it; the one that is being decided was not."""
    run = given_up()
    digest = run.machine.folded.context_digest
    run.settle("mail", applied("r"))
    assert run.state is RunState.MODEL_THINKING
    assert run.commits[-1] == ("effect_reconciled",)
    run.propose("read").done("read")
    assert run.turns[-1].proposal.context_digest != digest
    assert run.observed().last(Decide).history[0].outputs() == {"mail": "r"}


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("thinking_corrected", RunState.MODEL_THINKING),
        ("judging_corrected", RunState.DECIDE_ACTION),
        ("asked_corrected", RunState.WAIT_APPROVAL),
        ("answered_and_corrected", RunState.DECIDE_ACTION),
        ("writing_corrected", RunState.EXECUTE_TOOL),
        ("settling_an_old_one_too", RunState.DECIDE_ACTION),
        ("finishing_corrected", RunState.FINISHED),
        ("suspended_corrected", RunState.SUSPENDED),
    ],
)
def test_a_correction_holds_nothing_up(name: str, state: RunState) -> None:
    """Whatever was on its way before it goes on once both are durable."""
    run = place(name)
    run.hold = False
    run.ack()
    assert run.state is state
    assert run.effects["mail"] == "committed"


def test_a_correction_behind_a_partial_answer() -> None:
    """The approval still waits for the rest of its answers."""
    run = given_up().propose("transfer_a", "transfer_b")
    run.hold = True
    run.approve("transfer_a").settle("mail", applied()).ack()
    assert run.state is RunState.SUSPENDED
    assert run.approve("transfer_b").ack().state is RunState.DECIDE_ACTION


def test_of_several_turns_the_last_unknown_one_is_meant() -> None:
    """Unless the turn is named: call ids come again."""
    run = Driver().start()
    for _ in range(2):
        run.propose("pay")
        for _ in range(5):
            run.lost("pay").later(5)
        run.settle("pay", unknown()).judged().observed()
    effects = run.machine.folded.business.effects
    assert [e.status for e in effects.values()] == ["outcome_unknown"] * 2
    run.settle("pay", applied())
    assert [e.status for e in effects.values()] == ["outcome_unknown", "committed"]
    run.settle("pay", rejected("no"), turn=1)
    assert [e.status for e in effects.values()] == ["rejected", "committed"]


# ---------------------------------------------------------------- suspended for something else
def test_a_write_of_a_turn_that_waits_for_an_approval() -> None:
    """Policy has changed since it was dispatched: a word on it does not stand for the approval."""
    run = place("suspended_ask_unknown")
    run.settle("transfer", applied("r"))
    assert run.reason is Reason.APPROVAL_REQUIRED
    with pytest.raises(AlreadyDecidedError):
        run.settle("transfer", rejected("no"))
    run.approve().judged()
    assert run.all(Execute) == []
    assert run.statuses() == ["ok"]


def test_a_partial_answer_from_elsewhere_gives_the_ownership_up_again() -> None:
    """The next answer may come from anywhere: its head says that it is suspended."""
    run = Driver().start().propose("transfer_a", "transfer_b")
    head = head_of(run)
    run = run.reload().approve("transfer_a")
    assert run.state is RunState.SUSPENDED
    assert (head_of(run).status, head_of(run).detail) == ("suspended", head.detail)


def test_edits_are_for_calls_that_are_approved_with_them() -> None:
    """They are not dropped in silence where somebody has answered for the call meanwhile."""
    run = Driver().start().propose("transfer_a", "transfer_b").approve("transfer_a")
    with pytest.raises(AlreadyDecidedError):
        run.approve(edits={CallId("transfer_a"): {"amount": 5}})
    with pytest.raises(UnknownProposalError):
        run.approve(edits={CallId("ghost"): {"amount": 5}})
    assert run.state is RunState.SUSPENDED
    run.approve(edits={CallId("transfer_b"): {"amount": 5}})
    assert run.last(Validate).edits == {"transfer_b": {"amount": 5}}


@pytest.mark.parametrize("place", [p for p in PLACES if p.state is RunState.RECONCILE], ids=str)
def test_nothing_is_dispatched_while_something_is_unknown(place: Place) -> None:
    """Wherever it is asked, or waited for: no tool runs."""
    assert place.build().running == {}
