"""The state machine of an invocation, as data.

`TABLE[state][trigger]` is the set of states that may follow. A trigger is the type of a
message, or `Entered` for going on at once from a state that was just entered. A pair that is not in the table is a violation and changes nothing; a reply
nobody waits for any more never gets as far as the table (it is `Late`).

Two rules hold over the whole table. Everything that is to be durable before the next step
is waited for in the state that asked for it, so a crash can only ever lose a step that was
not taken. And `CANCELLING` is the one way out while something is in flight: it is entered for
a cancel, a deadline, a lost lease and a broken store alike, refuses every dispatch, and is
left when nothing runs any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from ._acting import (
    ChildRested,
    CommitFailed,
    Committed,
    Executed,
    Found,
    LeaseLost,
    NotDispatched,
    ServiceFailed,
)
from ._commands import (
    Answer,
    AnswerApproval,
    Cancel,
    DecideInstead,
    Expire,
    Grant,
    Recover,
    Settle,
    Start,
    Tick,
    Wake,
)
from ._messages import Input
from ._thinking import (
    Assessed,
    AttemptFailed,
    Compacted,
    Decided,
    DecideFailed,
    Observed,
    Validated,
    Verified,
)
from ._words import Word


class RunState(Word):
    """Where an invocation is."""

    CREATED = "CREATED"
    PREPARE_CONTEXT = "PREPARE_CONTEXT"
    MODEL_THINKING = "MODEL_THINKING"
    DECIDE_ACTION = "DECIDE_ACTION"
    WAIT_APPROVAL = "WAIT_APPROVAL"
    EXECUTE_TOOL = "EXECUTE_TOOL"
    RECONCILE = "RECONCILE"
    VERIFY_ANSWER = "VERIFY_ANSWER"
    OBSERVE = "OBSERVE"
    COMPACT_OR_SAVE = "COMPACT_OR_SAVE"
    CANCELLING = "CANCELLING"
    SUSPENDED = "SUSPENDED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def at_rest(self) -> bool:
        """Whether nothing happens until somebody says something."""
        return self in _AT_REST


_AT_REST = frozenset({RunState.SUSPENDED, RunState.FINISHED, RunState.FAILED, RunState.CANCELLED})


class CallState(Word):
    """Where one call of the open turn is."""

    PLANNED = "planned"
    PREPARED = "prepared"
    """A write whose `CallDispatched` is on its way to the store."""
    DISPATCHED = "dispatched"
    UNKNOWN = "unknown"
    """A write that was dispatched, and nobody here knows what became of it."""
    SETTLED = "settled"
    """It has its one result."""


CALL_TABLE: Mapping[CallState, frozenset[CallState]] = MappingProxyType(
    {
        CallState.PLANNED: frozenset(
            {CallState.PREPARED, CallState.DISPATCHED, CallState.UNKNOWN, CallState.SETTLED}
        ),
        CallState.PREPARED: frozenset({CallState.DISPATCHED, CallState.UNKNOWN, CallState.SETTLED}),
        CallState.DISPATCHED: frozenset({CallState.UNKNOWN, CallState.SETTLED}),
        CallState.UNKNOWN: frozenset({CallState.PLANNED, CallState.SETTLED}),
        CallState.SETTLED: frozenset(),
    }
)
"""Which call states may follow which.

A refused call is settled without being dispatched; an unknown one is planned again only where it
may be dispatched again.
"""


class Entered:
    """The trigger of what follows at once: no further message is waited for."""


Trigger: TypeAlias = type[Input] | type[Entered]

_S = RunState


def _to(*states: RunState) -> frozenset[RunState]:
    return frozenset(states)


def _live(
    stay: RunState, triggers: Mapping[Trigger, frozenset[RunState]]
) -> Mapping[Trigger, frozenset[RunState]]:
    """Add what every live state takes: a cancel, a lost lease, a crash elsewhere, and time."""
    stop = _to(_S.CANCELLING)
    always = {Cancel: stop, LeaseLost: stop, ServiceFailed: stop, Tick: stop | {stay}}
    return MappingProxyType({**always, **triggers})


def _corrected(stay: RunState, failed: RunState) -> Mapping[Trigger, frozenset[RunState]]:
    """Add that the ledger may be corrected meanwhile: a word on a write of long ago is committed."""
    return {Settle: _to(stay), Committed: _to(stay), CommitFailed: _to(failed)}


TABLE: Mapping[RunState, Mapping[Trigger, frozenset[RunState]]] = MappingProxyType(
    {
        _S.CREATED: _live(
            _S.CREATED,
            {
                Start: _to(_S.CREATED),
                Recover: _to(_S.PREPARE_CONTEXT, _S.DECIDE_ACTION, _S.WAIT_APPROVAL, _S.CANCELLING),
                Committed: _to(_S.PREPARE_CONTEXT),
                CommitFailed: _to(_S.CANCELLING),
            },
        ),
        _S.PREPARE_CONTEXT: MappingProxyType({Entered: _to(_S.MODEL_THINKING, _S.COMPACT_OR_SAVE)}),
        _S.MODEL_THINKING: _live(
            _S.MODEL_THINKING,
            {
                **_corrected(_S.MODEL_THINKING, _S.CANCELLING),
                Decided: _to(_S.DECIDE_ACTION),
                AttemptFailed: _to(_S.MODEL_THINKING),
                DecideFailed: _to(_S.COMPACT_OR_SAVE),
            },
        ),
        _S.DECIDE_ACTION: _live(
            _S.DECIDE_ACTION,
            {
                **_corrected(_S.DECIDE_ACTION, _S.CANCELLING),
                Entered: _to(_S.COMPACT_OR_SAVE),
                Validated: _to(
                    _S.DECIDE_ACTION,
                    _S.EXECUTE_TOOL,
                    _S.WAIT_APPROVAL,
                    _S.VERIFY_ANSWER,
                    _S.COMPACT_OR_SAVE,
                    _S.CANCELLING,
                ),
                Assessed: _to(_S.EXECUTE_TOOL, _S.WAIT_APPROVAL, _S.COMPACT_OR_SAVE),
            },
        ),
        _S.WAIT_APPROVAL: _live(
            _S.WAIT_APPROVAL,
            {
                Committed: _to(_S.WAIT_APPROVAL, _S.DECIDE_ACTION, _S.SUSPENDED),
                CommitFailed: _to(_S.CANCELLING),
                AnswerApproval: _to(_S.WAIT_APPROVAL),
                Expire: _to(_S.WAIT_APPROVAL),
                Settle: _to(_S.WAIT_APPROVAL),
            },
        ),
        _S.EXECUTE_TOOL: _live(
            _S.EXECUTE_TOOL,
            {
                Entered: _to(_S.OBSERVE, _S.RECONCILE),
                Committed: _to(_S.EXECUTE_TOOL),
                CommitFailed: _to(_S.CANCELLING),
                Executed: _to(_S.EXECUTE_TOOL, _S.OBSERVE, _S.RECONCILE),
                ChildRested: _to(_S.EXECUTE_TOOL, _S.OBSERVE, _S.RECONCILE),
                NotDispatched: _to(_S.CANCELLING),
                Settle: _to(_S.EXECUTE_TOOL),
            },
        ),
        _S.RECONCILE: _live(
            _S.RECONCILE,
            {
                Found: _to(_S.RECONCILE, _S.EXECUTE_TOOL),
                ChildRested: _to(_S.RECONCILE, _S.EXECUTE_TOOL),
                Settle: _to(_S.RECONCILE, _S.EXECUTE_TOOL),
                Committed: _to(_S.RECONCILE, _S.DECIDE_ACTION, _S.SUSPENDED),
                CommitFailed: _to(_S.CANCELLING),
            },
        ),
        _S.VERIFY_ANSWER: _live(
            _S.VERIFY_ANSWER,
            {
                **_corrected(_S.VERIFY_ANSWER, _S.CANCELLING),
                Entered: _to(_S.COMPACT_OR_SAVE),
                Verified: _to(_S.VERIFY_ANSWER, _S.COMPACT_OR_SAVE),
            },
        ),
        _S.OBSERVE: MappingProxyType({Entered: _to(_S.COMPACT_OR_SAVE)}),
        _S.COMPACT_OR_SAVE: _live(
            _S.COMPACT_OR_SAVE,
            {
                Committed: _to(
                    _S.COMPACT_OR_SAVE,
                    _S.PREPARE_CONTEXT,
                    _S.DECIDE_ACTION,
                    _S.WAIT_APPROVAL,
                    _S.SUSPENDED,
                    _S.FINISHED,
                    _S.FAILED,
                ),
                CommitFailed: _to(_S.CANCELLING),
                # Either comes too late once the end itself is on its way to the store.
                Cancel: _to(_S.CANCELLING, _S.COMPACT_OR_SAVE),
                ServiceFailed: _to(_S.CANCELLING, _S.COMPACT_OR_SAVE),
                Observed: _to(_S.PREPARE_CONTEXT, _S.COMPACT_OR_SAVE),
                Compacted: _to(_S.PREPARE_CONTEXT, _S.COMPACT_OR_SAVE),
                Settle: _to(_S.COMPACT_OR_SAVE),
            },
        ),
        _S.CANCELLING: MappingProxyType(
            {
                Entered: _to(_S.FAILED),
                ServiceFailed: _to(_S.CANCELLING),
                Settle: _to(_S.CANCELLING),
                AttemptFailed: _to(_S.CANCELLING),
                **dict.fromkeys(
                    (
                        Cancel,
                        Tick,
                        Decided,
                        DecideFailed,
                        Executed,
                        ChildRested,
                        NotDispatched,
                        LeaseLost,
                        Found,
                        Committed,
                        CommitFailed,
                    ),
                    _to(_S.CANCELLING, _S.FAILED, _S.CANCELLED),
                ),
            }
        ),
        _S.SUSPENDED: MappingProxyType(
            {
                AnswerApproval: _to(_S.WAIT_APPROVAL),
                Expire: _to(_S.WAIT_APPROVAL),
                Answer: _to(_S.COMPACT_OR_SAVE),
                DecideInstead: _to(_S.COMPACT_OR_SAVE),
                Wake: _to(_S.COMPACT_OR_SAVE),
                Cancel: _to(_S.CANCELLING),
                Grant: _to(_S.COMPACT_OR_SAVE),
                **_corrected(_S.SUSPENDED, _S.SUSPENDED),
                Settle: _to(_S.RECONCILE, _S.SUSPENDED),
            }
        ),
        _S.FINISHED: MappingProxyType(_corrected(_S.FINISHED, _S.FINISHED)),
        _S.FAILED: MappingProxyType(
            {
                Grant: _to(_S.COMPACT_OR_SAVE),
                DecideInstead: _to(_S.COMPACT_OR_SAVE),
                **_corrected(_S.FAILED, _S.FAILED),
            }
        ),
        _S.CANCELLED: MappingProxyType(_corrected(_S.CANCELLED, _S.CANCELLED)),
    }
)
