"""What a script puts in the place of the world: a model and tool bodies that wait for its word."""

from __future__ import annotations

import asyncio
import copy
import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from loopwright.actors import Agent, AnyTool, Tool, ToolContext, tool
from loopwright.policy import Policy, Retry
from loopwright.protocol import (
    ConfigurationError,
    Effect,
    JsonObject,
    JsonValue,
    ModelReply,
    ModelRequest,
    Reconciled,
)

from ._setting import ParameterType, ToolPart
from ._steps import Script

_TYPES: Final[Mapping[ParameterType, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": JsonObject,
    "array": list[JsonValue],
    "any": JsonValue,
}
_FIELD: Final = re.compile(r"\{(\w+)\}")


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class Asked:
    """The model is asked for a decision, and waits for what the script says."""

    request: ModelRequest
    reply: asyncio.Future[ModelReply] = field(default_factory=_future)
    mentioned: bool = False
    """Whether a step of the script is about it."""

    def __str__(self) -> str:
        """Tell it in a report."""
        return f"the model is asked for decision {self.request.turn}"


@dataclass(slots=True)
class Started:
    """The body of a call has been started, and waits for what the script says."""

    call_id: str
    tool_name: str
    arguments: JsonObject
    reply: asyncio.Future[JsonValue] = field(default_factory=_future)
    mentioned: bool = False
    """Whether a step of the script is about it."""

    def __str__(self) -> str:
        """Tell it in a report."""
        return f"call {self.call_id!r} ({self.tool_name}) is started"


@dataclass(slots=True)
class Questioned:
    """The owner of the data is asked about a write, and waits for what the script says."""

    call_id: str
    tool_name: str
    reply: asyncio.Future[Reconciled] = field(default_factory=_future)
    mentioned: bool = False
    """Whether a step of the script is about it."""

    def __str__(self) -> str:
        """Tell it in a report."""
        return f"what became of call {self.call_id!r} ({self.tool_name}) is asked"


Event: TypeAlias = Asked | Started | Questioned


class World:
    """Everything one process asked of the outside, in order.

    Args:
        writes: By effect key, the call of the last write; a question names only the key, and it
            may be a later process that asks.
    """

    def __init__(self, writes: dict[str, str]) -> None:
        self.events: list[Event] = []
        self._writes = writes

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Be the model: wait for a `decide` step."""
        asked = Asked(request)
        self.events.append(asked)
        return await asked.reply

    async def run(self, tool_name: str, context: ToolContext, arguments: JsonObject) -> JsonValue:
        """Be the body of a tool: wait for an `execute` step."""
        if context.effect_key is not None:
            self._writes[context.effect_key] = context.call_id
        started = Started(context.call_id, tool_name, arguments)
        self.events.append(started)
        return await started.reply

    async def reconcile(self, tool_name: str, effect_key: str) -> Reconciled:
        """Be the owner of the data: wait for a `reconcile` step."""
        questioned = Questioned(self._writes.get(effect_key, effect_key), tool_name)
        self.events.append(questioned)
        return await questioned.reply

    def unmentioned(self) -> list[Event]:
        """Return what no step of the script has been about, in order."""
        return [event for event in self.events if not event.mentioned]


class _StandIn(Tool[..., Any]):
    """A tool as models and policies see it, with a body that is not its own."""

    def __init__(self, real: AnyTool, world: World) -> None:
        # Not calling Tool's: it reads a signature, and this tool keeps that of the real one.
        vars(self).update(vars(real))
        self.function = partial(world.run, real.name)
        self.is_async = True
        # The script says what a child has come to, as it does of any other call.
        self.child = None
        if real.reconciler is not None:

            async def ask(effect_key: str) -> Reconciled:
                return await world.reconcile(real.name, effect_key)

            self.reconciler = ask

    def bind(self, arguments: JsonObject, context: Callable[[], ToolContext]) -> Mapping[str, Any]:
        return {"context": context(), "arguments": arguments}


def crew_of(script: Script, agents: Sequence[Agent], world: World) -> list[Agent]:
    """Make the agents of a script: first the one that begins, then those it may be handed to.

    The first is one of those given, or one with the script's own tools: then nothing is tried
    again by itself, for each `execute` is one attempt.

    Raises:
        ConfigurationError: If there is no such agent, or it cannot be as the script says.
    """
    document = script.document
    if document.tools is not None or not agents:
        tools = [_declared(name, part) for name, part in (document.tools or {}).items()]
        policy = Policy(tool_retry=Retry(max_attempts=1))
        base = Agent(document.agent, model=world, tools=tools, policy=policy)
    else:
        known = {agent.name: agent for agent in agents}
        found = known.get(document.agent)
        if found is None:
            msg = (
                f"there is no agent {document.agent!r}; declare `tools`, or use: {', '.join(known)}"
            )
            raise ConfigurationError(msg)
        base = found
    crew = [base, *(agent for agent in agents if agent.name != base.name)]
    return [_stand_in(agent, script, world) for agent in crew]


def _stand_in(agent: Agent, script: Script, world: World) -> Agent:
    own, said = copy.copy(agent), script.document.policy
    own.model, own.finish_model = world, None
    own.policy = agent.policy if said is None else said.over(agent.policy)
    own.tools = MappingProxyType({name: _StandIn(t, world) for name, t in agent.tools.items()})
    return own


def _declared(name: str, part: ToolPart) -> AnyTool:
    async def body(**_arguments: Any) -> None:
        raise AssertionError("a stand-in runs instead")

    for key in part.parameters:
        if not key.isidentifier() or keyword.iskeyword(key):
            msg = f"tool {name!r}: {key!r} cannot name a parameter; use a Python name"
            raise ConfigurationError(msg)
    parameters = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=_TYPES[kind])
        for key, kind in part.parameters.items()
    ]
    body.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # a function takes any attribute, and inspect reads this one
    body.__annotations__ = {key: _TYPES[kind] for key, kind in part.parameters.items()}
    effect_key = None if part.effect_key is None else _key_maker(name, part, part.effect_key)
    declared = tool(
        effect=part.effect,
        name=name,
        description=f"{name}, as a script says",
        timeout=part.timeout,
        effect_key=effect_key,
    )(body)
    if part.effect is Effect.RECONCILABLE:
        declared.reconcile(_never_asked)
    return declared


async def _never_asked(_effect_key: str) -> None:
    raise AssertionError("a stand-in is asked instead")


def _key_maker(name: str, part: ToolPart, template: str) -> Callable[[Any], str]:
    for parameter in _FIELD.findall(template):
        if parameter not in part.parameters:
            known = ", ".join(part.parameters) or "none"
            msg = f"tool {name!r}: its effect_key has {{{parameter}}}; its parameters are: {known}"
            raise ConfigurationError(msg)
    return lambda arguments: _FIELD.sub(lambda match: str(getattr(arguments, match[1])), template)
