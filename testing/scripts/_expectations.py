"""Comparing what a script expects with what the model was shown and what is durable."""

from __future__ import annotations

from collections.abc import Iterator

from loopwright.protocol import InvocationState, ModelRequest, Outcome, ToolResult

from ._patterns import Difference, differences
from ._steps import Expectation, OkPart, RequestPart


def check_request(expected: RequestPart, request: ModelRequest) -> Iterator[Difference]:
    """Compare what the model is shown with what the script says it must be shown."""
    last = request.history[-1] if request.history else None
    if expected.notice is not None and expected.notice is not (request.notice is not None):
        yield Difference("notice", _presence(expected.notice), repr(request.notice))
    if expected.fault is not None:
        fault = last.fault if last is not None else None
        if expected.fault is not (fault is not None):
            yield Difference("fault", _presence(expected.fault), repr(fault))
    if expected.answer is not None:
        answer = last.answer if last is not None else None
        yield from differences(expected.answer, answer, "answer")
    if expected.results is not None:
        wanted = {
            call: {"ok": said.ok} if isinstance(said, OkPart) else said.value
            for call, said in expected.results.items()
        }
        shown = {result.call_id: result for result in (last.results if last is not None else ())}
        got = {
            call: _shown(result, isinstance(wanted.get(call), dict))
            for call, result in shown.items()
        }
        yield from differences(wanted, got, "results")


def check_expectation(
    expected: Expectation, outcome: Outcome | None, state: InvocationState
) -> Iterator[Difference]:
    """Compare how an invocation stands with what the script expects."""
    proposal, spent = state.proposal(), state.spent
    results: dict[str, list[str]] = {}
    for turn in state.business.turns:
        for result in turn.results:
            results.setdefault(result.call_id, []).append(result.status.value)
    got: dict[str, object] = {
        # Not from the journal: what ends because the store fails is not in it.
        "reason": outcome.reason if outcome is not None else None,
        "answer": state.business.answer,
        "question": state.protocol.question,
        "steps": spent.steps,
        "tool_calls": spent.tool_calls,
        "asks": tuple(ask.call_id for ask in proposal.asks) if proposal is not None else (),
        "results": {
            call: said[0] if len(said) == 1 else tuple(said) for call, said in results.items()
        },
        "effects": {effect.effect_key: effect.status for effect in state.business.effects.values()},
    }
    for name, value in got.items():
        wanted: object = getattr(expected, name)
        if wanted is not None:
            yield from differences(wanted, value, name)


def _presence(wanted: bool) -> str:
    return "one" if wanted else "none"


def _shown(result: ToolResult, with_output: bool) -> object:
    return {"ok": result.output} if with_output and result.ok else result.status.value
