"""An agent: a definition, shared by every invocation, with no state of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from pydantic import TypeAdapter

from loopwright.policy import Policy
from loopwright.protocol import Budget, ConfigurationError, Effect, Model, Outcome, ToolSpec

from ._tool import AnyTool, Tool, with_schema

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Agent:
    """Who decides, with which tools, under which policy and budget.

    Args:
        name: How it is started and listed.
        model: Where decisions come from.
        version: Pinned in every invocation it starts.
        instructions: What the model is told beside the goal.
        tools: What it may call; names are unique.
        policy: What is allowed, and how much is forgiven.
        budget: Limits of each invocation, unless `start` gives others.
        output: A type: a final answer then carries a JSON value of it, and
            `agent.parse_output(outcome)` returns an instance.

    Raises:
        ConfigurationError: If anything of it cannot work, such as two tools of one name.
    """

    def __init__(
        self,
        name: str,
        *,
        model: Model,
        version: str = "1",
        instructions: str = "",
        tools: Sequence[AnyTool] = (),
        policy: Policy | None = None,
        budget: Budget | None = None,
        output: Any = None,
    ) -> None:
        if not _NAME.fullmatch(name):
            msg = f"agent name {name!r} is not usable; use 1-64 letters, digits, '.', '_' or '-'"
            raise ConfigurationError(msg)
        if not callable(getattr(model, "decide", None)):
            msg = f"agent {name!r}: {type(model).__name__} is no model; it needs `async def decide`"
            raise ConfigurationError(msg)
        self.name = name
        self.version = version
        self.instructions = instructions
        self.model = model
        self.policy = policy or Policy()
        self.budget = budget or Budget()
        self.tools: Mapping[str, AnyTool] = MappingProxyType(_by_name(name, tools))
        self.specs: tuple[ToolSpec, ...] = tuple(t.spec for t in self.tools.values())
        self.output: TypeAdapter[Any] | None = None
        if output is not None:
            self.output, _ = with_schema(output, f"agent {name!r}: its output type")

    def parse_output(self, outcome: Outcome) -> Any:
        """Return a completed outcome's output as an instance of the agent's output type.

        Raises:
            ConfigurationError: If the agent has no output type, or the outcome no fitting output.
        """
        if self.output is None:
            msg = f"agent {self.name!r} has no output type; give it one with output="
            raise ConfigurationError(msg)
        try:
            return self.output.validate_python(outcome.output)
        except ValueError as error:
            msg = (
                f"invocation {outcome.invocation_id} ({outcome.reason}) has no output of the type "
                f"of agent {self.name!r}; parse completed outcomes of this agent only"
            )
            raise ConfigurationError(msg) from error

    def __repr__(self) -> str:
        """Name it and its tools."""
        return f"<Agent {self.name} {self.version} tools={', '.join(self.tools) or 'none'}>"


def _by_name(agent: str, tools: Sequence[object]) -> dict[str, AnyTool]:
    found: dict[str, AnyTool] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            shown = getattr(tool, "__name__", repr(tool))
            msg = (
                f"agent {agent!r}: {shown} is no tool and has no effect class; use @tool(effect=…)"
            )
            raise ConfigurationError(msg)
        if tool.name in found:
            msg = f"agent {agent!r} has two tools named {tool.name!r}; give one @tool(name=…)"
            raise ConfigurationError(msg)
        if tool.effect is Effect.RECONCILABLE and tool.reconciler is None:
            msg = (
                f"agent {agent!r}: tool {tool.name!r} is reconcilable and cannot be asked; "
                f"decorate what asks its downstream with @{tool.name}.reconcile"
            )
            raise ConfigurationError(msg)
        found[tool.name] = tool
    return found
