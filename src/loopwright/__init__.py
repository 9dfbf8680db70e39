"""loopwright: one agent invocation as a bounded, durable protocol between actors.

The names below are imported when they are first used, so that a program that only wants the
command line, or one part, does not pay for all of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loopwright.actors import Agent as Agent
    from loopwright.actors import FallbackChain as FallbackChain
    from loopwright.actors import Run as Run
    from loopwright.actors import Runtime as Runtime
    from loopwright.actors import SyncRuntime as SyncRuntime
    from loopwright.actors import ToolContext as ToolContext
    from loopwright.actors import ToolFailure as ToolFailure
    from loopwright.actors import tool as tool
    from loopwright.actors import toolset as toolset
    from loopwright.policy import Context as Context
    from loopwright.policy import Policy as Policy
    from loopwright.policy import Progress as Progress
    from loopwright.protocol import UNSETTLED as UNSETTLED
    from loopwright.protocol import AlreadyDecidedError as AlreadyDecidedError
    from loopwright.protocol import ApprovalExpiredError as ApprovalExpiredError
    from loopwright.protocol import ApproverRefusedError as ApproverRefusedError
    from loopwright.protocol import Budget as Budget
    from loopwright.protocol import CallId as CallId
    from loopwright.protocol import CannotContinue as CannotContinue
    from loopwright.protocol import Claim as Claim
    from loopwright.protocol import Clarification as Clarification
    from loopwright.protocol import ConfigurationError as ConfigurationError
    from loopwright.protocol import Effect as Effect
    from loopwright.protocol import Final as Final
    from loopwright.protocol import Handoff as Handoff
    from loopwright.protocol import InvocationNotFoundError as InvocationNotFoundError
    from loopwright.protocol import InvocationStateError as InvocationStateError
    from loopwright.protocol import LeaseHeldError as LeaseHeldError
    from loopwright.protocol import LoopwrightError as LoopwrightError
    from loopwright.protocol import Model as Model
    from loopwright.protocol import ModelError as ModelError
    from loopwright.protocol import ModelErrorKind as ModelErrorKind
    from loopwright.protocol import ModelReply as ModelReply
    from loopwright.protocol import ModelRequest as ModelRequest
    from loopwright.protocol import Outcome as Outcome
    from loopwright.protocol import Overloaded as Overloaded
    from loopwright.protocol import Price as Price
    from loopwright.protocol import Principal as Principal
    from loopwright.protocol import ProgressNote as ProgressNote
    from loopwright.protocol import Reason as Reason
    from loopwright.protocol import Reconciled as Reconciled
    from loopwright.protocol import RemoteProtocolError as RemoteProtocolError
    from loopwright.protocol import RequestApproval as RequestApproval
    from loopwright.protocol import RuntimeClosedError as RuntimeClosedError
    from loopwright.protocol import StoreError as StoreError
    from loopwright.protocol import ToolCall as ToolCall
    from loopwright.protocol import ToolCalls as ToolCalls
    from loopwright.protocol import UnknownProposalError as UnknownProposalError
    from loopwright.protocol import Usage as Usage
    from loopwright.protocol import Verification as Verification
    from loopwright.protocol import applied as applied
    from loopwright.protocol import failed as failed
    from loopwright.protocol import not_applied as not_applied
    from loopwright.protocol import passed as passed
    from loopwright.protocol import rejected as rejected
    from loopwright.protocol import unknown as unknown

__version__ = "0.1.0"

__all__ = [
    "UNSETTLED",
    "Agent",
    "AlreadyDecidedError",
    "ApprovalExpiredError",
    "ApproverRefusedError",
    "Budget",
    "CallId",
    "CannotContinue",
    "Claim",
    "Clarification",
    "ConfigurationError",
    "Context",
    "Effect",
    "FallbackChain",
    "Final",
    "Handoff",
    "InvocationNotFoundError",
    "InvocationStateError",
    "LeaseHeldError",
    "LoopwrightError",
    "Model",
    "ModelError",
    "ModelErrorKind",
    "ModelReply",
    "ModelRequest",
    "Outcome",
    "Overloaded",
    "Policy",
    "Price",
    "Principal",
    "Progress",
    "ProgressNote",
    "Reason",
    "Reconciled",
    "RemoteProtocolError",
    "RequestApproval",
    "Run",
    "Runtime",
    "RuntimeClosedError",
    "StoreError",
    "SyncRuntime",
    "ToolCall",
    "ToolCalls",
    "ToolContext",
    "ToolFailure",
    "UnknownProposalError",
    "Usage",
    "Verification",
    "applied",
    "failed",
    "not_applied",
    "passed",
    "rejected",
    "tool",
    "toolset",
    "unknown",
]

_FROM_ACTORS = {
    "Agent",
    "FallbackChain",
    "Run",
    "Runtime",
    "SyncRuntime",
    "ToolContext",
    "ToolFailure",
    "tool",
    "toolset",
}
_FROM_POLICY = {"Context", "Policy", "Progress"}


def __getattr__(name: str) -> object:
    """Import a public name on its first use."""
    if name not in __all__:
        msg = f"module 'loopwright' has no attribute {name!r}"
        raise AttributeError(msg)
    home = "actors" if name in _FROM_ACTORS else "policy" if name in _FROM_POLICY else "protocol"
    value: object = getattr(import_module(f"loopwright.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return [*__all__, "__version__"]
