"""An agent: a definition, shared by every invocation, with no state of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

from pydantic import TypeAdapter

from loopwright.policy import Policy
from loopwright.protocol import (
    RESERVED_TOOLS,
    Budget,
    ConfigurationError,
    Effect,
    JsonObject,
    Model,
    Outcome,
    Price,
    ToolSpec,
    bounded,
)

from ._child_tool import ChildTool
from ._method_tool import MethodTool
from ._models import Endpoint, FallbackChain, endpoints_of
from ._signature import with_schema
from ._tool import AnyTool, Tool
from ._verifiers import AnyVerifier, verifier_names

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
        finish_model: What decides after the soft stop of a budget, where that is another model.
        prices: What its models cost. With `Budget.max_cost`, each of them needs one.
        verifiers: Who looks at a final answer before it counts, in this order.
        handoffs: Names of the agents it may hand an invocation to.
        escape: Name of the agent that takes over where agents only hand it on and on.

    Raises:
        ConfigurationError: If anything of it cannot work, such as two tools of one name.
    """

    def __init__(
        self,
        name: str,
        *,
        model: Model | FallbackChain,
        version: str = "1",
        instructions: str = "",
        tools: Sequence[AnyTool] = (),
        policy: Policy | None = None,
        budget: Budget | None = None,
        output: Any = None,
        finish_model: Model | FallbackChain | None = None,
        prices: Sequence[Price] = (),
        verifiers: Sequence[AnyVerifier] = (),
        handoffs: Sequence[str] = (),
        escape: str | None = None,
    ) -> None:
        if not _NAME.fullmatch(name):
            msg = f"agent name {name!r} is not usable; use 1-64 letters, digits, '.', '_' or '-'"
            raise ConfigurationError(msg)
        for given in (model,) if finish_model is None else (model, finish_model):
            try:
                endpoints_of(given)
            except ConfigurationError as error:
                raise ConfigurationError(f"agent {name!r}: {error}") from None
        self.name = name
        self.version = version
        self.instructions = instructions
        self.model = model
        self.finish_model = finish_model
        self.prices = tuple(prices)
        for price in self.prices:
            if type(price) is not Price:
                msg = f"agent {name!r}: {price!r} is no price; give Price(...), or prices_of(...)"
                raise ConfigurationError(msg)
        models = [price.model for price in self.prices]
        if len(set(models)) < len(models):
            msg = f"agent {name!r} has two prices for one model: {', '.join(models)}; give one each"
            raise ConfigurationError(msg)
        self.verifiers = tuple(verifiers)
        self.verifier_names = verifier_names(self.verifiers)
        self.handoffs = tuple(handoffs)
        self.escape = escape
        if name in (*self.handoffs, escape):
            msg = f"agent {name!r} is to hand over to itself; name other agents"
            raise ConfigurationError(msg)
        self.policy = policy or Policy()
        self.budget = budget or Budget()
        self.tools: Mapping[str, AnyTool] = MappingProxyType(_by_name(name, tools))
        self.specs: tuple[ToolSpec, ...] = tuple(t.spec for t in self.tools.values())
        self.output: TypeAdapter[Any] | None = None
        self.output_schema: JsonObject | None = None
        if output is not None:
            self.output, schema = with_schema(output, f"agent {name!r}: its output type")
            self.output_schema = cast("JsonObject", schema)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every model that may be asked for a decision of it, each once."""
        found = endpoints_of(self.model)
        if self.finish_model is not None:
            found += endpoints_of(self.finish_model)
        return tuple({endpoint.name: endpoint for endpoint in found}.values())

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        budget: Budget | None = None,
    ) -> AnyTool:
        """Make a tool of it: each call starts a child invocation and returns how that ended.

        The child has a journal of its own, under this agent's policy and for the same principal.
        What it may use is kept aside from the budget of whoever calls, so that the whole tree
        stays within the root's. A cancel reaches it; where it waits for a person, its caller does
        as well, and `approve` and `answer` find it. Its runtime must have this agent.

        Args:
            name: How the model calls it; by default the agent's name.
            description: What the model is told.
            budget: Limits of each child; by default the agent's.

        Raises:
            ConfigurationError: If the name cannot be that of a tool.
        """
        return ChildTool(
            self.name,
            budget or self.budget,
            name=name or re.sub(r"[^A-Za-z0-9_-]", "_", self.name),
            description=description
            or f"Give the agent {self.name} a task of its own, and get its answer.",
        )

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
    if isinstance(tools, Tool):
        msg = f"agent {agent!r}: tools= is the tool {tools.name!r}; give a list of tools"
        raise ConfigurationError(msg)
    for tool in tools:
        if not isinstance(tool, Tool):
            shown = getattr(tool, "__name__", repr(tool))
            hint = "use @tool(effect=…)"
            if isinstance(tool, list | tuple):
                hint = "put what is in it into the list, with a * before it"
            elif isinstance(tool, Agent):
                hint = "give its .as_tool()"
            elif not callable(tool):
                hint += ", *toolset(…) for an object whose methods have it, *….tools for a server"
            msg = f"agent {agent!r}: {shown} is no tool and has no effect class; {hint}"
            raise ConfigurationError(msg)
        if tool.name in RESERVED_TOOLS:
            msg = (
                f"agent {agent!r} has a tool named {tool.name!r}, by which models say a decision "
                "of that kind; give it another @tool(name=…)"
            )
            raise ConfigurationError(msg)
        if isinstance(tool, MethodTool):
            msg = (
                f"agent {agent!r}: tool {tool.name!r} is a method, and of no object here; give it "
                f"as an attribute of one, or all of them with toolset(object)"
            )
            raise ConfigurationError(msg)
        if tool.name in found:
            msg = f"agent {agent!r} has two tools named {tool.name!r}; give one another name"
            msg += ": @tool(name=…), .as_tool(name=…), or that of its MCP server"
            raise ConfigurationError(msg)
        if tool.effect is Effect.RECONCILABLE and tool.reconciler is None and tool.child is None:
            msg = (
                f"agent {agent!r}: tool {tool.name!r} is reconcilable and cannot be asked; "
                "decorate what asks its downstream with the `.reconcile` of the tool"
            )
            raise ConfigurationError(msg)
        found[tool.name] = tool
    return found


def checked_agents(agents: Sequence[Agent]) -> tuple[Agent, ...]:
    """Take the agents of a runtime.

    Whoever may take over has to be there: an invocation may depend on it days later.

    Raises:
        ConfigurationError: If something else is among them, two have one name, or one is missing.
    """
    given = cast("object", agents)
    found = [*cast("Iterable[object]", given)] if isinstance(given, Iterable) else [None]
    if not all(isinstance(agent, Agent) for agent in found):
        msg = f"a runtime has agents={bounded(repr(agents))}; give a list of agents"
        raise ConfigurationError(msg)
    names = [agent.name for agent in agents]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        msg = f"the runtime has two agents named {twice!r}; give one another name"
        raise ConfigurationError(msg)
    for agent in agents:
        children = [tool.child for tool in agent.tools.values()]
        for other in (*agent.handoffs, agent.escape, *children):
            if other is not None and other not in names:
                msg = (
                    f"agent {agent.name!r} hands over to, or calls, agent {other!r}, which this "
                    f"runtime does not have; add it to agents="
                )
                raise ConfigurationError(msg)
    return tuple(agents)
