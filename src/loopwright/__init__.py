"""loopwright: one agent invocation as a bounded, durable protocol between actors."""

from __future__ import annotations

from loopwright.actors import Agent as Agent
from loopwright.actors import Run as Run
from loopwright.actors import Runtime as Runtime
from loopwright.actors import SyncRuntime as SyncRuntime
from loopwright.actors import ToolContext as ToolContext
from loopwright.actors import ToolFailure as ToolFailure
from loopwright.actors import tool as tool
from loopwright.policy import Policy as Policy
from loopwright.policy import Progress as Progress
from loopwright.protocol import Budget as Budget
from loopwright.protocol import CannotContinue as CannotContinue
from loopwright.protocol import Clarification as Clarification
from loopwright.protocol import ConfigurationError as ConfigurationError
from loopwright.protocol import Final as Final
from loopwright.protocol import LoopwrightError as LoopwrightError
from loopwright.protocol import Model as Model
from loopwright.protocol import ModelReply as ModelReply
from loopwright.protocol import ModelRequest as ModelRequest
from loopwright.protocol import Outcome as Outcome
from loopwright.protocol import Overloaded as Overloaded
from loopwright.protocol import Principal as Principal
from loopwright.protocol import Reason as Reason
from loopwright.protocol import RequestApproval as RequestApproval
from loopwright.protocol import ToolCall as ToolCall
from loopwright.protocol import ToolCalls as ToolCalls
from loopwright.protocol import Usage as Usage

__version__ = "0.1.0"
