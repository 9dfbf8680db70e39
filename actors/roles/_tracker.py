"""The ProgressTracker: one per live invocation, rebuilt from the journal."""

from __future__ import annotations

from loopwright.policy import Tracking
from loopwright.protocol import Assess, Assessed, Observe, Observed

from ..kernel import Request
from ._service import Service, answer


class ProgressTracker(Service[Assess | Observe]):
    """Judges batches before they run and takes in what they returned.

    Args:
        tracking: What the journal says of the last turns; this actor's own from now on.
    """

    def __init__(self, tracking: Tracking) -> None:
        super().__init__()
        self._tracking = tracking

    def serve(self, request: Request[Assess | Observe]) -> None:
        """Judge a batch, or take one in."""
        order = request.message
        if isinstance(order, Assess):
            stalled = self._tracking.assess(order.calls)
            answer(request.reply_to, Assessed(order.turn, stalled))
            return
        stalled, nudge = self._tracking.observe(order.committed)
        answer(request.reply_to, Observed(order.turn, stalled, nudge))
