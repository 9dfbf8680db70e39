"""The refund desk on two providers' wire formats leaves the journal it leaves on its rule model."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from wire import claude, gpt
from wire.desk import chat, messages
from wire.loopback import Answer, Heard, loopback, sse

from loopwright import Model, Reason, Runtime
from loopwright.adapters import AnthropicModel, OpenAIChatModel
from loopwright.examples.refund_desk import NAME, make_agent
from loopwright.examples.refund_desk.shop import DATA, Shop, build
from loopwright.protocol import (
    CallCompleted,
    JsonObject,
    JsonValue,
    Record,
    TurnProposed,
    decode_record,
    encode_record,
    loads,
)

pytestmark = pytest.mark.anyio

with (DATA / "expected.csv").open(encoding="utf-8", newline="") as file:
    REQUESTS = [row["request_id"] for row in csv.DictReader(file)]
GOALS = [
    *(f"Settle refund request {name}" for name in (*REQUESTS, "REQ-99")),
    "The customer is angry",
]


def openai(url: str, *, stream: bool) -> Model:
    return OpenAIChatModel("rules", base_url=f"{url}/v1", stream=stream, timeout=30.0)


def anthropic(url: str, *, stream: bool) -> Model:
    return AnthropicModel("rules", base_url=url, api_key="k", stream=stream, timeout=30.0)


def openai_says(heard: Heard, *, stream: bool) -> Answer:
    return gpt.answer(gpt.CHAT, chat(heard.body), stream=stream)


def anthropic_says(heard: Heard, *, stream: bool) -> Answer:
    body = messages(heard.body)
    return Answer(sse(*claude.events(body), names=True) if stream else body)


PROVIDERS = {"openai": (openai, openai_says), "anthropic": (anthropic, anthropic_says)}


def told(record: Record) -> JsonObject:
    """Write a record without what differs between two runs: ids, times, usage, where it ran."""
    fields = loads(encode_record(record))
    assert isinstance(fields, dict)
    return cast("JsonObject", _without(fields))


_OWN = (
    *("invocation_id", "at", "active_seconds", "usage", "model", "response_id", "stop_reason"),
    *("context_digest", "cost", "worker", "digest", "claim", "key", "effects"),
)


def _by_chance(record: Record) -> bool:
    """Whether it is written only where a turn takes some milliseconds; its turn holds it all."""
    return isinstance(record, TurnProposed | CallCompleted)


def _without(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _without(part) for name, part in value.items() if name not in _OWN}
    return [_without(part) for part in value] if isinstance(value, list) else value


async def journals(shop: Path, model: Model | None) -> list[list[JsonObject]]:
    """Settle every request, with a person who says yes, no, and which one was meant."""
    build(shop)
    found: list[list[JsonObject]] = []
    async with Runtime([make_agent(shop, model)]) as runtime:
        for number, goal in enumerate(GOALS):
            outcome = await runtime.run(NAME, goal)
            if outcome.reason is Reason.CLARIFICATION_REQUIRED:
                run = await runtime.answer(outcome.invocation_id, "It is REQ-03", by="bo")
                outcome = await run.outcome()
            if outcome.proposal is not None:
                answer = runtime.approve if number % 2 else runtime.deny
                run = await answer(outcome.invocation_id, outcome.proposal.digest, by="ana")
                outcome = await run.outcome()
            stored = await runtime.store.load(outcome.invocation_id)
            records = [decode_record(line) for line in stored.lines]
            found.append([told(record) for record in records if not _by_chance(record)])
    return found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_journal_is_that_of_the_rule_model(
    provider: str, stream: bool, tmp_path: Path
) -> None:
    model, says = PROVIDERS[provider]
    expected = await journals(tmp_path / "rules.db", None)
    async with loopback(partial(says, stream=stream)) as server:
        found = await journals(tmp_path / "wire.db", model(server.url, stream=stream))
    for goal, ours, theirs in zip(GOALS, found, expected, strict=True):
        assert ours == theirs, goal
    paid = [
        [(p.effect_key, p.amount) for p in Shop(tmp_path / name).ledger()]
        for name in ("wire.db", "rules.db")
    ]
    assert paid[0] == paid[1]
    assert paid[0]
