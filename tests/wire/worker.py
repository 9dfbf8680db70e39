"""A worker whose model is a provider on loopback: `python worker.py PROVIDER URL STORE COMMAND`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from loopwright import Agent, Model, Runtime, tool
from loopwright.adapters import AnthropicModel, OpenAIChatModel, OpenAIResponsesModel
from loopwright.stores import SQLiteStore

LEASE_TTL = 0.6
"""Seconds: short, for whoever takes over waits it out."""
MODELS: dict[str, Callable[[str], Model]] = {
    "chat": lambda url: OpenAIChatModel("m", base_url=f"{url}/v1", stream=False),
    "responses": lambda url: OpenAIResponsesModel("m", base_url=f"{url}/v1", stream=False),
    "anthropic": lambda url: AnthropicModel("m", base_url=url, stream=False),
}


@tool(effect="read")
async def look(place: str) -> dict[str, str]:
    """Look somewhere."""
    return {"place": place, "there": "a cat"}


async def work(provider: str, url: str, store: str, command: str) -> None:
    """Begin an invocation, or go on with what a dead worker has left; say how it ended."""
    desk = Agent("desk", model=MODELS[provider](url), instructions="Look.", tools=[look])
    async with Runtime([desk], store=SQLiteStore(store), lease_ttl=LEASE_TTL) as runtime:
        if command == "begin":
            outcome = await runtime.run("desk", "Is anybody there?")
        else:
            while not (recovered := await runtime.recover()):  # noqa: ASYNC110 - until it is free
                await asyncio.sleep(0.05)
            outcome = await recovered.runs[0].outcome()
    print(outcome.reason, outcome.answer)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
