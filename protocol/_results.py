"""What became of a call: one typed result for each, on every path."""

from __future__ import annotations

from dataclasses import dataclass

from ._ids import CallId, EffectKey
from ._json import JsonValue
from ._words import Word


class Effect(Word):
    """What running a tool does to the world: drives parallelism, retry, recovery and cancel.

    See 30-durability, "One effect class per tool".
    """

    READ = "read"
    """Changes nothing: runs in parallel, may run again, may be interrupted."""
    IDEMPOTENT = "idempotent"
    """The downstream deduplicates by effect key: may be dispatched again with the same key."""
    MANUAL = "manual"
    """Nothing can be asked about it: never dispatched a second time by the runtime."""

    @property
    def is_write(self) -> bool:
        """Whether running it may change something outside."""
        return self is not Effect.READ


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


@dataclass(frozen=True, slots=True)
class ToolError:
    """A failure as data."""

    category: ErrorCategory
    type: str
    """The exception's class name, or the runtime's word for a refusal."""
    message: str
    retryable: bool = False


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

    @property
    def ok(self) -> bool:
        """Whether it ran and returned."""
        return self.status is ResultStatus.OK
