"""Who does it: the six roles, the machine they drive, and the runtime a service embeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._clock import Clock as Clock
from ._clock import Instant as Instant
from ._clock import RealClock as RealClock
from ._clock import Timer as Timer
from ._inbox import Waiting as Waiting
from ._inbox import inbox as inbox
from ._inbox import waiting_of as waiting_of
from ._run import Run as Run
from ._runtime import Recovery as Recovery
from ._runtime import Runtime as Runtime
from .definitions._agent import Agent as Agent
from .definitions._arguments import Arguments as Arguments
from .definitions._method_tool import toolset as toolset
from .definitions._models import Endpoint as Endpoint
from .definitions._models import FallbackChain as FallbackChain
from .definitions._models import endpoints_of as endpoints_of
from .definitions._tool import AnyTool as AnyTool
from .definitions._tool import Tool as Tool
from .definitions._tool import ToolContext as ToolContext
from .definitions._tool import ToolFailure as ToolFailure
from .definitions._tool_body import InvalidArgumentsError as InvalidArgumentsError
from .definitions._tool_decorator import tool as tool
from .definitions._tool_options import ToolOptions as ToolOptions
from .definitions._verifiers import AnyVerifier as AnyVerifier
from .machine._machine import Machine as Machine
from .roles._committer import Committer as Committer
from .roles._decider import Decider as Decider
from .roles._executor import ToolExecutor as ToolExecutor
from .roles._summarizer import Summarizer as Summarizer
from .roles._supervisor import Supervisor as Supervisor
from .roles._tracker import ProgressTracker as ProgressTracker
from .roles._validator import Validator as Validator
from .roles._verifier import Verifier as Verifier
from .tracing._json_lines import JsonLines as JsonLines
from .tracing._trace import RunObserver as RunObserver
from .tracing._trace import TraceEvent as TraceEvent

if TYPE_CHECKING:
    from ._sync import SyncRuntime as SyncRuntime


def __getattr__(name: str) -> object:
    """Import the runtime for services without a loop, and its threads, where it is first used."""
    if name == "SyncRuntime":
        from ._sync import SyncRuntime

        return SyncRuntime
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
