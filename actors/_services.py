"""The service actors of a runtime: shared by all its invocations, started when it is entered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loopwright.protocol import Execute, JsonValue, Lease
from loopwright.stores import Store

from ._clock import Clock
from ._tenure import Tenure
from .definitions._agent import Agent
from .definitions._child_tool import ChildTool
from .definitions._tool import AnyTool
from .kernel import ActorRef, ActorSystem, ChildSpec
from .machine._stopping import UNWIND_GRACE
from .machine._terms import Terms
from .roles._breakers import Breakers
from .roles._child_executor import ChildExecutor, Family
from .roles._committer import Committer
from .roles._decider import Decider
from .roles._deliveries import Deliveries
from .roles._executor import ToolExecutor
from .roles._listeners import Listeners
from .roles._relay import Relay, poke
from .roles._summarizer import Summarizer
from .roles._supervisor import Routes
from .roles._validator import Validator
from .roles._verifier import Verifier
from .tracing._redacting import Redacting
from .tracing._tool_progress import Watch

_SERVICE: Final = ChildSpec(restart="permanent")


class Services:
    """Who does the work of invocations: one set of actors for each agent, and some for all.

    Args:
        system: Where they live.
        store: Where invocations are kept.
        clock: Time.
        tenure: On whose authority tools are run.
        agents: By name.
        listeners: Who is told what models say while they speak.
        redacting: What deliveries hear of their attempts passes it first. What it would mask may
            be in two pieces of a reply, so that nobody is told of pieces then.
    """

    def __init__(
        self,
        system: ActorSystem,
        store: Store,
        clock: Clock,
        tenure: Tenure,
        agents: Mapping[str, Agent],
        listeners: Listeners,
        redacting: Redacting | None = None,
    ) -> None:
        self._system = system
        self._store = store
        self._clock = clock
        self._tenure = tenure
        self._agents = agents
        self._hear = None if redacting is None else redacting.message
        self._listeners = listeners if redacting is None else None
        self._breakers = Breakers(clock)
        self._executors: dict[int, ActorRef[Any]] = {}
        self._relay: ActorRef[Relay] | None = None
        self.routes: dict[str, Routes] = {}
        """Where the messages of an agent's invocations go."""
        self.terms = {name: _terms(agent, agents) for name, agent in agents.items()}
        """What a machine has to know of each agent."""

    def start(
        self,
        late: Callable[[Execute, JsonValue], None],
        family: Family,
        watch: Watch | None = None,
    ) -> None:
        """Start them all.

        Args:
            late: Told what a write has returned after its outcome was called unknown.
            family: Runs children.
            watch: Told what tools say of their progress.
        """
        system, clock = self._system, self._clock
        committer = system.start(Committer, self._store, clock, self.deliver, spec=_SERVICE)
        children = system.start(ChildExecutor, None, family, self._tenure.holds, spec=_SERVICE)
        for agent in self._agents.values():
            self.routes[agent.name] = Routes(
                system.start(Decider, agent, clock, self._breakers, self._listeners, spec=_SERVICE),
                system.start(Validator, agent, spec=_SERVICE),
                committer,
                {
                    name: self._executor(tool, agent, late, family, watch)
                    for name, tool in agent.tools.items()
                },
                system.start(Verifier, agent.verifiers, clock, spec=_SERVICE),
                system.start(Summarizer, agent, clock, spec=_SERVICE),
                children,
            )
        deliveries = Deliveries(
            system,
            self._store,
            clock,
            self._tenure,
            self._agents,
            {name: routes.executors for name, routes in self.routes.items()},
            self.deliver,
            self._hear,
        )
        self._relay = system.start(Relay, deliveries, clock, spec=_SERVICE)

    def deliver(self) -> None:
        """Have the outbox looked into: there may be something to deliver."""
        if self._relay is not None:
            poke(self._relay)

    def _executor(
        self,
        tool: AnyTool,
        agent: Agent,
        late: Callable[[Execute, JsonValue], None],
        family: Family,
        watch: Watch | None,
    ) -> ActorRef[Any]:
        """One executor per tool, also where several agents share it: the first one's policy counts."""
        holds: Callable[[Lease], bool] = self._tenure.holds
        if id(tool) not in self._executors:
            start, policy = self._system.start, agent.policy
            self._executors[id(tool)] = (
                start(ChildExecutor, tool, family, holds, spec=_SERVICE)
                if isinstance(tool, ChildTool)
                else start(
                    ToolExecutor,
                    tool,
                    self._clock,
                    holds,
                    late,
                    policy.tool_retry,
                    policy.breaker,
                    watch=watch,
                    spec=_SERVICE,
                )
            )
        return self._executors[id(tool)]


def _terms(agent: Agent, agents: Mapping[str, Agent]) -> Terms:
    children = {
        name: tool.limits for name, tool in agent.tools.items() if isinstance(tool, ChildTool)
    }
    return Terms(
        agent.policy,
        frozenset(endpoint.name for endpoint in agent.endpoints),
        agent.verifier_names,
        agent.escape,
        children,
        _children_grace(agent, agents, frozenset({agent.name})),
    )


def _children_grace(agent: Agent, agents: Mapping[str, Agent], above: frozenset[str]) -> float:
    """Seconds the children of an agent may take to end, and theirs before them."""
    grace = 0.0
    for tool in agent.tools.values():
        child = agents.get(tool.child or "")
        if child is None:
            continue
        below = 0.0
        if child.name not in above:
            below = _children_grace(child, agents, above | {child.name})
        grace = max(grace, max(child.policy.cancel_grace, below) + UNWIND_GRACE)
    return grace
