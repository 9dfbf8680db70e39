"""Bringing a new invocation into being: for a caller, or for the call of a parent."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from loopwright.policy import missing_prices
from loopwright.protocol import (
    Budget,
    Cancel,
    ConfigurationError,
    InvocationId,
    InvocationStarted,
    InvocationState,
    JsonValue,
    Lease,
    LoopwrightError,
    Parent,
    Price,
    Principal,
    Start,
    StoreError,
)

from .definitions._agent import Agent

if TYPE_CHECKING:
    from ._engine import Engine


class Beginning(NamedTuple):
    """What an invocation is to begin with."""

    agent: str
    goal: str
    principal: Principal
    budget: Budget
    metadata: JsonValue = None
    key: str | None = None
    """One key names one invocation of an agent."""
    parent: Parent | None = None


class Starter:
    """Starts invocations, each durable before it is said to exist.

    Args:
        engine: Where they run.
        new_id: Makes invocation ids.
    """

    def __init__(self, engine: Engine, new_id: Callable[[], InvocationId]) -> None:
        self._engine = engine
        self._new_id = new_id

    async def start(self, beginning: Beginning) -> InvocationId:
        """Start one, and return its id once its first record is durable.

        Raises:
            ConfigurationError: If there is no such agent, or its cost is limited and one of its
                models has no price.
            StoreError: If it can't be stored; there is no invocation then.
        """
        engine, key = self._engine, beginning.key
        agent = engine.agent(beginning.agent)
        prices = _prices(engine, agent, limited=beginning.budget.max_cost is not None)
        started = InvocationStarted(
            self._new_id(),
            agent.name,
            agent.version,
            agent.policy.version,
            beginning.goal,
            beginning.principal,
            beginning.budget,
            engine.clock.now().wall,
            key,
            beginning.metadata,
            beginning.parent,
            prices,
        )
        if engine.redacting is not None:
            started = engine.redacting.started(started)
        lease = Lease(started.invocation_id, engine.tenure.worker, 1)
        context = contextvars.copy_context()
        live = engine.bring_up(agent, InvocationState(started), lease, context)
        live.begun = asyncio.get_running_loop().create_future()
        live.supervisor.tell(Start(started))
        try:
            await live.begun
        except asyncio.CancelledError:
            with suppress(LoopwrightError):
                cancel = Cancel("its start was cancelled", "runtime", hard=True)
                engine.system.spawn(engine.cancel(live, cancel))
            raise
        except StoreError:
            # Somebody else may have started one with the same key meanwhile.
            known = None if key is None else await engine.store.find(agent.name, key)
            if known is None:
                raise
            return known
        return started.invocation_id


def _prices(
    engine: Engine, agent: Agent, *, limited: bool, above: tuple[str, ...] = ()
) -> tuple[Price, ...]:
    """Collect what may be charged: the prices of the agent, and of all it may be handed to.

    Args:
        engine: Where the agents are.
        agent: Whose invocation it is.
        limited: Whether cost is limited.
        above: Agents whose children have been looked at.

    Raises:
        ConfigurationError: If cost is limited, and one of their models, or of their children's,
            has no price.
    """
    found: dict[str, Price] = {}
    names, children, todo = set[str](), set[str](), [agent.name]
    while todo:
        name = todo.pop()
        if name in names:
            continue
        names.add(name)
        one = engine.agent(name)
        for price in one.prices:
            found.setdefault(price.model, price)
        todo += [other for other in (*one.handoffs, one.escape) if other is not None]
        children |= {tool.child for tool in one.tools.values() if tool.child is not None}
    prices = tuple(found.values())
    if limited:
        for child in sorted(children.difference(above)):
            _prices(engine, engine.agent(child), limited=True, above=(*above, *children))
        models = [e.name for name in sorted(names) for e in engine.agent(name).endpoints]
        missing = missing_prices(models, prices)
        if missing:
            msg = (
                f"agent {agent.name!r} has a limit of cost, and there is no price for "
                f"{', '.join(missing)}; give prices=, for example prices_of(...) of "
                "loopwright.adapters, or drop max_cost"
            )
            raise ConfigurationError(msg)
    return prices
