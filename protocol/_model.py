"""The edge to a model: what it is shown, what it replies, and the Protocol it implements."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ._budget import Principal, Usage
from ._decisions import Decision, Malformed
from ._effects import Effect
from ._errors import LoopwrightError
from ._history import History
from ._ids import InvocationId
from ._json import JsonObject, JsonValue
from ._words import Word


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
    summary: str = ""
    """What stands for the turns before those of `history`, where they were compacted or cut."""
    max_output_tokens: int | None = None
    """The most the reply may cost, in tokens; `None`: the budget sets no limit."""
    handoffs: tuple[str, ...] = ()
    """Agents it may hand over to."""
    output_schema: JsonObject | None = None
    """JSON Schema that the `output` of a final answer has to fit; `None`: it is a text."""


RawDecision: TypeAlias = Decision | Malformed | str | bytes | Mapping[str, object]
"""A typed decision, or the model's own JSON, which the runtime parses strictly. `Malformed`: what
the model has said is known to be none, such as a reply that was cut off; it is told so, once."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One reply."""

    decision: RawDecision
    usage: Usage | None = None
    """`None` where the provider reported nothing: it is then estimated, never taken as 0."""
    model: str = ""
    response_id: str = ""
    stop_reason: str = ""
    """Why the provider says the reply ended, in the provider's own word."""
    replay: JsonValue = None
    """What the same model has to be sent again, such as encrypted reasoning; see `Proposal`."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of a reply that is under way; nothing of it counts before all of it has come."""

    text: str


class ModelErrorKind(Word):
    """What kind of failure a model call met: what is sensible to do next."""

    TRANSIENT = "transient"
    """The same request may work in a moment: a 408, 409, 5xx, a dead line, a time-out."""
    RATE_LIMITED = "rate_limited"
    """As transient, once some time has passed: a 429."""
    CONTEXT_TOO_LONG = "context_too_long"
    """Only a model with a larger window can take it."""
    REFUSED = "refused"
    """The provider will not answer this content; no retry and no other model is asked."""
    PERMANENT = "permanent"
    """The request, or the right to make it, is wrong: a 400, 401, 403, 404."""
    UNAVAILABLE = "unavailable"
    """It was not asked: its breaker is open, or it does not fit what is left of the budget."""


class ModelError(LoopwrightError):
    """Raised by a model that gives no reply, to say what kind of failure it met.

    Args:
        message: What went wrong, for the trace.
        kind: What kind of failure it is.
        retry_after: What the provider said in `Retry-After`: seconds or an HTTP date, as it came.
        usage: What the provider charges for it, where it says.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind | str = ModelErrorKind.TRANSIENT,
        retry_after: str | float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = ModelErrorKind(kind)
        self.retry_after = retry_after
        self.usage = usage


class Model(Protocol):
    """What loopwright asks for decisions: one reply per request, no state kept for the caller.

    It raises `ModelError` to say what kind of failure it met; anything else is classified by its
    type and its `status_code`. A cancelled call must end. It may have a `name: str`, by which its
    price is found and its breaker is kept (otherwise its class name), a `context_window: int`, the
    tokens a request and its reply may have together, and a `timeout: float`, the seconds one
    attempt may take. What it holds open it may close in an `async def aclose()`: a runtime that is
    closed calls that, and may be entered again.
    """

    async def decide(self, request: ModelRequest, /) -> ModelReply:
        """Decide what to do next."""
        ...


class StreamingModel(Model, Protocol):
    """A model that is heard while it speaks: the runtime calls `stream` in place of `decide`.

    What is heard is for people who watch; the decision is that of the reply, which comes last.
    """

    def stream(self, request: ModelRequest, /) -> AsyncIterator[TextDelta | ModelReply]:
        """Give pieces of the reply as they come, and then the reply."""
        ...
