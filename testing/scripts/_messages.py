"""Message scripts against one actor or the pure machine: what goes in, and what must come out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import anyio

from loopwright.actors import Instant, Machine
from loopwright.actors.kernel import ActorRef
from loopwright.protocol import Input, Tick

from .._clock import VirtualClock, settle
from .._probe import Probe
from ._patterns import Difference, differences, show

_BEGINNING: Final = Instant(0.0, 1_800_000_000.0)


@dataclass(frozen=True, slots=True)
class Send:
    """Give the target a message. An actor gets it as it is: put a `Request` around it yourself."""

    message: Any


@dataclass(frozen=True, slots=True)
class Expect:
    """The next message that comes out must match: a value, a type, or `like(...)`."""

    pattern: object


@dataclass(frozen=True, slots=True)
class Advance:
    """Let time pass, seconds."""

    seconds: float


MessageStep: TypeAlias = Send | Expect | Advance


class ScriptMismatchError(AssertionError):
    """Raised when what happened is not what a script says; names the first difference."""


def run_script(machine: Machine, steps: Sequence[MessageStep], *, at: Instant = _BEGINNING) -> None:
    """Run a script against the pure machine.

    Strict both ways: every message that comes out must be expected before the next one goes in,
    and every expected one must come. While time advances the machine gets a `Tick` whenever it
    asked to be woken, as from its Supervisor.

    Args:
        machine: The machine under test.
        steps: What goes in and what must come out.
        at: The time at which it begins.

    Raises:
        ScriptMismatchError: With the number of the step and the first differing message.
        ProtocolError: If the machine refuses a message.
    """
    now = at
    said: deque[object] = deque()
    for number, step in enumerate(steps, 1):
        match step:
            case Expect(pattern=pattern):
                if not said:
                    raise _missing(steps, number)
                _compare(steps, number, pattern, said.popleft())
            case Send(message=message):
                _refuse_unexpected(steps, number, said)
                said.extend(machine.on(message, now))
            case Advance(seconds=seconds):
                _refuse_unexpected(steps, number, said)
                until = _later(now, seconds)
                while (wake_at := machine.wake_at) is not None and wake_at <= until.monotonic:
                    now = _later(now, max(0.0, wake_at - now.monotonic))
                    tick: Input = Tick()
                    said.extend(machine.on(tick, now))
                now = until
    _refuse_unexpected(steps, len(steps) + 1, said)


async def run_actor_script(
    ref: ActorRef[Any],
    steps: Sequence[MessageStep],
    *,
    probe: Probe,
    clock: VirtualClock | None = None,
    patience: float = 1.0,
) -> None:
    """Run a script against one actor; what it says is what reaches the probe.

    Strict both ways, as `run_script`.

    Args:
        ref: The actor under test.
        steps: What goes in and what must come out.
        probe: The reply address, and the stand-in for whoever the actor talks to.
        clock: What `Advance` moves; the clock the actor was given.
        patience: Real seconds an expected message may take; only spent where it does not come.

    Raises:
        ScriptMismatchError: With the number of the step and the first differing message.
        TypeError: If there is an `Advance` and no clock.
    """
    seen = len(probe.messages)
    for number, step in enumerate(steps, 1):
        if isinstance(step, Expect):
            with anyio.move_on_after(patience):
                await probe.received(seen + 1)
            if len(probe.messages) == seen:
                raise _missing(steps, number, "" if ref.is_alive() else "; the actor is dead")
            _compare(steps, number, step.pattern, probe.messages[seen])
            seen += 1
            continue
        await settle()
        _refuse_unexpected(steps, number, probe.messages[seen:])
        if isinstance(step, Send):
            ref.tell(step.message)
        elif clock is None:
            raise TypeError("a script with Advance needs the actor's clock; pass clock=")
        else:
            await clock.advance(step.seconds)
    await settle()
    _refuse_unexpected(steps, len(steps) + 1, probe.messages[seen:])


def _later(now: Instant, seconds: float) -> Instant:
    return Instant(now.monotonic + seconds, now.wall + seconds)


def _compare(steps: Sequence[MessageStep], number: int, pattern: object, got: object) -> None:
    found = list(differences(pattern, got))
    if found:
        raise ScriptMismatchError(_report(steps, number, show(pattern), show(got), found))


def _missing(steps: Sequence[MessageStep], number: int, why: str = "") -> ScriptMismatchError:
    step = steps[number - 1]
    assert isinstance(step, Expect)
    return ScriptMismatchError(_report(steps, number, show(step.pattern), f"no message{why}"))


def _refuse_unexpected(
    steps: Sequence[MessageStep], number: int, said: Sequence[object] | deque[object]
) -> None:
    if said:
        raise ScriptMismatchError(_report(steps, number, "no message", show(said[0])))


def _report(
    steps: Sequence[MessageStep],
    number: int,
    expected: str,
    got: str,
    found: Sequence[Difference] = (),
) -> str:
    where = f"step {number} of {len(steps)}" if number <= len(steps) else "after the last step"
    if number <= len(steps) and not isinstance(steps[number - 1], Expect):
        where = f"before {where} ({show(steps[number - 1])})"
    lines = [where, f"  expected: {expected}", f"  got:      {got}"]
    return "\n".join([*lines, *(f"  {difference}" for difference in found)])
