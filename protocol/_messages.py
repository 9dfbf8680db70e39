"""What the actors say to each other: frozen values, each with the ids it belongs to.

They are named tuples: immutable like the records, and made four times as fast, which counts for
what is made dozens of times a turn. Commands are imperative, replies in the past tense, verdicts nouns. Everything is told with a
reply address; a denial is a reply, not an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from ._budget import Budget, Principal, Usage
from ._decisions import Decision, Proposed
from ._effects import Effect, Reconciled
from ._history import History
from ._ids import AttemptId, CallId, EffectKey, InvocationId, ProposalDigest
from ._journal import Append, Lease
from ._json import JsonObject, JsonValue
from ._outcome import Outcome
from ._records import Ask, InvocationStarted, Verdict
from ._results import ToolResult


# ---------------------------------------------------------------- what people and callers say
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


class Tick(NamedTuple):
    """Time has passed: look whether anything is due."""


# ---------------------------------------------------------------- Supervisor and Decider
class Decide(NamedTuple):
    """Ask the model for the decision of this turn."""

    invocation_id: InvocationId
    turn: int
    goal: str
    history: History
    principal: Principal
    notice: str | None
    metadata: JsonValue
    context_chars: int
    """Size of what is shown, for an estimate where the model reports no usage."""


class CancelDecide(NamedTuple):
    """Give up waiting for that decision."""

    invocation_id: InvocationId
    turn: int


class Decided(NamedTuple):
    """The model replied; what it said may be malformed."""

    turn: int
    decision: Proposed
    usage: Usage
    model: str = ""
    response_id: str = ""
    attempts: int = 1


class DecideFailed(NamedTuple):
    """The model gave no reply."""

    turn: int
    error: str


# ---------------------------------------------------------------- Supervisor and Validator
class PlannedCall(NamedTuple):
    """One call of a batch: as it will run, or with the result that refuses it."""

    call_id: CallId
    tool_name: str
    effect: Effect
    arguments: JsonObject
    """After defaults and coercion."""
    effect_key: EffectKey | None = None
    """Set for writes."""
    refused: ToolResult | None = None
    outbox: tuple[str, ...] | None = None
    """For a write that goes into the outbox: what it touches, for the order of deliveries."""
    edited: bool = False
    """Whether a human has changed the arguments."""


class Plan(NamedTuple):
    """A validated batch: its calls in declared order, and the stages they run in."""

    calls: tuple[PlannedCall, ...]
    stages: tuple[tuple[int, ...], ...]
    """Indexes into `calls`; the calls of one stage run at the same time."""
    fingerprint: bytes
    """Equal for batches of the same names and canonical arguments, in any order."""
    verdicts: tuple[Verdict, ...] = ()
    fault: str | None = None
    """What was wrong with the batch at call level; its writes are then refused."""


class Validate(NamedTuple):
    """Check a decision against schemas and today's policy."""

    invocation_id: InvocationId
    turn: int
    decision: Decision
    principal: Principal
    approved: tuple[CallId, ...] = ()
    denied: tuple[tuple[CallId, str], ...] = ()
    """Calls a human said no to, each with who and why."""
    digest: ProposalDigest | None = None
    """What the answers were given for; void if the proposal is another one today."""
    edits: Mapping[CallId, JsonObject] = {}
    """What approved calls are to run with instead of what was proposed."""


class Accepted(NamedTuple):
    """It may go on: with this plan, or with this checked output of a final answer."""

    plan: Plan | None = None
    output: JsonValue = None


class NeedsApproval(NamedTuple):
    """A human has to answer before anything of the batch starts."""

    plan: Plan
    digest: ProposalDigest
    asks: tuple[Ask, ...]


class Faulty(NamedTuple):
    """The decision as a whole is unusable: nothing of it runs."""

    problem: str


ValidationVerdict: TypeAlias = Accepted | NeedsApproval | Faulty


class Validated(NamedTuple):
    """The Validator's answer."""

    turn: int
    verdict: ValidationVerdict


# ---------------------------------------------------------------- Supervisor and ProgressTracker
class Assess(NamedTuple):
    """May this batch run, or has it been seen too often?"""

    turn: int
    fingerprint: bytes


class Stalled(NamedTuple):
    """No progress: which signal says so, on what evidence."""

    signal: str
    evidence: str


class Assessed(NamedTuple):
    """The tracker's answer before a batch runs; no `stalled` means it may."""

    turn: int
    stalled: Stalled | None = None


class Observe(NamedTuple):
    """A batch has run and is committed."""

    turn: int
    fingerprint: bytes
    results: tuple[ToolResult, ...]


class Observed(NamedTuple):
    """The tracker's answer after a batch; no `stalled` means to go on."""

    turn: int
    stalled: Stalled | None = None


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


class Interrupt(NamedTuple):
    """Stop waiting for this attempt: interrupt the body, which may not obey."""

    invocation_id: InvocationId
    turn: int
    attempt_id: AttemptId
    tool_name: str
    begun: bool = True
    """Whether also one whose body has begun; otherwise only one that waits for its turn."""


class Executed(NamedTuple):
    """One attempt has its result."""

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


# ---------------------------------------------------------------- from the Supervisor to the runtime
class Rested(NamedTuple):
    """The invocation is at rest: suspended or over. It leaves memory."""

    outcome: Outcome
    durable: bool = True
    """Whether the store says the same; otherwise it is still running there."""
    unsaved: tuple[ToolResult, ...] = ()
    """Results of writes that could not be stored: the process that has them must not lose them."""


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
    | Tick
    | Decided
    | DecideFailed
    | Validated
    | Assessed
    | Observed
    | Executed
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
    | Validate
    | Assess
    | Observe
    | Execute
    | Interrupt
    | Reconcile
    | Commit
    | Rested
    | Late
)
"""What a machine says."""
