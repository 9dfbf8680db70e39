"""What people, callers and time say to an invocation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ._budget import Budget
from ._decisions import Proposed
from ._effects import Reconciled
from ._ids import CallId, InvocationId, ProposalDigest
from ._json import JsonObject
from ._records import InvocationStarted


class Start(NamedTuple):
    """Begin a new invocation."""

    started: InvocationStarted


class Recover(NamedTuple):
    """Go on from what is stored: the former owner is gone."""


class Cancel(NamedTuple):
    """Stop: nothing new is dispatched from here on."""

    reason: str
    by: str
    hard: bool = False
    """Don't wait out the grace period for writes in flight."""


class AnswerApproval(NamedTuple):
    """Say yes or no to the calls of one proposal."""

    digest: ProposalDigest
    approved: bool
    by: str
    calls: tuple[CallId, ...] | None = None
    """Which calls; `None` means every one not answered yet."""
    reason: str = ""
    edits: Mapping[CallId, JsonObject] = {}
    """What approved calls are to run with instead, checked and as they will run."""


class Answer(NamedTuple):
    """Answer the model's question."""

    text: str
    by: str


class Settle(NamedTuple):
    """Say what became of a write whose outcome is unknown."""

    call_id: CallId
    found: Reconciled
    by: str
    turn: int | None = None
    """Which turn's; `None` means the last one in which a call of this id is unsettled."""


class Grant(NamedTuple):
    """Let a failed, resumable invocation go on, with more budget if given.

    One that waits for a reconciliation asks the reconcilers again.
    """

    budget: Budget | None
    by: str


class DecideInstead(NamedTuple):
    """Give one decision in the model's place; it is judged, charged and kept like any other."""

    decision: Proposed
    by: str


class Expire(NamedTuple):
    """Nobody has answered a proposal in time: its calls are refused, and the invocation goes on."""

    by: str


class Wake(NamedTuple):
    """A child the invocation waits for has come to rest: look after it."""

    child: InvocationId


class Tick(NamedTuple):
    """Time has passed: look whether anything is due."""
