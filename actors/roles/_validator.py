"""The Validator: trusted code between what a model proposes and what may run."""

from __future__ import annotations

from loopwright.protocol import Validate, Validated

from ..definitions._agent import Agent
from ..kernel import Request
from ._judge import Judge
from ._service import Service, answer


class Validator(Service[Validate]):
    """One per agent; answers at once."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._judge = Judge(agent)

    def serve(self, request: Request[Validate]) -> None:
        """Judge a decision."""
        order = request.message
        answer(request.reply_to, Validated(order.turn, self._judge.judge(order)))
