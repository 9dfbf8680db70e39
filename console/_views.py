"""What people see of an invocation: how it stands, what it waits for, what they can type next."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from loopwright.protocol import (
    ApprovalProposal,
    EffectEntry,
    Ending,
    InvocationState,
    Outcome,
    Reason,
    Record,
    Spent,
    Summary,
)

from ._session import SHORT_DIGEST, Session, short
from ._watch import Lines, cut, receipt, value

_STYLES = {
    Ending.FINISHED: "green",
    Ending.SUSPENDED: "yellow",
    Ending.FAILED: "red",
    Ending.CANCELLED: "red",
}
_YOU = "YOUR-NAME"


def heading(what: str, invocation_id: str) -> RenderableType:
    """Name an invocation above its lines."""
    return Text.assemble((what, "bold"), f" {short(invocation_id)}")


def outcome(session: Session, done: Outcome) -> RenderableType:
    """Say how an invocation came to rest, and what to do about it."""
    rows: list[tuple[str, RenderableType]] = [("reason", reason_text(done.reason))]
    rows += [("cause", Text(done.cause))] if done.cause else []
    rows += [("answer", Text(done.answer))] if done.answer else []
    rows += [("question", Text(done.question))] if done.question else []
    rows.append(("spent", Text(_spent(done.spent))))
    effects = done.partial.effects if done.partial is not None else ()
    rows += [("effects", _effects(effects))] if effects else []
    if done.reason is not Reason.COMPLETED:
        rows.append(("next", Text(done.reason.advice)))
    parts: list[RenderableType] = [Text(), fields(rows)]
    if done.proposal is not None and done.reason is Reason.APPROVAL_REQUIRED:
        parts += [Text(), proposal(session, done.invocation_id, done.proposal)]
    for words in _next(done.invocation_id, done.reason):
        parts.append(_typed(session.command(*words)))
    return Group(*parts)


def proposal(session: Session, invocation_id: str, waiting: ApprovalProposal) -> RenderableType:
    """Show exactly what would run, and the commands that say yes or no to it."""
    parts: list[RenderableType] = []
    for ask in waiting.asks:
        if ask.call_id in waiting.answered:
            continue
        arguments = [(name, Text(value(held))) for name, held in ask.arguments.items()]
        parts += [
            Text(ask.tool_name, "bold"),
            Padding(fields(arguments), (0, 0, 0, 2)),
            Text(f"{ask.reason} (call {ask.call_id})", "dim"),
        ]
    panel = Panel(Group(*parts), title="waits for a yes", title_align="left", box=box.ROUNDED)
    words = (short(invocation_id), waiting.digest[:SHORT_DIGEST], "--by", _YOU)
    return Group(
        panel,
        _typed(session.command("approve", *words)),
        _typed(session.command("deny", *words, "--reason", "…")),
    )


def listing(found: Sequence[Summary]) -> RenderableType:
    """Make a table of invocations."""
    shown = table("id", "agent", "state", "changed", "goal")
    for summary in found:
        shown.add_row(
            short(summary.invocation_id),
            Text(summary.head.agent),
            _standing(summary),
            _ago(summary.head.at),
            Text(cut(summary.head.goal)),
        )
    return shown


def state(
    session: Session, summary: Summary, held: InvocationState, records: Iterable[Record]
) -> RenderableType:
    """Show everything the journal says of one invocation."""
    p, business = held.protocol, held.business
    rows: list[tuple[str, RenderableType]] = [
        ("invocation", Text(summary.invocation_id)),
        ("agent", Text(f"{p.started.agent} {p.started.agent_version}")),
        ("goal", Text(business.goal)),
        ("principal", Text(p.started.principal.actor)),
        ("state", _standing(summary)),
    ]
    rows += [("key", Text(p.started.key))] if p.started.key else []
    rows += [("owner", Text(_owner(summary)))] if summary.owner else []
    rows += [("cause", Text(p.cause))] if p.cause else []
    rows += [("answer", Text(business.answer))] if business.answer else []
    rows += [("question", Text(p.question))] if p.question else []
    rows.append(("spent", Text(f"{_spent(held.spent)}; {_limits(held)}")))
    effects = tuple(business.effects.values())
    rows += [("effects", _effects(effects))] if effects else []
    parts: list[RenderableType] = [fields(rows), Text()]
    lines = Lines()
    parts += [line for record in records for line in lines.of(record)]
    waiting = held.proposal()
    if waiting is not None and summary.head.status == "suspended":
        parts += [Text(), proposal(session, summary.invocation_id, waiting)]
    for words in () if p.reason is None else _next(summary.invocation_id, p.reason):
        parts.append(_typed(session.command(*words)))
    return Group(*parts)


def recovered(count: int, alive: Sequence[Summary]) -> RenderableType:
    """Say what recovery found."""
    left = f"; {len(alive)} left to a worker that is alive" if alive else ""
    return Text(f"{count} recovered{left}")


def table(*columns: str) -> Table:
    """Make an empty table; its first column is never broken."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        made.add_column(column, overflow="fold", no_wrap=number == 0)
    return made


def fields(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Put names and values side by side."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, shown in rows:
        grid.add_row(name, shown)
    return grid


def reason_text(reason: Reason) -> Text:
    """Write a reason in the colour of its kind."""
    return Text(str(reason), _STYLES[reason.outcome])


def _next(invocation_id: str, reason: Reason) -> list[tuple[str, ...]]:
    name = short(invocation_id)
    match reason:
        case Reason.CLARIFICATION_REQUIRED:
            return [("answer", name, "TEXT", "--by", _YOU)]
        case Reason.MAX_STEPS:
            return [("resume", name, "--grant-steps", "5")]
        case Reason.TOOL_BUDGET_EXHAUSTED:
            return [("resume", name, "--grant-tool-calls", "5")]
        case Reason.TOKEN_BUDGET_EXHAUSTED:
            return [("resume", name, "--grant-tokens", "10000")]
        case Reason.TIME_BUDGET_EXHAUSTED:
            return [("resume", name, "--grant-seconds", "60")]
        case Reason.MODEL_ERROR | Reason.CHECKPOINT_FAILED | Reason.INTERNAL_ERROR:
            return [("resume", name)]
        case _:
            return []


def _typed(command: str) -> RenderableType:
    return Padding(Text(command, "cyan"), (0, 0, 0, 2))


def _standing(summary: Summary) -> Text:
    reason = summary.head.reason
    if reason is not None:
        return reason_text(reason)
    if summary.owner_alive:
        return Text("running", "cyan")
    return Text("running, its worker is gone", "yellow")


def _owner(summary: Summary) -> str:
    return f"{summary.owner} ({'alive' if summary.owner_alive else 'gone'})"


def _effects(effects: Iterable[EffectEntry]) -> RenderableType:
    lines = [
        Text(
            f"{entry.effect_key} {entry.status}"
            + ("" if entry.receipt is None else f" {receipt(entry.receipt)}")
        )
        for entry in effects
    ]
    return Group(*lines)


def _spent(spent: Spent) -> str:
    return (
        f"steps {spent.steps}, tool calls {spent.tool_calls}, tokens {spent.usage.total}, "
        f"{spent.active_seconds:.2f} s"
    )


def _limits(held: InvocationState) -> str:
    budget = held.protocol.budget
    limits = {
        "steps": budget.max_steps,
        "tool calls": budget.max_tool_calls,
        "tokens": budget.max_tokens,
        "seconds": budget.max_active_seconds,
    }
    named = [f"{name} {limit:g}" for name, limit in limits.items() if limit is not None]
    return f"at most {', '.join(named)}" if named else "no limits"


def _ago(at: float) -> str:
    seconds = max(0, int(time.time() - at))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
