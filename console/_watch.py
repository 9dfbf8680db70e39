"""An invocation, line by line: what each record of its journal means to a person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from rich.table import Table
from rich.text import Text

from loopwright.actors import Run
from loopwright.protocol import (
    AnswerVerified,
    AnyCall,
    ApprovalDecided,
    ApprovalRequested,
    CallCompleted,
    CallDispatched,
    CancelRequested,
    CannotContinue,
    Clarification,
    ContextCompacted,
    EffectReconciled,
    Ending,
    HandedOff,
    Handoff,
    InvocationEnded,
    InvocationStarted,
    JsonObject,
    JsonValue,
    Malformed,
    ModelAttempted,
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
    calls_of,
)
from loopwright.protocol import (
    Final as FinalAnswer,
)

from . import _plain
from ._session import short

_LONGEST: Final = 160
_LONGEST_RECEIPT: Final = 48
GOOD: Final = "green"
BAD: Final = "red"
WAITING: Final = "yellow"


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
                yield line("", "started", plainly(record.goal), "bold")
            case NoticeInjected():
                yield line(record.turn, "notice", plainly(record.text), WAITING)
            case ModelAttempted():
                detail = plainly(f"{record.model}: {record.category}, {cut(record.error)}")
                yield line(record.turn, "no reply", detail, WAITING)
            case TurnProposed(proposal=proposal):
                self._begin(proposal)
            case CallDispatched():
                self._calls[record.call_id] = ""
                detail = plainly(f"{arguments(record.arguments)} as {record.effect_key}")
                yield line(record.turn, record.tool_name, detail)
            case CallCompleted(result=result):
                yield self._result(record.turn, result)
            case EffectReconciled():
                found = record.found
                what = found.reason or ("" if found.receipt is None else receipt(found.receipt))
                text = f"{record.effect_key} is {found.finding.replace('_', ' ')}"
                text = f"{text}, says {_by(record.by, what)}"
                style = "" if record.last_word else WAITING
                yield line(record.turn, record.tool_name, plainly(text), style)
            case TurnCommitted():
                yield from self._turn(record)
            case AnswerVerified():
                yield line(record.turn, "verified", _verified(record))
            case HandedOff():
                yield line(record.turn, "handed over", plainly(_handed_over(record)))
            case ContextCompacted():
                detail = plainly(f"a summary stands for the turns up to {record.upto}")
                yield line("", "compacted", detail)
            case ApprovalRequested():
                for ask in record.asks:
                    detail = plainly(f"{arguments(ask.arguments)} waits: {ask.reason}")
                    yield line(record.turn, ask.tool_name, detail, WAITING)
            case ApprovalDecided():
                yield from _decided(record)
            case Suspended():
                yield line("", "suspended", plainly(str(record.reason)), WAITING)
            case Resumed():
                yield line("", "goes on", plainly(_resumed(record)))
            case CancelRequested():
                yield line("", "cancel", plainly(_by(record.by, record.reason)), WAITING)
            case InvocationEnded():
                good = not record.cause and record.reason.outcome == "finished"
                text = f"{record.reason}{': ' if record.cause else ''}{record.cause or ''}"
                yield line("", "ended", plainly(text), GOOD if good else BAD)

    def _turn(self, record: TurnCommitted) -> Iterator[Table]:
        decision = record.proposal.decision
        if by := record.proposal.by:
            yield line(record.turn, "by hand", plainly(f"{by} decides in the model's place"))
        match decision:
            case ToolCalls() | RequestApproval() | Handoff():
                self._begin(record.proposal)
                for result in record.results:
                    if result.call_id not in self._settled:
                        yield self._result(record.turn, result)
            case FinalAnswer(answer=answer):
                yield line(record.turn, "answers", plainly(answer))
            case Clarification(question=question):
                yield line(record.turn, "asks", plainly(question), WAITING)
            case CannotContinue():
                detail = plainly(f"{decision.code}: {decision.reason}")
                yield line(record.turn, "gives up", detail, BAD)
            case Malformed(problem=problem):
                yield line(record.turn, "unusable", plainly(problem), BAD)
        if record.fault is not None and not isinstance(decision, Malformed):
            yield line(record.turn, "fault", plainly(record.fault.problem), BAD)
        self._calls.clear()
        self._settled.clear()

    def _begin(self, proposal: Proposal) -> None:
        for call in calls_of(proposal.decision):
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
    table.add_row(str(turn), plainly(what, style), detail)
    return table


def plainly(text: str, style: str = "") -> Text:
    """Make a text of what somebody else has written, that hides nothing."""
    return Text(written(text), style)


def written(text: str) -> str:
    """Write out what a terminal would obey, or not show, instead of showing it.

    Otherwise an argument could make what a person says yes to look like something else.
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign == "\n" else ascii(sign)[1:-1] for sign in text
    )


def said(result: ToolResult) -> Text:
    """Say how a call ended, in a few words."""
    if result.ok:
        output = "" if result.effect_key is None else f" {receipt(result.output)}"
        return Text.assemble("→ ", ("ok", GOOD), (output, "dim"))
    if result.child is not None and result.child.reason.outcome is Ending.SUSPENDED:
        text = f"its child {short(result.child.invocation_id)} waits: {result.child.reason}"
        return Text.assemble("→ ", (text, WAITING))
    error = "" if result.error is None else f": {cut(result.error.message)}"
    return Text.assemble("→ ", (f"{result.status}{error}", BAD))


def arguments(given: JsonObject) -> str:
    """Write arguments on one line."""
    return cut(", ".join(f"{written(name)}={value(held)}" for name, held in given.items()))


def value(held: JsonValue) -> str:
    """Write a JSON value for people: text as it is."""
    return written(held if isinstance(held, str) else _plain.line(held))


def receipt(held: JsonValue) -> str:
    """Write what a tool returned on one line, if need be only its beginning."""
    return cut(_plain.line(held), _LONGEST_RECEIPT)


def cut(text: str, limit: int = _LONGEST) -> str:
    """Shorten what is too long for a line; what is left hides nothing."""
    return written(text if len(text) <= limit else f"{text[:limit]}…")


def _arguments_of(call: AnyCall) -> str:
    return arguments(call.arguments) if isinstance(call, ToolCall) else written(call.problem)


def _verified(record: AnswerVerified) -> Text:
    if record.passed:
        return Text.assemble(f"{written(record.verifier)} → ", ("passed", GOOD))
    return Text.assemble(f"{written(record.verifier)} → ", (f"failed: {cut(record.reason)}", BAD))


def _handed_over(record: HandedOff) -> str:
    escaped = ", sent there by the runtime" if record.escaped else ""
    return f"from {record.source} to {record.target}{escaped}: {record.reason}"


def _decided(record: ApprovalDecided) -> Iterator[Table]:
    for answer in record.answers:
        what, style = ("approved", GOOD) if answer.approved else ("denied", BAD)
        if record.expired:
            what, style = "expired", WAITING
        detail = plainly(f"{answer.call_id}, by {_by(record.by, record.reason)}")
        if answer.arguments is not None:
            detail.append(f", with {arguments(answer.arguments)}")
        yield line(record.turn, what, detail, style)


def _resumed(record: Resumed) -> str:
    if record.answer is not None:
        return f"{record.by} answers: {record.answer}"
    return f"{record.by} grants more" if record.grant is not None else f"by {record.by}"


def _by(who: str, why: str) -> str:
    return f"{who}: {why}" if why else who
