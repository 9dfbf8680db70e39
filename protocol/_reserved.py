"""Decision kinds as tools: how a model that can only speak and call says everything else.

A provider knows texts and calls. What else a model may decide is offered to it as calls of these
names, which no tool may have; an adapter turns them back into the decision they stand for.
"""

from __future__ import annotations

from typing import Final as Constant
from typing import Literal, TypeAlias, get_args

from ._effects import Effect
from ._json import JsonObject
from ._model import ModelRequest, ToolSpec

ReservedName: TypeAlias = Literal[
    "ask_user", "cannot_continue", "request_approval", "hand_over", "final_answer"
]

RESERVED_TOOLS: Constant[frozenset[str]] = frozenset(get_args(ReservedName))
"""Names that stand for decisions; a tool of an agent must have another one."""

_TEXT: Constant[JsonObject] = {"type": "string"}
_TEXTS: Constant[JsonObject] = {"type": "array", "items": {"type": "string"}}


def reserved_tools(request: ModelRequest, *, final_answer: bool = False) -> tuple[ToolSpec, ...]:
    """Say which decisions a model may make beside calls and answers, as tools.

    Args:
        request: What it is asked: who may be handed over to, and which tools there are.
        final_answer: Whether the final answer is such a call as well, for models whose texts
            cannot be held to a schema.
    """
    found = [
        _spec(
            "ask_user",
            "Ask the user one question that the task cannot go on without. The task waits for the "
            "answer. Call nothing else in the same reply.",
            question=_TEXT,
        ),
        _spec(
            "cannot_continue",
            "Give the task up because it cannot be done. `code` is one short word for machines, "
            "such as not_found; `reason` is for people. Call nothing else in the same reply.",
            code=_TEXT,
            reason=_TEXT,
        ),
    ]
    if request.tools:
        about = (
            "Have a person look at the other calls of this reply before any of them runs. Call it "
            "in the same reply as those calls, and say why a person should look."
        )
        found.append(_spec("request_approval", about, reason=_TEXT))
    if request.handoffs:
        about = (
            "Hand the task over to another agent, who goes on with it from here. `done` and `open` "
            "list what is done and what is left; `evidence` lists ids of earlier calls that show it. "
            "Other calls of the same reply are finished before."
        )
        target: JsonObject = {"type": "string", "enum": list(request.handoffs)}
        parts = {"target": target, "reason": _TEXT, "done": _TEXTS, "open": _TEXTS}
        found.append(_spec("hand_over", about, **parts, evidence=_TEXTS))
    if final_answer:
        about = "Give the final answer, once the task is done. Call nothing else in the same reply."
        found.append(ToolSpec("final_answer", about, final_schema(request), Effect.READ))
    return tuple(found)


def final_schema(request: ModelRequest) -> JsonObject:
    """Make the JSON Schema of a final answer: a text for people, and the agent's output."""
    output = dict(request.output_schema or {})
    schema: JsonObject = {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    if request.output_schema is not None:
        # References are to the root, wherever they are.
        definitions = output.pop("$defs", None)
        schema["properties"] = {"answer": {"type": "string"}, "output": output}
        schema["required"] = ["answer", "output"]
        if definitions is not None:
            schema["$defs"] = definitions
    return schema


def _spec(name: ReservedName, description: str, **properties: JsonObject) -> ToolSpec:
    schema: JsonObject = {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
    return ToolSpec(name, description, schema, Effect.READ)
