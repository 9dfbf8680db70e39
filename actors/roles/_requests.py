"""What a model is asked: the committed turns that fit, and how much it may say."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from loopwright.policy import CHARS_PER_TOKEN, first_shown
from loopwright.protocol import (
    Allowance,
    Decide,
    History,
    ModelRequest,
    Price,
    ToolSpec,
    dumps,
)

from ..definitions._agent import Agent
from ..definitions._models import Endpoint

_MILLION: Final = Decimal(1_000_000)
ENOUGH: Final = 50_000
"""Tokens that no decision takes: whether a reply may have still more need not be known."""


class Requests:
    """Makes the requests of one agent.

    Args:
        agent: Whose instructions, tools and policy.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._context = agent.policy.context
        tools = [tool for tool in agent.tools.values() if tool.finishing]
        self._tools: dict[str, tuple[ToolSpec, ...]] = {
            "all": agent.specs,
            "finishing": tuple(tool.spec for tool in tools),
            "none": (),
        }
        self._fixed = len(agent.instructions) + len(dumps(agent.specs))
        if agent.output_schema is not None:
            self._fixed += len(dumps(agent.output_schema))
        """Characters of what each request has."""

    def build(self, order: Decide, endpoint: Endpoint) -> ModelRequest:
        """Make what one model is asked; its name says its price, its window how much it can take."""
        history, summary = self._shown(order, endpoint.context_window)
        agent = self._agent
        return ModelRequest(
            order.invocation_id,
            order.turn,
            agent.name,
            agent.instructions,
            order.goal,
            history,
            self._tools[order.allowance.tools],
            order.principal,
            order.notice,
            order.metadata,
            summary,
            self._output_limit(order, history, summary, endpoint),
            agent.handoffs,
            agent.output_schema,
        )

    def input_tokens(self, request: ModelRequest) -> int:
        """Estimate how many tokens a request has; never 0."""
        size = self._fixed + len(request.goal) + len(request.notice or "") + len(request.summary)
        return _tokens(size + sum(turn.chars for turn in request.history))

    def _shown(self, order: Decide, window: int | None) -> tuple[History, str]:
        """Choose the turns that fit, and say what stands for the others."""
        limit = self._context.max_result_chars
        room, start = self._history_room(order, window), order.summarized
        if room is not None and room < order.context_chars:
            # Only now does it pay to look at sizes: that takes time for each turn shown.
            start += first_shown(order.history.view(start, limit=limit), room)
        return order.history.view(start, limit=limit), _left_out(order, start)

    def _history_room(self, order: Decide, window: int | None) -> int | None:
        """Compute how many characters the history may have; `None` if there is no limit."""
        room = self._context.max_tokens
        if room is not None:
            room *= CHARS_PER_TOKEN
        if window is not None:
            # A quarter is for the reply, and for estimates that are too low.
            left = window * 3 // 4 * CHARS_PER_TOKEN - self._beside(order, order.summary)
            room = left if room is None else min(room, left)
        return room

    def _output_limit(
        self, order: Decide, history: History, summary: str, endpoint: Endpoint
    ) -> int | None:
        """Compute what the reply may cost, in tokens; `None` where the budget sets no limit."""
        allowance, window, price = order.allowance, endpoint.context_window, None
        if allowance.cost is not None:
            price = _price(order.prices, endpoint.name)
        if allowance.tokens is None and price is None:
            return None
        beside = self._beside(order, summary)
        # What is shown is a part of all that is committed: there is at least this much left.
        left = _left(allowance, price, window, _tokens(beside + order.context_chars))
        if left is not None and left < ENOUGH:
            sent = _tokens(beside + sum(turn.chars for turn in history))
            left = _left(allowance, price, window, sent)
        return left if left is None else max(1, left)

    def _beside(self, order: Decide, summary: str) -> int:
        """Count the characters of everything but the history."""
        return self._fixed + len(order.goal) + len(order.notice or "") + len(summary)


def _left_out(order: Decide, start: int) -> str:
    """Say what stands for the first `start` turns."""
    left_out = start - order.summarized if order.summary else start
    if not left_out:
        return order.summary
    turns, are = ("turn", "is") if left_out == 1 else ("turns", "are")
    if not order.summary:
        return f"{left_out} earlier {turns} {are} not shown."
    return f"{order.summary}\n\n({left_out} {turns} after that {are} not shown.)"


def _left(allowance: Allowance, price: Price | None, window: int | None, sent: int) -> int | None:
    """Compute how many tokens a reply may have once these are sent.

    `None` if the budget sets no limit: then the model's own holds.
    """
    left = None if allowance.tokens is None else allowance.tokens - sent
    if allowance.cost is not None and price is not None and price.output_mtok:
        # Nothing of it counts as cached: that is known only afterwards.
        money = allowance.cost - price.highest_input_mtok * sent / _MILLION
        paid = int(money * _MILLION / price.output_mtok)
        left = paid if left is None else min(left, paid)
    return left if left is None or window is None else min(left, window - sent)


def _price(prices: tuple[Price, ...], model: str) -> Price | None:
    for price in prices:
        if price.model == model:
            return price
    return None


def _tokens(chars: int) -> int:
    return chars // CHARS_PER_TOKEN + 1
