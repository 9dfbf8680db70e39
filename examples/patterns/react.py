"""ReAct over text: a model that only completes text thinks, acts and observes, one step at a time.

The text is a proposal like any other. One step is read from it, strictly, or none: what is not
exactly one step becomes a fault, of which nothing runs and which the model may repair. What a
tool or the runtime says goes into the prompt as JSON on one line, so that nothing in it can look
like a step; and it is never parsed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from itertools import dropwhile
from typing import TypeAlias

from loopwright import Final, ModelReply, ModelRequest, ToolCall, ToolCalls
from loopwright.protocol import (
    Decision,
    JsonValue,
    Malformed,
    ToolResult,
    Turn,
    calls_of,
    dumps,
    parse_call,
    raw_text,
)

TextModel: TypeAlias = Callable[[str], Awaitable[str]]
"""Completes a prompt."""

STOP = "\nObservation:"
"""For text models that can be told where to stop, which saves what would be cut."""

_FORMAT = """
Reply with exactly one step, in one of these two forms:

Thought: what you think
Action: the name of one tool
Action Input: its arguments, one JSON object

Thought: what you think
Final Answer: the answer

Then stop. Observations come from the tools; never write one yourself.
""".strip()

_LABEL = re.compile(r"^(Thought|Action Input|Action|Observation|Final Answer):", re.MULTILINE)


class ReAct:
    """Makes a model of a function that completes text.

    Args:
        complete: Completes a prompt; it keeps nothing between two calls.
        name: By which its price and its breaker are found.
    """

    def __init__(self, complete: TextModel, *, name: str = "react") -> None:
        self._complete = complete
        self.name = name

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Have the transcript completed, and read one step from it."""
        text = await self._complete(prompt_of(request))
        return ModelReply(parse_step(text, request.turn), model=self.name)


def parse_step(text: str, turn: int) -> Decision | Malformed:
    """Read one step from a completion; a label counts at the start of a line, in its exact form.

    Behind an action, a model that was not stopped goes on with what it imagines its tools to say,
    and with what it makes of that: it is cut from its first `Observation:` on.

    Args:
        text: The completion.
        turn: The turn it is for, which names its call.
    """
    before, *parts = _LABEL.split(text.strip())
    labels, texts = parts[::2], [part.strip() for part in parts[1::2]]
    step = list(dropwhile(lambda label: label == "Thought", labels))
    first = len(labels) - len(step)
    match step:
        case ["Final Answer"]:
            return Final(texts[first])
        case ["Action", "Action Input"] | ["Action", "Action Input", "Observation", *_]:
            call = parse_call(f"step-{turn}", texts[first], texts[first + 1])
            thoughts = (before.strip(), *texts[:first])
            return ToolCalls((call,), "\n".join(filter(None, thoughts)))
        case _:
            return Malformed(_problem(step), raw_text(text))


def _problem(step: list[str]) -> str:
    match step:
        case []:
            return "it is no step: it has neither an Action nor a Final Answer; give one of them"
        case ["Observation", *_]:
            what = "an Observation, which only a tool can make"
        case ["Action"] | ["Action", "Observation", *_]:
            what = "an Action without its Action Input, which is {} for no arguments"
        case _ if "Final Answer" in step:
            what = "a Final Answer beside something else"
        case _:
            what = "more or less than an Action with its Action Input"
    found = ", ".join(step)
    return f"it is not one step but {what} (found: {found}); inside a text no line may begin so"


def prompt_of(request: ModelRequest) -> str:
    """Write the prompt: instructions, tools, the form of a step, the goal, and what has happened."""
    tools = [f"- {t.name}: {t.description} Arguments: {_json(t.parameters)}" for t in request.tools]
    parts = [
        request.instructions,
        "\n".join(["Tools:", *tools]) if tools else "There are no tools.",
        _FORMAT,
        f"Question: {request.goal}",
        f"Before: {_json(request.summary)}" if request.summary else "",
        *("\n".join(_told(turn)) for turn in request.history),
        f"Runtime: {_json(request.notice)}" if request.notice else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _told(turn: Turn) -> Iterator[str]:
    """Tell a committed turn in the form the model is to go on in."""
    record = turn.record
    decision, fault = record.proposal.decision, record.fault
    if isinstance(decision, ToolCalls) and decision.commentary:
        yield f"Thought: {decision.commentary}"
    if isinstance(decision, Final):
        yield f"Final Answer: {decision.answer}"
    for call, result in zip(calls_of(decision), turn.results, strict=True):
        given = _json(call.arguments) if isinstance(call, ToolCall) else call.raw
        yield f"Action: {call.tool_name}\nAction Input: {given}"
        yield f"Observation: {_observed(result)}"
    if fault is not None and fault.level != "call":  # what is wrong with a call, its result says
        yield f"Runtime: {_json(f'your reply does not count: {fault.problem}')}"
    if turn.answer is not None:
        yield f"User: {_json(turn.answer)}"


def _observed(result: ToolResult) -> str:
    error = None if result.error is None else result.error.message
    what = {"output": result.output} if result.ok else {"error": error}
    return _json({"status": result.status.value, **what})


def _json(value: JsonValue) -> str:
    return dumps(value).decode()
