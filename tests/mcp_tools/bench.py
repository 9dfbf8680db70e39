"""What these tests share: the stub as a server, what it has heard, and runs against it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from casebook.desk import Played

from loopwright import Agent, Policy, Runtime, ToolContext
from loopwright.actors import AnyTool, Clock, TraceEvent
from loopwright.adapters import MCPServer
from loopwright.policy import Retry
from loopwright.testing import ScriptedModel, Step

STUB = Path(__file__).with_name("stub.py")
ONCE = Policy(tool_retry=Retry(max_attempts=1))
CONTEXT = ToolContext("i", 1, "c", "c#1", 1, None, None)  # type: ignore[arg-type]  # ids are texts
PATIENCE = 20.0
"""Seconds until a test gives up that waits for what has to come."""

Message = dict[str, Any]


@dataclass
class Stub:
    """The stub, and what it was told.

    Args:
        log: Where it writes down what it gets.
        setup: See `stub.Stub`.
    """

    log: Path
    setup: Message = field(default_factory=dict[str, Any])

    def server(self, name: str = "stub", **options: Any) -> MCPServer:
        """Name it as a server."""
        args = [str(STUB), str(self.log), json.dumps(self.setup)]
        return MCPServer.stdio(name, sys.executable, args=args, **options)

    def heard(self, method: str) -> list[Message]:
        """What it got with that method, in order."""
        if not self.log.exists():
            return []
        # The last line may be half written.
        lines = self.log.read_text().split("\n")[:-1]
        messages: list[Message] = [json.loads(line) for line in lines]
        return [message for message in messages if message.get("method") == method]

    def calls(self, tool: str) -> list[Message]:
        """The calls of a tool that it got, in order."""
        return [m for m in self.heard("tools/call") if m["params"]["name"] == tool]


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so that no event of this process tells."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.005)


async def run(
    steps: Iterable[Step],
    tools: Iterable[AnyTool],
    *,
    policy: Policy = ONCE,
    clock: Clock | None = None,
    events: list[TraceEvent] | None = None,
) -> Played:
    """Run one invocation to its rest, in real time unless there is a clock."""
    model = ScriptedModel(steps)
    desk = Agent("desk", model=model, tools=list(tools), policy=policy)
    observers = [] if events is None else [events.append]
    async with Runtime([desk], clock=clock, observers=observers) as runtime:
        return Played(await runtime.run("desk", "the goal"), model)


def held() -> list[str]:
    """Return the connections that something is left of."""
    return [name for task in asyncio.all_tasks() if (name := task.get_name()).startswith("mcp ")]


def reads(*names: str) -> Mapping[str, str]:
    """Declare some tools as reads."""
    return dict.fromkeys(names, "read")
