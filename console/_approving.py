"""What a yes would be said to: found before it is said, to be shown."""

from __future__ import annotations

import time
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace

from loopwright.actors import Agent
from loopwright.protocol import (
    AlreadyDecidedError,
    ApprovalDecided,
    ApprovalProposal,
    Ask,
    ConfigurationError,
    Effect,
    InvocationId,
    JsonObject,
    Principal,
    UnknownProposalError,
    bounded,
    decode_record,
)
from loopwright.stores import Store

from ._tree import Known, Tree, open_proposal


@dataclass(frozen=True, slots=True)
class Approving:
    """What a person is about to say yes to."""

    holder: Known
    """Whose proposal it is: the invocation that was named, or a child because of which it waits."""
    agent: str
    principal: Principal
    digest: str
    expires_at: float | None
    asks: tuple[Ask, ...]
    """The calls meant, those that are edited with their new arguments."""
    edited: Container[str]
    effects: Mapping[str, Effect]
    """By name of a tool, what it does to the world, as far as the app knows it."""

    @property
    def invocation_id(self) -> InvocationId:
        """Whose proposal it is."""
        return self.holder.id


def approving(
    tree: Tree,
    digest: str,
    agents: Iterable[Agent],
    calls: Collection[str] | None,
    edits: Mapping[str, JsonObject],
) -> Approving | None:
    """Find what a yes would be said to; nothing, if nothing waits under this digest any more.

    Raises:
        UnknownProposalError: If a call is named that nobody was asked about.
        AlreadyDecidedError: If one is named that has its answer.
        ConfigurationError: If one is edited that is not approved.
    """
    held = _holder(tree, digest)
    if held is None:
        return None
    holder, proposal = held
    _check(holder.id, proposal, calls, edits)
    p = holder.state.protocol
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
    return Approving(holder, p.agent, who, digest, proposal.expires_at, asks, edits, effects)


def _holder(tree: Tree, digest: str) -> tuple[Known, ApprovalProposal] | None:
    for known in tree.all:
        proposal = open_proposal(known.state)
        if proposal is not None and proposal.digest == digest:
            expires = proposal.expires_at
            return None if expires is not None and time.time() >= expires else (known, proposal)
    return None


def _check(
    holder: InvocationId,
    proposal: ApprovalProposal,
    calls: Collection[str] | None,
    edits: Mapping[str, JsonObject],
) -> None:
    asked = [ask.call_id for ask in proposal.asks]
    waiting = ", ".join(call_id for call_id in asked if call_id not in proposal.answered)
    for call_id in (*(calls or ()), *edits):
        where = f"invocation {holder}: call {bounded(call_id, 100)!r}"
        if call_id not in asked:
            raise UnknownProposalError(
                f"{where} is not waiting for an approval; still waiting: {waiting}"
            )
        if call_id in proposal.answered:
            msg = f"{where} was answered before, and the first answer stands; still waiting: {waiting}"
            raise AlreadyDecidedError(msg)
        if calls is not None and call_id not in calls:
            msg = (
                f"--edit {bounded(call_id, 100)} is for a call that --call leaves out; name it too"
            )
            raise ConfigurationError(msg)


async def approved_asks(store: Store, what: Approving) -> tuple[Ask, ...]:
    """Read back what a yes was said to, exactly as it will run."""
    asks = {ask.call_id: ask for ask in what.asks}
    seen = what.holder.state.protocol.seq
    for line in (await store.load(what.invocation_id, after=seen)).lines:
        record = decode_record(line)
        if isinstance(record, ApprovalDecided) and record.digest == what.digest:
            return tuple(
                ask if answer.arguments is None else replace(ask, arguments=answer.arguments)
                for answer in record.answers
                if (ask := asks.get(answer.call_id)) is not None
            )
    return ()
