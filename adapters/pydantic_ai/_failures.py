"""What `pydantic-ai` raises, in the words of the runtime."""

from __future__ import annotations

from typing import Final

from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    UnexpectedModelBehavior,
    UserError,
)

from loopwright.policy import classify
from loopwright.protocol import ModelError, ModelErrorKind, Usage, bounded

from ..provider import _failures as shared

_KINDS: Final[tuple[tuple[type[Exception], ModelErrorKind], ...]] = (
    (ContentFilterError, ModelErrorKind.REFUSED),
    (ModelContextWindowExceededError, ModelErrorKind.CONTEXT_TOO_LONG),
    (ModelRateLimitError, ModelErrorKind.RATE_LIMITED),
    (ModelQuotaExceededError, ModelErrorKind.PERMANENT),
    (UserError, ModelErrorKind.PERMANENT),
    # A reply that cannot be read.
    (UnexpectedModelBehavior, ModelErrorKind.TRANSIENT),
)
_MESSAGE: Final = 500


def failure_of(error: Exception, usage: Usage | None = None) -> Exception:
    """Return what to raise for an exception: a `ModelError`, or the exception itself.

    Args:
        error: What was raised.
        usage: What the provider has charged for the part that came.
    """
    kind = next((kind for known, kind in _KINDS if isinstance(error, known)), None)
    if isinstance(error, ModelAPIError):
        # The words of an error say more than its status, and all where it came in a stream.
        told = shared.failure_of(error, ())
        hidden = told.kind if isinstance(told, ModelError) else None
        kind = kind or hidden or classify(error).kind
    if kind is None:
        return error
    asked: object = getattr(error, "retry_after", None)
    seconds = asked if isinstance(asked, int | float) else None
    return ModelError(_text(error), kind=kind, retry_after=seconds, usage=usage)


def _text(error: Exception) -> str:
    if isinstance(error, ModelHTTPError) and error.status_code in (401, 403):
        # Some servers repeat the key that they refuse.
        return f"{error.model_name} refused the request: status {error.status_code}; check its key"
    return bounded(f"{type(error).__name__}: {error}", _MESSAGE)
