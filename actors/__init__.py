"""Who does it: the six roles, the machine they drive, and the runtime a service embeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._agent import Agent as Agent
from ._clock import Clock as Clock
from ._clock import Instant as Instant
from ._clock import RealClock as RealClock
from ._clock import Timer as Timer
from ._inbox import Waiting as Waiting
from ._inbox import inbox as inbox
from ._json_lines import JsonLines as JsonLines
from ._models import Endpoint as Endpoint
from ._models import FallbackChain as FallbackChain
from ._models import endpoints_of as endpoints_of
from ._run import Run as Run
from ._runtime import Recovery as Recovery
from ._runtime import Runtime as Runtime
from ._tool import AnyTool as AnyTool
from ._tool import Tool as Tool
from ._tool import ToolContext as ToolContext
from ._tool import ToolFailure as ToolFailure
from ._tool import tool as tool
from ._trace import RunObserver as RunObserver
from ._trace import TraceEvent as TraceEvent
from ._verifiers import AnyVerifier as AnyVerifier
from .machine._machine import Machine as Machine
from .roles._committer import Committer as Committer
from .roles._decider import Decider as Decider
from .roles._executor import ToolExecutor as ToolExecutor
from .roles._summarizer import Summarizer as Summarizer
from .roles._supervisor import Supervisor as Supervisor
from .roles._tracker import ProgressTracker as ProgressTracker
from .roles._validator import Validator as Validator
from .roles._verifier import Verifier as Verifier

if TYPE_CHECKING:
    from ._sync import SyncRuntime as SyncRuntime


def __getattr__(name: str) -> object:
    """Import the runtime for services without a loop, and its threads, where it is first used."""
    if name == "SyncRuntime":
        from ._sync import SyncRuntime

        return SyncRuntime
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
