"""The errors of the kernel. Those pykka has a word for are also pykka's, so either name catches them."""

from __future__ import annotations

import asyncio

import pykka

from loopwright.protocol import LoopwrightError


class ActorDeadError(LoopwrightError, pykka.ActorDeadError):
    """Raised when an actor is dead or stopping, or went down before it answered this request."""


class AskTimeoutError(LoopwrightError, pykka.Timeout):
    """Raised when an answer did not come in time; the request may still be handled later."""


class RequestCancelledError(LoopwrightError):
    """Raised when what handled a request was cancelled, while its actor lives on."""


class SystemClosedError(LoopwrightError):
    """Raised when an actor system is not open, or is closing."""


class UnsupportedError(LoopwrightError):
    """Raised when a part of pykka is used that would bypass typed messages or block the loop."""


class WouldDeadlockError(LoopwrightError):
    """Raised when the loop's own thread is about to wait for what only the loop can bring about."""


class WrongThreadError(LoopwrightError):
    """Raised when a call that belongs to the loop's thread comes from another one."""


def ends_process(error: BaseException) -> bool:
    """Whether an error is not for an actor alone to bear: KeyboardInterrupt, SystemExit."""
    return not isinstance(error, (Exception, asyncio.CancelledError))
