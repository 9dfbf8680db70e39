"""A graph workflow: it cannot be built wrong, walks one way, and stops where no edge leads on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from loopwright import (
    Agent,
    ConfigurationError,
    Handoff,
    Outcome,
    ProgressNote,
    Reason,
    Runtime,
    ToolCall,
    ToolCalls,
    ToolFailure,
    tool,
)
from loopwright.examples.patterns import (
    Ask,
    Call,
    Edge,
    Finish,
    Graph,
    State,
    Workflow,
    failed,
    succeeded,
)
from loopwright.examples.patterns.graph import Node
from loopwright.examples.patterns.stories import GRAPH_GOAL, graph_agent
from loopwright.protocol import CallId, calls_of
from loopwright.stores import MemoryStore, SQLiteStore, Store
from loopwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Plant:
    """An agent that goes along a graph, and a list of what ran."""

    def __init__(self, graph: Graph) -> None:
        self.ran: list[str] = []

        @tool(effect="idempotent", effect_key=lambda call: f"do:{call.what}")
        async def do(what: str) -> str:
            self.ran.append(what)
            if what.startswith("bad"):
                raise ToolFailure(f"{what} is broken")
            return f"{what} done"

        self.agent = Agent("plant", model=Workflow(graph), tools=[do])

    async def run(self, store: Store | None = None) -> Outcome:
        async with Runtime([self.agent], store=store or MemoryStore()) as runtime:
            return await runtime.run("plant", "go")


def do(what: str, approval: str = "") -> Call:
    return Call("do", {"what": what}, approval)


def line(first: Node, *edges: Edge, **nodes: Node) -> Graph:
    """Make a graph that begins at `first` and ends at `end`."""
    return Graph({"first": first, "end": Finish("done"), **nodes}, edges, "first")


ON = Edge("first", "end")


# ---------------------------------------------------------------- what can be built
@pytest.mark.parametrize(
    ("nodes", "edges", "start", "problem"),
    [
        ({}, (), "a", "starts at 'a', which is no node of it"),
        ({"a": do("a"), "z": Finish("")}, (Edge("a", "y"),), "a", "no node 'y'"),
        ({"z": Finish("")}, (Edge("a", "z"),), "z", "no node 'a'"),
        (
            {"a": do("a"), "b": do("b"), "z": Finish("")},
            (Edge("a", "z"), Edge("b", "z")),
            "a",
            "never reaches 'b' from 'a'",
        ),
        (
            {"a": do("a"), "b": do("b"), "c": do("c"), "z": Finish("")},
            (Edge("a", "z"), Edge("b", "c"), Edge("c", "b")),
            "a",
            "never reaches 'b' from 'a'",
        ),
        ({"a": do("a")}, (), "a", "no edge from 'a', which does not finish it"),
        ({"a": Ask("?")}, (), "a", "no edge from 'a', which does not finish it"),
        ({"z": Finish("")}, (Edge("z", "z"),), "z", "goes on from 'z', which finishes it"),
    ],
)
def test_a_graph_that_cannot_work_cannot_be_built(
    nodes: Mapping[str, Node], edges: tuple[Edge, ...], start: str, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match="the graph") as refused:
        Graph(nodes, edges, start)
    assert problem in str(refused.value)


def test_a_bound_that_cannot_be_meant_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_visits=0; give at least 1"):
        Graph({"z": Finish("")}, (), "z", max_visits=0)


# ---------------------------------------------------------------- which way it goes
async def test_the_first_open_edge_is_taken() -> None:
    """Conditions rest on committed results; so do arguments and the answer."""

    def is_large(state: State) -> bool:
        return state.last is not None and "large" in str(state.last.output)

    def told(state: State) -> str:
        return f"{state.goal}: {', '.join(str(result.output) for result in state.results.values())}"

    graph = Graph(
        {
            "look": do("large"),
            "cut": Call("do", lambda state: {"what": f"cut {state.results['look'].output}"}),
            "send": do("send"),
            "end": Finish(told),
        },
        (
            Edge("look", "cut", is_large),
            Edge("look", "send"),
            Edge("cut", "end"),
            Edge("send", "end"),
        ),
        "look",
    )
    plant = Plant(graph)
    outcome = await plant.run()
    assert plant.ran == ["large", "cut large done"]
    assert outcome.answer == "go: large done, cut large done done"


async def test_nothing_goes_on_past_a_failure_unless_an_edge_says_so() -> None:
    plant = Plant(line(do("bad"), ON))
    outcome = await plant.run()
    assert outcome.reason is Reason.CANNOT_CONTINUE
    assert (
        outcome.cause == "no_edge: no edge from 'first' is open: its call is error, bad is broken"
    )

    mended = line(do("bad"), ON, Edge("first", "mend", failed), Edge("mend", "end"), mend=do("ok"))
    plant = Plant(mended)
    assert (await plant.run()).completed
    assert plant.ran == ["bad", "ok"]


@pytest.mark.parametrize("max_visits", [1, 2])
async def test_visits_of_a_node_are_bounded(max_visits: int) -> None:
    graph = line(do("bad"), ON, Edge("first", "first", failed))
    plant = Plant(replace(graph, max_visits=max_visits))
    outcome = await plant.run()
    assert outcome.reason is Reason.CANNOT_CONTINUE
    assert outcome.cause is not None
    assert outcome.cause.startswith(f"visit_limit: node 'first' may be visited {max_visits} times")
    assert plant.ran == ["bad"] * max_visits


async def test_each_visit_has_a_call_id_of_its_own() -> None:
    def twice(state: State) -> bool:
        return "again" not in state.results

    graph = Graph(
        {"work": do("a"), "again": do("b"), "end": Finish("done")},
        (Edge("work", "again", twice), Edge("again", "work"), Edge("work", "end")),
        "work",
        max_visits=2,
    )
    outcome = await Plant(graph).run()
    assert outcome.completed
    ids = [c.call_id for turn in outcome.history for c in calls_of(turn.proposal.decision)]
    assert ids == ["work.1", "again.1", "work.2"]


# ---------------------------------------------------------------- people
async def test_an_approval_is_waited_for_and_given_in_another_process(tmp_path: Path) -> None:
    graph = line(do("pay", "it is a lot"), ON)
    path = tmp_path / "store.db"
    outcome = await Plant(graph).run(SQLiteStore(path))
    assert outcome.reason is Reason.APPROVAL_REQUIRED
    assert outcome.proposal is not None
    assert outcome.proposal.asks[0].reason == "it is a lot"
    plant = Plant(graph)
    async with Runtime([plant.agent], store=SQLiteStore(path)) as runtime:
        run = await runtime.approve(outcome.invocation_id, outcome.proposal.digest, by="bo")
        assert (await run.outcome()).completed
    assert plant.ran == ["pay"]


async def test_a_no_is_a_failure_that_an_edge_may_lead_on_from() -> None:
    edges = (ON, Edge("first", "kept", failed))
    plant = Plant(line(do("pay", "it is a lot"), *edges, kept=Finish("not paid")))
    async with Runtime([plant.agent]) as runtime:
        outcome = await runtime.run("plant", "go")
        assert outcome.proposal is not None
        run = await runtime.deny(outcome.invocation_id, outcome.proposal.digest, by="bo")
        outcome = await run.outcome()
    assert (outcome.answer, plant.ran) == ("not paid", [])


@pytest.mark.parametrize(("said", "ran"), [("yes", ["a", "b"]), ("no", ["a"])])
async def test_an_answer_is_committed_and_leads_on_in_another_process(
    tmp_path: Path, said: str, ran: list[str]
) -> None:
    """The way is walked again from the store: what has run is not run again."""
    graph = line(
        do("a"),
        Edge("first", "ask"),
        Edge("ask", "b", lambda state: state.answers["ask"] == "yes"),
        Edge("ask", "end"),
        Edge("b", "end"),
        ask=Ask("Go on?"),
        b=do("b"),
    )
    path, first, second = tmp_path / "store.db", Plant(graph), Plant(graph)
    outcome = await first.run(SQLiteStore(path))
    assert (outcome.reason, outcome.question) == (Reason.CLARIFICATION_REQUIRED, "Go on?")
    async with Runtime([second.agent], store=SQLiteStore(path)) as runtime:
        run = await runtime.answer(outcome.invocation_id, said, by="bo")
        assert (await run.outcome()).answer == "done"
    assert first.ran + second.ran == ran


async def test_what_a_person_does_in_between_is_no_step_of_the_graph() -> None:
    """Whoever takes a step in place of an answer has not answered: it asks again."""
    plant = Plant(line(Ask("Go on?"), ON))
    async with Runtime([plant.agent]) as runtime:
        asked = await runtime.run("plant", "go")
        step = ToolCalls((ToolCall(CallId("first.1"), "do", {"what": "mine"}),))
        run = await runtime.decide(asked.invocation_id, step, by="bo")
        assert (await run.outcome()).reason is Reason.CLARIFICATION_REQUIRED
        run = await runtime.answer(asked.invocation_id, "yes", by="bo")
        assert (await run.outcome()).answer == "done"
    assert plant.ran == ["mine"]


# ---------------------------------------------------------------- what it may rest on
async def test_a_graph_that_was_changed_meanwhile_runs_nothing(tmp_path: Path) -> None:
    """Where it is cannot be told any more, and a wrong guess may pay twice."""
    path = tmp_path / "store.db"
    edges = (Edge("first", "ask"), Edge("ask", "end"))
    outcome = await Plant(line(do("a"), *edges, ask=Ask("Go on?"))).run(SQLiteStore(path))
    changed = Graph(
        {"new": do("b"), "first": do("a"), "ask": Ask("Go on?"), "end": Finish("done")},
        (Edge("new", "first"), *edges),
        "new",
    )
    plant = Plant(changed)
    async with Runtime([plant.agent], store=SQLiteStore(path)) as runtime:
        run = await runtime.answer(outcome.invocation_id, "yes", by="bo")
        outcome = await run.outcome()
    assert outcome.reason is Reason.MODEL_ERROR
    assert "turn 1 is not of node 'new'" in str(outcome.cause)
    assert plant.ran == []


async def test_what_other_agents_did_before_is_not_part_of_the_way() -> None:
    """It begins where the invocation was handed to it."""
    plant = Plant(line(do("a"), ON))
    look = ToolCalls((ToolCall(CallId("first.1"), "do", {"what": "triage"}),))
    hand = Handoff("plant", "it is for the plant", ProgressNote(open=("all",)))
    triage = Agent(
        "triage",
        model=ScriptedModel([look, hand]),
        tools=list(plant.agent.tools.values()),
        handoffs=["plant"],
    )
    async with Runtime([triage, plant.agent]) as runtime:
        outcome = await runtime.run("triage", "go")
    assert (outcome.answer, plant.ran) == ("done", ["triage", "a"])


def test_conditions_before_anything_ran_hold_as_if_it_had_succeeded() -> None:
    """Behind a question there is an answer, and no result."""
    state = State("go", None, {}, {})
    assert succeeded(state)
    assert not failed(state)


async def test_the_story_takes_the_second_carrier() -> None:
    agent = graph_agent()
    async with Runtime([agent]) as runtime:
        outcome = await runtime.run(agent.name, GRAPH_GOAL)
    assert outcome.answer == "sent as steady-0003"
