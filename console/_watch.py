"""An invocation, line by line: what each record of its journal means to a person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from rich.table import Table
from rich.text import Text

from loopwright.actors import Run
from loopwright.protocol import (
    AnyCall,
    ApprovalDecided,
    ApprovalRequested,
    CallCompleted,
    CallDispatched,
    CancelRequested,
    CannotContinue,
    Clarification,
    EffectReconciled,
    InvocationEnded,
    InvocationStarted,
    JsonObject,
    JsonValue,
    Malformed,
    NoticeInjected,
    Outcome,
    Proposal,
    Record,
    RequestApproval,
    Resumed,
    Suspended,
    ToolCall,
    ToolCalls,
    ToolResult,
    TurnCommitted,
    TurnProposed,
)
from loopwright.protocol import (
    Final as FinalAnswer,
)

from . import _plain

_LONGEST: Final = 160
_LONGEST_RECEIPT: Final = 48
_GOOD: Final = "green"
_BAD: Final = "red"
_WAITING: Final = "yellow"


async def follow(
    run: Run, outcome: Awaitable[Outcome], seen: int, show: Callable[[Record], None]
) -> Outcome:
    """Show an invocation's records behind the seq `seen` as they are committed, until its rest.

    Raises:
        LoopwrightError: If there is no outcome here.
    """
    resting = asyncio.ensure_future(outcome)
    while True:
        rested = resting.done()
        async for record in run.events(after=seen):
            seen += 1
            show(record)
        if rested:
            return resting.result()
        # Between "let it go on" and its first record there is nothing to listen to.
        await asyncio.wait({resting}, timeout=0.02)


class Lines:
    """Turns records into lines of three columns: turn, what, and more of it."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        """Arguments of the present turn's calls, as far as they have not been shown."""
        self._settled: set[str] = set()
        """Calls of the present turn whose result has been shown."""

    def of(self, record: Record) -> Iterator[Table]:
        """Say what a record means, in lines that are aligned with those of other records."""
        match record:
            case InvocationStarted():
                yield line("", "started", Text(record.goal), "bold")
            case NoticeInjected():
                yield line(record.turn, "notice", Text(record.text), _WAITING)
            case TurnProposed(proposal=proposal):
                self._begin(proposal)
            case CallDispatched():
                self._calls[record.call_id] = ""
                detail = Text(f"{arguments(record.arguments)} as {record.effect_key}")
                yield line(record.turn, record.tool_name, detail)
            case CallCompleted(result=result):
                yield self._result(record.turn, result)
            case EffectReconciled():
                found = record.found
                what = found.reason or ("" if found.receipt is None else receipt(found.receipt))
                text = f"{record.effect_key} is {found.finding.replace('_', ' ')}"
                text = f"{text}, says {_by(record.by, what)}"
                style = "" if record.last_word else _WAITING
                yield line(record.turn, record.tool_name, Text(text), style)
            case TurnCommitted():
                yield from self._turn(record)
            case ApprovalRequested():
                for ask in record.asks:
                    detail = Text(f"{arguments(ask.arguments)} waits: {ask.reason}")
                    yield line(record.turn, ask.tool_name, detail, _WAITING)
            case ApprovalDecided():
                yield from _decided(record)
            case Suspended():
                yield line("", "suspended", Text(str(record.reason)), _WAITING)
            case Resumed():
                yield line("", "goes on", Text(_resumed(record)))
            case CancelRequested():
                yield line("", "cancel", Text(_by(record.by, record.reason)), _WAITING)
            case InvocationEnded():
                good = not record.cause and record.reason.outcome == "finished"
                text = f"{record.reason}{': ' if record.cause else ''}{record.cause or ''}"
                yield line("", "ended", Text(text), _GOOD if good else _BAD)

    def _turn(self, record: TurnCommitted) -> Iterator[Table]:
        decision = record.proposal.decision
        match decision:
            case ToolCalls() | RequestApproval():
                self._begin(record.proposal)
                for result in record.results:
                    if result.call_id not in self._settled:
                        yield self._result(record.turn, result)
            case FinalAnswer(answer=answer):
                yield line(record.turn, "answers", Text(answer))
            case Clarification(question=question):
                yield line(record.turn, "asks", Text(question), _WAITING)
            case CannotContinue():
                detail = Text(f"{decision.code}: {decision.reason}")
                yield line(record.turn, "gives up", detail, _BAD)
            case Malformed(problem=problem):
                yield line(record.turn, "unusable", Text(problem), _BAD)
        if record.fault is not None and not isinstance(decision, Malformed):
            yield line(record.turn, "fault", Text(record.fault.problem), _BAD)
        self._calls.clear()
        self._settled.clear()

    def _begin(self, proposal: Proposal) -> None:
        decision = proposal.decision
        if isinstance(decision, ToolCalls | RequestApproval):
            for call in decision.calls:
                self._calls.setdefault(call.call_id, _arguments_of(call))

    def _result(self, turn: int, result: ToolResult) -> Table:
        self._settled.add(result.call_id)
        given = self._calls.get(result.call_id, "")
        return line(turn, result.tool_name, Text.assemble(given, " " * bool(given), said(result)))


def line(turn: int | str, what: str, detail: Text, style: str = "") -> Table:
    """Make one line; a long detail goes on below itself."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=3, justify="right", style="dim")
    table.add_column(min_width=14, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(str(turn), Text(what, style), detail)
    return table


def said(result: ToolResult) -> Text:
    """Say how a call ended, in a few words."""
    if result.ok:
        output = "" if result.effect_key is None else f" {receipt(result.output)}"
        return Text.assemble("→ ", ("ok", _GOOD), (output, "dim"))
    error = "" if result.error is None else f": {cut(result.error.message)}"
    return Text.assemble("→ ", (f"{result.status}{error}", _BAD))


def arguments(given: JsonObject) -> str:
    """Write arguments on one line."""
    return cut(", ".join(f"{name}={value(held)}" for name, held in given.items()))


def value(held: JsonValue) -> str:
    """Write a JSON value for people: text as it is."""
    return held if isinstance(held, str) else _plain.line(held)


def receipt(held: JsonValue) -> str:
    """Write what a tool returned on one line, if need be only its beginning."""
    return cut(_plain.line(held), _LONGEST_RECEIPT)


def cut(text: str, limit: int = _LONGEST) -> str:
    """Shorten what is too long for a line."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def _arguments_of(call: AnyCall) -> str:
    return arguments(call.arguments) if isinstance(call, ToolCall) else call.problem


def _decided(record: ApprovalDecided) -> Iterator[Table]:
    for answer in record.answers:
        what, style = ("approved", _GOOD) if answer.approved else ("denied", _BAD)
        detail = Text(f"{answer.call_id}, by {_by(record.by, record.reason)}")
        if answer.arguments is not None:
            detail.append(f", with {arguments(answer.arguments)}")
        yield line(record.turn, what, detail, style)


def _resumed(record: Resumed) -> str:
    if record.answer is not None:
        return f"{record.by} answers: {record.answer}"
    return f"{record.by} grants more" if record.grant is not None else f"by {record.by}"


def _by(who: str, why: str) -> str:
    return f"{who}: {why}" if why else who
