"""A worker that is killed while its provider thinks: whoever goes on sends the same request again."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import pytest
from wire import claude, gpt, worker
from wire.loopback import Answer, Heard, loopback

pytestmark = pytest.mark.anyio

CALL = ("c1", "look", '{"place": "here"}')
THOUGHT: gpt.JSON = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


def _chat() -> list[Any]:
    first = gpt.CHAT.body(None, CALL)
    first["choices"][0]["message"]["reasoning_content"] = "hm"
    return [first, gpt.CHAT.body("a cat")]


def _responses() -> list[Any]:
    first = gpt.RESPONSES.body(None, CALL)
    first["output"].insert(0, THOUGHT)
    return [first, gpt.RESPONSES.body("a cat")]


def _anthropic() -> list[Any]:
    call = claude.use("c1", "look", {"place": "here"})
    first = claude.message(SIGNED, call, stop="tool_use")
    return [first, claude.message(claude.text("a cat"))]


REPLIES = {"chat": _chat, "responses": _responses, "anthropic": _anthropic}
SEEN_AGAIN = {"chat": "reasoning_content", "responses": "gAAA", "anthropic": "c2ln"}


async def started(provider: str, url: str, store: Path, command: str) -> Process:
    path = Path(worker.__file__)
    arguments = [str(path), provider, url, str(store), command]
    environment = {**os.environ, "PYTHONPATH": str(path.parents[1])}
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=PIPE, env=environment
    )


@pytest.mark.parametrize("provider", REPLIES)
async def test_who_goes_on_asks_what_was_asked_before_the_crash(
    provider: str, tmp_path: Path
) -> None:
    """What the model wants to see again is there as well: it was durable with its turn."""
    first, last = REPLIES[provider]()
    thinking = asyncio.Event()

    def says(heard: Heard) -> Answer:
        match len(server.requests):
            case 1:
                return Answer(first)
            case 2:
                thinking.set()
                return Answer(hang=True)
            case _:
                return Answer(last)

    async with loopback(says) as server:
        begun = await started(provider, server.url, tmp_path / "a.db", "begin")
        await thinking.wait()
        begun.kill()
        await begun.communicate()
        goes_on = await started(provider, server.url, tmp_path / "a.db", "recover")
        told, _ = await goes_on.communicate()
    assert told.decode().split() == ["completed", "a", "cat"]
    _, before, after = server.requests
    assert after.body == before.body
    assert SEEN_AGAIN[provider] in str(after.body)
