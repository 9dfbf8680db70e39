"""The kit's own log of a case: what its lives saw and did, outside the store.

One line per event, each written by one call of the kernel: a killed process loses nothing that
was written, and lines of several processes stand in the order in which things happened. There is
no sync: it is processes that are killed here, not the machine.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from loopwright.protocol import CallId, Effect, EffectKey, InvocationId, dumps

from ._points import CrashPoint


@dataclass(frozen=True, slots=True)
class LifeBegan:
    """A process was started."""

    life: int
    kind: Literal["life"] = "life"


@dataclass(frozen=True, slots=True)
class StartReturned:
    """`start` has returned, so the invocation is durable."""

    life: int
    invocation_id: InvocationId
    kind: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """The model is asked for a turn."""

    life: int
    invocation_id: InvocationId
    turn: int
    kind: Literal["model"] = "model"


@dataclass(frozen=True, slots=True)
class VerifierAsked:
    """A verifier is shown the answer of a turn."""

    life: int
    invocation_id: InvocationId
    turn: int
    verifier: str
    kind: Literal["verifier"] = "verifier"


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a tool has begun, returned or failed."""

    life: int
    step: Literal["began", "returned", "failed"]
    invocation_id: InvocationId
    turn: int
    call_id: CallId
    attempt: int
    tool_name: str
    effect: Effect
    effect_key: EffectKey | None
    delivery: bool = False
    """Whether it came out of the outbox: announced with its turn, and by no dispatch."""
    kind: Literal["body"] = "body"


@dataclass(frozen=True, slots=True)
class Durable:
    """The store has confirmed records."""

    life: int
    invocation_id: InvocationId
    first_seq: int
    last_seq: int
    digest: str
    kind: Literal["durable"] = "durable"


@dataclass(frozen=True, slots=True)
class Killed:
    """The process kills itself now, as it was told."""

    life: int
    point: CrashPoint
    kind: Literal["killed"] = "killed"


Event: TypeAlias = LifeBegan | StartReturned | ModelAsked | VerifierAsked | Body | Durable | Killed
_events: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="kind")])


class Log:
    """The log of a case, to append to.

    Args:
        path: The file; it is made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)

    def write(self, event: Event) -> None:
        """Append one line."""
        os.write(self._file, dumps(event) + b"\n")


def read_log(path: Path) -> list[Event]:
    """Read all events, in order; there are none where nothing was written."""
    if not path.exists():
        return []
    return [_events.validate_json(line) for line in path.read_bytes().splitlines()]


def digest_of(lines: Iterable[bytes]) -> str:
    """Digest lines of a journal, to know them again."""
    return hashlib.blake2b(b"\n".join(lines), digest_size=16).hexdigest()
