"""What callers pass is looked at before it is durable: nothing is kept that cannot be read back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from math import inf, nan
from typing import Any, TypeAlias

import pytest

from loopwright import (
    Agent,
    Budget,
    ConfigurationError,
    LoopwrightError,
    Outcome,
    Policy,
    Principal,
    Reason,
    Reconciled,
    Runtime,
    applied,
    rejected,
    tool,
    unknown,
)
from loopwright.policy import tool_named
from loopwright.protocol import InvocationStateError, RemoteProtocolError
from loopwright.testing import ScriptedModel, Step

pytestmark = pytest.mark.anyio

Act: TypeAlias = Callable[[Runtime, Outcome], Awaitable[object]]


@tool(effect="manual")
async def pay(order: int) -> str:
    """Pay, over a line that goes dead."""
    raise ConnectionError("the line went dead")


@tool(effect="read")
async def look(order: int = 1) -> str:
    """Look."""
    await asyncio.sleep(0)
    return "seen"


def call(name: str) -> dict[str, object]:
    batch = [{"call_id": "a", "tool_name": name, "arguments": {"order": 1}}]
    return {"kind": "tool_calls", "calls": batch}


DONE = {"kind": "final", "answer": "done"}
ASKED: dict[str, object] = {"kind": "clarification", "question": "Which one?"}


def runtime(*steps: Step, **policy: Any) -> Runtime:
    agent = Agent("desk", model=ScriptedModel(steps), tools=[pay, look], policy=Policy(**policy))
    return Runtime([agent])


def deep(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


async def refuses(waiting: Runtime, wrong: Act, right: Act, match: str) -> None:
    """What is wrong changes nothing: it still waits, and goes on once it hears what is right."""
    async with waiting as entered:
        before = await entered.run("desk", "Pay order 1")
        with pytest.raises(LoopwrightError, match=match) as refused:
            await wrong(entered, before)
        assert isinstance(refused.value, RemoteProtocolError | ConfigurationError)
        assert await entered.outcome(before.invocation_id) == before
        await right(entered, before)
        after = await entered.outcome(before.invocation_id)
        assert after.reason is Reason.COMPLETED
        assert (await entered.state(before.invocation_id)).protocol.status == "ended"


RECONCILED: Any = Reconciled
REJECTED: Any = rejected
UNKNOWN: Any = unknown
SETTLEMENTS: list[Any] = [
    ("applied", {}, r"^found: must be applied\(…\), .* not a value of type str$"),
    (None, {}, "^found: must be .* not None$"),
    (applied, {}, "^found: must be .* not a value of type function$"),
    (RECONCILED("bogus"), {}, "^found.finding: must be one of applied, .* not 'bogus'$"),
    (REJECTED(None), {}, "^found.reason: must be a text, not None$"),
    (UNKNOWN(5), {}, "^found.reason: must be a text"),
    (RECONCILED("applied", Decimal(1)), {}, "^found.receipt: a Decimal is not JSON"),
    (RECONCILED("applied", nan), {}, "^found.receipt: nan is not a JSON number"),
    (RECONCILED("applied", deep(80)), {}, "^found.receipt: nested deeper than 64"),
    (applied(), {"by": None}, "^by: must be a text, not None$"),
    (applied(), {"by": " "}, "a settlement needs a name"),
    (applied(), {"call_id": 5}, "^call_id: must be a text"),
    (applied(), {"turn": "1"}, "^turn: must be a number that counts from 1, not '1'$"),
    (applied(), {"turn": 0}, "^turn: must be a number that counts from 1, not 0$"),
]


@pytest.mark.parametrize(("found", "more", "match"), SETTLEMENTS)
async def test_a_settlement_that_says_nothing_is_refused(
    found: Any, more: dict[str, Any], match: str
) -> None:
    await refuses(
        runtime(call("pay"), DONE),
        lambda r, o: settle(r, o, found, **more),
        lambda r, o: settle(r, o, applied("r-1")),
        match,
    )


def settle(runtime: Runtime, waiting: Outcome, found: Any, **more: Any) -> Awaitable[object]:
    given: dict[str, Any] = {"call_id": "a", "by": "bo", **more}
    return runtime.settle(waiting.invocation_id, found=found, **given)


async def test_a_settlement_of_another_turn_says_which() -> None:
    async with runtime(call("pay"), DONE) as entered:
        waiting = (await entered.run("desk", "Pay order 1")).invocation_id
        with pytest.raises(InvocationStateError, match="unknown in turn 99; look at its effects"):
            await entered.settle(waiting, "a", applied(), by="bo", turn=99)


APPROVALS: list[Any] = [
    ({"by": None}, "^by: must be a text, not None$"),
    ({"by": ""}, "an approval needs a name"),
    ({"calls": "a"}, "^calls: must list call ids; leave it out for all that wait$"),
    ({"calls": []}, "^calls: must list call ids"),
    ({"calls": [5]}, "^calls: must be a text"),
    ({"edits": "a"}, "^edits: must be a mapping of call ids to arguments, not a value of"),
    ({"edits": [("a", {})]}, "^edits: must be a mapping"),
    ({"edits": {"a": None}}, "^edits.a: must be a JSON object, not None$"),
    ({"edits": {"a": '{"order": 2}'}}, "^edits.a: must be a JSON object, not a value of type"),
    ({"edits": {"a": {"order": nan}}}, "^edits.a: arguments.order: nan is not a JSON number"),
    ({"edits": {"a": deep(5_000)}}, "^edits.a: arguments: nested deeper than 64 levels"),
    (
        {"edits": {"a": {"zz": 2}}},
        "^edits.a: zz: Unexpected keyword argument; give all arguments of the call, which still waits$",
    ),
    ({"edits": {"a": {}}, "calls": ["b"]}, "edits.a: edits a call that is not approved"),
]


@pytest.mark.parametrize(("more", "match"), APPROVALS)
async def test_an_approval_that_says_nothing_is_refused(more: dict[str, Any], match: str) -> None:
    def yes(r: Runtime, o: Outcome, **more: Any) -> Awaitable[object]:
        assert o.proposal is not None
        given: dict[str, Any] = {"by": "bo", **more}
        return r.approve(o.invocation_id, o.proposal.digest, **given)

    asking = runtime(call("look"), DONE, ask=[tool_named("look")])
    await refuses(asking, lambda r, o: yes(r, o, **more), yes, match)


WORDS: list[Any] = [
    ("deny", {"digest": "x", "by": "bo", "reason": None}, "^reason: must be a text, not None$"),
    ("answer", {"text": None, "by": "bo"}, "^text: must be a text, not None$"),
    ("answer", {"text": "red", "by": None}, "^by: must be a text, not None$"),
    ("answer", {"text": "red", "by": " "}, "an answer needs a name"),
    ("cancel", {"reason": None}, "^reason: must be a text, not None$"),
    ("cancel", {"by": ""}, "a cancel needs a name"),
]


@pytest.mark.parametrize(("method", "given", "match"), WORDS)
async def test_what_else_people_say_has_its_type_and_a_name(
    method: str, given: dict[str, Any], match: str
) -> None:
    await refuses(
        runtime(ASKED, DONE),
        lambda r, o: getattr(r, method)(o.invocation_id, **given),
        lambda r, o: r.answer(o.invocation_id, "red", by="bo"),
        match,
    )


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"grant": 5}, "^grant: must be a Budget, not a value of type int$"),
        ({"by": None}, "^by: must be a text, not None$"),
        ({"by": ""}, "a resume needs a name"),
    ],
)
async def test_a_resume_has_its_types_and_a_name(more: dict[str, Any], match: str) -> None:
    await refuses(
        runtime(call("pay"), DONE),
        lambda r, o: r.resume(o.invocation_id, **more),
        lambda r, o: r.settle(o.invocation_id, "a", applied(), by="bo"),
        match,
    )


async def test_a_handle_cancels_with_a_reason_that_is_one() -> None:
    async with runtime(DONE) as entered:
        run = await entered.start("desk", "Wait")
        with pytest.raises(RemoteProtocolError, match=r"^reason: must be a text, not None$"):
            run.cancel(None)  # type: ignore[arg-type]
        assert (await run.outcome()).completed


ANY_NUMBER: Any = 5
ANY_TEXT: Any = "admin"
STARTS: list[Any] = [
    ({"goal": None}, "^goal: must be a text, not None$"),
    ({"principal": "ana"}, "^principal: must be a Principal, not a value of type str$"),
    ({"principal": Principal(ANY_NUMBER)}, "^principal.actor: must be a text"),
    ({"principal": Principal(roles=ANY_TEXT)}, "^principal.roles: must be a tuple of texts"),
    ({"budget": 5}, "^budget: must be a Budget, not a value of type int$"),
    ({"key": 5}, "^key: must be a text, not a value of type int$"),
]


@pytest.mark.parametrize(("more", "match"), STARTS)
async def test_nothing_starts_that_could_not_be_read_back(more: dict[str, Any], match: str) -> None:
    given: dict[str, Any] = {"goal": "Look", **more}
    async with runtime(DONE) as entered:
        with pytest.raises(RemoteProtocolError, match=match):
            await entered.start("desk", **given)
        assert await entered.invocations() == []


@pytest.mark.parametrize("steps", ["5", 1.5, nan, -1])
def test_a_budget_counts_in_whole_numbers(steps: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^Budget.max_steps is .*; give a number"):
        Budget(max_steps=steps)


@pytest.mark.parametrize("limit", [nan, inf, "1", None, -1])
def test_a_policy_has_limits_that_can_be_meant(limit: Any) -> None:
    for name in ("max_repairs", "max_attempts", "cancel_grace", "approval_grace"):
        with pytest.raises(ConfigurationError, match=rf"^Policy.{name} is .*; give "):
            Policy(**{name: limit})


@pytest.mark.parametrize("ttl", [0, -1, 0.001, nan, inf, "5", None])
def test_a_lease_lasts_as_long_as_a_worker_can_keep_it(ttl: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"lease_ttl=.*; give at least 0.1 seconds"):
        Runtime([], lease_ttl=ttl)


async def test_a_status_that_there_is_not_is_no_empty_list() -> None:
    async with runtime(DONE) as entered:
        nonsense: Any = ["nonsense"]
        with pytest.raises(RemoteProtocolError, match=r"^statuses: must be one of prepared, "):
            await entered.effects(statuses=nonsense)
        one: Any = "committed"
        with pytest.raises(RemoteProtocolError, match=r"^statuses: must be a list of statuses"):
            await entered.effects(statuses=one)
        with pytest.raises(RemoteProtocolError, match=r"^status: must be one of running, "):
            await entered.invocations(status=nonsense[0])
