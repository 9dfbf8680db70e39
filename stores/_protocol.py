"""The Store Protocol: the small set of promises an invocation's durability rests on.

A store keeps opaque lines per invocation. It decides by `seq` and `fence`, never by time;
the one clock it looks at is the heartbeat of a worker, and only to say whether an owner may
be replaced. `loopwright.testing.StoreConformance` checks an implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from loopwright.protocol import Append, InvocationId, Lease, Status, Stored, StoreError, Summary

AppendResult: TypeAlias = StoreError | None
"""`None`: durable. Else why this append alone was refused."""


class Store(Protocol):
    """Where invocations are kept. One object serves one process; open it before use.

    Every method raises `StoreError` (transient where a retry may help) when the store itself
    fails; what is listed below comes on top.
    """

    async def open(self) -> None:
        """Make the store ready. Opening an open store is an error.

        Raises:
            JournalCorruptError: If what is there is no store, is damaged, or is of a newer version.
        """
        ...

    async def close(self) -> None:
        """Finish what was begun and let go of files, threads and connections; twice is fine."""
        ...

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Store a batch as one transaction; when it returns, what was accepted is durable.

        Appends are checked one by one, in order, and a refused one fails alone:
        `FencedError` if its fence is not the current one, `JournalConflictError` if its
        `first_seq` is not the next one, or if it creates an invocation whose id or (agent, key)
        is taken. The fence is looked at first. An append that can't be one (no lines, a line break
        in a line, a creation without a head) is a plain `StoreError`. An append already stored with the same content is a success, so that a batch
        of unknown outcome can be sent again.
        """
        ...

    async def load(self, invocation_id: InvocationId, *, after: int = 0) -> Stored:
        """Read the journal from the seq behind `after`, with one consistent view.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
        """
        ...

    async def find(self, agent: str, key: str) -> InvocationId | None:
        """Find the invocation that was started for this agent under this key."""
        ...

    async def invocations(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        limit: int = 100,
        before: InvocationId | None = None,
    ) -> Sequence[Summary]:
        """List invocations, newest first; `before` continues a listing.

        Agent, key and goal are those of the head that created an invocation; later heads change
        status, reason, detail and time.

        Raises:
            InvocationNotFoundError: If there is no invocation `before`.
        """
        ...

    async def acquire(self, invocation_id: InvocationId, worker: str) -> Lease:
        """Take ownership, with a fence one higher than any before.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
            LeaseHeldError: If another worker owns it and its heartbeat is fresh.
        """
        ...

    async def release(self, lease: Lease) -> None:
        """Give ownership up, if it is still this lease's; otherwise do nothing."""
        ...

    async def heartbeat(self, worker: str, ttl: float) -> None:
        """Say that this worker is alive for the next `ttl` seconds; 0 says it is gone."""
        ...


@runtime_checkable
class AppendsNow(Protocol):
    """What a store may offer beside `Store`: appends that need no waiting."""

    def append_nowait(self, batch: Sequence[Append]) -> Sequence[AppendResult] | None:
        """Do what `append` does, at once, or return `None` and do nothing.

        For where that holds up the event loop no longer than handing it over would; a store may
        always return `None`.
        """
        ...
