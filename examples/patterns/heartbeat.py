"""A heartbeat agent: started again and again, and stopped unless it asks to go on.

Each beat is one bounded invocation under a key of its own, with a typed output that says whether
there is to be another. Nothing else keeps the schedule: whoever calls `heartbeat` again, after a
crash too, finds the beats that were, and goes on with the next one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import inf
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field

from loopwright import Agent, ConfigurationError, Outcome, Principal, Runtime
from loopwright.actors import Clock, RealClock
from loopwright.protocol import JsonObject


@dataclass(frozen=True, slots=True)
class Beat:
    """The output of a beat; give it to the agent as `output=Beat`, or a subclass of it."""

    note: str = ""
    """What the next beat is told, in its metadata."""
    next_in: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None
    """Seconds until the next beat. `None`: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often it may beat, whatever the agent asks for.

    Raises:
        ConfigurationError: For a number that cannot be meant.
    """

    max_beats: int
    shortest: float = 1.0
    """Seconds between two beats, at least."""
    longest: float = 86_400.0
    """Seconds between two beats, at most."""
    grace: float = 60.0
    """Seconds a beat may be late; later than that, it is missed, and not made up for."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not (self.max_beats >= 1 and 0 < self.shortest <= self.longest < inf > self.grace >= 0):
            msg = (
                f"{self!r} cannot be kept; give max_beats >= 1, 0 < shortest <= longest, grace >= 0"
            )
            raise ConfigurationError(msg)


Stopped: TypeAlias = Literal["not_asked", "max_beats", "missed", "failed"]
"""Why there is no other beat. `failed`: the last one has no answer, for whatever reason."""


class Heart(NamedTuple):
    """What came of it."""

    beats: tuple[Outcome, ...]
    stopped: Stopped


async def heartbeat(
    runtime: Runtime,
    agent: Agent,
    goal: str,
    *,
    name: str,
    pace: Pace,
    clock: Clock | None = None,
    principal: Principal | None = None,
) -> Heart:
    """Let an agent of the runtime beat until it no longer asks to.

    Called again with the same name it goes on where it was: beats that have ended are read, not
    run. Recover the runtime before, so that a beat that was under way is.

    Args:
        runtime: Where it runs; each beat is bounded by the agent's budget.
        agent: With `Beat` as its output type.
        goal: Of each beat.
        name: Of this heart: with the number of the beat it makes the key.
        pace: How often it may beat.
        clock: The runtime's, where that has one.
        principal: On whose behalf.

    Raises:
        ConfigurationError: If the agent cannot say that it wants another beat.
        InvocationStateError: If another worker is at work on a beat.
    """
    if agent.output is None:
        msg = f"agent {agent.name!r} has no output type, and can ask for nothing; give output=Beat"
        raise ConfigurationError(msg)
    clock = clock or RealClock()
    beats: list[Outcome] = []
    note, due = "", clock.now().wall
    for number in range(1, pace.max_beats + 1):
        key = f"{name}:beat:{number}"
        # One that has been started is neither waited for nor missed.
        begun = await runtime.store.find(agent.name, key) is not None
        if not begun and not await _in_time(clock, due, pace.grace):
            return Heart(tuple(beats), "missed")
        told: JsonObject = {"beat": number, "note": note}
        run = await runtime.start(agent.name, goal, key=key, metadata=told, principal=principal)
        outcome = await run.outcome()
        beats.append(outcome)
        if not outcome.completed:
            return Heart(tuple(beats), "failed")
        said: object = agent.parse_output(outcome)
        if not isinstance(said, Beat):
            msg = f"agent {agent.name!r} answers with {type(said).__name__}; give output=Beat"
            raise ConfigurationError(msg)
        if said.next_in is None:
            return Heart(tuple(beats), "not_asked")
        ended = (await runtime.store.summary(run.id)).head.at
        due = ended + min(max(said.next_in, pace.shortest), pace.longest)
        note = said.note
    return Heart(tuple(beats), "max_beats")


async def _in_time(clock: Clock, due: float, grace: float) -> bool:
    """Wait until it is due; return whether it is not too late by then."""
    now = clock.now()
    if now.wall < due:
        rang = asyncio.Event()
        timer = clock.call_at(now.monotonic + due - now.wall, rang.set)
        try:
            await rang.wait()
        finally:
            timer.cancel()
    return clock.now().wall <= due + grace
