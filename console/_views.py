"""What people see of an invocation: how it stands, what it waits for, what they can type next."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Sequence
from typing import TypeAlias

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from loopwright.protocol import (
    ApprovalProposal,
    Ask,
    EffectEntry,
    EffectFact,
    Ending,
    InvocationState,
    JsonObject,
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
_FOUND = "FOUND"
_WORDS = f"{_FOUND} is applied, rejected, not-applied or unknown"

_Shown: TypeAlias = tuple[str, JsonObject, str]
"""A call for a panel: its tool, its arguments, and a remark."""


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
    rows += [("effects", _effects(done.effects))] if done.effects else []
    if done.reason is not Reason.COMPLETED:
        rows.append(("next", Text(done.reason.advice)))
    parts: list[RenderableType] = [Text(), fields(rows)]
    if done.proposal is not None and done.reason is Reason.APPROVAL_REQUIRED:
        parts += [Text(), proposal(session, done.invocation_id, done.proposal)]
    if done.reason is Reason.RECONCILIATION_REQUIRED:
        turns = done.partial.turns if done.partial is not None else 0
        parts += [Text(), _settlement(session, done.invocation_id, turns, done.effects)]
    elif done.unresolved_effects:
        parts.append(_look(session, done.invocation_id))
    for words in _next(done.invocation_id, done.reason):
        parts.append(_typed(session.command(*words)))
    return Group(*parts)


def proposal(session: Session, invocation_id: str, waiting: ApprovalProposal) -> RenderableType:
    """Show exactly what would run, and the commands that say yes or no to it."""
    asks = [ask for ask in waiting.asks if ask.call_id not in waiting.answered]
    panel = _panel(
        "waits for a yes",
        [(ask.tool_name, ask.arguments, f"{ask.reason} (call {ask.call_id})") for ask in asks],
    )
    words = (short(invocation_id), waiting.digest[:SHORT_DIGEST], "--by", _YOU)
    return Group(
        panel,
        _typed(session.command("approve", *words)),
        _typed(session.command("deny", *words, "--reason", "…")),
    )


def approved(by: str, asks: Iterable[Ask], edited: Container[str]) -> RenderableType:
    """Show exactly what will run after a yes."""
    calls: list[_Shown] = []
    for ask in asks:
        what = f"edited by {by}" if ask.call_id in edited else "as proposed"
        calls.append((ask.tool_name, ask.arguments, f"{what} (call {ask.call_id})"))
    return _panel(f"approved by {by}", calls)


def _settlement(
    session: Session, invocation_id: str, turns: int, effects: Iterable[EffectEntry]
) -> RenderableType:
    """Show the writes of the turn behind `turns` that nobody knows the fate of, and what to type."""
    waiting = [entry for entry in effects if entry.turn > turns and not entry.settled]
    panel = _panel(
        "waits to be settled: may or may not have taken effect",
        [
            (
                entry.tool_name,
                entry.arguments or {},
                f"{entry.effect_key} (call {entry.call_id}, {_attempts(entry)})",
            )
            for entry in waiting
        ],
    )
    return Group(
        panel,
        *(_typed(session.command("settle", *_settling(invocation_id, entry))) for entry in waiting),
        Text(f"{_WORDS}; or ask those again that can be asked:", "dim"),
        _typed(session.command("resume", short(invocation_id))),
    )


def _look(session: Session, invocation_id: str) -> RenderableType:
    """Lead to writes that are unresolved although nothing waits for them."""
    return _typed(session.command("show", short(invocation_id), "--effects"))


def ledger(session: Session, facts: Sequence[EffectFact]) -> RenderableType:
    """Show everything the effect ledger says of one invocation."""
    if not facts:
        return Text("no effects")
    calls = [fact.entry.call_id for fact in facts]
    parts: list[RenderableType] = []
    for fact in facts:
        entry = fact.entry
        rows: list[tuple[str, RenderableType]] = [
            ("tool", Text(entry.tool_name)),
            ("call", Text(f"{entry.call_id} of turn {entry.turn}, {_attempts(entry)}")),
            ("changed", Text(_ago(fact.at))),
        ]
        if entry.arguments is not None:
            given = [(name, Text(value(held))) for name, held in entry.arguments.items()]
            rows.append(("arguments", fields(given)))
        rows += [("receipt", Text(value(entry.receipt)))] if entry.receipt is not None else []
        parts += [_effect(entry), Padding(fields(rows), (0, 0, 0, 2))]
        if entry.status == "outcome_unknown":
            words = _settling(fact.invocation_id, entry)
            turn = ("--turn", str(entry.turn)) if calls.count(entry.call_id) > 1 else ()
            parts.append(_typed(session.command("settle", *words, *turn)))
    if any(fact.entry.status == "outcome_unknown" for fact in facts):
        parts.append(Text(_WORDS, "dim"))
    return Group(*parts)


def effects(facts: Sequence[EffectFact]) -> RenderableType:
    """Make a table of effects."""
    shown = table("id", "effect key", "tool", "status", "changed")
    for fact in facts:
        entry = fact.entry
        shown.add_row(
            short(fact.invocation_id),
            Text(entry.effect_key),
            Text(entry.tool_name),
            Text(entry.status, _effect_style(entry)),
            _ago(fact.at),
        )
    return shown


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
    written = tuple(business.effects.values())
    rows += [("effects", _effects(written))] if written else []
    parts: list[RenderableType] = [fields(rows), Text()]
    lines = Lines()
    parts += [line for record in records for line in lines.of(record)]
    waiting = held.proposal()
    if waiting is not None and summary.head.status == "suspended":
        parts += [Text(), proposal(session, summary.invocation_id, waiting)]
    if p.reason is Reason.RECONCILIATION_REQUIRED:
        parts += [Text(), _settlement(session, summary.invocation_id, p.turn, written)]
    elif not all(entry.settled for entry in written):
        parts.append(_look(session, summary.invocation_id))
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


def _effects(written: Iterable[EffectEntry]) -> RenderableType:
    lines = [
        Text.assemble(_effect(entry), "" if entry.receipt is None else f" {receipt(entry.receipt)}")
        for entry in written
    ]
    return Group(*lines)


def _effect(entry: EffectEntry) -> Text:
    return Text.assemble(f"{entry.effect_key} ", (entry.status, _effect_style(entry)))


def _effect_style(entry: EffectEntry) -> str:
    if entry.status == "outcome_unknown":
        return "yellow"
    return "green" if entry.status == "committed" else ""


def _attempts(entry: EffectEntry) -> str:
    return f"dispatched {entry.attempts}x" if entry.attempts else "not dispatched"


def _settling(invocation_id: str, entry: EffectEntry) -> tuple[str, ...]:
    """Name a write as `loopwright settle` wants it; what has become of it is for a person to say."""
    return (short(invocation_id), entry.call_id, _FOUND, "--by", _YOU)


def _panel(title: str, calls: Iterable[_Shown]) -> Panel:
    parts: list[RenderableType] = []
    for tool_name, arguments, remark in calls:
        given = [(name, Text(value(held))) for name, held in arguments.items()]
        parts += [
            Text(tool_name, "bold"),
            Padding(fields(given), (0, 0, 0, 2)),
            Text(remark, "dim"),
        ]
    return Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED)


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
