"""What a server offers: read to its end, within bounds, and pinned."""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from mcp import Client
from mcp_types import Tool

from loopwright.protocol import JsonObject, JsonValue, RemoteProtocolError, bounded, digest

MOST_TOOLS: Final = 1_000
MOST_PAGES: Final = 100
"""A server whose pages come to no end, or again and again, is refused after so many."""

_PINNED: Final = ("name", "title", "description", "input_schema", "output_schema", "annotations")
"""Beside these there are icons, and a `_meta` that may differ each time it is asked for."""


class Offer(NamedTuple):
    """One tool as the server has listed it."""

    tool: Tool
    version: str
    """Digest of what a call of it rests on: with any change of that, an approval is void."""

    @property
    def schema(self) -> JsonObject:
        """The schema of its arguments, which may be anything."""
        return cast("JsonObject", self.tool.input_schema)


async def offers_of(client: Client, server: str) -> dict[str, Offer]:
    """Read which tools a server has, by its own names for them.

    Raises:
        RemoteProtocolError: If it names one twice, has too many, or comes to no end.
    """
    if client.server_capabilities.tools is None:
        return {}
    found: dict[str, Offer] = {}
    cursor: str | None = None
    where = f"the tools of MCP server {server!r}"
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            if tool.name in found:
                raise RemoteProtocolError(where, f"two are named {bounded(tool.name)!r}")
            found[tool.name] = Offer(tool, _version(tool))
        if len(found) > MOST_TOOLS:
            raise RemoteProtocolError(where, f"there are more than {MOST_TOOLS}")
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise RemoteProtocolError(where, f"they come on more than {MOST_PAGES} pages")


def _version(tool: Tool) -> str:
    dumped = tool.model_dump(mode="json", by_alias=True, exclude_none=True, include=set(_PINNED))
    said = cast("JsonValue", dumped)
    return digest(said)[:16]
