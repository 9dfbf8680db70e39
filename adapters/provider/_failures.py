"""What a provider's SDK raises, in the words of the runtime.

Most of it says enough by itself: a status and its headers are read by the runtime. What must be
told is what they hide: a request that is too long, a refusal that comes as a client error, a line
that went dead, and errors inside a stream, which have no status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast

from loopwright.protocol import ModelError, ModelErrorKind, Usage, bounded

_TOO_LONG_CODES: Final = frozenset(
    ("context_length_exceeded", "request_too_large", "exceed_context_size_error")
)
_TOO_LONG: Final = re.compile(
    r"(?i)prompt is too long|maximum context length|context[ _](?:window|length|limit|size)"
)
_REFUSED_CODES: Final = frozenset(
    (
        *("content_filter", "content_policy_violation", "invalid_prompt", "bio_policy"),
        *("misalignment_policy_violation", "ResponsibleAIPolicyViolation"),
    )
)
_KINDS: Final[Mapping[str, ModelErrorKind]] = {
    "rate_limit_error": ModelErrorKind.RATE_LIMITED,
    "rate_limit_exceeded": ModelErrorKind.RATE_LIMITED,
    "invalid_request_error": ModelErrorKind.PERMANENT,
    "authentication_error": ModelErrorKind.PERMANENT,
    "permission_error": ModelErrorKind.PERMANENT,
    "not_found_error": ModelErrorKind.PERMANENT,
    "billing_error": ModelErrorKind.PERMANENT,
    "insufficient_quota": ModelErrorKind.PERMANENT,
    # Servers that stand in for a provider say the status, inside a stream that began well.
    "429": ModelErrorKind.RATE_LIMITED,
    **dict.fromkeys(("400", "401", "403", "404", "422"), ModelErrorKind.PERMANENT),
}
_MESSAGE: Final = 500


def failure_of(
    error: Exception,
    lost: tuple[type[Exception], ...],
    usage: Usage | None = None,
    secret: str = "",
) -> Exception:
    """Return what to raise for an exception of an SDK: a `ModelError`, or the exception itself.

    Args:
        error: What it raised.
        lost: Exceptions that say that the line went dead, or that nothing came in time.
        usage: What the provider has charged for the part that came.
        secret: The key in use, which nobody may read.
    """
    without(error, secret)
    if isinstance(error, lost):
        return ModelError(_text(error), kind=ModelErrorKind.TRANSIENT, usage=usage)
    status: object = getattr(error, "status_code", None)
    words = words_of(getattr(error, "body", None)) | words_of(vars(error))
    # An error inside a stream has no status, or that of the stream, which began well.
    in_stream = not isinstance(status, int) or status < 400
    if in_stream or status in (400, 413, 422):
        kind = ModelErrorKind.CONTEXT_TOO_LONG if status == 413 else _hidden(str(error), words)
        if kind is not None:
            return ModelError(_text(error), kind=kind, usage=usage)
    if in_stream:
        return error_in_stream(_text(error), words, usage)
    return error


def error_in_stream(text: str, words: set[str], usage: Usage | None = None) -> ModelError:
    """Say what an error that has no status stands for, by the provider's own words for it."""
    known = (kind for word, kind in _KINDS.items() if word in words)
    kind = _hidden(text, words) or next(known, ModelErrorKind.TRANSIENT)
    return ModelError(bounded(text, _MESSAGE), kind=kind, usage=usage)


def refused(why: str, words: str, usage: Usage | None) -> ModelError:
    """Say that a model refuses: why its reply ended, and its words, if it has any."""
    text = f"the model refuses ({why}): {bounded(words, _MESSAGE) or 'no words'}"
    return ModelError(text, kind=ModelErrorKind.REFUSED, usage=usage)


def without(error: Exception, secret: str) -> Exception:
    """Strike a key out of what an error says, and out of what it was raised from.

    Some servers repeat the key that they refuse, and HTTP clients a header that they cannot send.
    """
    link: BaseException | None = error
    # One that ends in a line break is escaped where it is repeated.
    key = secret.strip()
    while key and link is not None:
        if key in str(link):
            link.args = (str(link).replace(key, "…"),)
        link = link.__cause__
    return error


def words_of(holder: object) -> set[str]:
    """Collect codes and types of an error's body, which may be wrapped once."""
    if not isinstance(holder, Mapping):
        return set()
    body = cast("Mapping[str, object]", holder)
    given = (body.get("code"), body.get("type"))
    found = {str(word) for word in given if isinstance(word, str | int)}
    for key in ("error", "innererror"):
        found |= words_of(body.get(key))
    return found


def _hidden(text: str, words: set[str]) -> ModelErrorKind | None:
    """Say what is told apart by its words alone, whatever the status is."""
    if words & _TOO_LONG_CODES or _TOO_LONG.search(text):
        return ModelErrorKind.CONTEXT_TOO_LONG
    return ModelErrorKind.REFUSED if words & _REFUSED_CODES else None


def _text(error: Exception) -> str:
    # What became of the line is in the error below: the SDKs say only that it is gone.
    cause = f" ({error.__cause__})" if str(error.__cause__ or "") else ""
    return bounded(f"{type(error).__name__}: {error}{cause}", _MESSAGE)
