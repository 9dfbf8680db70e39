"""State is a fold over the journal: what each record changes, and what cannot follow what."""

from __future__ import annotations

from decimal import Decimal

import pytest

from loopwright.protocol import (
    RECONCILER,
    AnswerVerified,
    ApprovalDecided,
    ApprovalRequested,
    Ask,
    Budget,
    CallAnswer,
    CallCompleted,
    CallDispatched,
    CallId,
    CancelRequested,
    Clarification,
    ContextCompacted,
    EffectKey,
    EffectReconciled,
    Entry,
    Fault,
    Final,
    InvocationEnded,
    InvocationId,
    InvocationStarted,
    InvocationState,
    JournalCorruptError,
    Malformed,
    NoticeInjected,
    Principal,
    Proposal,
    ProposalDigest,
    Proposed,
    Reason,
    Reconciled,
    Record,
    ResultStatus,
    Resumed,
    Suspended,
    ToolCall,
    ToolCalls,
    ToolResult,
    TurnCommitted,
    TurnProposed,
    Usage,
    applied,
    encode_record,
    fold,
    not_applied,
    rejected,
    unknown,
)

A, B = CallId("a"), CallId("b")
KEY, DIGEST = EffectKey("k1"), ProposalDigest("d1")
CALLS = ToolCalls((ToolCall(A, "pay", {}), ToolCall(B, "read", {})), "paying")
STARTED = InvocationStarted(
    InvocationId("i1"), "desk", "1", "1", "goal", Principal(), Budget(max_steps=3), 0.0
)


def state(*records: Record) -> InvocationState:
    """Fold a start and these records."""
    return fold([Entry(record, encode_record(record)) for record in (STARTED, *records)])


def proposal(decision: Proposed = CALLS, tokens: int = 5) -> Proposal:
    """Wrap a decision."""
    return Proposal(decision, Usage(tokens, 1))


def turn(
    number: int,
    decision: Proposed = CALLS,
    results: tuple[ToolResult, ...] = (),
    fault: Fault | None = None,
) -> TurnCommitted:
    """Commit a turn."""
    return TurnCommitted(
        number, proposal(decision), results, len(results), float(number), 0.0, fault
    )


def paid(status: ResultStatus, key: EffectKey | None = KEY) -> ToolResult:
    """Say what became of the payment."""
    return ToolResult(A, "pay", status, "receipt 1", effect_key=key)


PROPOSED = TurnProposed(1, proposal(), 0.0)
DISPATCHED = CallDispatched(1, A, 1, "pay", {"n": 7}, KEY, 0.0)
ASKED = ApprovalRequested(1, DIGEST, (Ask(A, "pay", {}, "much"), Ask(B, "read", {}, "why")), 0.0)


def answered(call_id: CallId, approved: bool, by: str = "ann") -> ApprovalDecided:
    """Let a human answer for one call."""
    return ApprovalDecided(1, DIGEST, (CallAnswer(call_id, approved),), by, 0.0, "because")


def test_a_committed_turn_is_a_step_with_its_calls_tokens_and_time() -> None:
    """All that a budget looks at comes from this one record."""
    folded = state(turn(1, results=(paid(ResultStatus.OK),)), turn(2, Final("done")))
    spent = folded.spent
    assert (spent.steps, spent.tool_calls, spent.usage.total, spent.active_seconds) == (
        2,
        1,
        12,
        2.0,
    )
    assert [t.number for t in folded.history()] == [1, 2]
    assert folded.business.commentary == "paying"


def test_a_history_taken_earlier_does_not_grow() -> None:
    """It is a view of what was committed then."""
    folded = state(turn(1))
    before = folded.history()
    record = turn(2)
    folded.apply(Entry(record, encode_record(record)))
    assert (len(before), len(folded.history())) == (1, 2)
    assert before[-1].number == 1


def test_the_context_digest_is_of_the_goal_and_the_turns() -> None:
    """The same journal gives the same digest; one turn more gives another one."""
    assert state(turn(1)).context_digest == state(turn(1)).context_digest
    assert len({state().context_digest, state(turn(1)).context_digest}) == 2


def test_write_ahead_records_matter_until_the_turn_is_committed() -> None:
    """They make the open turn, and the commit closes it."""
    folded = state(PROPOSED, DISPATCHED, CallCompleted(1, paid(ResultStatus.OK), 0.0))
    assert folded.protocol.open is not None
    assert set(folded.protocol.open.dispatched) == set(folded.protocol.open.results) == {A}
    assert [(c.call_id, c.dispatched) for c in folded.partial().open_calls] == [(B, False)]
    assert folded.protocol.steps == 0

    assert state(PROPOSED, DISPATCHED, turn(1)).protocol.open is None


@pytest.mark.parametrize(
    ("status", "known"),
    [
        (ResultStatus.OK, "committed"),
        (ResultStatus.ERROR, "rejected"),
        (ResultStatus.OUTCOME_UNKNOWN, "outcome_unknown"),
        (ResultStatus.NOT_STARTED, "not_applied"),
    ],
)
def test_the_effect_ledger_says_what_is_known_of_each_write(
    status: ResultStatus, known: str
) -> None:
    """From its dispatch on; what was announced and never made is not applied."""
    assert [e.status for e in state(PROPOSED, DISPATCHED).partial().effects] == ["dispatched"]
    for records in (
        (PROPOSED, DISPATCHED, CallCompleted(1, paid(status), 0.0)),
        (PROPOSED, DISPATCHED, turn(1, results=(paid(status),))),
    ):
        effects = state(*records).partial().effects
        assert [effect.status for effect in effects] == [known]
        assert effects[0].settled == (known != "outcome_unknown")
        # What only the dispatch knows is kept.
        assert (effects[0].attempts, effects[0].arguments) == (1, {"n": 7})


LOST = ResultStatus.OUTCOME_UNKNOWN


def said(found: Reconciled, by: str = "ann") -> EffectReconciled:
    """Say what became of the payment."""
    return EffectReconciled(1, A, "pay", KEY, found, by, 0.0)


@pytest.mark.parametrize("completed", [False, True])
def test_a_dispatched_write_is_unsettled_until_there_is_a_last_word(completed: bool) -> None:
    """Its outcome may be journaled as unknown, or not at all; a reconciler's `unknown` is no word."""
    before = (PROPOSED, DISPATCHED, *([CallCompleted(1, paid(LOST), 0.0)] if completed else ()))

    def unsettled(*words: EffectReconciled) -> tuple[CallId, ...]:
        turn = state(*before, *words).protocol.open
        assert turn is not None
        return turn.unsettled()

    assert unsettled() == (A,)
    assert unsettled(said(unknown(), RECONCILER)) == (A,)
    assert unsettled(said(unknown())) == ()
    assert unsettled(said(not_applied(), RECONCILER)) == ()
    assert unsettled(said(unknown(), RECONCILER), said(applied("r"))) == ()


def test_a_new_attempt_forgets_what_was_said_of_the_one_before() -> None:
    """A finding is about one dispatch; the ledger counts them."""
    again = CallDispatched(1, A, 2, "pay", {"n": 7}, KEY, 0.0)
    folded = state(
        PROPOSED, DISPATCHED, CallCompleted(1, paid(LOST), 0.0), said(not_applied()), again
    )
    turn = folded.protocol.open
    assert turn is not None
    assert (turn.found, turn.results, turn.unsettled()) == ({}, {}, (A,))
    (effect,) = folded.partial().effects
    assert (effect.status, effect.attempts) == ("dispatched", 2)


def test_a_word_on_a_turn_of_long_ago_corrects_the_ledger_and_the_history() -> None:
    """The turn's results, and with them the digest of what a model is shown; nothing else."""
    committed = turn(1, results=(paid(LOST),))
    before = state(committed, turn(2))
    after = state(committed, turn(2), said(applied("receipt 9")))

    result = after.history()[0].results[0]
    assert (result.status, result.output, result.effect) == ("ok", "receipt 9", None)
    assert after.history()[0].record.results[0].status is LOST
    (effect,) = after.partial().effects
    assert (effect.status, effect.receipt, effect.turn) == ("committed", "receipt 9", 1)
    assert after.context_digest != before.context_digest
    assert (after.protocol.turn, after.protocol.open) == (2, None)
    assert [t.number for t in after.history()] == [1, 2]


@pytest.mark.parametrize(
    ("found", "status", "effect"),
    [
        (rejected("no funds"), "error", "rejected"),
        (not_applied(), "error", "not_applied"),
        (unknown("nobody knows"), "outcome_unknown", "outcome_unknown"),
    ],
)
def test_what_a_corrected_result_says(found: Reconciled, status: str, effect: str) -> None:
    """`not_applied` is a failure that may be tried again; a later word goes before an earlier one."""
    folded = state(turn(1, results=(paid(LOST),)), said(found))
    (result,) = folded.history()[0].results
    assert (result.status, result.effect_status) == (status, effect)
    assert folded.partial().effects[0].status == effect
    if found.finding == "not_applied":
        assert result.error is not None
        assert result.error.retryable
    corrected = state(turn(1, results=(paid(LOST),)), said(found), said(applied("r")))
    assert corrected.history()[0].outputs() == {A: "r"}


def test_the_order_of_turns_and_words_is_in_the_digest() -> None:
    """Whoever was asked before the word was shown something else than who was asked after it."""
    first, second, word = turn(1, results=(paid(LOST),)), turn(2), said(applied("r"))
    digests = {
        state(first, second).context_digest,
        state(first, word, second).context_digest,
        state(first, second, word).context_digest,
    }
    assert len(digests) == 3


def test_the_digest_does_not_depend_on_when_it_is_asked_for() -> None:
    """It is brought up to date lazily, and is the same."""
    records = (turn(1, results=(paid(LOST),)), turn(2), said(applied("r")), turn(3))
    asked = state()
    for record in records:
        asked.apply(Entry(record, encode_record(record)))
        assert asked.context_digest
    assert asked.context_digest == state(*records).context_digest


def test_edits_are_kept_by_call() -> None:
    """Only where a human has changed something, and only the answer that stands."""
    answers = (CallAnswer(A, True, {"n": 5}), CallAnswer(B, True))
    decided = ApprovalDecided(1, DIGEST, answers, "ann", 0.0)
    late = ApprovalDecided(1, DIGEST, (CallAnswer(A, True, {"n": 9}),), "bob", 0.0)
    turn_ = state(PROPOSED, ASKED, decided, late).protocol.open
    assert turn_ is not None
    assert turn_.edits() == {A: {"n": 5}}


def test_a_sentence_is_no_effect() -> None:
    """A model that says it paid has paid nothing."""
    assert state(turn(1, Final("I refunded the order."))).partial().effects == ()


def test_answers_are_kept_by_call_and_the_first_one_stands() -> None:
    """A proposal is decided once every call asked about has its answer."""
    folded = state(PROPOSED, ASKED, answered(B, True), answered(B, False, "bob"))
    assert folded.protocol.open is not None
    assert folded.protocol.open.unanswered() == (A,)
    assert folded.protocol.decided == frozenset()
    assert folded.proposal() is not None

    folded = state(PROPOSED, ASKED, answered(B, True), answered(A, False))
    assert folded.protocol.open is not None
    assert folded.protocol.open.verdicts() == ((B,), ((A, "ann: because"),))
    assert folded.protocol.decided == {DIGEST}


def test_a_new_question_forgets_the_answers_to_the_old_one() -> None:
    """They were given for another digest."""
    again = ApprovalRequested(1, ProposalDigest("d2"), ASKED.asks, 0.0)
    folded = state(PROPOSED, ASKED, answered(A, True), again)
    assert folded.protocol.open is not None
    assert folded.protocol.open.unanswered() == (A, B)


def test_a_resume_takes_up_what_was_suspended() -> None:
    """With the answer in the history, and the faults forgiven."""
    asked = turn(1, Clarification("which?"))
    suspended = Suspended(Reason.CLARIFICATION_REQUIRED, 1.5, 0.0, "which?")
    folded = state(asked, suspended)
    p = folded.protocol
    assert (p.status, p.reason, p.question) == (
        "suspended",
        Reason.CLARIFICATION_REQUIRED,
        "which?",
    )
    assert p.active_seconds == 1.5

    folded = state(asked, suspended, Resumed("ann", 0.0, "order 7"))
    p = folded.protocol
    assert (p.status, p.reason, p.question) == ("running", None, "")
    assert folded.history()[0].answer == "order 7"


def test_a_grant_adds_to_the_budget_and_rearms_the_notice() -> None:
    """The notice is shown with the turn it was given before, and given anew after a grant."""
    notice = NoticeInjected(1, "soft_stop", "come to an end", 0.0)
    folded = state(notice, turn(1))
    assert folded.protocol.soft_stopped
    assert folded.history()[0].notice == "come to an end"

    ended = InvocationEnded(Reason.MAX_STEPS, 0.0, 0.0, cause="no steps left")
    folded = state(notice, turn(1), ended, Resumed("ann", 0.0, grant=Budget(max_steps=4)))
    assert folded.protocol.budget.max_steps == 7
    assert not folded.protocol.soft_stopped
    assert folded.protocol.cause is None


def test_faults_are_counted_in_a_row() -> None:
    """A sound turn, or a person who lets it go on, starts anew."""
    bad = Malformed("no JSON", "{")
    unusable, refused = Fault("decision", "no JSON"), Fault("call", "no such tool")
    folded = state(turn(1, bad, fault=unusable), turn(2, fault=refused))
    assert (folded.protocol.faulty_decisions, folded.protocol.faulty_turns) == (0, 2)
    folded = state(turn(1, bad, fault=unusable), turn(2))
    assert (folded.protocol.faulty_decisions, folded.protocol.faulty_turns) == (0, 0)


def test_a_cancel_takes_a_suspension_back_and_the_first_one_counts() -> None:
    """Should the process die now, the next one finds it running and to be cancelled."""
    first = CancelRequested("first", "ann", 0.0)
    second = CancelRequested("second", "bob", 0.0)
    folded = state(Suspended(Reason.APPROVAL_REQUIRED, 0.0, 0.0), first, second)
    assert (folded.protocol.status, folded.protocol.reason) == ("running", None)
    assert folded.protocol.cancelling == first


def test_an_end_carries_answer_reason_and_cause() -> None:
    """And nothing is left for a human to decide."""
    folded = state(
        PROPOSED, ASKED, InvocationEnded(Reason.COMPLETED, 2.0, 0.0, "done", {"n": 1}, None)
    )
    assert (folded.protocol.status, folded.protocol.reason) == ("ended", Reason.COMPLETED)
    assert (folded.business.answer, folded.business.output) == ("done", {"n": 1})
    assert folded.proposal() is None


COMPACTED = ContextCompacted(1, "in short", "r", 0.0, Usage(30, 3), Decimal("0.3"))


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        ((turn(2),), "turn 2 is stored after turn 0"),
        ((turn(1), turn(1)), "turn 1 is stored after turn 1"),
        ((DISPATCHED,), "a record of turn 1, not open"),
        ((PROPOSED, turn(1), CallCompleted(1, paid(ResultStatus.OK), 0.0)), "not open"),
        ((ASKED,), "not open"),
        ((said(applied()),), "a finding of turn 1, not there"),
        ((PROPOSED, EffectReconciled(2, A, "pay", KEY, applied(), "ann", 0.0)), "not there"),
        ((turn(1), EffectReconciled(0, A, "pay", KEY, applied(), "ann", 0.0)), "not there"),
        ((STARTED,), "starts it a second time"),
        ((AnswerVerified(1, "sums", True, "", "b", 0.0),), "a record of turn 1, not open"),
        ((turn(1), ContextCompacted(2, "short", "r", 0.0)), "a summary up to turn 2, after 0 of 1"),
        (
            (turn(1), turn(2), COMPACTED, ContextCompacted(0, "short", "r", 0.0)),
            "a summary up to turn 0, after 1 of 2",
        ),
    ],
)
def test_records_that_cannot_follow_are_refused(records: tuple[Record, ...], problem: str) -> None:
    """A journal with a hole in it is corrupt; it is not guessed at."""
    with pytest.raises(JournalCorruptError, match=problem):
        state(*records)


@pytest.mark.parametrize("records", [[], [PROPOSED]])
def test_a_journal_begins_with_its_start(records: list[Record]) -> None:
    """Without it there is nothing to fold onto."""
    with pytest.raises(JournalCorruptError, match="does not begin with InvocationStarted"):
        fold([Entry(record, encode_record(record)) for record in records])
