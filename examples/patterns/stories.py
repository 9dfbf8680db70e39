"""An agent for each pattern. Their models are made of rules: they need no key, and no network."""

from __future__ import annotations

import re

from loopwright import (
    Agent,
    Budget,
    Claim,
    Final,
    Model,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolCalls,
    ToolFailure,
    Usage,
    Verification,
    failed,
    passed,
    tool,
)
from loopwright.protocol import CallId, Decision, to_json

from .graph import Ask, Call, Edge, Finish, Graph, State, Workflow
from .graph import failed as call_failed
from .heartbeat import Beat
from .plan_execute import Plan, PlanAndExecute, Step, Task, record_plan
from .react import ReAct
from .reflexion import Trial, reflexion_agent

ORDERS = {7: "paid", 8: "open"}


@tool(effect="read")
async def order_status(order: int) -> dict[str, str]:
    """Look up an order."""
    if order not in ORDERS:
        raise ToolFailure(f"there is no order {order}")
    return {"state": ORDERS[order]}


# ---------------------------------------------------------------- ReAct
REACT_GOAL = "Is order 7 paid?"
_ACT = 'Thought: I have to look.\nAction: order_status\nAction Input: {"order": 7}'
_COMPLETIONS = (
    f"{_ACT}\nFinal Answer: No.",
    f'{_ACT}\nObservation: {{"state": "open"}}\nThought: It is open.\nFinal Answer: No.',
    "Thought: The shop says so.\nFinal Answer: Yes,\norder 7 is paid.",
)


async def hasty_text(prompt: str) -> str:
    """Act and answer at once; told off, imagine what the tool says; then do better."""
    happened = sum(line.startswith(("Observation:", "Runtime:")) for line in prompt.splitlines())
    return _COMPLETIONS[happened]


def react_agent() -> Agent:
    """Make an agent that looks an order up, in text."""
    return Agent("react", model=ReAct(hasty_text), tools=[order_status])


# ---------------------------------------------------------------- Plan-and-execute
PLAN_GOAL = "Send parcel 3 to the customer."


@tool(effect="idempotent", effect_key=lambda call: f"parcel:{call.parcel}")
async def book(parcel: int, carrier: str) -> str:
    """Book a carrier for a parcel; it deduplicates by the key."""
    if carrier == "swift":
        raise ToolFailure("swift takes no parcels today")
    return f"{carrier}-{parcel:04}"


class Dispatcher:
    """Plans with the fast carrier, until something has failed."""

    async def plan(self, task: Task) -> Plan:
        """Look the order up unless that is done, then book."""
        carrier = "swift" if all(ran.result.ok for ran in task.ran) else "steady"
        looked = any(ran.step.tool == "order_status" and ran.result.ok for ran in task.ran)
        look = () if looked else (Step("order_status", {"order": 7}),)
        return Plan(task.version, (*look, Step("book", {"parcel": 3, "carrier": carrier})))

    async def answer(self, task: Task) -> str:
        """Name the booking."""
        return f"booked as {task.ran[-1].result.output} by plan {task.version}"


def plan_agent(max_replans: int = 2) -> Agent:
    """Make an agent that plans, and plans anew once."""
    model = PlanAndExecute(Dispatcher(), max_replans=max_replans)
    return Agent("planner", model=model, tools=[record_plan, order_status, book])


# ---------------------------------------------------------------- Reflexion
REFLEXION_GOAL = "Write a regular expression for a time such as 09:30."
_TRIES = (r"\d\d:\d\d", r"[012]\d:[0-5]\d", r"([01]\d|2[0-3]):[0-5]\d")


@tool(effect="read")
async def matches(pattern: str, text: str) -> bool:
    """Say whether the whole text matches."""
    return re.fullmatch(pattern, text) is not None


async def is_exact(claim: Claim) -> Verification:
    """Accept what takes times, and nothing else."""
    wanted = {"09:30": True, "23:59": True, "9:30": False, "12:75": False, "29:00": False}
    for text, expected in wanted.items():
        if await matches(claim.answer, text) != expected:
            return failed(f"{text!r} must {'match' if expected else 'not match'}")
    return passed()


async def mend(trial: Trial) -> Decision:
    """Claim; and look at what was found wrong, with the tool, before claiming again."""
    pattern = _TRIES[min(len(_TRIES), trial.number) - 1]
    last = trial.feedback[-1] if trial.feedback else None
    if last is None or last.source == "matches":
        return Final(pattern)
    text = last.said.split("'")[1]
    call = ToolCall(CallId(f"try-{trial.number}"), "matches", {"pattern": pattern, "text": text})
    return ToolCalls((call,))


def regex_agent(attempts: int = 3) -> Agent:
    """Make an agent that gets it right at the third attempt."""
    return reflexion_agent(
        "reflexion",
        mend,
        verifiers=[is_exact],
        attempts=attempts,
        tools=[matches],
        evaluators=["matches"],
    )


# ---------------------------------------------------------------- Graph
GRAPH_GOAL = "Send parcel 3 with swift, or with another carrier."
CARRIERS = ("swift", "steady")


def _next_carrier(state: State) -> str:
    return CARRIERS[1 if "book" in state.results else 0]


def _is_open(state: State) -> bool:
    return state.last is not None and state.last.output == {"state": "open"}


SHIPPING = Graph(
    nodes={
        "look": Call("order_status", {"order": 7}),
        "ask": Ask("Order 7 is not paid. Send it all the same?"),
        "book": Call("book", lambda state: {"parcel": 3, "carrier": _next_carrier(state)}),
        "sent": Finish(lambda state: f"sent as {state.results['book'].output}"),
        "kept": Finish("not sent"),
    },
    edges=(
        Edge("look", "ask", _is_open),
        Edge("look", "book"),
        Edge("ask", "book", lambda state: state.answers["ask"].lower() == "yes"),
        Edge("ask", "kept"),
        Edge("book", "sent"),
        Edge("book", "book", call_failed),
    ),
    start="look",
    max_visits=len(CARRIERS),
)


def graph_agent(graph: Graph = SHIPPING) -> Agent:
    """Make an agent that goes along the graph."""
    return Agent("graph", model=Workflow(graph), tools=[order_status, book])


# ---------------------------------------------------------------- Heartbeat
HEART_GOAL = "Watch order 8 until it is paid."


class Watcher:
    """Looks once in each beat, and asks for another one, twice."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Look, then say what was seen, and whether to look again."""
        if not request.history:
            call = ToolCall(CallId("look"), "order_status", {"order": 8})
            return ModelReply(ToolCalls((call,)), Usage())
        number = request.metadata["beat"] if isinstance(request.metadata, dict) else 1
        beat = Beat(f"looked {number} times", None if number == 3 else 0.001)
        return ModelReply(Final(output=to_json(beat).value), Usage())


def heart_agent(model: Model | None = None) -> Agent:
    """Make an agent that looks at an order."""
    budget = Budget(max_steps=3, max_tool_calls=1)
    return Agent(
        "heart", model=model or Watcher(), tools=[order_status], output=Beat, budget=budget
    )
