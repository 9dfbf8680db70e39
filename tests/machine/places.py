"""Every place a machine can be in between two messages, each reached by real messages.

A place is a state together with what is waited for in it: a state alone does not say whether a
reply is the one awaited or a late one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from loopwright.policy import Policy
from loopwright.protocol import (
    Accepted,
    Assessed,
    Budget,
    Clarification,
    CommitFailed,
    Committed,
    Decided,
    DecideFailed,
    Executed,
    Final,
    Input,
    InvocationEnded,
    Observed,
    Proposal,
    Reason,
    RunState,
    TurnProposed,
    Usage,
    Validate,
    Validated,
    encode_record,
)
from machine.driver import Driver
from machine.samples import calls, plan_of

DEADLINE_IN = 1_000.0
"""Seconds after the start; no place is reached later than that."""
_BUDGET = Budget(
    max_steps=6, max_tool_calls=5, deadline=datetime.fromtimestamp(1_000 + DEADLINE_IN, UTC)
)
_GRACE = Policy(approval_grace=60)
_STORE = frozenset({Committed, CommitFailed})
_MODEL = frozenset({Decided, DecideFailed})
_NOTHING: frozenset[type[Input]] = frozenset()


@dataclass(frozen=True, slots=True)
class Place:
    """One place, and how to get there."""

    name: str
    state: RunState
    awaits: frozenset[type[Input]]
    """The replies that have a meaning here; any other reply is late."""
    build: Callable[[], Driver]


def _fresh(policy: Policy | None = None, *, hold: bool = False) -> Driver:
    return Driver(_BUDGET, policy, hold=hold)


def _thinking() -> Driver:
    return _fresh().start()


def _held(driver: Driver) -> Driver:
    driver.hold = True
    return driver


def _asked(policy: Policy | None = None) -> Driver:
    return _fresh(policy).start().propose("transfer_a", "transfer_b")


def _asked_held(policy: Policy | None = None) -> Driver:
    return _held(_fresh(policy).start()).propose("transfer_a")


def _reloaded(driver: Driver) -> Driver:
    return driver.reload()


def _broke_off() -> Driver:
    """Die with a write in flight whose dispatch is durable."""
    return _thinking().propose("pay").reload()


def _stopped_by_crash(*tools: str) -> Driver:
    """Fail for an error of ours, with an open turn: what a runtime may journal."""
    start = _thinking()
    proposed = TurnProposed(1, Proposal(calls(*tools), Usage(1, 1)), 0.0)
    ended = InvocationEnded(Reason.INTERNAL_ERROR, 0.0, 0.0, cause="a bug")
    lines = [entry.line for entry in start.journal]
    return Driver(_BUDGET, None, [*lines, encode_record(proposed), encode_record(ended)])


def _failed_while_asked() -> Driver:
    """Fail for an error of ours while a human is asked."""
    asked = _asked(_GRACE)
    lines = [entry.line for entry in asked.journal]
    ended = InvocationEnded(Reason.INTERNAL_ERROR, 0.0, 0.0, cause="a bug")
    return Driver(_BUDGET, _GRACE, [*lines, encode_record(ended)])


def _allowed_yesterday() -> Driver:
    """Die while a write runs that today's policy would ask a human about."""
    driver = _thinking().decide(calls("transfer"))
    plan = plan_of(driver.last(Validate), calls("transfer"))
    return driver.judged(Accepted(plan)).assessed().reload()


def _out_of_steps() -> Driver:
    return Driver(Budget(max_steps=1)).start().turn("read")


def _store_lost_while_reading(*, fenced: bool = False) -> Driver:
    driver = _held(_thinking().propose("read_a", "read_b")).later(0.01)
    return driver.lose(fenced=fenced)


def _store_lost_after_cancel(driver: Driver) -> Driver:
    return _held(driver).cancel().lose()


_S = RunState
PLACES: tuple[Place, ...] = (
    Place("nothing", _S.CREATED, _NOTHING, _fresh),
    Place("starting", _S.CREATED, _STORE, lambda: _fresh(hold=True).start()),
    Place("loaded", _S.CREATED, _NOTHING, lambda: _reloaded(_thinking())),
    Place("broke_off", _S.CREATED, _NOTHING, _broke_off),
    Place(
        "asked_and_broke_off",
        _S.CREATED,
        _NOTHING,
        lambda: _reloaded(_asked(_GRACE)),
    ),
    Place(
        "cancelled_and_broke_off",
        _S.CREATED,
        _NOTHING,
        lambda: _reloaded(_thinking().propose("pay").cancel()),
    ),
    Place("thinking", _S.MODEL_THINKING, _MODEL, _thinking),
    Place("thinking_again", _S.MODEL_THINKING, _MODEL, lambda: _thinking().turn("read", "pay")),
    Place(
        "judging_calls",
        _S.DECIDE_ACTION,
        frozenset({Validated}),
        lambda: _held(_thinking()).decide(calls("read", "pay", "transfer")),
    ),
    Place(
        "judging_final",
        _S.DECIDE_ACTION,
        frozenset({Validated}),
        lambda: _held(_thinking()).decide(Final("done")),
    ),
    Place(
        "judging_question",
        _S.DECIDE_ACTION,
        frozenset({Validated}),
        lambda: _held(_thinking()).decide(Clarification("which order?")),
    ),
    Place(
        "judging_again",
        _S.DECIDE_ACTION,
        frozenset({Validated}),
        lambda: _held(_broke_off()).recover(),
    ),
    Place(
        "judging_as_of_today",
        _S.DECIDE_ACTION,
        frozenset({Validated}),
        lambda: _held(_allowed_yesterday()).recover(),
    ),
    Place(
        "judging_ask_again",
        _S.DECIDE_ACTION,
        frozenset({Validated}),
        lambda: _asked(_GRACE).approve(),
    ),
    Place(
        "assessing",
        _S.DECIDE_ACTION,
        frozenset({Assessed}),
        lambda: _held(_thinking()).decide(calls("read", "pay")).judged(),
    ),
    Place(
        "assessing_ask",
        _S.DECIDE_ACTION,
        frozenset({Assessed}),
        lambda: _held(_thinking()).decide(calls("transfer")).judged(),
    ),
    Place(
        "assessing_refused",
        _S.DECIDE_ACTION,
        frozenset({Assessed}),
        lambda: _held(_thinking()).decide(calls("nonsense")).judged(),
    ),
    Place("asking", _S.WAIT_APPROVAL, _STORE, lambda: _asked_held(_GRACE)),
    Place("suspending", _S.WAIT_APPROVAL, _STORE, _asked_held),
    Place("asked", _S.WAIT_APPROVAL, _NOTHING, lambda: _asked(_GRACE)),
    Place(
        "answered",
        _S.WAIT_APPROVAL,
        _STORE,
        lambda: _held(_asked(_GRACE)).approve(),
    ),
    Place(
        "answered_in_part",
        _S.WAIT_APPROVAL,
        _STORE,
        lambda: _held(_asked(_GRACE)).approve("transfer_a"),
    ),
    Place("grace_over", _S.WAIT_APPROVAL, _STORE, lambda: _held(_asked(_GRACE)).later(60)),
    Place(
        "reading",
        _S.EXECUTE_TOOL,
        frozenset({Executed}),
        lambda: _thinking().propose("read_a", "read_b"),
    ),
    Place(
        "reading_one",
        _S.EXECUTE_TOOL,
        frozenset({Executed}),
        lambda: _held(_thinking()).propose("read"),
    ),
    Place(
        "reading_slowly",
        _S.EXECUTE_TOOL,
        frozenset({Executed}) | _STORE,
        lambda: _held(_thinking()).propose("read_a", "read_b").later(0.01),
    ),
    Place(
        "preparing_write",
        _S.EXECUTE_TOOL,
        _STORE,
        lambda: _held(_thinking()).propose("pay", "mail"),
    ),
    Place(
        "writing",
        _S.EXECUTE_TOOL,
        frozenset({Executed}),
        lambda: _thinking().propose("pay", "mail"),
    ),
    Place(
        "saving",
        _S.COMPACT_OR_SAVE,
        _STORE,
        lambda: _held(_thinking()).propose("read").done("read"),
    ),
    Place(
        "saving_slow",
        _S.COMPACT_OR_SAVE,
        _STORE,
        lambda: _held(_thinking()).propose("read").later(0.01).done("read"),
    ),
    Place(
        "saving_fault",
        _S.COMPACT_OR_SAVE,
        _STORE,
        lambda: _held(_thinking()).decide(calls("nonsense")).judged().assessed(),
    ),
    Place(
        "observing",
        _S.COMPACT_OR_SAVE,
        frozenset({Observed}),
        lambda: _thinking().propose("read").done("read"),
    ),
    Place("finishing", _S.COMPACT_OR_SAVE, _STORE, lambda: _held(_thinking()).finish()),
    Place("failing", _S.COMPACT_OR_SAVE, _STORE, lambda: _held(_thinking()).fail_model()),
    Place(
        "asking_question",
        _S.COMPACT_OR_SAVE,
        _STORE,
        lambda: _held(_thinking()).decide(Clarification("which order?")).judged(),
    ),
    Place("granting", _S.COMPACT_OR_SAVE, _STORE, lambda: _held(_out_of_steps()).grant()),
    Place(
        "granting_open_turn",
        _S.COMPACT_OR_SAVE,
        _STORE,
        lambda: _held(_stopped_by_crash("read")).grant(),
    ),
    Place(
        "granting_open_question",
        _S.COMPACT_OR_SAVE,
        _STORE,
        lambda: _held(_failed_while_asked()).grant(),
    ),
    Place(
        "cancelling_model",
        _S.CANCELLING,
        _MODEL,
        lambda: _thinking().cancel(),
    ),
    Place(
        "cancelling_model_unsaved",
        _S.CANCELLING,
        _MODEL | _STORE,
        lambda: _held(_thinking()).cancel(),
    ),
    Place(
        "cancelling_model_lost",
        _S.CANCELLING,
        _MODEL,
        lambda: _store_lost_after_cancel(_thinking()),
    ),
    Place(
        "cancelling_write",
        _S.CANCELLING,
        frozenset({Executed}),
        lambda: _thinking().propose("pay").cancel(),
    ),
    Place(
        "cancelling_write_lost",
        _S.CANCELLING,
        frozenset({Executed}),
        lambda: _store_lost_after_cancel(_thinking().propose("pay")),
    ),
    Place(
        "cancelling_prepared",
        _S.CANCELLING,
        _STORE,
        lambda: _held(_thinking()).propose("pay").cancel(),
    ),
    Place(
        "store_lost_reading",
        _S.CANCELLING,
        frozenset({Executed}),
        lambda: _store_lost_while_reading().done("read_a"),
    ),
    Place(
        "lease_lost_reading",
        _S.CANCELLING,
        frozenset({Executed}),
        lambda: _store_lost_while_reading(fenced=True),
    ),
    Place(
        "writing_cancelled",
        _S.CANCELLING,
        _STORE,
        lambda: _held(_asked()).cancel(),
    ),
    Place(
        "writing_deadline",
        _S.CANCELLING,
        _STORE,
        lambda: _held(_thinking().propose("read").done("read")).later(DEADLINE_IN),
    ),
    Place("suspended_ask", _S.SUSPENDED, _NOTHING, _asked),
    Place("suspended_ask_elsewhere", _S.SUSPENDED, _NOTHING, lambda: _reloaded(_asked())),
    Place(
        "suspended_question",
        _S.SUSPENDED,
        _NOTHING,
        lambda: _thinking().decide(Clarification("which order?")).judged(),
    ),
    Place("finished", _S.FINISHED, _NOTHING, lambda: _thinking().finish()),
    Place("failed", _S.FAILED, _NOTHING, lambda: _out_of_steps()),
    Place("failed_elsewhere", _S.FAILED, _NOTHING, lambda: _reloaded(_out_of_steps())),
    Place(
        "failed_for_good",
        _S.FAILED,
        _NOTHING,
        lambda: _fresh(Policy.strict()).start().propose("nonsense"),
    ),
    Place("store_lost", _S.FAILED, _NOTHING, lambda: _fresh(hold=True).start().lose()),
    Place(
        "cancelled",
        _S.CANCELLED,
        _NOTHING,
        lambda: _thinking().cancel().fail_model("cancelled"),
    ),
)
