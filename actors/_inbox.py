"""Everything that waits for a person, over all invocations."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from loopwright.protocol import (
    ApprovalProposal,
    CallId,
    EffectEntry,
    Ending,
    InvocationId,
    InvocationNotFoundError,
    InvocationState,
    OpenTurn,
    Principal,
    Reason,
    Stored,
    state_of,
)
from loopwright.stores import Store

_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Waiting:
    """One invocation that waits for a person, and for what."""

    invocation_id: InvocationId
    agent: str
    """Whose turn it is."""
    reason: Reason
    question: str
    """What is asked, for `clarification_required`."""
    proposal: ApprovalProposal | None
    """What may run after a yes, exactly so, for `approval_required`."""
    since: float
    """Wall clock, seconds since the epoch."""
    principal: Principal
    """On whose behalf it acts."""
    goal: str = ""
    unresolved: tuple[EffectEntry, ...] = ()
    """Writes that somebody has to settle, for `reconciliation_required`."""


async def inbox(store: Store, *, agent: str | None = None, limit: int = 100) -> tuple[Waiting, ...]:
    """List what waits for a person, newest invocations first.

    One that only waits for a child is not there: the child is. A proposal that has expired stays
    until its invocation goes on; see `ApprovalProposal.expires_at`. One that waits in the memory
    of a runtime, within `Policy.approval_grace`, is not suspended yet.

    Args:
        store: Where invocations are kept.
        agent: Only invocations that were started for this one.
        limit: How many at most.

    Raises:
        StoreError: If the store fails, or a journal is damaged.
    """
    found: list[Waiting] = []
    last: InvocationId | None = None
    while len(found) < limit:
        try:
            page = await store.invocations(
                status="suspended", agent=agent, limit=_PAGE, before=last
            )
        except InvocationNotFoundError:
            # Where the listing stopped was deleted meanwhile; what is left of it comes next time.
            break
        for summary in page:
            last = summary.invocation_id
            # It may have gone on, or be deleted, since it was listed.
            with suppress(InvocationNotFoundError):
                stored = await store.load(last)
                if (waiting := waiting_of(stored, state_of(stored))) is not None:
                    found.append(waiting)
        if len(page) < _PAGE:
            break
    return tuple(found[:limit])


def waiting_of(stored: Stored, state: InvocationState) -> Waiting | None:
    """Say what one invocation waits for, if it waits for a person."""
    p = state.protocol
    if p.status != "suspended" or p.reason is None:
        return None
    unsettled = _unsettled(p.open)
    if p.open is not None and p.open.children() and not unsettled:
        return None
    return Waiting(
        p.started.invocation_id,
        p.agent,
        p.reason,
        p.question,
        state.proposal() if p.reason is Reason.APPROVAL_REQUIRED else None,
        stored.summary.head.at,
        p.started.principal,
        state.business.goal,
        tuple(
            entry
            for entry in state.business.effects.values()
            if (entry.turn, entry.call_id) in unsettled
        ),
    )


def _unsettled(turn: OpenTurn | None) -> set[tuple[int, CallId]]:
    """List the writes of a turn that nobody knows the fate of, but those that a child is."""
    if turn is None:
        return set()
    return {
        (turn.number, call_id)
        for call_id in turn.unsettled()
        if (result := turn.results.get(call_id)) is None
        or result.child is None
        or result.child.reason.outcome is not Ending.SUSPENDED
    }
