"""The ProgressTracker: one per live invocation, rebuilt from the journal."""

from __future__ import annotations

from loopwright.policy import Progress, Streak
from loopwright.protocol import (
    Assess,
    Assessed,
    Observe,
    Observed,
)

from ..kernel import Request
from ._service import Service, answer


class ProgressTracker(Service[Assess | Observe]):
    """Judges batches before they run and takes in what they returned.

    Args:
        rule: When repeating oneself is being stuck.
        streak: What the journal says of the last turns.
    """

    def __init__(self, rule: Progress, streak: Streak) -> None:
        super().__init__()
        self._rule = rule
        self._streak = streak

    def serve(self, request: Request[Assess | Observe]) -> None:
        """Judge a batch, or take one in."""
        order = request.message
        if isinstance(order, Assess):
            verdict = self._streak.assess(order.fingerprint, self._rule)
            answer(request.reply_to, Assessed(order.turn, verdict))
            return
        self._streak = self._streak.observe(order.fingerprint, order.results, self._rule)
        answer(request.reply_to, Observed(order.turn))
