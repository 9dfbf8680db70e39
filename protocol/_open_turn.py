"""A turn that has begun: what is durable of it before its one `TurnCommitted`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from ._budget import NO_COST, NO_USAGE, Reserved, Usage
from ._evidence import Proposal
from ._ids import CallId, InvocationId
from ._json import JsonObject
from ._reasons import Ending
from ._records import (
    AnswerVerified,
    ApprovalDecided,
    ApprovalRequested,
    CallDispatched,
    EffectReconciled,
)
from ._results import ResultStatus, ToolResult

_SUSPENDED = Ending.SUSPENDED


@dataclass(slots=True)
class OpenTurn:
    """A turn whose proposal is durable and whose `TurnCommitted` is not."""

    number: int
    proposal: Proposal
    dispatched: dict[CallId, CallDispatched] = field(default_factory=dict[CallId, CallDispatched])
    """The last dispatch of each write."""
    results: dict[CallId, ToolResult] = field(default_factory=dict[CallId, ToolResult])
    """Of the last attempt, where there was one; `outcome_unknown` is no last word."""
    found: dict[CallId, EffectReconciled] = field(default_factory=dict[CallId, EffectReconciled])
    """What was said of the last dispatch of a write."""
    request: ApprovalRequested | None = None
    answers: dict[CallId, ApprovalDecided] = field(default_factory=dict[CallId, ApprovalDecided])
    verified: dict[str, AnswerVerified] = field(default_factory=dict[str, AnswerVerified])
    """The last verdict of each verifier on the answer."""

    def ask(self, request: ApprovalRequested) -> None:
        """Ask a human; a no holds whatever is asked anew, a yes only for the very same proposal."""
        if self.request is None or self.request.digest != request.digest:
            approved, _ = self.verdicts()
            kept = {call: said for call, said in self.answers.items() if call not in approved}
            self.answers = kept
        self.request = request

    def unanswered(self) -> tuple[CallId, ...]:
        """Calls a human was asked about and has not answered."""
        asks = self.request.asks if self.request is not None else ()
        return tuple(ask.call_id for ask in asks if ask.call_id not in self.answers)

    def unsettled(self) -> tuple[CallId, ...]:
        """Dispatched writes of which nobody has said what became of them; a child that waits does itself."""
        return tuple(
            call_id
            for call_id in self.dispatched
            if (call_id not in self.found or not self.found[call_id].last_word)
            and (
                call_id not in self.results
                or (
                    self.results[call_id].status is ResultStatus.OUTCOME_UNKNOWN
                    and self.results[call_id].child is None
                )
            )
        )

    def edits(self) -> dict[CallId, JsonObject]:
        """What calls are to run with instead of what was proposed, as humans have said."""
        return {
            answer.call_id: answer.arguments
            for call_id, decided in self.answers.items()
            for answer in decided.answers
            if answer.call_id == call_id and answer.arguments is not None
        }

    def expired(self) -> frozenset[CallId]:
        """Calls nobody has answered for in time."""
        return frozenset(call for call, decided in self.answers.items() if decided.expired)

    def children(self) -> tuple[InvocationId, ...]:
        """Children that wait for somebody, and this invocation with them."""
        return tuple(
            result.child.invocation_id
            for result in self.results.values()
            if result.child is not None and result.status is ResultStatus.OUTCOME_UNKNOWN
        )

    def used_by_children(self) -> ChildUse:
        """What children of this turn have used, and may still use."""
        reserved = {call: d.reserved for call, d in self.dispatched.items() if d.reserved}
        return used_by_children(reserved, self.results) if reserved else NO_CHILD_USE

    def verdicts(self) -> tuple[tuple[CallId, ...], tuple[tuple[CallId, str], ...]]:
        """Calls a human said yes to, and those with a no, each with who and why."""
        approved: list[CallId] = []
        denied: list[tuple[CallId, str]] = []
        for call_id, decided in self.answers.items():
            if any(a.approved for a in decided.answers if a.call_id == call_id):
                approved.append(call_id)
            elif not decided.expired:
                why = f"{decided.by}: {decided.reason}" if decided.reason else decided.by
                denied.append((call_id, why))
        return tuple(approved), tuple(denied)


class ChildUse(NamedTuple):
    """Tool calls, tokens and cost that count as used because of children."""

    tool_calls: int = 0
    usage: Usage = NO_USAGE
    cost: Decimal = NO_COST


NO_CHILD_USE = ChildUse()


def used_by_children(
    reserved: Mapping[CallId, Reserved], results: Mapping[CallId, ToolResult]
) -> ChildUse:
    """Add up what children have used: those that have ended what they did, the others what they may."""
    calls, usage, cost = 0, NO_USAGE, NO_COST
    for call_id, kept in reserved.items():
        result = results.get(call_id)
        child = None if result is None else result.child
        if result is not None and child is not None and child.reason.outcome is not _SUSPENDED:
            calls, usage, cost = calls + child.tool_calls, usage + child.usage, cost + child.cost
        elif result is None or result.status is not ResultStatus.NOT_STARTED:
            calls, cost = calls + (kept.tool_calls or 0), cost + (kept.cost or NO_COST)
            usage += Usage(kept.tokens or 0, 0, estimated=True)
    return ChildUse(calls, usage, cost)
