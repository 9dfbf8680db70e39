"""Children: invocations that calls of other invocations have started, and how they stand."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from loopwright.protocol import (
    Cancel,
    CancelNote,
    Ending,
    Execute,
    InvocationId,
    InvocationNotFoundError,
    InvocationStarted,
    InvocationStateError,
    LeaseHeldError,
    LoopwrightError,
    Outcome,
    Parent,
    Reason,
    Recover,
    StoreError,
    Wake,
    state_of,
)

from ._clock import sleep
from ._starting import Beginning, Starter
from .definitions._child_tool import ChildTool
from .machine._outcomes import outcome_of

if TYPE_CHECKING:
    from ._engine import Engine

logger = logging.getLogger("loopwright.runtime")

MAX_DEPTH: Final = 8
"""Invocations above one another. Budgets end a recursion too, but not all of them have limits."""
LOOK_EVERY: Final = 0.2
"""Seconds between two looks at a child that another worker is at work on."""


class Children:
    """Starts, finds, follows and cancels children, each by the effect key of its parent's call.

    Args:
        engine: Where they run.
        starter: Starts them.
    """

    def __init__(self, engine: Engine, starter: Starter) -> None:
        self._engine = engine
        self._starter = starter
        self._followed: set[InvocationId] = set()

    async def find(self, agent: str, key: str) -> InvocationId | None:
        """Find the child of a call, if it was started."""
        return await self._engine.store.find(agent, key)

    async def start(self, tool: ChildTool, order: Execute) -> InvocationId:
        """Start the child of a call; asked again, it is the same one.

        Raises:
            LoopwrightError: If it can't be started.
        """
        key = str(order.effect_key)
        known = await self.find(tool.agent, key)
        if known is not None:
            return known
        engine = self._engine
        parent = engine.live[order.invocation_id].started
        depth = 1 if parent.parent is None else parent.parent.depth + 1
        if depth > MAX_DEPTH:
            msg = f"there are {MAX_DEPTH} invocations above already; do the task without a child"
            raise InvocationStateError(msg)
        return await self._starter.start(
            Beginning(
                tool.agent,
                str(order.arguments["goal"]),
                order.principal,
                order.budget or tool.limits,
                parent.metadata,
                key,
                Parent(order.invocation_id, order.turn, order.call_id, depth),
            )
        )

    async def rest(self, child: InvocationId) -> Outcome:
        """Wait until a child is at rest, whoever is at work on it; take it over if nobody is."""
        self._followed.add(child)
        try:
            return await self._rest(child)
        finally:
            self._followed.discard(child)

    async def _rest(self, child: InvocationId) -> Outcome:
        engine, lost = self._engine, False
        while True:
            live = engine.live.get(child)
            if live is not None:
                outcome = await asyncio.shield(live.done)
                if live.durable:
                    return outcome
                if outcome.reason is not Reason.LEASE_LOST:
                    # What nobody can read back is no end: it is to go on from what is durable.
                    if lost:
                        msg = f"child {child} could not be stored: {outcome.cause}"
                        raise StoreError(msg)
                    lost = True
                    await sleep(engine.clock, LOOK_EVERY)
            state = await engine.state(child)
            reason = state.protocol.reason
            if reason is not None:
                return outcome_of(state, reason, state.protocol.cause)
            try:
                await engine.command(child, Recover(), contextvars.copy_context())
            except LeaseHeldError:
                await sleep(engine.clock, LOOK_EVERY)
            except InvocationStateError:
                # It came to rest, or was taken over here, in this very moment.
                continue

    async def cancel(self, child: InvocationId, reason: str) -> None:
        """Have a child stopped; `rest` tells when it has."""
        engine, cancel = self._engine, Cancel(reason, "parent")
        live = engine.live.get(child)
        if live is not None:
            await engine.cancel(live, cancel)
            return
        with suppress(LoopwrightError):
            try:
                await engine.command(child, cancel, contextvars.copy_context())
            except LeaseHeldError:
                # Another worker hears of it, or whoever takes it up if that one dies.
                await engine.store.request_cancel(CancelNote(child, reason, cancel.by))

    async def not_wanted(self, started: InvocationStarted) -> CancelNote | None:
        """Say that a child is to stop, if anybody above it is over, or is to: nobody wants it."""
        above, engine = started.parent, self._engine
        while above is not None:
            try:
                stored = await engine.store.load(above.invocation_id)
            except InvocationNotFoundError:
                return CancelNote(started.invocation_id, "its parent is no more", "parent")
            p = state_of(stored).protocol
            if p.status == "ended" or p.cancelling is not None or stored.summary.cancel is not None:
                return CancelNote(started.invocation_id, "its parent was stopped", "parent")
            above = p.started.parent
        return None

    def follows(self, child: InvocationId) -> bool:
        """Whether a call waits for it here."""
        return child in self._followed

    async def wake_parent(self, child: InvocationId, parent: InvocationId) -> None:
        """Have a parent look after a child that has ended, if it sleeps because of it."""
        engine = self._engine
        while not self.follows(child):
            live = engine.live.get(parent)
            if live is not None:
                # It may be about to sleep; or it has died here, and sleeps elsewhere.
                with suppress(LoopwrightError):
                    await asyncio.shield(live.done)
            try:
                await engine.command(parent, Wake(child), contextvars.copy_context())
            except LoopwrightError as error:
                if isinstance(error, InvocationStateError) and parent in engine.live:
                    continue
                # It does not sleep because of it, or it is another worker's; recovery looks again.
                logger.debug("Invocation %s is not woken: %s", parent, error)
            return


def is_over(outcome: Outcome) -> bool:
    """Whether an invocation has ended, and does not wait for somebody."""
    return outcome.reason.outcome is not Ending.SUSPENDED


def with_child(outcome: Outcome, child: Outcome) -> Outcome:
    """Show with an invocation what the child waits for because of which it does.

    That may be something else by now than when it was told. A write of its own that only a person
    can settle goes before.
    """
    own = any(
        effect.status == "outcome_unknown" and effect.turn > len(outcome.history)
        for effect in outcome.unresolved_effects
    )
    reason = outcome.reason if own else child.reason
    return replace(outcome, reason=reason, proposal=child.proposal, question=child.question)
