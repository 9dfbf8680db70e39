"""A human is asked: nothing starts before the last answer, and the first answer stands."""

from __future__ import annotations

import pytest

from loopwright.policy import Policy
from loopwright.protocol import (
    AlreadyDecidedError,
    Answer,
    AnswerApproval,
    CallId,
    Decide,
    Execute,
    Faulty,
    InvocationStateError,
    ProposalDigest,
    Reason,
    RunState,
    UnknownProposalError,
)
from machine.driver import Driver
from machine.samples import calls

GRACE = Policy(approval_grace=60)


def asked(*tools: str, policy: Policy | None = None) -> Driver:
    """Bring an invocation to where a human is asked about these calls."""
    return Driver(policy=policy).start().propose(*tools)


def test_b72_asking_suspends_with_the_exact_proposal() -> None:
    """The proposal, the question and the suspension are durable in one commit."""
    run = asked("transfer_a", "transfer_b")

    assert run.reason is Reason.APPROVAL_REQUIRED
    assert run.state is RunState.SUSPENDED
    assert run.commits[1:] == [("turn_proposed", "approval_requested", "suspended")]
    assert run.outcome.proposal is not None
    assert [ask.call_id for ask in run.outcome.proposal.asks] == ["transfer_a", "transfer_b"]
    assert run.outcome.proposal.asks[0].arguments == {"of": "transfer_a"}
    assert run.all(Execute) == []
    assert run.machine.wake_at is None


@pytest.mark.parametrize("elsewhere", [True, False])
def test_b75_after_the_yes_each_call_runs_once(elsewhere: bool) -> None:
    """Nothing of the batch starts before; then all of it does, in this process or another."""
    run = asked("mail", "transfer")
    assert run.all(Execute) == []

    run = run.reload() if elsewhere else run
    run.approve()
    assert run.all(Execute) == []
    run.judged().done("mail").done("transfer")

    assert run.executed() == ["mail#1", "transfer#1"]
    assert run.statuses() == ["ok", "ok"]
    assert len(run.all(Decide)) == (0 if elsewhere else 1)
    assert run.observed().finish().reason is Reason.COMPLETED


def test_b74_each_call_has_an_answer_of_its_own() -> None:
    """Three calls are asked about; yes, no and yes give ok, denied and ok."""
    run = asked("transfer_a", "transfer_b", "transfer_c")
    assert run.outcome.proposal is not None
    assert len({ask.call_id for ask in run.outcome.proposal.asks}) == 3

    run.approve("transfer_a")
    assert (run.state, run.reason) == (RunState.SUSPENDED, Reason.APPROVAL_REQUIRED)
    assert run.outcome.proposal is not None
    assert run.outcome.proposal.answered == ("transfer_a",)
    run.approve("transfer_b", yes=False).approve("transfer_c")
    run.judged().done("transfer_a").done("transfer_c")

    assert run.statuses() == ["ok", "denied", "ok"]
    run.observed()
    assert len(run.all(Decide)) == 2


@pytest.mark.parametrize("first", ["transfer_1", "transfer_999"])
def test_b73_an_answer_is_for_one_call_and_never_for_its_tool(first: str) -> None:
    """Only the approved one runs, in whatever order the answers come."""
    run = asked("transfer_1", "transfer_999")
    for call_id in (first, "transfer_999" if first == "transfer_1" else "transfer_1"):
        run.approve(call_id, yes=call_id == "transfer_999")
    run.judged().done("transfer_999")

    assert run.executed() == ["transfer_999#1"]
    assert run.statuses() == ["denied", "ok"]


def test_a_denial_is_a_result_and_the_model_goes_on() -> None:
    """Nothing runs, nobody is asked again, and the batch is committed."""
    run = asked("transfer").approve(yes=False).judged()
    assert run.statuses() == ["denied"]
    assert run.turns[0].fault is None
    assert run.observed().finish().reason is Reason.COMPLETED


def test_b77_the_first_answer_stands() -> None:
    """A second one, the same or the opposite, is told so, during the turn and after it."""
    run = asked("transfer_a", "transfer_b").approve("transfer_a")
    proposal = run.machine.folded.proposal()
    assert proposal is not None
    for yes in (True, False):
        again = AnswerApproval(proposal.digest, yes, "bob", (CallId("transfer_a"),))
        with pytest.raises(AlreadyDecidedError):
            run.tell(again)

    run.approve("transfer_b")
    with pytest.raises(AlreadyDecidedError):
        run.tell(AnswerApproval(proposal.digest, False, "bob"))
    run.judged().done("transfer_a").done("transfer_b").observed().finish()
    with pytest.raises(AlreadyDecidedError):
        run.tell(AnswerApproval(proposal.digest, False, "bob"))

    assert run.executed() == ["transfer_a#1", "transfer_b#1"]
    assert [e.record.kind for e in run.journal].count("approval_decided") == 2


def test_b77_two_answers_at_once_are_one_answer() -> None:
    """The second is refused although the first is not durable yet."""
    run = asked("transfer")
    run.hold = True
    run.approve()
    with pytest.raises(AlreadyDecidedError):
        run.approve(yes=False)
    run.ack().judged().ack()
    assert run.executed() == ["transfer#1"]


@pytest.mark.parametrize("calls", [None, (CallId("transfer"),)])
def test_b77_a_foreign_digest_is_no_answer(calls: tuple[CallId, ...] | None) -> None:
    """An approval is for one digest and nothing else."""
    run = asked("transfer")
    with pytest.raises(UnknownProposalError):
        run.tell(AnswerApproval(ProposalDigest("of another run"), True, "eve", calls))
    assert run.all(Execute) == []


def test_b71_b77_naming_no_or_unknown_calls_is_no_yes() -> None:
    """A ghost, or nothing at all, approves nothing."""
    run = asked("transfer")
    with pytest.raises(UnknownProposalError):
        run.approve("ghost")
    proposal = run.machine.folded.proposal()
    assert proposal is not None
    with pytest.raises(InvocationStateError):
        run.tell(AnswerApproval(proposal.digest, True, "ann", ()))
    assert (run.state, run.all(Execute)) == (RunState.SUSPENDED, [])


def test_nobody_can_answer_what_is_not_durable() -> None:
    """Before `ApprovalRequested` is stored its digest is unknown."""
    run = Driver(hold=True).start().ack().propose("transfer")
    with pytest.raises(UnknownProposalError):
        run.tell(AnswerApproval(ProposalDigest("guess"), True, "eve"))


def test_a_suspended_ask_takes_no_text_and_a_question_no_approval() -> None:
    """Each waits for what it asked for."""
    with pytest.raises(InvocationStateError, match="waits for an approval"):
        asked("transfer").tell(Answer("yes", "ann"))


def test_within_the_grace_period_nothing_is_suspended() -> None:
    """A quick answer finds the invocation in memory; the running time stands meanwhile."""
    run = asked("transfer", policy=GRACE)
    assert run.state is RunState.WAIT_APPROVAL
    assert run.commits[1:] == [("turn_proposed", "approval_requested")]
    assert run.machine.wake_at == 60

    run.time = 30
    run.approve()
    assert run.commits[2:] == [("approval_decided",)]
    run.judged().done("transfer").observed().finish()
    assert run.reason is Reason.COMPLETED
    assert run.outcome.spent.active_seconds == 0


def test_without_an_answer_the_grace_period_ends_in_a_suspension() -> None:
    """Then it leaves memory, and the answer still counts."""
    run = asked("transfer", policy=GRACE).later(60)
    assert (run.state, run.reason) == (RunState.SUSPENDED, Reason.APPROVAL_REQUIRED)
    run = run.reload().approve().judged().done("transfer")
    assert run.statuses() == ["ok"]


@pytest.mark.parametrize("first", ["answer", "grace"])
def test_an_answer_and_the_end_of_the_grace_period_may_cross(first: str) -> None:
    """Whichever is said first, the answer counts and the invocation goes on."""
    run = asked("transfer", policy=GRACE)
    run.hold = True
    if first == "answer":
        run.approve().later(60)
        assert run.machine.wake_at is None
    else:
        run.later(60).approve()
    run.ack().judged().ack().done("transfer").ack()
    assert run.statuses() == ["ok"]
    assert run.executed() == ["transfer#1"]


def test_answers_in_part_don_t_keep_it_in_memory() -> None:
    """The grace period ends while one of two answers is on its way to the store."""
    run = asked("transfer_a", "transfer_b", policy=GRACE)
    run.hold = True
    run.approve("transfer_a").later(60).ack()
    assert run.state is RunState.SUSPENDED
    run.approve("transfer_b").ack().judged().ack()
    assert run.executed() == ["transfer_a#1"]


def test_todays_policy_may_ask_anew() -> None:
    """After the yes the batch is judged again; another proposal is another question."""
    run = asked("transfer").approve()
    assert run.state is RunState.DECIDE_ACTION
    run.judged(Faulty("tools changed"))
    assert run.all(Execute) == []
    assert run.turns[0].fault is not None


def test_a_question_of_the_model_is_not_an_approval() -> None:
    """`AnswerApproval` means nothing to a clarification."""
    run = Driver().start().decide(calls("read")).judged()
    with pytest.raises(UnknownProposalError):
        run.tell(AnswerApproval(ProposalDigest("none"), True, "ann"))
