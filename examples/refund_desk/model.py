"""A model made of rules: it needs no key, and decides from the goal and committed results only."""

from __future__ import annotations

import re

from pydantic import TypeAdapter

from loopwright import (
    CannotContinue,
    Clarification,
    Final,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolCalls,
    Usage,
)
from loopwright.protocol import (
    CallId,
    Decision,
    History,
    JsonValue,
    ResultStatus,
    ToolResult,
    to_json,
)

from .rules import Pay, Refuse, Settlement, judge
from .shop import Order, Payment, Receipt, Refund, RefundRequest

_REQUEST_ID = re.compile(r"REQ-\d+")

_request = TypeAdapter[RefundRequest | None](RefundRequest | None)
_order = TypeAdapter[Order | None](Order | None)
_payments = TypeAdapter(list[Payment])
_refunds = TypeAdapter(list[Refund])
_receipt = TypeAdapter(Receipt)


class RuleModel:
    """Stands where a language model would: the same request gets the same decision, anywhere."""

    async def decide(self, request: ModelRequest) -> ModelReply:
        """Decide on the next step; it costs no tokens."""
        return ModelReply(next_step(request.goal, request.history), Usage(), model="rules")


def next_step(goal: str, history: History) -> Decision:
    """Look up what is not known yet, then refuse or pay, then say what came of it.

    What failed for a moment is asked for again; a loop that gets nowhere is ended by the runtime.
    """
    request_id = _named(goal, history)
    if request_id is None:
        return Clarification("Which refund request is to be settled? Name one, such as REQ-04.")

    results: dict[str, ToolResult] = {
        result.call_id: result for turn in history for result in turn.results
    }
    known = {call: result.output for call, result in results.items() if result.ok}
    if "request" not in known:
        return ToolCalls((_call("request", "find_request", request_id=request_id),))

    request = _request.validate_python(known["request"])
    if request is None:
        return CannotContinue("unknown_request", f"there is no refund request {request_id}")

    if not known.keys() >= {"order", "payments", "refunds"}:
        return ToolCalls(
            (
                _call("order", "find_order", order_id=request.order_id),
                _call("payments", "list_payments", order_id=request.order_id),
                _call("refunds", "list_refunds", order_id=request.order_id),
            )
        )

    verdict = judge(
        request,
        _order.validate_python(known["order"]),
        _payments.validate_python(known["payments"]),
        _refunds.validate_python(known["refunds"]),
    )
    if isinstance(verdict, Refuse):
        refused = Settlement(request_id, "refused", verdict.code)
        return _final(f"{request_id} is refused: {verdict.text}.", refused)
    return _after(results.get("pay"), request, verdict)


def _after(result: ToolResult | None, request: RefundRequest, due: Pay) -> Decision:
    """Pay, or say what came of it: the receipt, a human's no, or the shop's."""
    name = request.request_id
    error = None if result is None else result.error
    match result:
        case ToolResult(status=ResultStatus.OK, output=output):
            payout = _receipt.validate_python(output).payout
            money = f"{payout.amount} {payout.currency}"
            paid = Settlement(name, "paid", "", payout.refund_id, payout.amount, payout.currency)
            return _final(f"{name} is paid: {money} with {payout.refund_id}.", paid)
        case ToolResult(status=ResultStatus.DENIED) if error is not None:
            return _final(f"{name} is not paid: {error.message}.", Settlement(name, "denied"))
        case ToolResult(status=ResultStatus.ERROR) if error is not None and not error.retryable:
            refused = Settlement(name, "refused", error.message.partition(":")[0])
            return _final(f"{name} is not paid: {error.message}", refused)
        case _:
            call = _call(
                "pay",
                "pay_refund",
                request_id=name,
                order_id=request.order_id,
                amount=str(due.amount),
                currency=due.currency,
            )
            return ToolCalls((call,))


def _named(goal: str, history: History) -> str | None:
    """Find the request's id in what the user said: the last answer first, then the goal."""
    said = [turn.answer for turn in reversed(history) if turn.answer is not None]
    found = (_REQUEST_ID.search(text) for text in (*said, goal))
    return next((match.group() for match in found if match), None)


def _call(call_id: str, tool_name: str, **arguments: JsonValue) -> ToolCall:
    return ToolCall(CallId(call_id), tool_name, arguments)


def _final(answer: str, settlement: Settlement) -> Final:
    return Final(answer, to_json(settlement).value)
