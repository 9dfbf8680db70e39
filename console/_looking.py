"""The commands that only look: list and show. They need no app, and change nothing."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from loopwright.protocol import Status, fold
from loopwright.stores import all_invocations

from . import _plain, _views
from ._acting import Id
from ._session import Session, find_invocation
from ._shared import OK


async def list_invocations(
    session: Session,
    status: Annotated[Status | None, typer.Option(help="Only these.", show_default=False)] = None,
    agent: Annotated[str | None, typer.Option(help="Only this one's.", show_default=False)] = None,
) -> int:
    """List invocations, newest first."""
    async with session.store() as store:
        found = await all_invocations(store, status=status, agent=agent)
    for summary in found:
        session.out.emit(_plain.of_summary(summary))
    session.out.say(_views.listing(found) if found else Text("no invocations"))
    return OK


async def show(session: Session, invocation: Id) -> int:
    """Show one invocation: how it stands, what it did."""
    async with session.store() as store:
        stored = await store.load(await find_invocation(store, invocation))
    entries = stored.entries()
    records = [entry.record for entry in entries]
    state, summary = fold(entries), stored.summary
    session.out.show(
        _plain.of_state(summary, state, records),
        _views.state(session, summary, state, records),
    )
    return OK
