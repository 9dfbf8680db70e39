"""The values of the kernel: lanes, the request envelope, the child spec, supervision events."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from loopwright.protocol import ConfigurationError

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable

    from ._ref import ActorRef

M = TypeVar("M")

Restart = Literal["permanent", "transient", "temporary"]
Ending = Literal["stopped", "killed", "failed"]


class Lane(enum.Enum):
    """Where a message queues; every control message is served before any work message.

    The third lane, kill, is served before both and holds no messages: see `ActorRef.kill`.
    """

    CONTROL = "control"
    WORK = "work"


class Request(NamedTuple, Generic[M]):
    """A message that is told, and answered by telling `reply_to`."""

    message: M
    """What is asked for."""

    reply_to: ActorRef[Any]
    """Who is told the answer."""

    context: contextvars.Context | None = None
    """The context variables of whoever is being worked for, for `spawn(context=...)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What becomes of an actor that ends by itself, and who hears of it.

    Raises:
        ConfigurationError: If `intensity` is negative or `period` is not positive.
    """

    restart: Restart = "temporary"
    """permanent: rebuilt after a crash and after its own `stop()`; transient: after a crash;
    temporary: never. Ending it from outside (`ref.stop()`, `ref.kill()`) is always final."""

    intensity: int = 3
    """How many rebuilds are allowed within `period`; one more failure is final."""

    period: float = 5.0
    """Seconds, by the system's clock."""

    on_failure: Callable[[ActorFailed], None] | None = None
    """Called in the loop after each failure of the actor."""

    supervisor: ActorRef[Any] | None = None
    """Told each `ActorFailed` and `ActorTerminated` of the actor, on its control lane."""

    def __post_init__(self) -> None:
        if self.intensity < 0 or self.period <= 0:
            msg = (
                f"ChildSpec(intensity={self.intensity}, period={self.period}) allows no count of "
                "restarts: give an intensity of 0 or more and a period above 0 seconds."
            )
            raise ConfigurationError(msg)


@dataclass(frozen=True, slots=True)
class ActorFailed:
    """An actor crashed."""

    ref: ActorRef[Any]
    """Who."""

    error: BaseException
    """What it raised."""

    restarted: bool
    """Whether it is rebuilt; if not, `ActorTerminated` follows."""


@dataclass(frozen=True, slots=True)
class ActorTerminated:
    """An actor is gone for good, with all it spawned."""

    ref: ActorRef[Any]
    """Who."""

    ending: Ending
    """How it ended."""

    error: BaseException | None = None
    """The failure that ended it, if one did."""


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """A task that the system itself owned raised."""

    name: str
    """The task's name."""

    error: BaseException
    """What it raised."""


Event = ActorFailed | ActorTerminated | TaskFailed


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a system holds now, and what it has done since it was opened."""

    actors: int
    """Actors in the registry."""

    queued: int
    """Messages waiting in their mailboxes."""

    tasks: int
    """Child tasks running or unwinding."""

    handled: int
    """Messages handed to an actor since the system was opened."""

    failures: int
    """Crashes since the system was opened."""

    restarts: int
    """Rebuilt actors since the system was opened."""
