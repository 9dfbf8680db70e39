"""What an error of the protocol says of the call: whether it ran, and whether it may run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
    URL_ELICITATION_REQUIRED,
    ErrorData,
)

from loopwright.actors import ToolFailure
from loopwright.policy import RetryAfter
from loopwright.protocol import Effect, ErrorCategory

from ._errors import MCPNoAnswerError, NotSentError

NOT_SENT: Final = -33_001
"""Code of an error that our own side of an HTTP line makes: no server has seen the request."""
NO_ANSWER: Final = -33_002
"""The same: a server may have seen it, and the line went dead."""
FORBIDDEN: Final = -33_003
"""The same: it was turned away, for who asks."""
TOO_MANY: Final = -33_004
"""The same: it was turned away for now; its data is the `Retry-After`."""

_DEAD: Final = frozenset({CONNECTION_CLOSED, REQUEST_TIMEOUT, NO_ANSWER})
_REFUSED: Final[Mapping[int, ErrorCategory]] = {
    INVALID_PARAMS: ErrorCategory.INVALID_INPUT,
    METHOD_NOT_FOUND: ErrorCategory.PERMANENT,
    HEADER_MISMATCH: ErrorCategory.PERMANENT,
    MISSING_REQUIRED_CLIENT_CAPABILITY: ErrorCategory.PERMANENT,
    UNSUPPORTED_PROTOCOL_VERSION: ErrorCategory.PERMANENT,
    URL_ELICITATION_REQUIRED: ErrorCategory.PERMANENT,
    FORBIDDEN: ErrorCategory.PERMISSION,
}
"""Said of a request before any tool is run."""


def failure_of(error: ErrorData, server: str, effect: Effect) -> Exception:
    """Say what a call has met that was answered with an error instead of a result.

    Few errors say that nothing was run. Any other may have come after the effect: of a write it
    says nothing.
    """
    told, code = f"MCP server {server!r}: {error.message}", error.code
    if code == NOT_SENT:
        return NotSentError(told)
    if code == TOO_MANY:
        after: RetryAfter = error.data if isinstance(error.data, str) else None
        limited = ErrorCategory.RATE_LIMITED
        return ToolFailure(told, category=limited, retryable=True, retry_after=after)
    if code in _DEAD or (effect.is_write and code not in _REFUSED):
        return MCPNoAnswerError(told)
    return ToolFailure(told, category=_REFUSED.get(code, ErrorCategory.PERMANENT))
