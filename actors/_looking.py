"""What a runtime reads from its store for people who look, whoever is at work on it."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.protocol import (
    EffectFact,
    EffectKey,
    EffectStatus,
    InvocationId,
    InvocationState,
    Status,
    Summary,
    state_of,
)
from loopwright.stores import Store, all_effects, all_invocations

from ._inbox import Waiting, inbox
from ._said import check_status, check_statuses


class Looking:
    """The part of a runtime that only reads.

    Args:
        store: Where invocations are kept.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        """Where invocations are kept."""

    async def state(self, invocation_id: str) -> InvocationState:
        """Read an invocation back from its journal: everything that is durable of it.

        Raises:
            InvocationNotFoundError: If there is none.
        """
        return state_of(await self.store.load(InvocationId(invocation_id)))

    async def invocations(
        self, *, status: Status | None = None, agent: str | None = None
    ) -> list[Summary]:
        """List all invocations, newest first.

        Raises:
            RemoteProtocolError: If there is no such status.
            StoreError: If the store fails.
        """
        if status is not None:
            check_status(status)
        return await all_invocations(self.store, status=status, agent=agent)

    async def inbox(self, *, agent: str | None = None, limit: int = 100) -> tuple[Waiting, ...]:
        """List what waits for a person, newest invocations first; see `Waiting`.

        Args:
            agent: Only invocations that were started for this one.
            limit: How many at most.

        Raises:
            StoreError: If the store fails.
        """
        return await inbox(self.store, agent=agent, limit=limit)

    async def effects(
        self,
        *,
        invocation_id: str | None = None,
        effect_key: str | None = None,
        tool: str | None = None,
        statuses: Sequence[EffectStatus] | None = None,
    ) -> list[EffectFact]:
        """Query the effect ledger over all invocations, last announced first.

        Args:
            invocation_id: Only of this invocation.
            effect_key: Only of this business mutation, whichever invocation made it.
            tool: Only of this tool.
            statuses: Only in these; `UNSETTLED` are those somebody may have to look at.

        Raises:
            RemoteProtocolError: If there is no such status.
            StoreError: If the store fails.
        """
        if statuses is not None:
            check_statuses(statuses)
        return await all_effects(
            self.store,
            invocation_id=None if invocation_id is None else InvocationId(invocation_id),
            effect_key=None if effect_key is None else EffectKey(effect_key),
            tool_name=tool,
            statuses=statuses,
        )
