"""The invariants of the crash kit, each with a case in which it does not hold.

A sound runtime does not bring these about, so the evidence is made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from loopwright.protocol import (
    AnswerVerified,
    Budget,
    CallCompleted,
    CallDispatched,
    CallId,
    CancelRequested,
    Effect,
    EffectEntry,
    EffectKey,
    EffectReconciled,
    Entry,
    Final,
    InvocationEnded,
    InvocationId,
    InvocationStarted,
    Parent,
    Principal,
    Proposal,
    Reason,
    Reconciled,
    Record,
    Reserved,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolResult,
    TurnCommitted,
    TurnProposed,
    Usage,
    applied,
    effects_of,
    encode_record,
    not_applied,
)
from loopwright.testing.crash._check import check_case
from loopwright.testing.crash._kept import Kept
from loopwright.testing.crash._log import (
    Body,
    Durable,
    Event,
    LifeBegan,
    ModelAsked,
    StartReturned,
    VerifierAsked,
    digest_of,
)

ID, CALL, KEY = InvocationId("inv-1"), CallId("a"), EffectKey("pay:7")
STARTED = InvocationStarted(ID, "desk", "1", "1", "go", Principal(), Budget(), 0.0)
PROPOSAL = Proposal(ToolCalls((ToolCall(CALL, "pay", {}),)), Usage(1, 1))
PROPOSED = TurnProposed(1, PROPOSAL, 0.0)
RESULT = ToolResult(CALL, "pay", ResultStatus.OK, "paid", None, 1, KEY)
COMMITTED = TurnCommitted(1, PROPOSAL, (RESULT,), 1, 0.0, 0.0)
ENDED = InvocationEnded(Reason.COMPLETED, 0.0, 0.0, "done")
CANCEL = CancelRequested("", "bo", 0.0)


def dispatched(
    attempt: int = 1, *, key: EffectKey = KEY, effect: Effect = Effect.RECONCILABLE
) -> CallDispatched:
    return CallDispatched(1, CALL, attempt, "pay", {}, key, 0.0, effect)


def said(found: Reconciled) -> EffectReconciled:
    return EffectReconciled(1, CALL, "pay", KEY, found, "reconciler", 0.0)


def kept(*records: Record, effects: Sequence[EffectEntry] | None = None) -> Kept:
    """What a store has that holds these records."""
    ledger: dict[EffectKey, EffectEntry] = {}
    for record in (STARTED, *records):
        for effect in effects_of(record):
            ledger[effect.effect_key] = effect.over(ledger.get(effect.effect_key))
    entries = [Entry(record, encode_record(record)) for record in (STARTED, *records)]
    known = [*ledger.values()] if effects is None else effects
    return Kept(ID, len(entries), entries, known)


def durable(one: Kept, first: int, last: int, life: int = 1) -> Durable:
    lines = [entry.line for entry in one.entries[first - 1 : last]]
    return Durable(life, ID, first, last, digest_of(lines))


def body(step: Any, attempt: int = 1, life: int = 1, effect: Effect = Effect.RECONCILABLE) -> Body:
    return Body(life, step, ID, 1, CALL, attempt, "pay", effect, KEY)


SOUND = kept(PROPOSED, dispatched(), COMMITTED, ENDED)


def test_what_is_sound_passes() -> None:
    events: list[Event] = [LifeBegan(1), StartReturned(1, ID), durable(SOUND, 1, 5), body("began")]
    check_case([SOUND], [*events, body("returned")], {KEY: 1})
    check_case([], [LifeBegan(1)], {})


def test_an_effect_may_be_tried_again_once_it_is_known_not_to_be_there() -> None:
    again = kept(PROPOSED, dispatched(), said(not_applied()), dispatched(2), COMMITTED)
    check_case([again], [body("began"), body("began", 2, 2), body("returned", 2, 2)], {KEY: 1})


def test_what_becomes_of_an_effect_may_be_said_after_the_end() -> None:
    check_case([kept(PROPOSED, dispatched(), COMMITTED, ENDED, said(applied()))], [], None)


def looked(life: int, verifier: str = "sums") -> VerifierAsked:
    return VerifierAsked(life, ID, 1, verifier)


def verdict(*, holds: bool = True) -> AnswerVerified:
    return AnswerVerified(1, "sums", holds, "", "bound", 0.0)


def test_a_verifier_may_be_asked_again_where_its_verdict_does_not_hold() -> None:
    """It was lost, it was a no, it was another one's, or what it was about has changed since."""
    answer = TurnProposed(1, Proposal(Final("done"), Usage(1, 1)), 0.0)
    one = kept(answer, verdict())
    check_case([one], [looked(1), LifeBegan(2), looked(2)], None)
    check_case([one], [looked(1), durable(one, 1, 3), LifeBegan(2), looked(2, "style")], None)
    no = kept(answer, verdict(holds=False))
    check_case([no], [looked(1), durable(no, 1, 3), LifeBegan(2), looked(2)], None)


PARENT, CHILD = InvocationId("inv-1"), InvocationId("inv-2")
HIRED = CallDispatched(1, CALL, 1, "pay", {}, KEY, 0.0, Effect.RECONCILABLE, Reserved(3))
PAID = kept(PROPOSED, HIRED, COMMITTED, ENDED)


def child(
    identity: InvocationId = CHILD, call: CallId = CALL, key: str = "", *records: Record
) -> Kept:
    """What a store has of a child of that call, under a key of its own."""
    above = Parent(PARENT, 1, call, 1)
    started = replace(STARTED, invocation_id=identity, parent=above, key=key)
    entries = [Entry(record, encode_record(record)) for record in (started, *records)]
    return Kept(identity, len(entries), entries, ())


def test_a_child_is_no_effect_of_its_own() -> None:
    """Its call is settled by how it ended; whoever owns the data has never heard of it."""
    check_case([PAID, child()], [], {})
    with pytest.raises(AssertionError, match="pay:7 counts as committed, and has not taken place"):
        check_case([SOUND], [], {})


def test_one_child_for_each_call_that_was_dispatched() -> None:
    twice = [PAID, child(), child(InvocationId("inv-3"))]
    with pytest.raises(AssertionError, match="call 'a' of turn 1 has two children: inv-2 and"):
        check_case(twice, [], None)
    for one in (kept(PROPOSED), SOUND):
        with pytest.raises(AssertionError, match="inv-2 was started by call 'a' of turn 1, and"):
            check_case([one, child()], [], None)


def test_nobody_works_for_a_parent_that_was_cancelled() -> None:
    """In lives that have begun since; and a cancel of the child is none of its parent."""
    parent = kept(PROPOSED, HIRED, CANCEL)
    events: list[Event] = [durable(parent, 1, 4), LifeBegan(2), ModelAsked(2, CHILD, 1)]
    with pytest.raises(AssertionError, match="inv-2 was at work in life 2, after a cancel of its"):
        check_case([parent, child()], events, None)
    check_case([parent, child()], [*events[:1], ModelAsked(1, CHILD, 1)], None)
    stopped = child(CHILD, CALL, "", CANCEL)
    lines = [entry.line for entry in stopped.entries]
    said = Durable(1, CHILD, 1, 2, digest_of(lines))
    check_case([PAID, stopped], [said, LifeBegan(2), ModelAsked(2, PARENT, 2)], None)


OTHER = TurnCommitted(1, PROPOSAL, (), 1, 0.0, 0.0)
CUT = Kept(ID, 5, SOUND.entries[:3], SOUND.effects)
BROKEN: dict[str, tuple[Kept, list[Event], str]] = {
    "a commit is lost": (
        kept(PROPOSED),
        [durable(SOUND, 1, 3)],
        "lost commit: seq 1 to 3 was durable in life 1",
    ),
    "an invocation is lost": (
        SOUND,
        [StartReturned(4, InvocationId("inv-2"))],
        "lost: invocation inv-2 was durable in life 4",
    ),
    "a gap": (CUT, [], "gap: the journal of inv-1 has 3 records up to seq 5"),
    "it does not fold": (kept(dispatched()), [], "the journal does not fold: "),
    "two ends": (
        kept(PROPOSED, COMMITTED, ENDED, ENDED),
        [],
        "invocation_ended at seq 5 comes after the end: it ended with completed at seq 4",
    ),
    "a call without a result": (
        kept(PROPOSED, OTHER),
        [],
        r"turn 1 has results for \[\], and the calls \['a'\]",
    ),
    "another key": (
        kept(PROPOSED, dispatched(), dispatched(2, key=EffectKey("pay:8"))),
        [],
        "call 'a' of turn 1 was dispatched under two effect keys: pay:7 and pay:8",
    ),
    "a lost count": (
        kept(PROPOSED, dispatched(), dispatched()),
        [],
        "call 'a' of turn 1 was dispatched as attempt 1 after 1",
    ),
    "no word": (
        kept(PROPOSED, dispatched(), dispatched(2)),
        [],
        "call 'a' of turn 1, reconcilable, was dispatched again, and nobody has said",
    ),
    "not announced": (
        kept(PROPOSED),
        [body("began")],
        r"attempt 1 of call 'a' of turn 1 \(pay\), in life 1, began, and its dispatch is not",
    ),
    "begun twice": (
        kept(PROPOSED, dispatched()),
        [body("began"), body("began", life=2)],
        "in life 2, began, and had begun in life 1 already",
    ),
    "done twice": (
        kept(PROPOSED, dispatched(), said(not_applied()), dispatched(2)),
        [body("returned"), body("returned", 2, 2)],
        "pay:7 of tool 'pay' has taken place in life 1 and again in life 2; reconciler had said",
    ),
    "asked again": (
        kept(PROPOSED),
        [durable(kept(PROPOSED), 1, 2), LifeBegan(2), ModelAsked(2, ID, 1)],
        "the model was asked for turn 1 in life 2, and its reply was durable since life 1",
    ),
    "a verifier asked again": (
        kept(TurnProposed(1, Proposal(Final("done"), Usage(1, 1)), 0.0), verdict()),
        [
            durable(
                kept(TurnProposed(1, Proposal(Final("done"), Usage(1, 1)), 0.0), verdict()), 1, 3
            ),
            LifeBegan(2),
            looked(2),
        ],
        "verifier 'sums' was asked about turn 1 in life 2, and its verdict was durable since",
    ),
    "dispatched after a cancel": (
        kept(PROPOSED, CANCEL, dispatched()),
        [],
        "a call was dispatched after a cancel was durable",
    ),
    "begun after a cancel": (
        kept(PROPOSED, CANCEL),
        [
            durable(kept(PROPOSED, CANCEL), 3, 3),
            LifeBegan(2),
            body("began", life=2, effect=Effect.READ),
        ],
        "in life 2, began after a cancel was durable",
    ),
    "asked after a cancel": (
        kept(PROPOSED, COMMITTED, CANCEL),
        [durable(kept(PROPOSED, COMMITTED, CANCEL), 4, 4), LifeBegan(2), ModelAsked(2, ID, 2)],
        "the model was asked in life 2, after a cancel",
    ),
    "another ledger": (
        kept(PROPOSED, dispatched(), effects=()),
        [],
        "the ledger has None for pay:7",
    ),
    "too much in the ledger": (
        kept(PROPOSED, effects=SOUND.effects),
        [],
        r"the ledger has \['pay:7'\], and the journal \[\]",
    ),
    "at rest and under way": (
        kept(PROPOSED, dispatched(), ENDED),
        [],
        "it rests with completed, and the effect pay:7 is still under way",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_hold_is_named(name: str) -> None:
    one, events, says = BROKEN[name]
    with pytest.raises(AssertionError, match=says):
        check_case([one], events, None)


@pytest.mark.parametrize(
    ("one", "downstream", "says"),
    [
        (SOUND, {KEY: 2}, "duplicate: the effect pay:7 has taken place 2 times"),
        (SOUND, {KEY: 1, "x": 1}, "the effect x has taken place, and no dispatch has announced"),
        (SOUND, {}, "the effect pay:7 counts as committed, and has not taken place"),
        (
            kept(PROPOSED, dispatched(), said(not_applied())),
            {KEY: 1},
            "the effect pay:7 has taken place, and counts as not_applied",
        ),
    ],
)
def test_what_really_took_place_is_compared(
    one: Kept, downstream: dict[str, int], says: str
) -> None:
    with pytest.raises(AssertionError, match=says):
        check_case([one], [], downstream)


def test_an_outcome_that_is_unknown_may_be_either() -> None:
    unknown = ToolResult(CALL, "pay", ResultStatus.OUTCOME_UNKNOWN, None, None, 1, KEY)
    one = kept(PROPOSED, dispatched(), CallCompleted(1, unknown, 0.0))
    check_case([one], [], {})
    check_case([one], [], {KEY: 1})
