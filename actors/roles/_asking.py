"""One decision being asked for: which model it is up to, how often, and what may still be used."""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import dataclass
from typing import Any

from loopwright.protocol import Decide, ModelErrorKind, ModelRequest, Usage

from .._clock import Timer
from ..definitions._models import Endpoint
from ..kernel import ActorRef


@dataclass(slots=True, eq=False)
class Asking:
    """A decision that has not been answered."""

    order: Decide
    """With what is left to use after the attempts so far."""
    reply_to: ActorRef[Any]
    context: contextvars.Context | None
    endpoints: tuple[Endpoint, ...]
    at: int = 0
    """Which of them it is up to."""
    tries: int = 0
    """How often that one was asked."""
    attempts: int = 0
    """Of all of them; one that is passed over counts too."""
    need: int = 0
    """Tokens a model must be able to hold, once the request was too long for one; else 0."""
    request: ModelRequest | None = None
    """What the last one was asked."""
    entered: int = 0
    """How the present attempt reports to its breaker."""
    task: asyncio.Task[None] | None = None
    """The present attempt; `None` in between. One that was timed out is not it any more."""
    limit: float = 0.0
    """Seconds that attempt may take, if it has a limit."""
    due: float = 0.0
    """When they are over, on the monotonic clock."""
    timer: Timer | None = None
    """When the next one is made."""
    heard: int = 0
    """Characters of the present attempt that were told while it came."""
    stopped: bool = False
    """Whether nobody is to be asked any more."""

    @property
    def endpoint(self) -> Endpoint:
        """Who is to answer."""
        return self.endpoints[self.at]

    @property
    def affordable(self) -> bool:
        """Whether the present endpoint may be asked: with no money left, only one that is free."""
        cost = self.order.allowance.cost
        if cost is None or cost > 0:
            return True
        name = self.endpoint.name
        return any(price.model == name and price.free for price in self.order.prices)

    def used_up(self, now: float) -> str | None:
        """Say what no model can be asked without any more, if so."""
        until, tokens = self.order.allowance.until, self.order.allowance.tokens
        if until is not None and now >= until:
            return "no time is left"
        if tokens is not None and tokens <= 0:
            return "the token budget is used up"
        return None

    def charge(self, usage: Usage) -> None:
        """Take what a failed attempt has used from what may be used."""
        allowance, name = self.order.allowance, self.endpoint.name
        tokens, cost = allowance.tokens, allowance.cost
        if tokens is not None:
            tokens -= usage.total
        if cost is not None:
            cost -= sum(p.cost(usage) for p in self.order.prices if p.model == name)
        self.order = self.order._replace(allowance=allowance._replace(tokens=tokens, cost=cost))

    def move_on(self, kind: ModelErrorKind) -> bool:
        """Go to the next endpoint that may stand in after such a failure; say whether there is one.

        What a model says of the request, or of the right to make it, every other one would say.
        A refusal is a judgement of the content: only who is there for that may be asked.
        """
        if kind is ModelErrorKind.PERMANENT:
            return False
        refused = kind is ModelErrorKind.REFUSED
        for at in range(self.at + 1, len(self.endpoints)):
            endpoint = self.endpoints[at]
            if endpoint.only_refused is refused and (endpoint.context_window or 0) >= self.need:
                self.at, self.tries = at, 0
                return True
        return False
