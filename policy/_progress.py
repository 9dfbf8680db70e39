"""Is the loop getting anywhere? Deterministic signals over plans and results.

The one signal so far is the repeated plan: the same batch (names and canonical arguments,
order-free) proposed again. By default it only counts while the results repeat as well, so
that polling something that changes is always progress.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from loopwright.protocol import AnyCall, Stalled, ToolCall, ToolResult, canonical, dumps


@dataclass(frozen=True, slots=True)
class Progress:
    """When repeating oneself is being stuck."""

    max_repeats: int = 3
    """How often the same batch may run with the same results; the next one doesn't start."""
    results_must_repeat: bool = True

    @classmethod
    def exact(cls, max_repeated_plan: int = 1) -> Progress:
        """Count the same batch alone, whatever it returned: the seed's reference controller."""
        return cls(max_repeats=max_repeated_plan, results_must_repeat=False)


DEFAULT_PROGRESS = Progress()


class Streak(NamedTuple):
    """How often the last batch ran in a row, and with what results."""

    fingerprint: bytes = b""
    results: tuple[ToolResult, ...] = ()
    runs: int = 0
    said: bytes | None = None
    """Digest of what the results say, once somebody had to know."""

    def assess(self, fingerprint: bytes, rule: Progress) -> Stalled | None:
        """Judge a batch before it runs."""
        if fingerprint != self.fingerprint or self.runs < rule.max_repeats:
            return None
        what = "with the same results" if rule.results_must_repeat else "in a row"
        return Stalled("repeated_plan", f"the same batch ran {self.runs} times {what}")

    def observe(
        self, fingerprint: bytes, results: tuple[ToolResult, ...], rule: Progress
    ) -> Streak:
        """Take in a batch that has run, and what it returned."""
        if fingerprint != self.fingerprint:
            return Streak(fingerprint, results, 1)
        if not rule.results_must_repeat:
            return Streak(fingerprint, results, self.runs + 1)
        now = said(results)
        before = said(self.results) if self.said is None else self.said
        return Streak(fingerprint, results, self.runs + 1 if now == before else 1, now)


def said(results: Iterable[ToolResult]) -> bytes:
    """Digest what a batch returned, in any order and without call ids, so that it is comparable."""
    texts = sorted(
        [
            dumps(
                [r.tool_name, r.status, r.output, r.error and [r.error.category, r.error.message]]
            )
            for r in results
        ]
    )
    return hashlib.sha256(b"\n".join(texts)).digest()


def plan_fingerprint(calls: Iterable[AnyCall]) -> bytes:
    """Make bytes that are equal for batches of the same names and arguments, in any order."""
    return b"\n".join(
        sorted(
            call.tool_name.encode()
            + b"\0"
            + (canonical(call.arguments) if isinstance(call, ToolCall) else call.raw.encode())
            for call in calls
        )
    )
