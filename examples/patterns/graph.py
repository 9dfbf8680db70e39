"""A graph workflow: nodes and edges are data, and code goes from one to the next.

Nothing is remembered of where it is. The way so far is walked again, over committed turns, for
each decision: so a process that takes over is at the same node, and a graph that was changed
meanwhile is found out before anything of it runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from loopwright import (
    CallId,
    CannotContinue,
    Clarification,
    ConfigurationError,
    Final,
    ModelError,
    ModelErrorKind,
    ModelReply,
    ModelRequest,
    RequestApproval,
    ToolCall,
    ToolCalls,
    Usage,
)
from loopwright.protocol import Decision, JsonObject, ToolResult, Turn, calls_of

from ._committed import own_turns


@dataclass(frozen=True, slots=True)
class State:
    """What conditions, arguments and answers may rest on: all of it is committed."""

    goal: str
    last: ToolResult | None
    """Of the node it comes from; `None` at the start, and behind a question."""
    results: Mapping[str, ToolResult]
    """By node, the one of its last visit."""
    answers: Mapping[str, str]
    """What people have answered, by node."""


@dataclass(frozen=True, slots=True)
class Call:
    """A node that calls a tool."""

    tool: str
    arguments: JsonObject | Callable[[State], JsonObject]
    approval: str = ""
    """Why a person has to say yes before it runs; blank, nobody is asked by the graph."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A node that asks the user."""

    question: str


@dataclass(frozen=True, slots=True)
class Finish:
    """A node that ends it with an answer."""

    answer: str | Callable[[State], str]


Node: TypeAlias = Call | Ask | Finish
Condition: TypeAlias = Callable[[State], bool]
"""A pure function: it is asked again whenever the way is walked again."""


def succeeded(state: State) -> bool:
    """Whether the call of the node it comes from has returned."""
    return state.last is None or state.last.ok


def failed(state: State) -> bool:
    """Whether it has not: an error, a no, arguments that do not fit."""
    return not succeeded(state)


@dataclass(frozen=True, slots=True)
class Edge:
    """A way from one node to another, open where its condition holds.

    Without one, it is open only where the call has succeeded: nothing goes on past a failure
    unless an edge says so.
    """

    source: str
    target: str
    when: Condition = succeeded


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes, and the edges between them; of those open, the first one is taken.

    Args:
        nodes: By name.
        edges: In the order in which those of one node are tried.
        start: Where it begins.
        max_visits: How often one node may be visited.

    Raises:
        ConfigurationError: If it cannot work: an edge to or from nowhere, a node that is never
            reached or that leads nowhere, a `Finish` that goes on.
    """

    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    start: str
    max_visits: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        problem = self._problem()
        if problem is not None:
            raise ConfigurationError(f"the graph {problem}")

    def _problem(self) -> str | None:
        if self.max_visits < 1:
            return f"has max_visits={self.max_visits}; give at least 1"
        if self.start not in self.nodes:
            return f"starts at {self.start!r}, which is no node of it; name one of its nodes"
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in self.nodes:
                    way = f"{edge.source!r} -> {edge.target!r}"
                    return f"has the edge {way}, and no node {end!r}; add it, or drop the edge"
        reached = self._reached()
        for name, node in self.nodes.items():
            goes_on = any(edge.source == name for edge in self.edges)
            if name not in reached:
                return f"never reaches {name!r} from {self.start!r}; add an edge, or drop the node"
            if isinstance(node, Finish) and goes_on:
                return f"goes on from {name!r}, which finishes it; drop its edges"
            if not isinstance(node, Finish) and not goes_on:
                return f"has no edge from {name!r}, which does not finish it; add one"
        return None

    def _reached(self) -> set[str]:
        reached, left = {self.start}, [self.start]
        while left:
            source = left.pop()
            found = {edge.target for edge in self.edges if edge.source == source} - reached
            reached |= found
            left += found
        return reached


class Workflow:
    """Decides by a graph; no language model is asked.

    A node that may not be visited again ends it with `cannot_continue` and the code
    ``visit_limit``, one from which no edge is open with ``no_edge``.

    Args:
        graph: The way.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Walk to where it is, and decide what that node says."""
        return ModelReply(self._decided(request), Usage())

    def _decided(self, request: ModelRequest) -> Decision:
        graph, name = self._graph, self._graph.start
        visits = Counter([name])
        state = State(request.goal, None, {}, {})
        for turn in own_turns(request):
            if not _is_step(turn):
                continue
            after = _passed(turn, graph.nodes[name], name, visits[name], state)
            if after is None:
                continue
            state = after
            edges = (edge for edge in graph.edges if edge.source == name)
            target = next((edge.target for edge in edges if edge.when(state)), None)
            if target is None:
                return CannotContinue("no_edge", f"no edge from {name!r} is open: {_why(state)}")
            if visits[target] == graph.max_visits:
                limit = f"node {target!r} may be visited {graph.max_visits} times"
                return CannotContinue("visit_limit", f"{limit}, and {name!r} leads there again")
            visits[target] += 1
            name = target
        return _said(graph.nodes[name], f"{name}.{visits[name]}", state)


def _said(node: Node, call_id: str, state: State) -> Decision:
    match node:
        case Call(tool=tool, arguments=given, approval=approval):
            arguments = given(state) if callable(given) else given
            calls = (ToolCall(CallId(call_id), tool, arguments),)
            return RequestApproval(calls, approval) if approval else ToolCalls(calls)
        case Ask(question=question):
            return Clarification(question)
        case Finish(answer=answer):
            return Final(answer(state) if callable(answer) else answer)


def _is_step(turn: Turn) -> bool:
    """Whether it is a step on the way; what people decide in between is none."""
    proposal = turn.proposal
    steps = (ToolCalls, RequestApproval, Clarification)
    return isinstance(proposal.decision, steps) and not proposal.by


def _passed(turn: Turn, node: Node, name: str, visit: int, state: State) -> State | None:
    """Take in what came of a node; `None` where its question has no answer.

    Raises:
        ModelError: If the turn is not of this node.
    """
    decision = turn.proposal.decision
    asked = isinstance(decision, Clarification)
    ids = [call.call_id for call in calls_of(decision)]
    if asked != isinstance(node, Ask) or ids != ([] if asked else [f"{name}.{visit}"]):
        msg = (
            f"turn {turn.number} is not of node {name!r}, where the graph is: it was changed; "
            "finish what is under way with the graph it began with"
        )
        raise ModelError(msg, kind=ModelErrorKind.PERMANENT)
    if not asked:
        (result,) = turn.results
        return replace(state, last=result, results={**state.results, name: result})
    if turn.answer is None:
        return None
    return replace(state, last=None, answers={**state.answers, name: turn.answer})


def _why(state: State) -> str:
    if state.last is None:
        return "no condition holds"
    error = state.last.error
    return f"its call is {state.last.status}" + ("" if error is None else f", {error.message}")
