"""What a yes would be said to: found before it is said, to be shown."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace

from loopwright.actors import Agent
from loopwright.protocol import Ask, Effect, InvocationState, JsonObject, Principal


@dataclass(frozen=True, slots=True)
class Approving:
    """What a person is about to say yes to."""

    agent: str
    principal: Principal
    digest: str
    expires_at: float | None
    asks: tuple[Ask, ...]
    """The calls meant, those that are edited with their new arguments."""
    edited: Container[str]
    effects: Mapping[str, Effect]
    """By name of a tool, what it does to the world, as far as the app knows it."""


def approving(
    state: InvocationState,
    digest: str,
    agents: Iterable[Agent],
    calls: Collection[str] | None,
    edits: Mapping[str, JsonObject],
) -> Approving | None:
    """Find what a yes would be said to; nothing, if nothing waits under this digest."""
    p, proposal = state.protocol, state.proposal()
    if proposal is None or proposal.digest != digest:
        return None
    asks = tuple(
        replace(ask, arguments=edits.get(ask.call_id, ask.arguments))
        for ask in proposal.asks
        if ask.call_id not in proposal.answered and (calls is None or ask.call_id in calls)
    )
    effects = {
        tool.name: tool.effect
        for agent in agents
        if agent.name == p.agent
        for tool in agent.tools.values()
    }
    who = p.started.principal
    return Approving(p.agent, who, digest, proposal.expires_at, asks, edits, effects)
