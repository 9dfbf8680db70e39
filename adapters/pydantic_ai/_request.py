"""What a model is asked, as messages and parameters of `pydantic-ai`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequestPart,
    SystemPromptPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import ModelRequest as Message
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from loopwright.protocol import JsonValue, ModelRequest, ToolSpec, reserved_tools

from ..conversation import Replied, Returned, Said, WireResult, conversation
from ._replay import response_of


def messages(request: ModelRequest, by: str) -> list[ModelMessage]:
    """Write the conversation.

    Args:
        request: What the model is asked.
        by: Who is asked.
    """
    found: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    if request.instructions:
        parts.append(SystemPromptPart(request.instructions))
    for entry in conversation(request, final_calls=_final_calls(request)):
        match entry:
            case Said(text):
                parts.append(UserPromptPart(text))
            case Returned(results):
                parts += map(_returned, results)
            case Replied():
                found += [Message(parts)] if parts else []
                found.append(response_of(entry, by))
                parts = []
    return [*found, Message(parts)] if parts else found


def parameters(request: ModelRequest) -> ModelRequestParameters:
    """Say what it may call.

    An answer with an output is a call of `final_answer`, which every provider that knows tools
    can be held to; one without is a text.
    """
    calls = _final_calls(request)
    offered = [*request.tools, *reserved_tools(request, final_answer=calls)]
    tools = [_tool(tool) for tool in offered if tool.name != "final_answer"]
    if not calls:
        return ModelRequestParameters(function_tools=tools)
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="tool",
        output_tools=[_tool(tool) for tool in offered if tool.name == "final_answer"],
        allow_text_output=False,
    )


def settings(
    request: ModelRequest,
    timeout: float,
    options: Mapping[str, JsonValue],
    ignored: frozenset[str],
) -> ModelSettings:
    """Say how it is asked.

    Args:
        request: What the model is asked.
        timeout: Seconds the request may take.
        options: Settings of the user, which win; `None` takes one out.
        ignored: Settings of our own that this model does not know, and would warn about.
    """
    # Retries are the runtime's.
    own: dict[str, JsonValue] = {"timeout": timeout, "max_retries": 0}
    if request.max_output_tokens is not None:
        own["max_tokens"] = request.max_output_tokens
    known = {name: value for name, value in own.items() if name not in ignored}
    merged = {name: value for name, value in {**known, **options}.items() if value is not None}
    return cast("ModelSettings", merged)


def _final_calls(request: ModelRequest) -> bool:
    return request.output_schema is not None


def _tool(tool: ToolSpec) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        parameters_json_schema=tool.parameters,
        description=tool.description,
    )


def _returned(result: WireResult) -> ToolReturnPart:
    return ToolReturnPart(
        result.name,
        result.text,
        result.id,
        outcome="failed" if result.failed else "success",
    )
