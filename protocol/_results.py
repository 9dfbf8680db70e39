"""What became of a call: one typed result for each, on every path."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from ._budget import NO_COST, NO_USAGE, Usage
from ._effects import EffectStatus, Reconciled
from ._ids import CallId, EffectKey, InvocationId
from ._json import JsonObject, JsonValue
from ._reasons import Reason
from ._words import Word


class ResultStatus(Word):
    """How a call ended."""

    OK = "ok"
    """It ran and returned."""
    ERROR = "error"
    """It ran and failed."""
    INVALID_ARGUMENTS = "invalid_arguments"
    """Refused before running: the arguments don't fit the tool."""
    UNKNOWN_TOOL = "unknown_tool"
    """Refused before running: there is no such tool."""
    DENIED = "denied"
    """Refused before running, by policy or by a human."""
    TIMEOUT = "timeout"
    """A read exceeded its limit. A write never gets this: it gets `outcome_unknown`."""
    CANCELLED = "cancelled"
    """A read was interrupted."""
    NOT_STARTED = "not_started"
    """It was never dispatched."""
    OUTCOME_UNKNOWN = "outcome_unknown"
    """It was dispatched, and the runtime cannot know what happened downstream."""


class ErrorCategory(Word):
    """What kind of failure a `ToolError` is: what a sensible next step would be."""

    TRANSIENT = "transient"
    RATE_LIMITED = "rate_limited"
    INVALID_INPUT = "invalid_input"
    PERMISSION = "permission"
    PERMANENT = "permanent"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"

    @property
    def definite(self) -> bool:
        """Whether it is a refusal, which holds for every attempt."""
        return self in (
            ErrorCategory.INVALID_INPUT,
            ErrorCategory.PERMISSION,
            ErrorCategory.PERMANENT,
        )


@dataclass(frozen=True, slots=True)
class ToolError:
    """A failure as data."""

    category: ErrorCategory
    type: str
    """The exception's class name, or the runtime's word for a refusal."""
    message: str
    retryable: bool = False


EXPIRED: Final = "ApprovalExpired"
"""The error of a call that nobody has answered for in time."""


@dataclass(frozen=True, slots=True)
class ChildStand:
    """How the invocation stands that a call has started, and what it and its own have used."""

    invocation_id: InvocationId
    reason: Reason
    """Why it ended; or why it is suspended, and its parent with it."""
    tool_calls: int = 0
    usage: Usage = NO_USAGE
    cost: Decimal = NO_COST


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one result of one call."""

    call_id: CallId
    tool_name: str
    status: ResultStatus
    output: JsonValue = None
    error: ToolError | None = None
    attempts: int = 0
    """How often the tool's body was dispatched."""
    effect_key: EffectKey | None = None
    """The business mutation this call stood for; only a dispatched write has one."""
    effect: EffectStatus | None = None
    """What is known of that mutation, where the status alone does not say."""
    arguments: JsonObject | None = None
    """What it ran with, where a human has edited what was proposed; what is queued, for the outbox;
    what it would have run with, where it was denied and that is written otherwise."""
    child: ChildStand | None = None
    """For a call that stands for a child invocation."""

    @property
    def effect_status(self) -> EffectStatus:
        """What the effect ledger says of its mutation; only for one with an effect key."""
        return self.effect or _LEDGER.get(self.status, "outcome_unknown")

    @property
    def denied(self) -> bool:
        """Whether policy or a person has said no; that nobody has answered in time is no no."""
        expired = self.error is not None and self.error.type == EXPIRED
        return self.status is ResultStatus.DENIED and not expired

    @property
    def unavailable(self) -> bool:
        """Whether what it needs is down."""
        return self.error is not None and self.error.category is ErrorCategory.UNAVAILABLE

    @property
    def ok(self) -> bool:
        """Whether it ran and returned."""
        return self.status is ResultStatus.OK


_LEDGER: dict[ResultStatus, EffectStatus] = {
    ResultStatus.OK: "committed",
    ResultStatus.ERROR: "rejected",
    # Its dispatch was announced, and never made.
    ResultStatus.NOT_STARTED: "not_applied",
}


def settled(result: ToolResult, found: Reconciled) -> ToolResult:
    """Make of an unknown outcome the result it turned out to be."""
    match found.finding:
        case "applied":
            return replace(
                result, status=ResultStatus.OK, output=found.receipt, error=None, effect=None
            )
        case "rejected":
            error = ToolError(ErrorCategory.PERMANENT, "Rejected", found.reason or "it was refused")
            return replace(result, status=ResultStatus.ERROR, error=error, effect=None)
        case "not_applied":
            text = "it was dispatched and has taken no effect"
            error = ToolError(ErrorCategory.TRANSIENT, "NotApplied", text, retryable=True)
            return replace(result, status=ResultStatus.ERROR, error=error, effect="not_applied")
        case "unknown":
            return result
