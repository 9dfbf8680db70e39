"""What a Supervisor says to those who run tools and store records, and what they answer."""

from __future__ import annotations

from typing import NamedTuple

from ._budget import Budget, Principal
from ._effects import Effect, Reconciled
from ._ids import AttemptId, CallId, EffectKey, InvocationId
from ._journal import Append, Lease
from ._json import JsonObject
from ._results import ToolResult


# ---------------------------------------------------------------- Supervisor and ToolExecutor
class Execute(NamedTuple):
    """Run one attempt of one call."""

    invocation_id: InvocationId
    turn: int
    call_id: CallId
    attempt_id: AttemptId
    attempt: int
    tool_name: str
    effect: Effect
    arguments: JsonObject
    effect_key: EffectKey | None
    principal: Principal
    lease: Lease
    """On whose authority: it is dispatched only while this is safely held."""
    budget: Budget | None = None
    """For a call that starts a child: its limits, within what is kept aside for it."""
    until: float | None = None
    """When the invocation has to be over, on the monotonic clock."""


class Interrupt(NamedTuple):
    """Stop waiting for this attempt: interrupt the body, which may not obey."""

    invocation_id: InvocationId
    turn: int
    attempt_id: AttemptId
    tool_name: str
    begun: bool = True
    """Whether also one whose body has begun; otherwise only one that waits for its turn."""
    detach: bool = False
    """Whether a child it stands for is to be left alone: its parent goes on elsewhere."""


class Executed(NamedTuple):
    """One attempt has its result."""

    turn: int
    attempt_id: AttemptId
    result: ToolResult


class ChildRested(NamedTuple):
    """The child a call stands for has ended, or waits for somebody: then its outcome is unknown."""

    turn: int
    attempt_id: AttemptId
    result: ToolResult


class NotDispatched(NamedTuple):
    """An attempt was refused right before its dispatch: the lease is no longer safely held."""

    turn: int
    attempt_id: AttemptId
    error: str


class LeaseLost(NamedTuple):
    """This worker can no longer count on owning the invocation."""

    error: str


class Reconcile(NamedTuple):
    """Ask the owner of the data what became of a write."""

    invocation_id: InvocationId
    turn: int
    call_id: CallId
    attempt_id: AttemptId
    """The attempt in question."""
    tool_name: str
    effect_key: EffectKey
    stop: bool = False
    """Whether the child it stands for is to be cancelled: its parent was."""
    child: InvocationId | None = None
    """The child it stands for, where that is known: it is followed whatever tools there are."""


class Found(NamedTuple):
    """What the owner of the data said; `unknown` where it could not be asked."""

    turn: int
    attempt_id: AttemptId
    found: Reconciled


# ---------------------------------------------------------------- Supervisor and Committer
class Commit(NamedTuple):
    """Make these records durable, after all earlier ones of this invocation."""

    append: Append


class Committed(NamedTuple):
    """Everything up to this seq is durable."""

    last_seq: int


class CommitFailed(NamedTuple):
    """These records are not durable, and will not be."""

    last_seq: int
    error: str
    fenced: bool = False
    """Whether another worker owns the invocation now."""


class ServiceFailed(NamedTuple):
    """A service actor crashed over a request of this invocation; there will be no answer."""

    service: str
    error: str
