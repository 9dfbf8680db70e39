"""One life of a case: a process that starts or recovers the invocation, and brings it to rest."""

from __future__ import annotations

import asyncio
import pkgutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import Field, TypeAdapter

from loopwright.actors import Agent, Run, Runtime
from loopwright.protocol import (
    Budget,
    ConfigurationError,
    InvocationId,
    InvocationStateError,
    JsonValue,
    LeaseHeldError,
    Outcome,
    Principal,
    Reason,
    Reconciled,
    bounded,
)
from loopwright.stores import SQLiteStore

from ._log import LifeBegan, Log, StartReturned
from ._points import CrashPoint
from ._watch import PERSON, Trap, WatchedStore, watch

STORE: Final = "store.db"
LOG: Final = "crash.log"
KEY: Final = "crash kit"
"""The key all lives of a case start their one invocation with."""
GENERATION: Final = 3600.0
"""Seconds by which a later generation's clock is ahead: whoever lived before has no fresh heartbeat."""
LOOK_EVERY: Final = 0.02
"""Seconds between two looks at what is not done here: by a worker beside this one, or the relay."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What one life is to do."""

    life: int
    generation: int
    folder: str
    agent: str
    goal: str
    principal: Principal | None
    budget: Budget | None
    metadata: JsonValue
    approve: bool
    answer: str
    settle: Reconciled | str | None
    point: CrashPoint | None
    occurrence: Annotated[int, Field(ge=1)]
    cancel_at: CrashPoint | None
    lease_ttl: float
    limit: float


specs: TypeAdapter[Spec] = TypeAdapter(Spec)


async def live(factory: Callable[[Path], object], spec: Spec) -> str:
    """Start or recover the invocation, and bring it to rest; return the reason it rests for.

    Raises:
        ConfigurationError: If there are no such agents.
        TimeoutError: If it does not come to rest in time.
    """
    folder = Path(spec.folder)
    log = Log(folder / LOG)
    log.write(LifeBegan(spec.life))
    trap = Trap(spec.life, log, spec.point, spec.occurrence, spec.cancel_at)
    agents = _agents(factory, folder)
    watch(agents, trap)
    ahead = spec.generation * GENERATION
    store = SQLiteStore(folder / STORE, clock=lambda: time.monotonic() + ahead)
    runtime = Runtime(agents, store=WatchedStore(store, trap), lease_ttl=spec.lease_ttl)
    async with asyncio.timeout(spec.limit), runtime:
        trap.cancel = lambda found: runtime.request_cancel(
            found, "said the crash kit", by=PERSON, hard=False
        )
        run = await runtime.start(
            spec.agent,
            spec.goal,
            principal=spec.principal,
            budget=spec.budget,
            metadata=spec.metadata,
            key=KEY,
        )
        log.write(StartReturned(spec.life, run.id))
        trap.invocation_id = run.id
        people = _People(runtime, run, spec, agents)
        return str((await people.bring_to_rest()).reason)


class _People:
    """Everybody an invocation may wait for."""

    def __init__(self, runtime: Runtime, run: Run, spec: Spec, agents: Sequence[Agent]) -> None:
        self._runtime = runtime
        self._run = run
        self._spec = spec
        self._settled: set[tuple[InvocationId, int, str]] = set()
        self._children = {a.name: {t.name for t in a.tools.values() if t.child} for a in agents}
        """By agent, the tools that stand for children."""

    async def bring_to_rest(self) -> Outcome:
        """Say what it waits for, until it waits for nothing that can be said."""
        while True:
            outcome = await self._rests()
            # A worker beside this one may have said it first.
            with suppress(LeaseHeldError, InvocationStateError):
                if not await self._say(outcome):
                    await self._delivered(outcome)
                    return outcome

    async def _rests(self) -> Outcome:
        while True:
            await self._runtime.recover()
            with suppress(InvocationStateError):
                outcome = await self._run.outcome()
                if outcome.reason is not Reason.LEASE_LOST:
                    return outcome
            # It goes on in a worker beside this one.
            await asyncio.sleep(LOOK_EVERY)

    async def _delivered(self, outcome: Outcome) -> None:
        """Wait until what the invocation has put into the outbox is delivered."""
        queued = {e.effect_key for e in outcome.effects if e.status == "prepared"}
        while queued:
            left = await self._runtime.effects(
                invocation_id=self._run.id, statuses=("prepared", "dispatched")
            )
            queued &= {fact.entry.effect_key for fact in left}
            await asyncio.sleep(LOOK_EVERY)

    async def _say(self, outcome: Outcome) -> bool:
        """Say what it waits for, as the case wants it; whether there was anything to say."""
        runtime, run, spec = self._runtime, self._run, self._spec
        match outcome.reason:
            case Reason.APPROVAL_REQUIRED:
                assert outcome.proposal is not None
                say = runtime.approve if spec.approve else runtime.deny
                await say(run.id, outcome.proposal.digest, by=PERSON)
                return True
            case Reason.CLARIFICATION_REQUIRED:
                await runtime.answer(run.id, spec.answer, by=PERSON)
                return True
            case _:
                return await self._settle(outcome)

    async def _settle(self, outcome: Outcome) -> bool:
        """Say what became of the writes nobody has settled, each once in this life."""
        for child in outcome.waits_for:
            if await self._settle(await self._runtime.outcome(child)):
                return True
        children = self._children[outcome.agent]
        for effect in outcome.unresolved_effects:
            named = outcome.invocation_id, effect.turn, effect.call_id
            if effect.status != "outcome_unknown" or named in self._settled:
                continue
            if effect.tool_name in children:
                continue
            found = self._found(effect.effect_key)
            waits = outcome.reason is Reason.RECONCILIATION_REQUIRED
            if found is None or (found.finding == "unknown" and not waits):
                continue
            self._settled.add(named)
            await self._runtime.settle(
                outcome.invocation_id, effect.call_id, found, by=PERSON, turn=effect.turn
            )
            return True
        return False

    def _found(self, effect_key: str) -> Reconciled | None:
        settle = self._spec.settle
        if not isinstance(settle, str):
            return settle
        found = resolve(settle, "settle")(Path(self._spec.folder), effect_key)
        if not isinstance(found, Reconciled):
            msg = f"settle = {settle!r} returned {found!r}; return applied(receipt) or the like"
            raise ConfigurationError(msg)
        return found


def resolve(name: str, what: str) -> Any:
    """Import what is named `module:name`.

    Raises:
        ConfigurationError: If it cannot be imported.
    """
    try:
        return pkgutil.resolve_name(name)
    except Exception as error:
        msg = f"{what} = {name!r} cannot be imported ({error}); give module:name of a function"
        raise ConfigurationError(msg) from error


def _agents(factory: Callable[[Path], object], folder: Path) -> list[Agent]:
    try:
        made: object = factory(folder)
    except Exception as error:
        msg = f"the factory failed with {type(error).__name__}: {error}"
        raise ConfigurationError(msg) from error
    several: list[object] = [made]
    if isinstance(made, list):
        several = cast("list[object]", made)
    agents: list[Agent] = []
    for agent in several:
        if not isinstance(agent, Agent):
            shown = bounded(repr(agent))
            msg = f"the factory returned {shown}; return an Agent, or a list of them"
            raise ConfigurationError(msg)
        agents.append(agent)
    return agents
