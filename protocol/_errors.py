"""Every error loopwright raises on purpose, under one base.

A message names what was wrong, where, and what to do. A denied call, a timeout of a
tool or a used-up budget is not an error: it is a typed result or a typed reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class LoopwrightError(Exception):
    """Raised when loopwright refuses or fails; the base of every error below."""


class ConfigurationError(LoopwrightError):
    """Raised when an agent, tool, policy, runtime or file is set up in a way that cannot work."""


class ProtocolError(LoopwrightError):
    """Raised when something was said that the protocol does not allow."""


class ProtocolViolation(ProtocolError):
    """Raised when a message meets a state it has no meaning in: a bug of ours, never ignored."""


class RemoteProtocolError(ProtocolError):
    """Raised when a model, a tool or a file said something malformed; `where` names it.

    Args:
        where: The boundary and path at fault, such as ``decision.calls[0].arguments``.
        problem: One sentence on what was wrong.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


class StoreError(LoopwrightError):
    """Raised when a store cannot do what it was asked; `transient` says a retry may help."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class JournalConflictError(StoreError):
    """Raised when an append meets other records where its own should go."""


class JournalCorruptError(StoreError):
    """Raised when stored records cannot be read back, or are of a newer version than this code."""


class FencedError(StoreError):
    """Raised when an append comes from a former owner: another worker has taken over."""


class LeaseHeldError(StoreError):
    """Raised when an invocation is owned by another live worker."""


class InvocationNotFoundError(LoopwrightError):
    """Raised when no stored invocation has this id."""


class InvocationStateError(ProtocolError):
    """Raised when an invocation is not in a state in which the request has a meaning."""


class AlreadyDecidedError(InvocationStateError):
    """Raised when an approval was answered before; the first answer stands."""


class ApproverRefusedError(InvocationStateError):
    """Raised when policy does not let somebody answer a proposal; it still waits."""


class ApprovalExpiredError(InvocationStateError):
    """Raised when an answer comes after its proposal has expired; its calls are refused."""


class UnknownProposalError(InvocationStateError):
    """Raised when an approval names a digest or a call that is not waiting for one."""


class Overloaded(LoopwrightError):
    """Raised when a mailbox or the runtime is full; nothing was accepted, try again later."""


class RuntimeClosedError(LoopwrightError):
    """Raised when a runtime is used outside `async with`, or was closed while something waited."""


def first_fault(error: ValidationError, *where: str) -> tuple[str, str]:
    """Say the first thing that was found: its path, which begins with `where`, and what it is."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ".".join(str(part) for part in (*where, *first["loc"])), first["msg"]
