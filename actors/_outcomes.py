"""Waiting until an invocation is at rest, and until its children are because of which it is not."""

from __future__ import annotations

import asyncio

from loopwright.protocol import InvocationId, InvocationStateError, Outcome

from ._children import is_over, with_child
from ._engine import Engine
from ._live import Live
from .machine._outcomes import outcome_of


class Outcomes:
    """How the invocations of an entered runtime come out.

    Args:
        engine: Where they run.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def wait(self, identity: InvocationId) -> Outcome:
        """Wait until it is at rest; see `Runtime.outcome`.

        Raises:
            InvocationStateError: If it is running, but not here.
            RuntimeClosedError: If the runtime is closed before.
        """
        seen: tuple[InvocationId, int] | None = None
        while True:
            outcome = await self._at_rest(identity)
            waiting = await self._waiting_child(outcome)
            if waiting is None:
                return outcome
            parent, child, live = waiting
            told = parent.invocation_id, parent.state_version
            if live is not None:
                await asyncio.shield(live.done)
            elif not is_over(child):
                return with_child(outcome, child)
            elif told == seen:
                return outcome
            else:
                # It has ended since, and its parent is being told; or nobody tells it here.
                seen = told
            await self._engine.woken(parent.invocation_id)

    async def _waiting_child(self, outcome: Outcome) -> tuple[Outcome, Outcome, Live | None] | None:
        """Find the child down the tree because of which it waits, below whom, and if it is live."""
        found: tuple[Outcome, Outcome, Live | None] | None = None
        for child in outcome.waits_for:
            live = self._engine.live.get(child)
            if live is not None:
                return outcome, outcome, live
            try:
                stood = await self._at_rest(child)
            except InvocationStateError:
                # Another worker is at work on it.
                continue
            deeper = await self._waiting_child(stood) or (outcome, stood, None)
            if deeper[2] is not None:
                return deeper
            if found is None or is_over(found[1]):
                found = deeper
        return found

    async def _at_rest(self, identity: InvocationId) -> Outcome:
        # Who is being told that a child has ended goes on.
        await self._engine.woken(identity)
        live = self._engine.live.get(identity)
        if live is not None:
            return await asyncio.shield(live.done)
        state = await self._engine.state(identity)
        reason = state.protocol.reason
        if reason is None:
            stranded = self._engine.stranded.get(identity)
            if stranded is not None:
                return stranded
            msg = f"invocation {identity} is running, but not here; recover() it if its owner died"
            raise InvocationStateError(msg)
        return outcome_of(state, reason, state.protocol.cause)
