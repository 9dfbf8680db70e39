"""An invocation among its own: the children because of which it waits, and those that call it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from loopwright.actors import Runtime, Waiting, waiting_of
from loopwright.protocol import (
    ApprovalProposal,
    Ending,
    InvocationId,
    InvocationNotFoundError,
    InvocationState,
    InvocationStateError,
    Outcome,
    Reserved,
    Stored,
    state_of,
)
from loopwright.stores import Store


@dataclass(frozen=True, slots=True)
class Known:
    """One invocation, as it is in the store."""

    stored: Stored
    state: InvocationState

    @property
    def id(self) -> InvocationId:
        """Its id."""
        return self.state.protocol.started.invocation_id


@dataclass(frozen=True, slots=True)
class Tree:
    """An invocation, and the children down the tree because of which it waits."""

    root: Known
    below: tuple[Known, ...] = ()

    @property
    def all(self) -> tuple[Known, ...]:
        """All of them, itself first."""
        return (self.root, *self.below)

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """What the children wait for, each that waits for a person."""
        found = (waiting_of(known.stored, known.state) for known in self.below)
        return tuple(waiting for waiting in found if waiting is not None)


async def tree_of(store: Store, invocation_id: InvocationId) -> Tree:
    """Load an invocation, and the children because of which it waits.

    Raises:
        InvocationNotFoundError: If it is not there.
        StoreError: If the store cannot be read.
    """
    stored = await store.load(invocation_id)
    root = Known(stored, state_of(stored))
    below: list[Known] = []
    for child in children(root.state):
        # It may have been deleted.
        with suppress(InvocationNotFoundError):
            below += (await tree_of(store, child)).all
    return Tree(root, tuple(below))


def children(state: InvocationState) -> tuple[InvocationId, ...]:
    """List the children because of which an invocation waits."""
    turn = state.protocol.open
    return turn.children() if turn is not None and state.protocol.status == "suspended" else ()


def open_proposal(state: InvocationState) -> ApprovalProposal | None:
    """Find what somebody has yet to answer: a proposal whose answers are all there is history."""
    proposal = state.proposal()
    if proposal is None or len(proposal.answered) == len(proposal.asks):
        return None
    return proposal


def kept_aside(state: InvocationState) -> tuple[Reserved, ...]:
    """List what counts as used because children that are not over may use it."""
    turn = state.protocol.open
    if turn is None:
        return ()
    kept: list[Reserved] = []
    for call_id, dispatched in turn.dispatched.items():
        result = turn.results.get(call_id)
        child = None if result is None else result.child
        over = child is not None and child.reason.outcome is not Ending.SUSPENDED
        if dispatched.reserved is not None and not over:
            kept.append(dispatched.reserved)
    return tuple(kept)


async def root_of(store: Store, invocation_id: InvocationId) -> InvocationId | None:
    """Find whom a child works for in the end; nobody, if it is no child.

    Raises:
        StoreError: If the store cannot be read.
    """
    root, one = None, invocation_id
    while True:
        try:
            parent = state_of(await store.load(one)).protocol.started.parent
        except InvocationNotFoundError:
            return root
        if parent is None:
            return root
        root = one = parent.invocation_id


@dataclass(frozen=True, slots=True)
class Caller:
    """One that has called an invocation, itself or through others, and how it stands."""

    invocation_id: InvocationId
    agent: str
    outcome: Outcome | None
    """`None` while it is at work elsewhere."""
    unaware: bool
    """Whether it still waits for one below it that has ended: this runtime cannot tell it."""


async def callers_of(runtime: Runtime, done: Outcome) -> tuple[Caller, ...]:
    """Wait for all that have called an invocation at rest, the nearest one first."""
    found: list[Caller] = []
    below: Outcome | None = done
    parent = (await runtime.state(done.invocation_id)).protocol.started.parent
    while parent is not None:
        try:
            outcome = await runtime.outcome(parent.invocation_id)
        except InvocationNotFoundError:
            break
        except InvocationStateError:
            outcome = None
        state = await runtime.state(parent.invocation_id)
        unaware = (
            below is not None
            and below.reason.outcome is not Ending.SUSPENDED
            and below.invocation_id in children(state)
        )
        agent = state.protocol.started.agent
        found.append(Caller(parent.invocation_id, agent, outcome, unaware))
        below, parent = outcome, state.protocol.started.parent
    return tuple(found)
