"""What the body of a tool is given, and how it says what it could not do."""

from __future__ import annotations

from dataclasses import dataclass

from loopwright.policy import RetryAfter
from loopwright.protocol import (
    AttemptId,
    CallId,
    EffectKey,
    ErrorCategory,
    InvocationId,
    LoopwrightError,
    Principal,
)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of the call it serves; ask for it by annotating a parameter."""

    invocation_id: InvocationId
    turn: int
    call_id: CallId
    attempt_id: AttemptId
    attempt: int
    effect_key: EffectKey | None
    """Hand it to the downstream, which deduplicates by it. `None` for a read."""
    principal: Principal


class ToolFailure(LoopwrightError):
    """Raised by a tool to say what kind of failure it met.

    Args:
        message: What went wrong, for the model and the trace.
        category: What a sensible next step would be.
        retryable: Whether the same call may succeed later.
        retry_after: What the downstream said in `Retry-After`: seconds or an HTTP date, as it came.
    """

    def __init__(
        self,
        message: str,
        *,
        category: ErrorCategory | str = ErrorCategory.PERMANENT,
        retryable: bool = False,
        retry_after: RetryAfter = None,
    ) -> None:
        super().__init__(message)
        self.category = ErrorCategory(category)
        self.retryable = retryable
        self.retry_after = retry_after


class InvalidArgumentsError(LoopwrightError):
    """Raised when a call's arguments don't fit the tool; the text is for the model."""
