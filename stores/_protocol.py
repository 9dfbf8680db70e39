"""The Store Protocol: the small set of promises an invocation's durability rests on.

A store keeps opaque lines per invocation. It decides by `seq` and `fence`, never by time;
the one clock it looks at is the heartbeat of a worker, and only to say whether an owner may
be replaced. `loopwright.testing.StoreConformance` checks an implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from loopwright.protocol import (
    Append,
    CancelNote,
    Claimed,
    EffectFact,
    EffectKey,
    EffectStatus,
    InvocationId,
    JsonValue,
    Lease,
    Status,
    Stored,
    StoreError,
    Summary,
)

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
        in a line, a creation without a head, a lone surrogate in a name, a snapshot of a seq that
        is not before its lines, payloads that are not in its lines, in order and apart) is a plain
        `StoreError`. An append already stored with the same
        content is a success, so that a batch of unknown outcome can be sent again.

        The effects, the outbox and the snapshot of an append are stored with its lines, or not
        at all; for one that is stored already they are left as they are. An effect replaces the
        line of the same invocation and effect key, and keeps what only that one knows
        (`EffectEntry.over`). A delivery is kept once per invocation and effect key, also when it
        is concluded; one that an append names as concluded is handed out no more, and stands in
        nobody's way. A snapshot replaces one of a lower seq.

        The payloads of an append may be kept once by digest instead of in each line they stand
        in; a line comes back as it was all the same.

        Receipts and arguments are JSON as `check_json` understands it, and come back equal.
        """
        ...

    async def load(self, invocation_id: InvocationId, *, after: int = 0) -> Stored:
        """Read the journal from the seq behind `after`, with one consistent view.

        The whole journal (`after` 0) comes with the last snapshot, if there is one.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
        """
        ...

    async def summary(self, invocation_id: InvocationId) -> Summary:
        """Read what is listed of one invocation, without its journal.

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

    def now(self) -> float:
        """Tell the time by which this process can judge how old its own heartbeat is.

        Seconds of a clock that nobody sets, as `time.monotonic`; it runs no slower than the one
        that the store measures heartbeats by.
        """
        ...

    async def orphans(
        self, agents: Sequence[str], *, limit: int = 100, after: InvocationId | None = None
    ) -> Sequence[Summary]:
        """List what somebody has to take up, oldest first; `after` continues a listing.

        That is, of these agents: every running invocation without a live owner, and every
        suspended one that somebody wanted cancelled.

        Raises:
            InvocationNotFoundError: If there is no invocation `after`.
        """
        ...

    # ------------------------------------------------------------ cancels from elsewhere
    async def request_cancel(self, note: CancelNote) -> None:
        """Keep that somebody wants an invocation to stop, for its owner or whoever follows.

        The first note stays, until the invocation ends: what is resumed after that was not meant.
        One for an invocation that has ended changes nothing.

        Raises:
            InvocationNotFoundError: If there is no such invocation.
        """
        ...

    async def cancel_requests(self, worker: str) -> Sequence[CancelNote]:
        """List the notes of all running invocations that this worker owns."""
        ...

    # ------------------------------------------------------------ effects and outbox
    async def effects(
        self,
        *,
        invocation_id: InvocationId | None = None,
        effect_key: EffectKey | None = None,
        tool_name: str | None = None,
        statuses: Sequence[EffectStatus] | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> Sequence[tuple[int, EffectFact]]:
        """Query the effect ledger over all invocations, last announced first.

        Each fact comes with its number, by which `before` continues a query.
        """
        ...

    async def claim(
        self, worker: str, agents: Sequence[str], *, limit: int = 16
    ) -> Sequence[Claimed]:
        """Claim deliveries for this worker, durably, before any of them is attempted.

        Of these agents, in the order of their commits: what is due, not claimed by this worker or
        by another live one, and shares no resource with an earlier delivery that is not concluded,
        whosever that is. What is added is due at once. The ledger's line becomes `dispatched`, its
        attempts one more.
        """
        ...

    async def conclude(
        self,
        number: int,
        worker: str,
        status: EffectStatus,
        *,
        receipt: JsonValue = None,
        retry_in: float | None = None,
    ) -> bool:
        """Say how an attempt of a delivery went; the ledger's line says the same from then on.

        A settled status concludes it. An unsettled one (`UNSETTLED`) gives it back: it is due
        again in `retry_in` seconds, at once for `None`.

        Returns:
            Whether this worker still had the claim; otherwise nothing has changed.
        """
        ...

    # ------------------------------------------------------------ housekeeping
    async def prune(self, *, ended_before: float, limit: int = 1_000) -> int:
        """Delete invocations that ended before a wall-clock time, at most `limit`.

        They go in the order of their creation, and with all that belongs to them; id and key may
        be used again. What has an unsettled effect (`UNSETTLED`) or a delivery that is not
        concluded stays: somebody has to look at it.

        Args:
            ended_before: Seconds since the epoch.
            limit: How many at most.

        Returns:
            How many were deleted.

        Raises:
            StoreError: If the time is no number, or the limit none that counts; nothing is deleted.
        """
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
