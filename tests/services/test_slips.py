"""Slips of the hand are refused where they are made, in one sentence that says what was meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loopwright import Agent, ConfigurationError, Policy, Runtime, SyncRuntime, tool
from loopwright.adapters import MCPServer, OpenAIChatModel
from loopwright.testing import ScriptedModel

MODEL = ScriptedModel([])
DESK = Agent("desk", model=MODEL)


@tool(effect="read")
def look() -> str:
    """Look."""
    return ""


def bare() -> None:
    """Be decorated without parentheses."""


SLIPS: dict[str, tuple[Callable[[Any], object], Any, str]] = {
    "an agent for a list": (Runtime, DESK, r"<Agent desk 1 tools=none>; give a list of agents"),
    "a name for a list": (Runtime, "desk", "agents='desk'; give a list of agents"),
    "a name in the list": (Runtime, [DESK, "b"], "give a list of agents"),
    "nothing": (Runtime, None, "agents=None; give a list of agents"),
    "one twice": (Runtime, [DESK, DESK], "two agents named 'desk'; give one another name"),
    "agents for a runtime": (SyncRuntime, [DESK], "wants a Runtime, not a list; give Runtime"),
    "a class for a model": (
        lambda model: Agent("a", model=model),
        ScriptedModel,
        r"ScriptedModel is a class and no model; give an object of it: ScriptedModel\(…\)",
    ),
    "a tool for a list": (
        lambda tools: Agent("a", model=MODEL, tools=tools),
        look,
        "tools= is the tool 'look'; give a list of tools",
    ),
    "a schema for a type": (
        lambda output: Agent("a", model=MODEL, output=output),
        {"type": "object"},
        "its output type has no JSON schema",
    ),
    "a tool for a rule": (
        lambda rule: Policy(ask=[rule]),
        look,
        r"give tool_named\('look'\) for its calls",
    ),
    "no parentheses": (tool, bare, r"'bare' has no effect class; decorate it with @tool\(effect=…"),
    "a text for arguments": (
        lambda args: MCPServer.stdio("clock", "mcp-server-time", args=args),
        "--local-timezone UTC",
        "'clock' has args= as one text; give a list of texts",
    ),
    "no scheme": (
        lambda url: OpenAIChatModel("m", base_url=url),
        "127.0.0.1:8000/v1",
        "begin it with http:// or https://",
    ),
}


@pytest.mark.parametrize(("make", "given", "told"), SLIPS.values(), ids=SLIPS)
def test_a_slip_is_refused_where_it_is_made(
    make: Callable[[Any], object], given: Any, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make(given)
