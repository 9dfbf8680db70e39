"""What records are made of: a model's reply, what was said of it, and what people answered."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from ._budget import NO_COST, Usage
from ._decisions import Proposed
from ._ids import CallId, InvocationId
from ._json import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class Verdict:
    """What policy said of one call, kept as evidence."""

    call_id: CallId
    verdict: Literal["allow", "ask", "deny"]
    rule: str
    """The name of the rule that decided."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """What was wrong with a turn, where the model has to do better."""

    level: Literal["decision", "call", "answer"]
    """`decision`: nothing of it ran. `call`: some calls were refused, sound reads ran.
    `answer`: the final answer did not stand up to a verifier."""
    problem: str
    source: str = ""
    """Name of the verifier that says so, where one does."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One reply of the model, with the evidence the phases before execution leave."""

    decision: Proposed
    usage: Usage
    model: str = ""
    response_id: str = ""
    attempts: int = 1
    context_digest: str = ""
    """Digest of everything committed that the model was shown."""
    verdicts: tuple[Verdict, ...] = ()
    """What policy said, where it said more than a plain yes."""
    cost: Decimal = NO_COST
    """US dollars, at the prices pinned at the start; only of this reply, see `ModelAttempted`."""
    by: str = ""
    """Who decided in the model's place."""
    stop_reason: str = ""
    """Why the provider says the reply ended, in the provider's own word."""
    replay: JsonValue = None
    """What the same model has to be sent again for its next reply, such as encrypted reasoning.

    It is opaque, and evidence of nothing: it is neither shown, traced nor judged.
    """


@dataclass(frozen=True, slots=True)
class Ask:
    """One call that waits for a human, exactly as it will run."""

    call_id: CallId
    tool_name: str
    arguments: JsonObject
    """After defaults and coercion."""
    reason: str


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """A human's answer for one call."""

    call_id: CallId
    approved: bool
    arguments: JsonObject | None = None
    """What it is to run with instead of what was proposed, after defaults and coercion."""


@dataclass(frozen=True, slots=True)
class Parent:
    """The call an invocation works for."""

    invocation_id: InvocationId
    turn: int
    call_id: CallId
    depth: int = 1
    """How many invocations are above."""
