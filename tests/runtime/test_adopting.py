"""What a service looks at again and again: not at what only people move."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from casebook.desk import agent

from loopwright import Agent, Policy, Runtime
from loopwright.protocol import InvocationId, Status, Summary
from loopwright.stores import MemoryStore
from loopwright.testing import ScriptedModel, VirtualClock, WrappedStore, settle

pytestmark = pytest.mark.anyio


class Listed(WrappedStore):
    """Counts how often what sleeps is listed."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(MemoryStore(clock=lambda: clock.now()[0]))
        self.times = 0

    async def invocations(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        limit: int = 100,
        before: InvocationId | None = None,
    ) -> Sequence[Summary]:
        self.times += status == "suspended"
        return await self.inner.invocations(status=status, agent=agent, limit=limit, before=before)


@pytest.mark.parametrize("expires", [None, 600.0])
async def test_what_only_people_move_is_listed_once(expires: float | None) -> None:
    """Ten thousand that wait for a person cost a service nothing, look by look."""
    clock = VirtualClock()
    store = Listed(clock)
    desk: Agent = agent(ScriptedModel([]), policy=Policy(approval_expires=expires))
    async with Runtime([desk], store=store, clock=clock, adopt=True, lease_ttl=15):
        for _ in range(5):
            await clock.advance(15)
            await settle()
    assert store.times == (1 if expires is None else 5)
