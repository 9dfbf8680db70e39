"""Tools of a server as tools of an agent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from loopwright.actors import AnyTool, Tool, ToolContext, ToolOptions
from loopwright.protocol import (
    ConfigurationError,
    Effect,
    JsonObject,
    JsonValue,
    RemoteProtocolError,
    bounded,
    check_json,
)

from ._effects import effect_of
from ._listing import Offer
from ._names import tool_name
from ._schema import SchemaArguments

Run: TypeAlias = Callable[[Offer, Effect, JsonObject, ToolContext], Awaitable[JsonValue]]
"""Runs a tool at its server."""

LONGEST_DESCRIPTION: Final = 4_000
"""Characters of a description that a model is told; it is the server's, and may be any text."""

logger = logging.getLogger("loopwright.mcp")


def tools_of(
    server: str,
    offers: Mapping[str, Offer],
    effects: Mapping[str, Effect],
    run: Run,
    *,
    trust_hints: bool,
    timeout: float | None,
) -> dict[str, AnyTool]:
    """Make the tools of a server, by its own names for them.

    One whose schema cannot be applied is left out, with a line in the log: nobody could say
    whether a call of it is right.

    Raises:
        ConfigurationError: If an effect is declared of a tool that is not there.
    """
    made: dict[str, AnyTool] = {}
    for name, offer in offers.items():
        try:
            arguments = _arguments_of(offer)
        except (ValueError, RemoteProtocolError) as error:
            shown = bounded(str(error).partition("\n")[0], 300)
            text = "Tool %r of MCP server %r is left out: its schema cannot be applied (%s)"
            logger.warning(text, bounded(name), server, shown)
            continue
        effect = effect_of(offer.tool, effects, trust_hints=trust_hints)
        options = ToolOptions(
            name=tool_name(server, name),
            effect=effect,
            description=_description_of(offer),
            timeout=timeout,
        )
        made[name] = Tool(_body(run, offer, effect), options, arguments)
    missing = ", ".join(repr(name) for name in effects if name not in made)
    if missing:
        known = bounded(", ".join(made) or "none", 500)
        msg = f"effects= of MCP server {server!r} names {missing}; usable tools of it are: {known}"
        raise ConfigurationError(msg)
    return made


def _body(run: Run, offer: Offer, effect: Effect) -> Callable[..., Awaitable[JsonValue]]:
    async def body(arguments: JsonObject, context: ToolContext) -> JsonValue:
        return await run(offer, effect, arguments, context)

    return body


def _arguments_of(offer: Offer) -> SchemaArguments:
    check_json(offer.schema, where="schema")
    if offer.schema.get("type") != "object":
        raise ValueError("it is not the schema of an object")
    return SchemaArguments(offer.schema, offer.version)


def _description_of(offer: Offer) -> str:
    text = offer.tool.description or offer.tool.title or ""
    return text if len(text) <= LONGEST_DESCRIPTION else f"{text[:LONGEST_DESCRIPTION]}…"
