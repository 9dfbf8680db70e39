"""Casebook D: arguments are read once, strictly, and what was read is what runs."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from wire.gpt import CHAT, RESPONSES, Api, answer
from wire.gpt import call as raw_call
from wire.gpt import play as ask
from wire.loopback import loopback

from casebook.desk import agent, batch, call, play
from loopwright import Agent, ConfigurationError, Final, Policy, Reason, Runtime, ToolCalls, tool
from loopwright.policy import Access, writes
from loopwright.protocol import JsonObject, ToolCall
from loopwright.stores import MemoryStore, SQLiteStore, Store
from loopwright.testing import ScriptedModel, Step, VirtualClock

pytestmark = pytest.mark.anyio


def as_recorded(decision: object) -> list[ToolCall]:
    """The calls of a stored decision that were read as calls."""
    assert isinstance(decision, ToolCalls)
    return [c for c in decision.calls if isinstance(c, ToolCall)]


async def test_b20_no_arguments_are_an_empty_object() -> None:
    """B20: each way of saying "no arguments" runs a tool without any, and never one that has some."""
    got: list[str] = []

    @tool(effect="read")
    async def ping() -> str:
        got.append("ping")
        return "pong"

    @tool(effect="read")
    async def find(q: str) -> None:
        got.append(q)

    pings = [
        call("1", "ping", ""),
        call("2", "ping", "   "),
        call("3", "ping", None),
        call("4", "ping", "{}"),
        call("5", "ping"),
    ]
    played = await play([batch(*pings), batch(call("6", "find", "")), Final("done")], ping, find)

    assert got == ["ping"] * 5
    assert played.statuses == ["ok"] * 5 + ["invalid_arguments"]
    refused = played.results[5]
    assert refused.error is not None
    assert "q" in refused.error.message
    recorded = as_recorded(played.outcome.history[0].proposal.decision)
    assert [c.arguments for c in recorded] == [{}] * 5
    assert [bool(c.normalized) for c in recorded] == [True, True, True, False, True]


async def test_b21_only_an_object_is_arguments() -> None:
    """B21: other JSON is refused, never read as "no arguments"."""
    ran: Counter[str] = Counter()

    @tool(effect="manual")
    async def purge(filter: str | None = None) -> None:
        ran["purge"] += 1

    texts = ["[]", "5", '"text"', "true"]
    played = await play(
        [batch(*(call(text, "purge", text) for text in texts)), Final("done")], purge
    )

    assert played.statuses == ["invalid_arguments"] * 4
    assert not ran


async def test_b22_one_level_of_double_encoding_is_undone() -> None:
    """B22: one object is what policy judges, the approver sees, the journal keeps and the tool gets."""
    judged: list[JsonObject] = []
    got: list[object] = []

    def ask(access: Access) -> bool:
        judged.append(access.arguments)
        return True

    @tool(effect="manual")
    async def keep(n: int) -> None:
        got.append({"n": n})

    @tool(effect="manual")
    async def write(note: str) -> None:
        got.append({"note": note})

    wanted: list[JsonObject] = [{"n": 2}, {"note": '{"n":2}'}]
    model = ScriptedModel(
        [
            batch(
                call("1", "keep", json.dumps('{"n":2}')),
                call("2", "write", '{"note":"{\\"n\\":2}"}'),
            ),
            Final("done"),
        ]
    )
    desk = agent(model, keep, write, policy=Policy(ask=[ask]))
    async with Runtime([desk], clock=VirtualClock()) as runtime:
        asked = await runtime.run("desk", "the goal")
        assert asked.proposal is not None
        assert [one.arguments for one in asked.proposal.asks] == wanted
        run = await runtime.approve(asked.invocation_id, asked.proposal.digest, by="bo")
        outcome = await run.outcome()

    assert outcome.completed
    assert got == wanted
    assert judged == wanted * 2, "judged when proposed, and again after the approval"
    recorded = as_recorded(outcome.history[0].proposal.decision)
    assert [c.arguments for c in recorded] == wanted
    assert [bool(c.normalized) for c in recorded] == [True, False]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", [CHAT, RESPONSES], ids=lambda api: api.name)
async def test_b24_openai_nothing_of_a_truncated_reply_runs(api: Api, stream: bool) -> None:
    """B24: also where its arguments are whole; only arguments that are not are those of one call."""
    ran: list[str] = []

    @tool(effect="manual")
    async def write(path: str, text: str = "") -> None:
        ran.append(path)

    @tool(effect="read")
    async def look(path: str) -> None:
        ran.append(f"look {path}")

    half, whole = '{"path":"a.txt","text":"hel', '{"path":"a.txt"}'
    script = [
        api.body(None, raw_call("1", "write", half), stop=api.cut_off),
        api.body(
            None,
            raw_call("2", "write", whole),
            raw_call("3", "look", '{"path":"b.txt"}'),
            stop=api.cut_off,
        ),
        api.body("done"),
    ]
    async with loopback([answer(api, body, stream=stream) for body in script]) as server:
        outcome = await ask(api.model(server, stream=stream), write, look)
        told = api.results(server.requests[2].body)
    assert outcome.completed
    assert not ran
    assert [id for id, _ in told] == ["1", "2", "3"]
    assert all(f"cut off ({api.cut_off})" in text and "shorter" in text for _, text in told)

    unterminated = [api.body(None, raw_call("4", "write", half)), api.body("done")]
    async with loopback([answer(api, body, stream=stream) for body in unterminated]) as server:
        outcome = await ask(api.model(server, stream=stream), write)
    assert outcome.completed
    assert [r.status.value for r in outcome.history[0].results] == ["invalid_arguments"]
    assert not ran


@pytest.mark.parametrize("api", [CHAT, RESPONSES], ids=lambda api: api.name)
async def test_b24_openai_three_truncated_replies_in_a_row_are_the_end(api: Api) -> None:
    """B24: a reply that does not fit will not fit the next time either."""

    @tool(effect="manual")
    async def write(path: str) -> None:
        raise AssertionError("it ran")

    body = api.body(None, raw_call("1", "write", '{"path":"a.txt"}'), stop=api.cut_off)
    async with loopback(lambda _: answer(api, body, stream=True)) as server:
        outcome = await ask(api.model(server), write)
        assert len(server.requests) == 3
    assert outcome.reason is Reason.INVALID_DECISION


@pytest.mark.parametrize("number", [float, Decimal])
async def test_b25_what_is_no_number_meets_no_policy(number: type) -> None:
    """B25: NaN, infinity and overflow are refused before a limit could be compared with them."""
    judged: list[Access] = []

    def at_most_100(access: Access) -> bool:
        judged.append(access)
        return float(str(access.arguments["amount"])) > 100

    async def pay(amount: float | Decimal) -> None:
        raise AssertionError("it ran")

    pay.__annotations__["amount"] = number
    texts = ['{"amount":NaN}', '{"amount":Infinity}', '{"amount":1e999}', '{"amount":"NaN"}']
    played = await play(
        [batch(*(call(text, "pay", text) for text in texts)), Final("done")],
        tool(effect="manual")(pay),
        policy=Policy(deny=[at_most_100]),
    )

    assert played.statuses == ["invalid_arguments"] * 4
    assert not judged


@pytest.mark.parametrize("text", ['{"subject":"refund 10"', None, "null", "[]"])
async def test_b26_an_approval_rule_never_sees_invented_arguments(text: str | None) -> None:
    """B26: what cannot be parsed is refused; a rule on arguments is not asked about `{}`."""
    judged: list[JsonObject] = []

    def mentions_refund(access: Access) -> bool:
        judged.append(access.arguments)
        return "refund" in str(access.arguments.get("subject"))

    @tool(effect="manual")
    async def mail(subject: str) -> None:
        raise AssertionError("it ran")

    played = await play(
        [batch(call("1", "mail", text)), Final("done")],
        mail,
        policy=Policy(ask=[mentions_refund]),
    )

    assert played.outcome.reason is Reason.COMPLETED
    assert played.statuses == ["invalid_arguments"]
    assert not judged


@pytest.mark.parametrize("where", ["memory", "sqlite"])
async def test_b28_integers_keep_every_digit(where: str, tmp_path: Path) -> None:
    """B28: from the model to the tool and back from any store; what is absurd is refused."""
    got: list[int] = []

    @tool(effect="read")
    async def look(id: int) -> int:
        got.append(id)
        return id

    texts = [
        '{"id":1234567890123456789}',
        '{"id":"9007199254740993"}',
        f'{{"id":{"9" * 5_000}}}',
    ]
    store: Store = MemoryStore() if where == "memory" else SQLiteStore(tmp_path / "agents.db")
    model = ScriptedModel([batch(*(call(t[:40], "look", t) for t in texts)), Final("done")])
    async with Runtime([agent(model, look)], store=store) as runtime:
        outcome = await runtime.run("desk", "the goal")
        reloaded = (await runtime.state(outcome.invocation_id)).history()

    assert outcome.completed
    assert got == [1234567890123456789, 9007199254740993]
    for history in (outcome.history, reloaded):
        results = history[0].results
        assert [r.status.value for r in results] == ["ok", "ok", "invalid_arguments"]
        assert [r.output for r in results[:2]] == got
        recorded = as_recorded(history[0].proposal.decision)
        assert recorded[0].arguments == {"id": 1234567890123456789}


async def test_b30_raw_control_characters_are_read_as_meant() -> None:
    """B30: a raw TAB or newline in a string is that character, and marked; siblings don't care."""
    got: list[str] = []

    @tool(effect="read")
    async def keep(t: str) -> None:
        got.append(t)

    played = await play(
        [
            batch(call("1", "keep", '{"t":"a\tb\nc"}'), call("2", "keep", '{"t":"plain"}')),
            Final("done"),
        ],
        keep,
    )

    assert played.statuses == ["ok", "ok"]
    assert got == ["a\tb\nc", "plain"]
    recorded = as_recorded(played.outcome.history[0].proposal.decision)
    assert [bool(c.normalized) for c in recorded] == [True, False]


async def test_b33_an_unknown_tool_is_told_and_bounded() -> None:
    """B33: the model is told which tools there are; three such turns in a row are the end."""
    ran: Counter[str] = Counter()

    @tool(effect="read")
    async def get_date() -> str:
        ran["get_date"] += 1
        return "2026-07-28"

    repaired = await play(
        [batch(call("1", "get_dat")), batch(call("2", "get_date")), Final("done")], get_date
    )
    assert repaired.outcome.reason is Reason.COMPLETED
    assert (repaired.model.calls, ran["get_date"]) == (3, 1)
    assert repaired.statuses == ["unknown_tool", "ok"]
    told = repaired.results[0].error
    assert told is not None
    assert "get_date" in told.message

    endless = await play([batch(call("1", "get_dat"))] * 10, get_date)
    assert endless.outcome.reason is Reason.INVALID_DECISION
    assert endless.model.calls == 3


async def test_b35_tools_of_one_name_are_refused_or_stay_apart() -> None:
    """B35: never a silent overwrite: not in one agent, and not between two."""
    ran: Counter[str] = Counter()

    @tool(effect="manual", name="send")
    async def send_1() -> None:
        ran["s1"] += 1

    @tool(effect="manual", name="send")
    async def send_2() -> None:
        ran["s2"] += 1

    @tool(effect="read", name="read-file")
    async def dashed() -> None:
        ran["read-file"] += 1

    @tool(effect="read", name="read_file")
    async def underlined() -> None:
        ran["read_file"] += 1

    idle = ScriptedModel([])
    with pytest.raises(ConfigurationError, match="two tools named 'send'"):
        agent(idle, send_1, send_2)

    steps: list[Step] = [batch(call("1", "send")), batch(call("2", "read_file")), Final("done")]
    desks = [
        Agent("one", model=idle, tools=[send_1]),
        Agent("two", model=ScriptedModel(steps), tools=[send_2, dashed, underlined]),
    ]
    async with Runtime(desks, clock=VirtualClock()) as runtime:
        assert (await runtime.run("two", "the goal")).completed
    assert ran == {"s2": 1, "read_file": 1}


async def test_b22_b26_an_approved_batch_is_the_one_that_was_shown() -> None:
    """B22: defaults and coercion are applied before a human looks, not after."""
    got: list[object] = []

    @tool(effect="manual")
    async def transfer(amount: Decimal, currency: str = "EUR") -> None:
        got.append((amount, currency))

    model = ScriptedModel([batch(call("1", "transfer", '{"amount": 7}')), Final("done")])
    desk = agent(model, transfer, policy=Policy(ask=[writes()]))
    async with Runtime([desk], clock=VirtualClock()) as runtime:
        asked = await runtime.run("desk", "the goal")
        assert asked.proposal is not None
        assert asked.proposal.asks[0].arguments == {"amount": "7", "currency": "EUR"}
        run = await runtime.approve(asked.invocation_id, asked.proposal.digest, by="bo")
        assert (await run.outcome()).completed
    assert got == [(Decimal(7), "EUR")]
