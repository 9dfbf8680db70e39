"""The invariants of the crash kit, each with a case in which it does not hold.

A sound runtime does not bring these about, so the evidence is made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from loopwright.protocol import (
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
    InvocationEnded,
    InvocationId,
    InvocationStarted,
    Principal,
    Proposal,
    Reason,
    Reconciled,
    Record,
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
