"""What an attempt comes to that did not return: each as a typed result."""

from __future__ import annotations

import asyncio
from typing import Final, Literal, TypeAlias

from loopwright.protocol import (
    ErrorCategory,
    Execute,
    JsonValue,
    ResultStatus,
    ToolError,
    ToolResult,
)

from .._work import text_of
from ..definitions._tool import InvalidArgumentsError, ToolFailure

Stopped: TypeAlias = Literal["timeout", "interrupted"]

_TELLS_NOTHING: Final = (
    SystemExit,
    GeneratorExit,
    asyncio.CancelledError,
    TimeoutError,
    ConnectionError,
)
"""What does not say whether a write took effect: it was torn off, or the line went dead."""


def result_of(
    order: Execute,
    status: ResultStatus,
    error: ToolError | None = None,
    output: JsonValue = None,
) -> ToolResult:
    """Make the result of an attempt."""
    return ToolResult(
        order.call_id, order.tool_name, status, output, error, order.attempt, order.effect_key
    )


def never_ran(order: Execute, why: Stopped | None) -> ToolResult:
    """Make the result of an attempt that was stopped before its body had begun."""
    late = why == "timeout"
    text = "no thread was free before its time was over" if late else "it was interrupted"
    error = ToolError(ErrorCategory.TRANSIENT, "NeverRan", f"{text}; the body never ran")
    if order.effect.is_write:
        return result_of(order, ResultStatus.NOT_STARTED, error)
    return result_of(order, ResultStatus.TIMEOUT if late else ResultStatus.CANCELLED, error)


def stopped(order: Execute, why: Stopped, limit: float | None) -> ToolResult:
    """Make the result of an attempt that was stopped while its body ran."""
    late = why == "timeout"
    text = f"it exceeded its limit of {limit} s" if late else "it was interrupted"
    if order.effect.is_write:
        text = f"{text}; it may or may not have taken effect"
        error = ToolError(ErrorCategory.INTERNAL, "OutcomeUnknown", text)
        return result_of(order, ResultStatus.OUTCOME_UNKNOWN, error)
    status = ResultStatus.TIMEOUT if late else ResultStatus.CANCELLED
    kind = "Timeout" if late else "Cancelled"
    return result_of(order, status, ToolError(ErrorCategory.TRANSIENT, kind, text, retryable=True))


def raised(order: Execute, error: BaseException) -> ToolResult:
    """Make the result of an attempt whose body raised."""
    category, retryable = _classify(error)
    failure = ToolError(category, type(error).__name__, text_of(error), retryable)
    if isinstance(error, _TELLS_NOTHING) and order.effect.is_write:
        return result_of(order, ResultStatus.OUTCOME_UNKNOWN, failure)
    return result_of(order, ResultStatus.ERROR, failure)


def shut_out(order: Execute) -> ToolResult:
    """Make the result of an attempt that an open breaker has refused."""
    text = f"{order.tool_name} has failed too often just now and is left alone; it was not run"
    error = ToolError(ErrorCategory.UNAVAILABLE, "BreakerOpen", text, retryable=True)
    return result_of(order, ResultStatus.NOT_STARTED, error)


def _classify(error: BaseException) -> tuple[ErrorCategory, bool]:
    match error:
        case ToolFailure(category=category, retryable=retryable):
            return category, retryable
        case TimeoutError() | ConnectionError():
            return ErrorCategory.TRANSIENT, True
        case PermissionError():
            return ErrorCategory.PERMISSION, False
        case InvalidArgumentsError():
            # The tool has changed since they were checked.
            return ErrorCategory.INVALID_INPUT, False
        case _:
            return ErrorCategory.INTERNAL, False
