"""The commands that only look: list, inbox, show, explain and effects.

They need no app, and change nothing.
"""

from __future__ import annotations

from typing import Annotated, Final, get_args

import typer
from rich.text import Text

from loopwright.actors import inbox
from loopwright.protocol import (
    UNSETTLED,
    ConfigurationError,
    EffectKey,
    EffectStatus,
    JsonObject,
    Status,
    bounded,
)
from loopwright.stores import all_effects, all_invocations

from . import _explained, _plain, _views
from ._acting import Id
from ._explain import explain
from ._session import Session, find_invocation
from ._shared import OK
from ._tree import root_of, tree_of

_STATUSES: Final[tuple[EffectStatus, ...]] = get_args(EffectStatus)


async def list_invocations(
    session: Session,
    status: Annotated[Status | None, typer.Option(help="Only these.", show_default=False)] = None,
    agent: Annotated[str | None, typer.Option(help="Only this one's.", show_default=False)] = None,
) -> int:
    """List invocations, newest first."""
    async with session.looking() as store:
        found = await all_invocations(store, status=status, agent=agent)
    for summary in found:
        session.out.emit(_plain.of_summary(summary))
    session.out.say(_views.listing(found) if found else Text("no invocations"))
    return OK


async def show_inbox(
    session: Session,
    agent: Annotated[str | None, typer.Option(help="Only this one's.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
) -> int:
    """List what waits for a person: proposals, questions, writes to be settled."""
    async with session.looking() as store:
        found = await inbox(store, agent=agent, limit=limit)
        roots = [await root_of(store, one.invocation_id) for one in found]
    for one, root in zip(found, roots, strict=True):
        session.out.emit({**_plain.of_waiting(one), "root": root})
        session.out.say(_views.waiting(session, one, root))
    if not found:
        session.out.say(Text("nothing waits for a person"))
    return OK


async def show(
    session: Session,
    invocation: Id,
    effects: Annotated[
        bool, typer.Option("--effects", help="Its writes, and what is known of each.")
    ] = False,
) -> int:
    """Show one invocation: how it stands, what it did."""
    async with session.looking() as store:
        identity = await find_invocation(store, invocation)
        if effects:
            # As they were announced.
            facts = (await all_effects(store, invocation_id=identity))[::-1]
            plain: JsonObject = {
                "invocation_id": identity,
                "effects": [_plain.of_fact(fact) for fact in facts],
            }
            session.out.show(plain, _views.ledger(session, facts))
            return OK
        tree = await tree_of(store, identity)
    stored = tree.root.stored
    records = [entry.record for entry in stored.entries()]
    session.out.show(
        _plain.of_state(stored.summary, tree, records),
        _views.state(session, stored.summary, tree, records),
    )
    return OK


async def explain_invocation(session: Session, invocation: Id) -> int:
    """Explain why an invocation came out as it did, turn by turn, from its journal alone."""
    async with session.looking() as store:
        identity = await find_invocation(store, invocation)
        tree = await tree_of(store, identity)
    told = explain(tree.root.stored.entries())
    session.out.show(_explained.plain(told, tree), _explained.explanation(session, told, tree))
    return OK


async def effects(
    session: Session,
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar=f"[{'|'.join(_STATUSES)}]",
            help="Only these; may be given more than once.",
            show_default=False,
        ),
    ] = None,
    unsettled: Annotated[
        bool, typer.Option("--unsettled", help="Only those somebody may have to look at.")
    ] = False,
    tool: Annotated[str | None, typer.Option(help="Only this one's.", show_default=False)] = None,
    key: Annotated[
        str | None, typer.Option(help="Only this effect key.", show_default=False)
    ] = None,
) -> int:
    """List the writes of all invocations, newest first: what took effect, what is unresolved."""
    if status and unsettled:
        raise ConfigurationError("--unsettled stands for statuses of its own; drop it or --status")
    for word in status or ():
        if word not in _STATUSES:
            msg = f"--status {bounded(word, 100)!r} is none of {', '.join(_STATUSES)}"
            raise ConfigurationError(msg)
    chosen: tuple[EffectStatus, ...] = tuple(
        known for known in _STATUSES if status is not None and status.count(known)
    )
    async with session.looking() as store:
        facts = await all_effects(
            store,
            effect_key=None if key is None else EffectKey(key),
            tool_name=tool,
            statuses=UNSETTLED if unsettled else chosen or None,
        )
    for fact in facts:
        session.out.emit(_plain.of_fact(fact))
    session.out.say(_views.effects(facts) if facts else Text("no effects"))
    return OK
