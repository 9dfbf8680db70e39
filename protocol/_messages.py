"""What the actors say to each other: frozen values, each with the ids it belongs to.

They are named tuples: immutable like the records, and made four times as fast, which counts for
what is made dozens of times a turn. Commands are imperative, replies in the past tense, verdicts
nouns. Everything is told with a reply address; a denial is a reply, not an error.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from ._acting import (
    ChildRested,
    Commit,
    CommitFailed,
    Committed,
    Execute,
    Executed,
    Found,
    Interrupt,
    LeaseLost,
    NotDispatched,
    Reconcile,
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
from ._outcome import Outcome
from ._results import ToolResult
from ._thinking import (
    Assess,
    Assessed,
    AttemptFailed,
    CancelDecide,
    CancelVerify,
    Compact,
    Compacted,
    Decide,
    Decided,
    DecideFailed,
    Observe,
    Observed,
    Validate,
    Validated,
    Verified,
    Verify,
)


# ---------------------------------------------------------------- from the Supervisor to the runtime
class Rested(NamedTuple):
    """The invocation is at rest: suspended or over. It leaves memory."""

    outcome: Outcome
    durable: bool = True
    """Whether the store says the same; otherwise it is still running there."""
    unsaved: tuple[ToolResult, ...] = ()
    """Results of writes that could not be stored: the process that has them must not lose them."""


class HandOver(NamedTuple):
    """From here on another agent decides: its model, policy, tools and verifiers count."""

    agent: str


class Late(NamedTuple):
    """A reply to something nobody waits for any more; traced, never acted upon."""

    what: str


Input: TypeAlias = (
    Start
    | Recover
    | Cancel
    | AnswerApproval
    | Answer
    | Settle
    | Grant
    | DecideInstead
    | Expire
    | Wake
    | Tick
    | Decided
    | AttemptFailed
    | DecideFailed
    | Compacted
    | Verified
    | Validated
    | Assessed
    | Observed
    | Executed
    | ChildRested
    | NotDispatched
    | LeaseLost
    | Found
    | Committed
    | CommitFailed
    | ServiceFailed
)
"""What a machine takes."""

Output: TypeAlias = (
    Decide
    | CancelDecide
    | Compact
    | Verify
    | CancelVerify
    | Validate
    | Assess
    | Observe
    | Execute
    | Interrupt
    | Reconcile
    | Commit
    | HandOver
    | Rested
    | Late
)
"""What a machine says."""
