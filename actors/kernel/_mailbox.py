"""An actor's bounded mailbox, in two lanes, and its stopped flag."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from pykka._envelope import Envelope  # the type of pykka's inbox protocol, exported nowhere else

from ._errors import UnsupportedError
from ._messages import Lane

if TYPE_CHECKING:
    from ._reply import Reply

    Entry = tuple[Any, Reply[Any] | None]

DEFAULT_CAPACITY = 10_000

_WORK = Lane.WORK


class Mailbox:
    """Two bounded queues, made when first used: most actors never get a control message.

    Each lane holds up to `capacity` messages. Messages on their way from another thread and
    messages that a coroutine of the actor is handling take up room too: an actor that only
    hands its work to coroutines is bounded as well.
    """

    __slots__ = ("capacity", "control", "inbound", "running", "work")

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.capacity = capacity
        self.work: deque[Entry] | None = None
        self.control: deque[Entry] | None = None
        self.inbound = 0
        self.running = 0

    def __len__(self) -> int:
        return len(self.control or ()) + len(self.work or ())

    def full(self, lane: Lane) -> bool:
        """Whether the lane takes no further message."""
        queue = self.work if lane is _WORK else self.control
        return len(queue or ()) + self.inbound + self.running >= self.capacity

    def push(self, entry: Entry, lane: Lane) -> bool:
        """Append an entry; False, and nothing appended, if the lane is full."""
        queue = self.work if lane is _WORK else self.control
        if queue is None:
            queue = self._open(lane)
        if len(queue) + self.inbound + self.running >= self.capacity:
            return False

        queue.append(entry)
        return True

    def push_anyway(self, entry: Entry, lane: Lane) -> None:
        """Append an entry whose room was reserved, or that must not be lost."""
        queue = self.work if lane is _WORK else self.control
        if queue is None:
            queue = self._open(lane)
        queue.append(entry)

    def _open(self, lane: Lane) -> deque[Entry]:
        queue = deque[Any]()
        if lane is _WORK:
            self.work = queue
        else:
            self.control = queue
        return queue

    def pop(self) -> Entry:
        """The next entry: control before work.

        Raises:
            IndexError: If both lanes are empty.
        """
        return (self.control or self.work or deque[Any]()).popleft()

    def clear(self) -> list[Entry]:
        """Empty both lanes and give up their memory; returns what was in them, in order."""
        entries = [*(self.control or ()), *(self.work or ())]
        self.control = self.work = None
        return entries

    # What follows is pykka's inbox protocol.

    def put(self, envelope: Envelope[Any], /) -> None:
        """Refuse: an entry put here directly would wake nobody.

        Raises:
            UnsupportedError: Always.
        """
        msg = f"{envelope!r} cannot be put into a mailbox directly: use ref.tell() or ref.ask()."
        raise UnsupportedError(msg)

    def get(self) -> Envelope[Any]:
        """Take the next entry as pykka's envelope, without waiting.

        Raises:
            IndexError: If the mailbox is empty.
        """
        return Envelope(*self.pop())

    def empty(self) -> bool:
        """Whether no message waits."""
        return not self.control and not self.work


class StoppedFlag(threading.Event):
    """pykka's `actor_stopped`, without the lock and condition of an event: nothing waits on it."""

    __slots__ = ("_stopped",)

    def __init__(self) -> None:  # skips the parent's, whose condition is most of an event's cost
        self._stopped = False

    def is_set(self) -> bool:
        """Whether the actor is dead."""
        return self._stopped

    def set(self) -> None:
        """Say that the actor is dead. For the kernel only."""
        self._stopped = True

    def clear(self) -> None:
        """Refuse: death is final.

        Raises:
            UnsupportedError: Always.
        """
        msg = "A dead actor cannot be revived through its flag: start another one."
        raise UnsupportedError(msg)

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once if the actor is dead.

        Raises:
            UnsupportedError: If it is alive.
        """
        if not self._stopped:
            msg = (
                f"Nothing signals actor_stopped (timeout {timeout}): "
                "await ref.stopped(), or ref.stop() in another thread."
            )
            raise UnsupportedError(msg)
        return True
