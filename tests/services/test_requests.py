"""Requests: what a model is asked fits its window and its budget, and costs little to make."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright import Agent, Policy, tool
from loopwright.actors.definitions._models import Endpoint
from loopwright.actors.roles._requests import ENOUGH, Requests
from loopwright.policy import Context
from loopwright.protocol import (
    Allowance,
    CallId,
    Decide,
    History,
    ModelRequest,
    Price,
    Proposal,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolResult,
    Turn,
    TurnCommitted,
    Usage,
    encode_record,
)
from loopwright.testing import ScriptedModel
from services.bench import decide

MODEL = ScriptedModel([])


@tool(effect="read")
def look() -> None:
    """Look."""


@tool(effect="read", finishing=True)
def submit() -> None:
    """Submit."""


def made(*, window: int | None = None, max_tokens: int | None = None, **options: Any) -> Asked:
    """Make what asks a model with this window."""
    policy = Policy(context=Context(max_tokens=max_tokens))
    agent = Agent("desk", model=MODEL, tools=[look, submit], policy=policy, **options)
    return Asked(Requests(agent), Endpoint("m", MODEL, window))


class Asked:
    """Requests of one agent to one endpoint."""

    def __init__(self, requests: Requests, endpoint: Endpoint) -> None:
        self.requests = requests
        self.endpoint = endpoint

    def __call__(self, order: Decide) -> ModelRequest:
        return self.requests.build(order, self.endpoint)


def turns(*sizes: int) -> list[Turn]:
    """Commit turns with results of these sizes."""
    call_id = CallId("c")
    proposal = Proposal(ToolCalls((ToolCall(call_id, "look", {}),)), Usage(1, 1))
    records = [
        TurnCommitted(
            number,
            proposal,
            (ToolResult(call_id, "look", ResultStatus.OK, "x" * size),),
            1,
            0.0,
            0.0,
        )
        for number, size in enumerate(sizes, 1)
    ]
    return [Turn(record.turn, encode_record(record)) for record in records]


def order(*sizes: int, **fields: Any) -> Decide:
    """Ask for a decision after turns with results of these sizes."""
    committed = turns(*sizes)
    chars = len("the goal") + sum(turn.chars for turn in committed)
    asked = decide(len(sizes) + 1, context_chars=chars)
    return asked._replace(history=History(committed), **fields)


def numbers(request: ModelRequest) -> list[int]:
    """Say which turns are shown."""
    return [turn.number for turn in request.history]


# ------------------------------------------------------------ the history
def test_everything_is_shown_where_nothing_limits_it() -> None:
    """The committed turns themselves, of which none is looked at."""
    asked = order(10, 10, 10)
    request = made()(asked)

    assert request.history == asked.history
    assert all(a is b for a, b in zip(request.history, asked.history, strict=True))
    assert (request.summary, request.max_output_tokens, request.handoffs) == ("", None, ())
    assert request.tools == (look.spec, submit.spec)


def test_making_a_request_looks_at_no_turn_where_all_of_them_fit() -> None:
    """It takes the same time at the thousandth turn as at the first."""

    class Unread(list[Turn]):
        def __getitem__(self, index: Any) -> Any:
            raise AssertionError(index)

        def __iter__(self) -> Any:
            raise AssertionError

    allowance = Allowance(tokens=10**6, cost=Decimal(100))
    asked = order(allowance=allowance, prices=(Price("m", Decimal(1), Decimal(2)),))
    asked = asked._replace(history=History(Unread(turns(1) * 1_000)), context_chars=200_000)
    request = made(window=200_000, max_tokens=60_000)(asked)

    assert len(request.history) == 1_000
    assert request.max_output_tokens is not None


def test_what_does_not_fit_is_left_out_and_said_to_be() -> None:
    """The newest turns are shown, and a line says how many are not."""
    request = made(max_tokens=500)(order(*[800] * 13))

    assert numbers(request) == [13]
    assert request.summary == "12 earlier turns are not shown."
    assert made(max_tokens=500)(order(800, 800)).summary == "1 earlier turn is not shown."


def test_a_summary_stands_for_the_turns_it_is_of() -> None:
    """They are not shown; and what has to be left out beyond it is said."""
    summarized = order(800, 800, 800, 800, summary="They looked.", summarized=2)

    request = made(max_tokens=1_000)(summarized)
    assert (numbers(request), request.summary) == ([3, 4], "They looked.")
    request = made(max_tokens=500)(summarized)
    assert numbers(request) == [4]
    assert request.summary == "They looked.\n\n(1 turn after that is not shown.)"


def test_turns_without_their_summary_are_said_to_be_left_out() -> None:
    """As where no summary could be made."""
    request = made()(order(1, 1, 1, summarized=2))
    assert (numbers(request), request.summary) == ([3], "2 earlier turns are not shown.")


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=9), st.integers(300, 4_000))
def test_a_request_leaves_room_in_the_window_for_a_reply(sizes: list[int], window: int) -> None:
    """Unless the last turn alone is too large."""
    asked = made(window=window)
    request = asked(order(*sizes, allowance=Allowance(tokens=10**6)))
    sent = asked.requests.input_tokens(request)

    assert sent <= window * 3 // 4 + 10 or len(request.history) == 1
    assert numbers(request) == list(range(len(sizes) + 1 - len(request.history), len(sizes) + 1))
    assert request.max_output_tokens == max(1, window - sent)


# ------------------------------------------------------------ what it may say
@given(st.lists(st.integers(0, 30_000), max_size=5), st.integers(0, 2 * ENOUGH))
def test_a_reply_never_exceeds_the_tokens_that_are_left(sizes: list[int], tokens: int) -> None:
    """What is sent is taken off; there is always one, for the budget to be the one that ends it."""
    asked = made(instructions="Be brief. " * 20)
    request = asked(order(*sizes, allowance=Allowance(tokens=tokens)))
    left = tokens - asked.requests.input_tokens(request)

    limit = request.max_output_tokens
    assert limit is not None
    assert 1 <= limit <= max(1, left)
    assert limit == max(1, left) or limit >= ENOUGH


def test_a_huge_result_does_not_use_up_what_is_left() -> None:
    """Only what is shown of it is sent."""
    request = made()(order(5_000_000, allowance=Allowance(tokens=20_000)))
    assert request.max_output_tokens is not None
    assert request.max_output_tokens > 10_000


def test_a_reply_never_costs_more_than_is_left() -> None:
    """Where the price of this model is known."""
    asked = made()
    prices = (Price("other", Decimal(99), Decimal(99)), Price("m", Decimal(2), Decimal(10)))
    limited = order(4_000, allowance=Allowance(cost=Decimal("0.05")), prices=prices)
    request = asked(limited)
    sent = asked.requests.input_tokens(request)

    limit = request.max_output_tokens
    assert limit is not None
    assert (
        prices[1].cost(Usage(sent, limit))
        <= Decimal("0.05")
        < prices[1].cost(Usage(sent, limit + 1))
    )
    both = limited._replace(allowance=Allowance(tokens=sent + 7, cost=Decimal("0.05")))
    assert asked(both).max_output_tokens == 7
    assert asked(both._replace(allowance=Allowance(cost=Decimal(0)))).max_output_tokens == 1
    assert asked(limited._replace(prices=prices[:1])).max_output_tokens is None
    free = (Price("m", Decimal(0), Decimal(0)),)
    assert asked(limited._replace(prices=free)).max_output_tokens is None


@pytest.mark.parametrize(
    ("access", "specs"),
    [("all", (look.spec, submit.spec)), ("finishing", (submit.spec,)), ("none", ())],
)
def test_towards_the_end_only_some_tools_are_offered(access: Any, specs: object) -> None:
    """Those that finish, and at last none."""
    assert made()(order(allowance=Allowance(tools=access))).tools == specs


def test_an_estimate_counts_all_that_is_sent() -> None:
    """Instructions, tools, goal, notice, summary and turns; four characters a token, never 0."""
    asked = made()
    before = asked.requests.input_tokens(asked(order()))
    assert before > 0
    much = made(instructions="i" * 400)
    request = much(order(400, notice="n" * 400, summary="s" * 400, goal="g" * 408))
    turn = request.history[0].chars
    assert much.requests.input_tokens(request) - before == pytest.approx(400 + turn / 4, abs=1)
