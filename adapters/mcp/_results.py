"""What a server's tool returned, as the value a call has, or as the failure it is."""

from __future__ import annotations

from typing import cast

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from loopwright.actors import ToolFailure
from loopwright.protocol import JsonObject, JsonValue, dumps


def output_of(result: CallToolResult | InputRequiredResult) -> JsonValue:
    """Return what a call has come to.

    Structured content where there is some; else the text, if there is one and nothing beside it;
    else a list of blocks. Binary content is told by its type and size: what a model could not
    read would only fill its context.

    Raises:
        ToolFailure: If the server says that it has failed, or wants something to be put in.
    """
    if isinstance(result, InputRequiredResult):
        msg = (
            "the server wants further input for this call, which nobody here gives; it was not done"
        )
        raise ToolFailure(msg)
    if result.is_error:
        raise ToolFailure(_text_of(result) or "the server says that it failed, and not why")
    if result.structured_content is not None:
        return cast("JsonValue", result.structured_content)
    match result.content:
        case []:
            return ""
        case [TextContent(text=text)]:
            return text
        case blocks:
            return [_block(block) for block in blocks]


def _text_of(result: CallToolResult) -> str:
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if not texts and result.structured_content is not None:
        return dumps(cast("JsonValue", result.structured_content)).decode()
    return "\n".join(texts)


def _block(block: ContentBlock) -> JsonObject:
    match block:
        case TextContent(text=text):
            return {"type": "text", "text": text}
        case ImageContent() | AudioContent():
            return {"type": block.type, "mime_type": block.mime_type, "bytes": _size(block.data)}
        case ResourceLink():
            return {
                "type": "resource_link",
                "uri": block.uri,
                "name": block.name,
                "mime_type": block.mime_type,
            }
        case EmbeddedResource(resource=resource):
            told: JsonObject = {
                "type": "resource",
                "uri": resource.uri,
                "mime_type": resource.mime_type,
            }
            if isinstance(resource, TextResourceContents):
                return {**told, "text": resource.text}
            return {**told, "bytes": _size(resource.blob)}


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")
