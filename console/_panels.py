"""What a person is to decide, shown exactly as it will run, with the commands that say so."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable
from datetime import UTC, datetime
from typing import Final, TypeAlias

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table

from loopwright.protocol import (
    ApprovalProposal,
    Ask,
    EffectEntry,
    JsonObject,
    Principal,
)

from ._approving import Approving
from ._session import SHORT_DIGEST, Session, short
from ._watch import plainly, value, written

YOU: Final = "YOUR-NAME"
FOUND: Final = "FOUND"
FOUND_WORDS: Final = f"{FOUND} is applied, rejected, not-applied or unknown"

Shown: TypeAlias = tuple[str, JsonObject, str]
"""A call for a panel: its tool, its arguments, and a remark."""


def fields(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Put names and values side by side."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, shown in rows:
        grid.add_row(written(name), shown)
    return grid


def typed(command: str) -> RenderableType:
    """Show a command that can be copied."""
    return Padding(plainly(command, "cyan"), (0, 0, 0, 2))


def proposal(session: Session, invocation_id: str, waiting: ApprovalProposal) -> RenderableType:
    """Show exactly what would run, and the commands that say yes or no to it."""
    expires = waiting.expires_at
    expired = expires is not None and time.time() >= expires
    asks = [ask for ask in waiting.asks if ask.call_id not in waiting.answered]
    panel = _panel(
        "expired, nothing of it runs" if expired else "waits for a yes",
        [(ask.tool_name, ask.arguments, f"{ask.reason} (call {ask.call_id})") for ask in asks],
    )
    if expires is not None and expired:
        said = plainly(f"expired at {when(expires)}; it goes on without them by:", "dim")
        return Group(panel, said, typed(session.command("recover")))
    words = (short(invocation_id), waiting.digest[:SHORT_DIGEST], "--by", YOU)
    return Group(
        panel,
        *([] if expires is None else [plainly(f"until {when(expires)}", "dim")]),
        typed(session.command("approve", *words)),
        typed(session.command("deny", *words, "--reason", "…")),
    )


def to_approve(by: str, what: Approving) -> RenderableType:
    """Show exactly what a yes would be said to, before it is."""
    rows: list[tuple[str, RenderableType]] = [
        ("invocation", plainly(what.invocation_id)),
        ("digest", plainly(what.digest)),
        ("agent", plainly(what.agent)),
        ("on behalf of", plainly(principal(what.principal))),
    ]
    rows += [] if what.expires_at is None else [("until", plainly(when(what.expires_at)))]
    calls: list[Shown] = []
    for ask in what.asks:
        effect = what.effects.get(ask.tool_name)
        kind = "a tool this app does not have" if effect is None else f"{effect} effect"
        how = f"edited by {by}, checked once you say yes" if ask.call_id in what.edited else kind
        remark = f"{ask.reason} (call {ask.call_id}, {how})"
        calls.append((ask.tool_name, ask.arguments, remark))
    return Group(fields(rows), _panel(f"to be approved by {by}", calls))


def approved(by: str, asks: Iterable[Ask], edited: Container[str]) -> RenderableType:
    """Show exactly what runs after a yes."""
    calls: list[Shown] = []
    for ask in asks:
        how = f"edited by {by}" if ask.call_id in edited else "as proposed"
        calls.append((ask.tool_name, ask.arguments, f"{how} (call {ask.call_id})"))
    return _panel(f"approved by {by}", calls)


def settlement(
    session: Session, invocation_id: str, waiting: Iterable[EffectEntry]
) -> RenderableType:
    """Show writes that nobody knows the fate of, and what to type."""
    waiting = tuple(waiting)
    panel = _panel(
        "waits to be settled: may or may not have taken effect",
        [
            (
                entry.tool_name,
                entry.arguments or {},
                f"{entry.effect_key} (call {entry.call_id}, {attempts(entry)})",
            )
            for entry in waiting
        ],
    )
    return Group(
        panel,
        *(typed(session.command("settle", *settling(invocation_id, entry))) for entry in waiting),
        plainly(f"{FOUND_WORDS}; or ask those again that can be asked:", "dim"),
        typed(session.command("resume", short(invocation_id))),
    )


def attempts(entry: EffectEntry) -> str:
    """Say how often a write was dispatched."""
    return f"dispatched {entry.attempts}x" if entry.attempts else "not dispatched"


def settling(invocation_id: str, entry: EffectEntry) -> tuple[str, ...]:
    """Name a write as `loopwright settle` wants it; what has become of it is for a person to say."""
    return (short(invocation_id), entry.call_id, FOUND, "--by", YOU)


def principal(who: Principal) -> str:
    """Name on whose behalf something runs, with all that rules may look at."""
    parts = [who.actor]
    parts += [f"tenant {who.tenant}"] if who.tenant else []
    parts += [f"roles {', '.join(who.roles)}"] if who.roles else []
    parts += [f"capabilities {', '.join(who.capabilities)}"] if who.capabilities else []
    return "; ".join(parts)


def when(at: float) -> str:
    """Write a time for people, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _panel(title: str, calls: Iterable[Shown]) -> Panel:
    parts: list[RenderableType] = []
    for tool_name, arguments, remark in calls:
        given = [(name, plainly(value(held))) for name, held in arguments.items()]
        parts += [
            plainly(tool_name, "bold"),
            Padding(fields(given), (0, 0, 0, 2)),
            plainly(remark, "dim"),
        ]
    return Panel(Group(*parts), title=plainly(title), title_align="left", box=box.ROUNDED)
