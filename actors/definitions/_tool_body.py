"""What the body of a tool is given, and how it says what it could not do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from loopwright.policy import RetryAfter
from loopwright.protocol import (
    AttemptId,
    CallId,
    EffectKey,
    ErrorCategory,
    InvocationId,
    LoopwrightError,
    Principal,
    bounded,
)

Report: TypeAlias = Callable[[str, float | None, float | None], None]
"""Takes what a body says of its progress: a text, how much is done, and of how much."""


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
    report: Report | None = field(default=None, repr=False, compare=False)
    """Where `progress` goes; `None` where nobody watches."""

    def progress(
        self, message: str = "", *, done: float | None = None, total: float | None = None
    ) -> None:
        """Tell whoever watches how far it is; from any thread, and as often as it likes.

        It goes into the trace, as `tool_progress`, and nowhere else: no journal has it, no model
        is shown it. What comes too fast, or after the attempt has ended, is dropped.

        Args:
            message: What it is doing.
            done: How much is done: of `total`, or in a unit of its own.
            total: How much there is to do.
        """
        if self.report is not None:
            self.report(message, done, total)


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

    @classmethod
    def at(cls, problems: Sequence[tuple[Sequence[str | int], str]]) -> Self:
        """Put problems into one line: each path at fault, and what is wrong there; bounded."""
        told = [
            f"{'.'.join(map(str, path)) or 'arguments'}: {problem}"
            for path, problem in problems[:5]
        ]
        if len(problems) > 5:
            told.append(f"and {len(problems) - 5} more")
        return cls(bounded("; ".join(told), 1_000))
