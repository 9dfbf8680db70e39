"""What an attempt of a delivery means for it: concluded, or given back and tried again later.

Only a tool that says so, or the owner of the data, concludes a delivery. Everything else leaves
it in the outbox: what was promised to be delivered is neither lost nor guessed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from loopwright.policy import backoff
from loopwright.protocol import (
    EffectStatus,
    Input,
    JsonValue,
    NotDispatched,
    Reconciled,
    ResultStatus,
    ServiceFailed,
    ToolError,
    ToolResult,
)

from ..definitions._tool import InvalidArgumentsError

RETRY_FIRST: Final = 0.5
"""Seconds before the second attempt; doubled for each further one."""
RETRY_LONGEST: Final = 60.0


class Attempted(NamedTuple):
    """What a delivery is concluded with, or given back as."""

    status: EffectStatus
    receipt: JsonValue = None
    retry_in: float | None = None
    why: str = ""
    """Why it was not delivered."""
    left: bool = False
    """Whether it can't be delivered as things are, so that somebody has to look after it."""


def after_executing(result: ToolResult, attempt: int) -> Attempted:
    """Judge what the body returned or raised."""
    error = result.error
    match result.status:
        case ResultStatus.OK:
            return Attempted("committed", result.output)
        case ResultStatus.ERROR if error is not None:
            if error.type == InvalidArgumentsError.__name__:
                # Bound to today's tool, before its body.
                return left(attempt, f"its arguments do not fit the tool any more: {error.message}")
            if error.category.definite and not error.retryable:
                return Attempted("rejected", why=_text(error))
            # Its own word that this attempt has failed.
            return Attempted("prepared", retry_in=_wait(attempt), why=_text(error))
        case ResultStatus.NOT_STARTED:
            return not_made(attempt, _text(error))
        case _:
            return Attempted("outcome_unknown", retry_in=_wait(attempt), why=_text(error))


def after_asking(found: Reconciled, attempt: int) -> Attempted | None:
    """Judge what the owner of the data says of the attempts before; `None`: it is to be sent."""
    match found.finding:
        case "applied":
            return Attempted("committed", found.receipt)
        case "rejected":
            return Attempted("rejected", why=found.reason or "its downstream has refused it")
        case "unknown":
            why = f"what became of it is not known: {found.reason or 'its downstream does not say'}"
            return Attempted("outcome_unknown", retry_in=_wait(attempt), why=why)
        case "not_applied":
            return None


def failed(answer: Input, attempt: int) -> Attempted:
    """Judge an answer that tells nothing of the downstream."""
    match answer:
        case NotDispatched(error=error):
            return not_made(attempt, error)
        case ServiceFailed(service=service, error=error):
            return Attempted("outcome_unknown", None, _wait(attempt), f"{service} failed: {error}")
        case _:
            raise AssertionError(answer)


def not_made(attempt: int, why: str) -> Attempted:
    """Give back what was not attempted; of an attempt before nobody knows."""
    return Attempted(_before(attempt), retry_in=_wait(attempt), why=why)


def left(attempt: int, why: str) -> Attempted:
    """Give back what can't be attempted as things are; they may be others after a new start."""
    return Attempted(_before(attempt), retry_in=RETRY_LONGEST, why=why, left=True)


def _before(attempt: int) -> EffectStatus:
    return "prepared" if attempt == 1 else "outcome_unknown"


def _wait(attempt: int) -> float:
    return backoff(attempt, RETRY_FIRST, RETRY_LONGEST)


def _text(error: ToolError | None) -> str:
    return "" if error is None else f"{error.type}: {error.message}"
