"""The places in which a child works, an answer is verified, or the invocation is steered."""

from __future__ import annotations

from loopwright.policy import Policy
from loopwright.protocol import (
    Clarification,
    Final,
    ModelErrorKind,
    Reason,
    RunState,
    Stalled,
    Usage,
    Validated,
    applied,
)
from machine.samples import calls
from machine.ways import (
    ASKS,
    CHILD,
    EXPIRES,
    MODEL,
    NOTHING,
    OWNER_OR_CHILD,
    STORE,
    SUMMARY,
    VERIFIER,
    VERIFIERS,
    Place,
    asked,
    child_waits,
    compacting,
    fresh,
    given_up,
    handing_over,
    held,
    out_of_steps,
    reloaded,
    store_lost_after_cancel,
    thinking,
    two_hired,
    verified_before,
    verifying,
)

_S = RunState
_STALLED = Stalled("cycle", "three rounds of the same")
_VERIFIER_PLACES = (
    Place("verifying", _S.VERIFY_ANSWER, VERIFIER, verifying),
    Place("verifying_unsaved", _S.VERIFY_ANSWER, VERIFIER | STORE, lambda: verifying(hold=True)),
    Place("verifying_last", _S.VERIFY_ANSWER, VERIFIER, lambda: verifying().verified()),
    Place(
        "verifying_again",
        _S.VERIFY_ANSWER,
        VERIFIER,
        lambda: reloaded(verifying().verified()).recover().judged(),
    ),
    Place(
        "verifying_corrected",
        _S.VERIFY_ANSWER,
        VERIFIER | STORE,
        lambda: held(given_up(verifiers=VERIFIERS).finish()).settle("mail", applied()),
    ),
    Place(
        "verifying_what_has_changed",
        _S.VERIFY_ANSWER,
        VERIFIER,
        lambda: given_up(verifiers=VERIFIERS).finish().settle("mail", applied()),
    ),
    Place("judging_verified", _S.DECIDE_ACTION, frozenset({Validated}), verified_before),
    Place(
        "saving_failed_answer",
        _S.COMPACT_OR_SAVE,
        STORE,
        lambda: held(verifying()).verified("it does not add up"),
    ),
    Place(
        "finishing_verified",
        _S.COMPACT_OR_SAVE,
        STORE,
        lambda: held(verifying().verified()).verified(),
    ),
)
_CHILD_PLACES = (
    Place("reserving", _S.EXECUTE_TOOL, STORE, lambda: held(thinking()).propose("hire")),
    Place("child_works", _S.EXECUTE_TOOL, CHILD, lambda: thinking().propose("hire", "read")),
    Place("only_a_child_works", _S.EXECUTE_TOOL, CHILD, lambda: thinking().propose("hire")),
    Place("two_children_work", _S.EXECUTE_TOOL, CHILD, two_hired),
    Place(
        "child_waits_unsaved",
        _S.RECONCILE,
        STORE,
        lambda: held(thinking().propose("hire")).child_rested("hire", Reason.APPROVAL_REQUIRED),
    ),
    Place("suspended_for_child", _S.SUSPENDED, NOTHING, child_waits),
    Place(
        "suspended_for_child_elsewhere",
        _S.SUSPENDED,
        NOTHING,
        lambda: reloaded(child_waits()),
    ),
    Place("waking", _S.COMPACT_OR_SAVE, STORE, lambda: held(child_waits()).wake("child-hire")),
    Place(
        "judging_woken",
        _S.DECIDE_ACTION,
        frozenset({Validated}),
        lambda: child_waits().wake("child-hire"),
    ),
    Place(
        "asking_after_child",
        _S.RECONCILE,
        OWNER_OR_CHILD,
        lambda: child_waits().wake("child-hire").judged(),
    ),
    Place(
        "asking_after_two_children",
        _S.RECONCILE,
        OWNER_OR_CHILD,
        lambda: reloaded(two_hired()).recover().judged(),
    ),
    Place(
        "cancelling_child",
        _S.CANCELLING,
        CHILD,
        lambda: thinking().propose("hire").cancel(),
    ),
    Place(
        "cancelling_child_asked",
        _S.CANCELLING,
        OWNER_OR_CHILD,
        lambda: child_waits().cancel(),
    ),
    Place("lease_lost_child", _S.CANCELLING, CHILD, lambda: two_hired().lose_lease()),
    Place(
        "lease_lost_only_child",
        _S.CANCELLING,
        CHILD,
        lambda: thinking().propose("hire").lose_lease(),
    ),
    Place(
        "cancelling_child_lost",
        _S.CANCELLING,
        CHILD,
        lambda: store_lost_after_cancel(thinking().propose("hire")),
    ),
)
_STEERED_PLACES = (
    Place(
        "attempt_failed_unsaved",
        _S.MODEL_THINKING,
        MODEL | STORE,
        lambda: held(thinking()).attempt_failed(Usage(10)),
    ),
    Place(
        "cancelling_attempt_failed",
        _S.CANCELLING,
        MODEL | STORE,
        lambda: held(thinking().cancel()).attempt_failed(Usage(10)),
    ),
    Place(
        "failing_refused",
        _S.COMPACT_OR_SAVE,
        STORE,
        lambda: held(thinking()).fail_model("no", ModelErrorKind.REFUSED),
    ),
    Place("compacting", _S.COMPACT_OR_SAVE, SUMMARY, compacting),
    Place("saving_summary", _S.COMPACT_OR_SAVE, STORE, lambda: held(compacting()).compacted()),
    Place(
        "handing_over",
        _S.COMPACT_OR_SAVE,
        STORE,
        lambda: held(thinking()).decide(handing_over()).judged(),
    ),
    Place(
        "handing_over_after_calls",
        _S.COMPACT_OR_SAVE,
        STORE,
        lambda: held(thinking().decide(handing_over("read")).judged().assessed()).done("read"),
    ),
    Place(
        "handed_over", _S.MODEL_THINKING, MODEL, lambda: thinking().decide(handing_over()).judged()
    ),
    Place("asked_expiring", _S.WAIT_APPROVAL, NOTHING, lambda: asked(EXPIRES)),
    Place("expiring", _S.WAIT_APPROVAL, STORE, lambda: held(asked(EXPIRES)).later(30)),
    Place(
        "grace_over_expiring",
        _S.WAIT_APPROVAL,
        STORE,
        lambda: held(asked(Policy(approval_grace=10, approval_expires=30))).later(10),
    ),
    Place(
        "suspended_expiring",
        _S.SUSPENDED,
        NOTHING,
        lambda: asked(Policy(approval_expires=30)),
    ),
    Place(
        "deciding_instead",
        _S.COMPACT_OR_SAVE,
        STORE,
        lambda: held(out_of_steps()).decide_instead(calls("read")),
    ),
    Place(
        "judging_a_person",
        _S.DECIDE_ACTION,
        frozenset({Validated}),
        lambda: (
            thinking().decide(Clarification("which?")).judged().decide_instead(Final("this one"))
        ),
    ),
    Place(
        "asking_how_to_go_on",
        _S.COMPACT_OR_SAVE,
        STORE,
        lambda: held(fresh(ASKS).start().propose("read").done("read")).observed(_STALLED),
    ),
    Place(
        "suspended_stalled",
        _S.SUSPENDED,
        NOTHING,
        lambda: fresh(ASKS).start().propose("read").done("read").observed(_STALLED),
    ),
)
CONTROL_PLACES: tuple[Place, ...] = (*_VERIFIER_PLACES, *_CHILD_PLACES, *_STEERED_PLACES)
