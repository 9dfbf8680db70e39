"""Five models made of rules: the same ticket takes the same way, anywhere, and needs no key.

Each decides from what any model is shown: the goal and the committed turns. A handoff changes
neither, so that whoever takes over sees what was done before, and why it was handed over.
"""

from __future__ import annotations

from collections.abc import Callable

from loopwright import (
    CannotContinue,
    Clarification,
    Final,
    Handoff,
    ModelReply,
    ModelRequest,
    ProgressNote,
    ToolCall,
    ToolCalls,
    Usage,
)
from loopwright.protocol import CallId, Decision, JsonValue, ToolResult, to_json

from .tickets import Resolution, amount_in, order_in

CORRECT = "correct the invoice"


class RuleModel:
    """Stands where a language model would."""

    def __init__(self, step: Callable[[ModelRequest], Decision]) -> None:
        self._step = step
        self.name = f"rules of {step.__name__}"

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Decide on the next step; it costs no tokens."""
        return ModelReply(self._step(request), Usage(), model=self.name)


def triage(request: ModelRequest) -> Decision:
    """Read the ticket, and hand it to whoever it is for."""
    for word, target in (("refund", "refunds"), ("invoice", "billing")):
        if word in request.goal.lower():
            note = ProgressNote(open=(request.goal,))
            return Handoff(target, f"it says {word!r}", note)
    return CannotContinue("unknown_topic", "it is neither about a refund nor about an invoice")


def refunds(request: ModelRequest) -> Decision:
    """Have the ledger clerk book the refund, then let billing correct the invoice."""
    order, amount = order_in(request.goal), amount_in(request.goal)
    if order is None:
        return Handoff("triage", "it names no order", ProgressNote(open=(request.goal,)))
    booked = _results(request).get("book")
    if booked is None:
        return _call("book", "ledger-clerk", goal=f"Book a refund of {amount} for order {order}")
    if not booked.ok:
        why = booked.error.message if booked.error else booked.status
        return CannotContinue("not_booked", f"the refund was not booked: {why}")
    done = (f"refunded {amount} for order {order}",)
    note = ProgressNote(done, (CORRECT,), evidence=(booked.call_id,))
    return Handoff("billing", "the refund is booked", note)


def ledger_clerk(request: ModelRequest) -> Decision:
    """Look the order up, and book a refund of no more than was paid for it."""
    order, amount = order_in(request.goal), amount_in(request.goal)
    results = _results(request)
    if "find" not in results:
        return _call("find", "find_payment", order=order)
    paid = results["find"].output
    if paid is None or amount > amount_in(str(paid)):
        return CannotContinue("not_paid", f"order {order} was paid with {paid}, less than {amount}")
    if "pay" not in results:
        return _call("pay", "book_refund", order=order, amount=str(amount))
    pay = results["pay"]
    if not pay.ok:
        return CannotContinue("refused", pay.error.message if pay.error else pay.status)
    return Final(str(pay.output))


def billing(request: ModelRequest) -> Decision:
    """Correct the invoice, and say what came of the ticket, on the evidence that was handed over."""
    results = _results(request)
    if "correct" not in results:
        return _call("correct", "correct_invoice", order=order_in(request.goal))
    note, reference = _handed_over(request), str(results["correct"].output)
    if CORRECT in note.open:
        reference = str(results[note.evidence[0]].output)
        return _final(f"{note.done[0]}, {reference}", Resolution("refunded", reference))
    return _final(f"corrected: {reference}", Resolution("corrected", reference))


def human_desk(request: ModelRequest) -> Decision:
    """Ask a person, and pass on what they say."""
    said = request.history[-1].answer
    if said is None:
        (ticket,) = _handed_over(request).open
        return Clarification(f"Nobody here can settle this; what shall we say? {ticket}")
    return _final(said, Resolution("answered", said))


def _results(request: ModelRequest) -> dict[str, ToolResult]:
    return {result.call_id: result for turn in request.history for result in turn.results}


def _handed_over(request: ModelRequest) -> ProgressNote:
    """Find the note of whoever had it last."""
    for turn in reversed(request.history):
        decision = turn.proposal.decision
        if isinstance(decision, Handoff):
            return decision.progress
    return ProgressNote()


def _call(call_id: str, tool_name: str, **arguments: JsonValue) -> ToolCalls:
    return ToolCalls((ToolCall(CallId(call_id), tool_name, arguments),))


def _final(answer: str, resolution: Resolution) -> Final:
    return Final(answer, to_json(resolution).value)
