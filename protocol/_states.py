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

from ._messages import (
    Answer,
    AnswerApproval,
    Assessed,
    Cancel,
    CommitFailed,
    Committed,
    Decided,
    DecideFailed,
    Executed,
    Grant,
    Input,
    Observed,
    Recover,
    ServiceFailed,
    Start,
    Tick,
    Validated,
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
    SETTLED = "settled"
    """It has its one result."""


CALL_TABLE: Mapping[CallState, frozenset[CallState]] = MappingProxyType(
    {
        CallState.PLANNED: frozenset({CallState.PREPARED, CallState.DISPATCHED, CallState.SETTLED}),
        CallState.PREPARED: frozenset({CallState.DISPATCHED, CallState.SETTLED}),
        CallState.DISPATCHED: frozenset({CallState.SETTLED}),
        CallState.SETTLED: frozenset(),
    }
)
"""Which call states may follow which; a refused call is settled without being dispatched."""


class Entered:
    """The trigger of what follows at once: no further message is waited for."""


Trigger: TypeAlias = type[Input] | type[Entered]

_S = RunState


def _to(*states: RunState) -> frozenset[RunState]:
    return frozenset(states)


def _live(
    stay: RunState, triggers: Mapping[Trigger, frozenset[RunState]]
) -> Mapping[Trigger, frozenset[RunState]]:
    """Add what every live state takes: a cancel, a crash elsewhere, and the passing of time."""
    stop = _to(_S.CANCELLING)
    always = {Cancel: stop, ServiceFailed: stop, Tick: stop | {stay}}
    return MappingProxyType({**always, **triggers})


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
                Decided: _to(_S.DECIDE_ACTION),
                DecideFailed: _to(_S.COMPACT_OR_SAVE),
            },
        ),
        _S.DECIDE_ACTION: _live(
            _S.DECIDE_ACTION,
            {
                Entered: _to(_S.COMPACT_OR_SAVE),
                Validated: _to(
                    _S.DECIDE_ACTION, _S.EXECUTE_TOOL, _S.WAIT_APPROVAL, _S.COMPACT_OR_SAVE
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
            },
        ),
        _S.EXECUTE_TOOL: _live(
            _S.EXECUTE_TOOL,
            {
                Entered: _to(_S.OBSERVE),
                Committed: _to(_S.EXECUTE_TOOL),
                CommitFailed: _to(_S.CANCELLING),
                Executed: _to(_S.EXECUTE_TOOL, _S.OBSERVE),
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
            },
        ),
        _S.CANCELLING: MappingProxyType(
            {
                Entered: _to(_S.FAILED),
                ServiceFailed: _to(_S.CANCELLING),
                Decided: _to(_S.CANCELLING, _S.CANCELLED),
                DecideFailed: _to(_S.CANCELLING, _S.CANCELLED),
                **dict.fromkeys(
                    (Cancel, Tick, Executed, Committed, CommitFailed),
                    _to(_S.CANCELLING, _S.FAILED, _S.CANCELLED),
                ),
            }
        ),
        _S.SUSPENDED: MappingProxyType(
            {
                AnswerApproval: _to(_S.WAIT_APPROVAL),
                Answer: _to(_S.COMPACT_OR_SAVE),
                Cancel: _to(_S.CANCELLING),
            }
        ),
        _S.FINISHED: MappingProxyType({}),
        _S.FAILED: MappingProxyType({Grant: _to(_S.COMPACT_OR_SAVE)}),
        _S.CANCELLED: MappingProxyType({}),
    }
)
