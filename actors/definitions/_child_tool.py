"""A tool that stands for an agent: a call of it is a child invocation."""

from __future__ import annotations

from loopwright.protocol import Budget, ConfigurationError, Effect, JsonValue

from ._tool import Tool
from ._tool_options import ToolOptions


class ChildTool(Tool[[str], JsonValue]):
    """Stands for an agent; its calls are run by the children of a runtime, not by a function.

    Its effect is reconcilable: which child a call has started, and how that stands, can be found
    out at any time by the effect key of the call. Children of one batch run at the same time.

    Args:
        agent: Name of the agent.
        budget: Limits of each child.
        name: How the model calls it.
        description: What the model is told.
    """

    def __init__(self, agent: str, budget: Budget, *, name: str, description: str) -> None:
        def delegate(goal: str) -> JsonValue:
            msg = f"tool {name!r} stands for agent {agent!r} and runs in a runtime ({goal!r})"
            raise ConfigurationError(msg)

        options = ToolOptions(
            name=name,
            effect=Effect.RECONCILABLE,
            description=description,
            timeout=None,
            writes=lambda _: (),
        )
        super().__init__(delegate, options)
        self.child = agent
        self.agent = agent
        self.limits = budget
