"""What an invocation does, as it happens: bounded evidence for people, never hidden reasoning."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from loopwright.protocol import (
    ChildRested,
    Compact,
    Compacted,
    Decide,
    Decided,
    DecideFailed,
    Execute,
    Executed,
    Found,
    Input,
    InvocationId,
    JsonObject,
    Late,
    Output,
    Reconcile,
    RunState,
    Verified,
    Verify,
)

from .._clock import Instant
from ._events import EventName, Fact, heard, said

logger = logging.getLogger("loopwright.trace")


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One thing that happened, under the name the seed documents give it."""

    name: EventName
    invocation_id: InvocationId
    turn: int
    data: JsonObject
    """Bounded evidence: texts are cut, arguments and outputs told by digest."""
    at: float = 0.0
    """Wall clock, seconds since the epoch."""
    seconds: float | None = None
    """How long it took, on the monotonic clock; only where it is the end of something."""

    def plain(self) -> JsonObject:
        """Give it as one object of JSON."""
        told: JsonObject = {
            "at": round(self.at, 6),
            "event": self.name,
            "invocation_id": self.invocation_id,
            "turn": self.turn,
            "data": self.data,
        }
        if self.seconds is not None:
            told["seconds"] = self.seconds
        return told


class RunObserver(Protocol):
    """Hears of everything; called in the loop, in the context of the invocation's caller.

    It must not block. What it raises is logged and changes nothing.
    """

    def __call__(self, event: TraceEvent, /) -> None:
        """Take one event."""
        ...


def notify(observers: Sequence[RunObserver], event: TraceEvent) -> None:
    """Tell every observer; one that fails disturbs nobody."""
    for observer in observers:
        try:
            observer(event)
        except Exception:
            logger.exception("An observer failed on %s:", event.name)


class Tracer:
    """Tells observers what one invocation does.

    Args:
        invocation_id: Which one.
        observers: Who hears of it.
    """

    def __init__(self, invocation_id: InvocationId, observers: Sequence[RunObserver]) -> None:
        self._invocation_id = invocation_id
        self._observers = observers
        self._begun: dict[str, float] = {}
        """When what is under way was begun, on the monotonic clock."""

    def observe(
        self,
        now: Instant,
        message: Input,
        outputs: Sequence[Output],
        states: Sequence[RunState],
        turn: int,
        turn_now: int,
    ) -> None:
        """Tell what a message was, what it changed, and what came of it.

        Args:
            now: When it was handled.
            message: What the Supervisor was told.
            outputs: What it says because of it.
            states: The state it was in, and those it entered.
            turn: The turn before it was handled.
            turn_now: The turn after it.
        """
        seconds = self._since(_ended(message), now.monotonic)
        if not any(isinstance(output, Late) for output in outputs):
            self._tell(heard(message), turn, now.wall, seconds)
        for old, new in pairwise(states):
            self._tell([("state_transition", {"from": old, "to": new})], turn_now, now.wall)
        for output in outputs:
            begun = _begun(output)
            if begun is not None:
                self._begun[begun] = now.monotonic
            self._tell(said(output), turn_now, now.wall)

    def _since(self, what: str | None, now: float) -> float | None:
        begun = None if what is None else self._begun.pop(what, None)
        return None if begun is None else round(now - begun, 6)

    def _tell(
        self, facts: Iterable[Fact], turn: int, at: float, seconds: float | None = None
    ) -> None:
        try:
            for name, data in facts:
                event = TraceEvent(name, self._invocation_id, turn, data, at, seconds)
                notify(self._observers, event)
                seconds = None
        except Exception:
            logger.exception("Something cannot be traced:")


def _begun(output: Output) -> str | None:
    """Name what begins with a message that goes out."""
    match output:
        case Decide():
            return "decide"
        case Compact():
            return "compact"
        case Verify(number=number):
            return f"verify {number}"
        case Execute(attempt_id=attempt):
            return f"execute {attempt}"
        case Reconcile(attempt_id=attempt):
            return f"reconcile {attempt}"
        case _:
            return None


def _ended(message: Input) -> str | None:
    """Name what ends with a message that comes in."""
    match message:
        case Decided() | DecideFailed():
            return "decide"
        case Compacted():
            return "compact"
        case Verified(number=number):
            return f"verify {number}"
        case Executed(attempt_id=attempt) | ChildRested(attempt_id=attempt):
            return f"execute {attempt}"
        case Found(attempt_id=attempt):
            return f"reconcile {attempt}"
        case _:
            return None
