"""The edge to a model: what it is shown, what it replies, and the Protocol it implements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ._budget import Principal, Usage
from ._decisions import Decision
from ._effects import Effect
from ._history import History
from ._ids import InvocationId
from ._json import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool."""

    name: str
    description: str
    parameters: JsonObject
    """JSON Schema of the arguments."""
    effect: Effect


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything one decision may rest on: the goal and what is committed."""

    invocation_id: InvocationId
    turn: int
    """The number of the turn being decided, from 1."""
    agent: str
    instructions: str
    goal: str
    history: History
    tools: tuple[ToolSpec, ...]
    principal: Principal
    notice: str | None = None
    """What the runtime has to say before this decision, such as the soft stop."""
    metadata: JsonValue = None
    """What the caller handed to `start`."""


RawDecision: TypeAlias = Decision | str | bytes | Mapping[str, object]
"""A typed decision, or the model's own JSON, which the runtime parses strictly."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One reply."""

    decision: RawDecision
    usage: Usage | None = None
    """`None` where the provider reported nothing: it is then estimated, never taken as 0."""
    model: str = ""
    response_id: str = ""


class Model(Protocol):
    """What loopwright asks for decisions: one reply per request, no state kept for the caller.

    Any exception it raises ends the invocation with `model_error`; a cancelled call must end.
    """

    async def decide(self, request: ModelRequest, /) -> ModelReply:
        """Decide what to do next."""
        ...
