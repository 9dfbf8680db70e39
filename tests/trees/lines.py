"""A line of three: a boss, whose call is a middle's task, whose call is a clerk's; the clerk pays."""

from __future__ import annotations

from collections.abc import Sequence

from casebook.desk import batch, call

from loopwright import Agent, Final, Policy, tool
from loopwright.policy import writes
from loopwright.stores import MemoryStore
from loopwright.testing import ScriptedModel, Step, VirtualClock, WrappedStore

TO_MIDDLE = batch(call("m", "middle", {"goal": "have it paid"}))
TO_CLERK = batch(call("c", "clerk", {"goal": "pay"}))
PAY = batch(call("p", "pay", {"amount": 5}))


class Till:
    """Where money goes."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def line(
        self,
        boss: Sequence[Step] | None = None,
        middle: Sequence[Step] | None = None,
        clerk: Sequence[Step] | None = None,
        *,
        asks: bool = True,
        policy: Policy | None = None,
    ) -> list[Agent]:
        """Make the three; by default each delegates, and the clerk's payment needs a yes."""

        @tool(effect="manual")
        async def pay(amount: int) -> str:
            self.paid.append(amount)
            return f"receipt of {amount}"

        three = Agent(
            "clerk",
            model=ScriptedModel([PAY, Final("paid")] if clerk is None else clerk),
            tools=[pay],
            policy=policy or Policy(ask=[writes()] if asks else []),
        )
        two = Agent(
            "middle",
            model=ScriptedModel([TO_CLERK, Final("had it paid")] if middle is None else middle),
            tools=[three.as_tool()],
        )
        one = Agent(
            "boss",
            model=ScriptedModel([TO_MIDDLE, Final("done")] if boss is None else boss),
            tools=[two.as_tool()],
        )
        return [one, two, three]


class Shared(WrappedStore):
    """One worker's line to a store that several workers share."""

    async def open(self) -> None:
        """Do nothing: the store belongs to all of them."""

    async def close(self) -> None:
        """Do nothing, as above."""


async def opened(clock: VirtualClock) -> MemoryStore:
    """Open a store for several workers."""
    store = MemoryStore(clock=lambda: clock.now().monotonic)
    await store.open()
    return store
