"""Invocations that are in memory: what the runtime keeps beside the two actors of each."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from loopwright.protocol import (
    CancelNote,
    InvocationStarted,
    Lease,
    Outcome,
    StoreError,
)

from .definitions._agent import Agent
from .kernel import ActorRef


class Live:
    """One invocation in memory."""

    __slots__ = (
        "advanced",
        "agent",
        "begun",
        "context",
        "crashes",
        "done",
        "durable",
        "invocation_id",
        "lease",
        "note",
        "started",
        "supervisor",
        "tracker",
    )

    supervisor: ActorRef[Any]
    tracker: ActorRef[Any]

    def __init__(
        self,
        lease: Lease,
        agent: Agent,
        context: contextvars.Context,
        started: InvocationStarted,
    ) -> None:
        self.invocation_id = lease.invocation_id
        self.lease = lease
        self.agent = agent
        """Whose turn it is."""
        self.started = started
        """What was pinned at the start."""
        self.context = context
        self.crashes = 0
        self.note: CancelNote | None = None
        """A cancel that was said while nobody was at work on it, until it is carried out."""
        self.durable = True
        """Whether what it came to rest for is in the store."""
        self.done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.begun: asyncio.Future[None] | None = None
        """Done once the start of a new invocation is durable; nobody waits for a stored one."""
        self.advanced: asyncio.Event | None = None
        """Set at the next commit, where somebody listens."""

    def progressed(self) -> None:
        """Wake whoever waits for the start, or follows the journal."""
        if self.begun is not None and not self.begun.done():
            self.begun.set_result(None)
        if self.advanced is not None:
            # Dropped, not cleared: it may be set for one who has yet to wait for it.
            self.advanced.set()
            self.advanced = None

    def once_begun(self, call: Callable[[], None]) -> None:
        """Call, once the start is durable: before that, nobody can say whether it exists."""
        if self.begun is None or self.begun.done():
            call()
        else:
            self.begun.add_done_callback(lambda _: call())

    def finish(self, outcome: Outcome) -> None:
        """Tell everybody who waits how it came to rest."""
        if self.begun is not None and not self.begun.done():
            cause = outcome.cause or "it could not be stored"
            self.begun.set_exception(StoreError(f"the invocation does not exist: {cause}"))
        if not self.done.done():
            self.done.set_result(outcome)
        self.progressed()

    def fail(self, error: Exception) -> None:
        """Tell everybody who waits that there will be no outcome here."""
        for waited in (self.begun, self.done):
            if waited is not None and not waited.done():
                waited.set_exception(error)
                # Nobody may be waiting; that is no fault of theirs.
                waited.exception()
        self.progressed()
