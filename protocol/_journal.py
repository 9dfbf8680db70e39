"""What goes to a store and comes back: batches of encoded records, heads and leases.

A store never looks into a record: it keeps lines, refuses what does not fit, and answers
questions about heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from ._effects import Delivery, EffectEntry
from ._errors import JournalCorruptError
from ._ids import EffectKey, InvocationId
from ._reasons import Reason
from ._records import Record, decode_record

Status: TypeAlias = Literal["running", "suspended", "ended"]


WAITS_FOR_CHILD: Final = "child "
"""How the detail of an invocation begins that waits for what a child waits for; then its id."""


class Entry(NamedTuple):
    """A record and its one encoding, which is stored, kept as history, and never made again."""

    record: Record
    line: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """What is listed of an invocation without reading its journal."""

    agent: str
    status: Status
    reason: Reason | None
    """Why it is suspended or ended; `None` while it runs."""
    at: float
    """Wall clock of the change, seconds since the epoch."""
    goal: str = ""
    key: str | None = None
    detail: str = ""
    """The question or the proposal digest somebody has to answer."""


class Snapshot(NamedTuple):
    """An invocation's state as of a seq, so that what came before need not be decoded again.

    A cache: the journal alone is enough, and always kept.
    """

    seq: int
    body: bytes


class Payload(NamedTuple):
    """Where a large value stands in a line of an append, so that it need be kept only once."""

    line: int
    """Index of the line."""
    start: int
    end: int
    """Its bytes are `line[start:end]`."""


class CancelNote(NamedTuple):
    """Somebody wants an invocation to stop that another worker is at work on."""

    invocation_id: InvocationId
    reason: str
    by: str


class Append(NamedTuple):
    """Records of one invocation that are stored together or not at all.

    The append with `first_seq` 1 creates the invocation, owned by `worker` under `fence` 1.
    """

    invocation_id: InvocationId
    fence: int
    first_seq: int
    """The seq of the first line; each further line has the next one."""
    lines: tuple[bytes, ...]
    worker: str
    head: Head | None = None
    """Set where the status changes. Leaving `running` releases the ownership with it."""
    effects: tuple[EffectEntry, ...] = ()
    """Lines of the effect ledger that these records change, the last of each effect key."""
    outbox: tuple[Delivery, ...] = ()
    """What is to be delivered because of them."""
    concluded: tuple[EffectKey, ...] = ()
    """Deliveries of this invocation that are not to be made any more: a person has said why."""
    snapshot: Snapshot | None = None
    """The state as of some seq before them, to be kept instead of an earlier one."""
    payloads: tuple[Payload, ...] = ()
    """Large values inside the lines, in order, none inside another."""

    @property
    def last_seq(self) -> int:
        """The seq of the last line."""
        return self.first_seq + len(self.lines) - 1


@dataclass(frozen=True, slots=True)
class Lease:
    """One ownership period of an invocation."""

    invocation_id: InvocationId
    worker: str
    fence: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A line of a listing."""

    invocation_id: InvocationId
    head: Head
    seq: int
    """The last stored seq."""
    created_at: float
    owner: str | None
    """The worker that owns it, if any."""
    owner_alive: bool
    """Whether that worker's heartbeat is fresh."""
    cancel: CancelNote | None = None
    """Set where somebody wanted it to stop while it was owned; it may be over by now."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A journal as read back."""

    summary: Summary
    first_seq: int
    lines: tuple[bytes, ...]
    snapshot: Snapshot | None = None
    """The last one, where the whole journal was read."""

    def entries(self, after: int = 0) -> list[Entry]:
        """Decode the lines behind the seq `after`.

        Raises:
            JournalCorruptError: If one cannot be read; names the invocation and the seq.
        """
        found: list[Entry] = []
        skipped = max(0, after - self.first_seq + 1)
        for seq, line in enumerate(self.lines[skipped:], self.first_seq + skipped):
            try:
                found.append(Entry(decode_record(line), line))
            except JournalCorruptError as error:
                msg = f"invocation {self.summary.invocation_id}, seq {seq}: {error}"
                raise JournalCorruptError(msg) from None
        return found
