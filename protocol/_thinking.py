"""What a Supervisor says to those who decide, check and judge, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias

from ._budget import NO_USAGE, Price, Principal, Usage
from ._decisions import Calls, Decision, Proposed
from ._effects import Effect
from ._evidence import Ask, Verdict
from ._history import History
from ._ids import CallId, EffectKey, InvocationId, ProposalDigest
from ._json import JsonObject, JsonValue
from ._model import ModelErrorKind
from ._records import TurnCommitted
from ._results import ToolResult
from ._verification import Claim, Verification

# ---------------------------------------------------------------- Supervisor and Decider
ToolAccess: TypeAlias = Literal["all", "finishing", "none"]
"""Which tools a decision may use: towards the end of a budget only those that finish, or none."""


class Allowance(NamedTuple):
    """What one decision may use of what is left of the budget."""

    until: float | None = None
    """When it has to be there, on the monotonic clock."""
    tokens: int | None = None
    cost: Decimal | None = None
    tools: ToolAccess = "all"
    finish: bool = False
    """Whether the soft stop is over: the finishing model may do the rest."""


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
    allowance: Allowance = Allowance()
    prices: tuple[Price, ...] = ()
    """Of the models, as pinned in the journal."""
    summary: str = ""
    """What stands for the first `summarized` turns."""
    summarized: int = 0


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
    endpoint: str = ""
    """Name of the model that was asked, by which its price is found."""
    stop_reason: str = ""
    replay: JsonValue = None
    """See `Proposal`."""


class AttemptFailed(NamedTuple):
    """A model gave no reply, and it or another is asked again; what was spent is charged."""

    turn: int
    attempt: int
    endpoint: str
    category: ModelErrorKind
    error: str
    usage: Usage = NO_USAGE
    retry_in: float = 0.0
    """Seconds until the next attempt."""


class DecideFailed(NamedTuple):
    """No model gives a reply; each attempt was told before."""

    turn: int
    error: str
    category: ModelErrorKind = ModelErrorKind.TRANSIENT


class Compact(NamedTuple):
    """Ask for a summary of the first turns, of those before `upto` and that one."""

    invocation_id: InvocationId
    turn: int
    goal: str
    upto: int
    history: History
    summary: str
    """Of turns that were summarized before."""
    summarized: int


class Compacted(NamedTuple):
    """The summary; empty where there is none, so that turns are only left out."""

    turn: int
    upto: int
    summary: str
    usage: Usage = NO_USAGE
    endpoint: str = ""
    error: str = ""


# ---------------------------------------------------------------- Supervisor and Verifier
class Verify(NamedTuple):
    """Let one verifier look at a claim."""

    invocation_id: InvocationId
    turn: int
    number: int
    """Which of the agent's verifiers, from 0."""
    claim: Claim


class CancelVerify(NamedTuple):
    """Give up waiting for a verifier."""

    invocation_id: InvocationId
    turn: int


class Verified(NamedTuple):
    """What the verifier says; `done` once there is none behind it."""

    turn: int
    number: int
    verifier: str
    verification: Verification
    done: bool


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
    child: str | None = None
    """For a call that stands for a child invocation: the agent it is of."""


class Plan(NamedTuple):
    """A validated batch: its calls in declared order, and the stages they run in."""

    calls: tuple[PlannedCall, ...]
    stages: tuple[tuple[int, ...], ...]
    """Indexes into `calls`; the calls of one stage run at the same time."""
    verdicts: tuple[Verdict, ...] = ()
    fault: str | None = None
    """What was wrong with the batch at call level; its writes are then refused."""

    @property
    def runnable(self) -> int:
        """How many of its calls may be dispatched."""
        return sum([call.refused is None for call in self.calls])


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
    refused: frozenset[str] = frozenset()
    """Fingerprints of calls that were denied before: they are denied again, and nobody is asked."""
    tools: ToolAccess = "all"
    metadata: JsonValue = None
    expired: frozenset[CallId] = frozenset()
    """Calls nobody has answered for in time."""


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
    calls: Calls


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
    committed: TurnCommitted


class Observed(NamedTuple):
    """The tracker's answer after a batch; no `stalled` means to go on."""

    turn: int
    stalled: Stalled | None = None
    nudge: Stalled | None = None
    """It is about to be: the model is told to replan, once."""
