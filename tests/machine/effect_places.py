"""The places in which the outcome of a write is, or was, unknown."""

from __future__ import annotations

from loopwright.protocol import (
    RunState,
    Validated,
    applied,
    not_applied,
    unknown,
)
from machine.samples import calls
from machine.ways import (
    GRACE,
    MODEL,
    NOTHING,
    OWNER,
    STORE,
    TOOLS,
    Place,
    allowed_yesterday,
    failed_unknown,
    given_up,
    held,
    late_recovery,
    reloaded,
    store_lost_after_cancel,
    thinking,
    two_unknown,
    unknown_recovered,
    unknown_write,
)

_S = RunState
EFFECT_PLACES: tuple[Place, ...] = (
    Place("asking_owner", _S.RECONCILE, OWNER, lambda: unknown_write("wire")),
    Place(
        "asking_owner_slowly",
        _S.RECONCILE,
        OWNER | STORE,
        lambda: held(unknown_write("wire")).later(0.01),
    ),
    Place(
        "asking_owner_again",
        _S.RECONCILE,
        OWNER,
        lambda: unknown_recovered("wire").judged(),
    ),
    Place(
        "asking_two_owners",
        _S.RECONCILE,
        OWNER,
        lambda: two_unknown("wire_a", "wire_b"),
    ),
    Place(
        "asking_one_owner_of_two",
        _S.RECONCILE,
        OWNER,
        lambda: two_unknown("wire", "mail"),
    ),
    Place(
        "told_meanwhile",
        _S.RECONCILE,
        OWNER | STORE,
        lambda: held(two_unknown("wire_a", "wire_b")).settle("wire_a", applied()),
    ),
    Place(
        "leaving_it_to_people",
        _S.RECONCILE,
        STORE,
        lambda: held(thinking().propose("mail")).lost("mail"),
    ),
    Place(
        "settling",
        _S.RECONCILE,
        STORE,
        lambda: held(unknown_write("mail")).settle("mail", applied()),
    ),
    Place(
        "settling_at_once",
        _S.RECONCILE,
        STORE,
        lambda: held(thinking().propose("mail")).lost("mail").settle("mail", not_applied()),
    ),
    Place(
        "settling_one_of_two",
        _S.RECONCILE,
        STORE,
        lambda: held(two_unknown("pay_a", "mail_b")).settle("mail_b", applied()),
    ),
    Place(
        "settling_an_old_one_too",
        _S.RECONCILE,
        STORE,
        lambda: (
            held(given_up().propose("wire").lost("wire").found("wire", unknown()))
            .settle("wire", applied())
            .settle("mail", applied())
        ),
    ),
    Place("settled", _S.DECIDE_ACTION, frozenset({Validated}), lambda: given_up("nothing")),
    Place("waiting_to_send_again", _S.EXECUTE_TOOL, NOTHING, lambda: unknown_write("pay")),
    Place(
        "thinking_corrected",
        _S.MODEL_THINKING,
        MODEL | STORE,
        lambda: held(given_up()).settle("mail", applied()),
    ),
    Place(
        "judging_corrected",
        _S.DECIDE_ACTION,
        frozenset({Validated}) | STORE,
        lambda: held(given_up()).decide(calls("read", "transfer")).settle("mail", applied()),
    ),
    Place(
        "asked_corrected",
        _S.WAIT_APPROVAL,
        STORE,
        lambda: held(
            unknown_write("mail", GRACE)
            .settle("mail", unknown())
            .judged()
            .observed()
            .propose("transfer")
        ).settle("mail", applied()),
    ),
    Place(
        "answered_and_corrected",
        _S.WAIT_APPROVAL,
        STORE,
        lambda: held(given_up().propose("transfer")).approve().settle("mail", applied()),
    ),
    Place(
        "writing_corrected",
        _S.EXECUTE_TOOL,
        TOOLS | STORE,
        lambda: held(given_up().propose("pay")).settle("mail", applied()),
    ),
    Place(
        "finishing_corrected",
        _S.COMPACT_OR_SAVE,
        STORE,
        lambda: held(given_up()).finish().settle("mail", applied()),
    ),
    Place(
        "granting_unknown",
        _S.COMPACT_OR_SAVE,
        STORE,
        lambda: held(unknown_write("mail")).grant(),
    ),
    Place(
        "judging_too_late",
        _S.DECIDE_ACTION,
        frozenset({Validated}),
        lambda: late_recovery("wire"),
    ),
    Place(
        "cancelling_while_asking",
        _S.CANCELLING,
        OWNER,
        lambda: unknown_write("wire").cancel(),
    ),
    Place(
        "cancelling_two_asked",
        _S.CANCELLING,
        OWNER,
        lambda: two_unknown("wire_a", "wire_b").cancel(),
    ),
    Place(
        "cancelling_then_asking",
        _S.CANCELLING,
        OWNER,
        lambda: thinking().propose("wire").cancel().later(5),
    ),
    Place(
        "cancelled_elsewhere_and_asking",
        _S.CANCELLING,
        OWNER,
        lambda: thinking().propose("wire").cancel().reload().recover(),
    ),
    Place(
        "cancelling_while_asking_lost",
        _S.CANCELLING,
        OWNER,
        lambda: store_lost_after_cancel(unknown_write("wire")),
    ),
    Place("suspended_unknown", _S.SUSPENDED, NOTHING, lambda: unknown_write("mail")),
    Place(
        "suspended_unknown_elsewhere",
        _S.SUSPENDED,
        NOTHING,
        lambda: reloaded(unknown_write("mail")),
    ),
    Place("suspended_two_unknown", _S.SUSPENDED, NOTHING, lambda: two_unknown("mail_a", "mail_b")),
    Place(
        "suspended_ask_unknown",
        _S.SUSPENDED,
        NOTHING,
        lambda: allowed_yesterday().recover().judged(),
    ),
    Place(
        "suspended_corrected",
        _S.SUSPENDED,
        STORE,
        lambda: held(given_up().propose("transfer")).settle("mail", applied()),
    ),
    Place(
        "finished_unknown",
        _S.FINISHED,
        NOTHING,
        lambda: reloaded(given_up().finish()),
    ),
    Place(
        "finished_corrected",
        _S.FINISHED,
        STORE,
        lambda: held(given_up().finish()).settle("mail", applied()),
    ),
    Place("failed_unknown", _S.FAILED, NOTHING, failed_unknown),
    Place(
        "failed_corrected",
        _S.FAILED,
        STORE,
        lambda: held(failed_unknown()).settle("mail", applied()),
    ),
    Place(
        "lease_lost",
        _S.FAILED,
        NOTHING,
        lambda: given_up().lose_lease().fail_model(),
    ),
    Place(
        "lease_lost_writing",
        _S.CANCELLING,
        TOOLS,
        lambda: thinking().propose("read_a", "read_b").refuse_dispatch("read_a"),
    ),
    Place(
        "cancelled_unknown",
        _S.CANCELLED,
        NOTHING,
        lambda: thinking().propose("mail").cancel().later(5),
    ),
    Place(
        "cancelled_corrected",
        _S.CANCELLED,
        STORE,
        lambda: held(thinking().propose("mail").cancel().later(5)).settle("mail", applied()),
    ),
    Place(
        "lease_lost_while_thinking",
        _S.CANCELLING,
        MODEL,
        lambda: thinking().lose_lease(),
    ),
    Place(
        "lease_lost_while_asking",
        _S.CANCELLING,
        OWNER,
        lambda: unknown_write("wire").lose_lease(),
    ),
)
