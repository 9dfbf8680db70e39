"""The ProgressTracker: one per live invocation, rebuilt from the journal."""

from __future__ import annotations

import hashlib

from loopwright.policy import Progress, Streak
from loopwright.protocol import (
    Assess,
    Assessed,
    Observe,
    Observed,
    ToolResult,
    dumps,
)

from ._service import Service, answer
from .kernel import Request


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
        digest = results_digest(order.results)
        self._streak = self._streak.observe(order.fingerprint, digest, self._rule)
        answer(request.reply_to, Observed(order.turn))


def results_digest(results: tuple[ToolResult, ...]) -> bytes:
    """Digest what a batch returned: statuses, outputs and error kinds, call ids left out."""
    said = sorted(
        dumps([r.tool_name, r.status, r.output, r.error and [r.error.category, r.error.message]])
        for r in results
    )
    return hashlib.sha256(b"\n".join(said)).digest()
