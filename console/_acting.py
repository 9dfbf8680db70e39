"""The commands that let invocations go on: run, approve, deny, answer, cancel, resume, recover.

`settle` is in `_settling`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal
from typing import Annotated

import typer
from rich.text import Text

from loopwright.protocol import (
    Budget,
    ConfigurationError,
    JsonObject,
    Principal,
    bounded,
    parse_json,
)

from . import _panels, _plain, _views
from ._approving import approved_asks, approving
from ._digests import find_digest
from ._resting import rested, said, shown
from ._session import Session, find_invocation
from ._shared import OK
from ._tree import tree_of

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The invocation; the first or last characters will do.",
        show_default=False,
    ),
]
Digest = Annotated[
    str,
    typer.Argument(
        metavar="DIGEST",
        help="Of the proposal; its first 12 characters will do.",
        show_default=False,
    ),
]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides.", show_default=False)]
Calls = Annotated[
    list[str] | None,
    typer.Option("--call", metavar="ID", help="Only this call; may be given more than once."),
]
Why = Annotated[str, typer.Option("--reason", help="Is kept in the journal.", show_default=False)]
Watch = Annotated[
    bool | None,
    typer.Option(
        "--watch/--no-watch",
        help="Show each step; the default, but not with --json.",
        show_default=False,
    ),
]
Limit = Annotated[int | None, typer.Option(min=0, show_default=False)]
Seconds = Annotated[float | None, typer.Option(min=0, show_default=False)]
Dollars = Annotated[float | None, typer.Option(min=0, metavar="DOLLARS", show_default=False)]


async def run(
    session: Session,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Its name.", show_default=False)],
    goal: Annotated[
        str, typer.Argument(metavar="GOAL", help="What is to be done.", show_default=False)
    ],
    key: Annotated[
        str | None, typer.Option(help="The same agent and key is the same invocation.")
    ] = None,
    principal: Annotated[str | None, typer.Option(help="On whose behalf.")] = None,
    max_steps: Limit = None,
    max_tool_calls: Limit = None,
    max_tokens: Limit = None,
    max_seconds: Seconds = None,
    max_cost: Dollars = None,
    watch: Watch = None,
) -> int:
    """Start an invocation and show its steps; Ctrl-C cancels it."""
    if not goal.strip():
        # The runtime would say the same, but only once its store is there.
        raise ConfigurationError("the goal is blank; say what is to be done")
    agents = await session.agents(agent)
    own = next(known.budget for known in agents if known.name == agent)
    budget = replace(
        own,
        max_steps=own.max_steps if max_steps is None else max_steps,
        max_tool_calls=own.max_tool_calls if max_tool_calls is None else max_tool_calls,
        max_tokens=own.max_tokens if max_tokens is None else max_tokens,
        max_active_seconds=own.max_active_seconds if max_seconds is None else max_seconds,
        max_cost=own.max_cost if max_cost is None else Decimal(str(max_cost)),
    )
    async with session.runtime_of(agents) as runtime:
        begun = await runtime.start(
            agent,
            goal,
            key=key,
            principal=None if principal is None else Principal(principal),
            budget=budget,
        )
        session.out.say(_views.heading(agent, begun.id))
        try:
            return await shown(session, runtime, begun, begun.outcome(), 0, watch=watch)
        except asyncio.CancelledError:
            begun.cancel("interrupted at the terminal", by="cli")
            outcome = await asyncio.shield(begun.outcome())
            await asyncio.shield(rested(session, runtime, outcome))
            raise


async def approve(
    session: Session,
    invocation: Id,
    digest: Digest,
    by: By,
    call: Calls = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CALL=JSON",
            help="Let this call run with these arguments; may be given more than once.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Don't ask once more, where somebody could answer.")
    ] = False,
    watch: Watch = None,
) -> int:
    """Say yes to exactly what a proposal shows, or to your own arguments; it goes on here."""
    edits = _edits(edit or [])
    if not by.strip():
        # The runtime would say the same, but only once everything has been shown.
        raise ConfigurationError("an approval needs a name: --by says who decides, and is blank")
    async with session.store() as store:
        identity = await find_invocation(store, invocation)
        tree = await tree_of(store, identity)
        agents = await session.load_agents()
    exact, seen = find_digest(session, tree, digest), tree.root.state.protocol.seq
    meant = approving(tree, exact, agents, call, edits)
    if meant is not None:
        session.out.say(_panels.to_approve(by, meant))
        # Nothing is open while somebody thinks.
        if not yes and session.out.answers:
            typer.confirm("Let it run?", abort=True)
    async with session.runtime_of(agents) as runtime:
        saying = runtime.approve(identity, exact, by=by, calls=call, edits=edits)
        going = await said(session, runtime, identity, saying, seen, watch=watch)
        asks = () if meant is None else await approved_asks(runtime.store, meant)
        if edits:
            # With the defaults that come with them.
            session.out.say(_panels.approved(by, asks, edits))
        more: JsonObject = {"approved": _plain.of_approved(meant, asks)}
        return await shown(session, runtime, going, going.outcome(), seen, watch=watch, more=more)


async def deny(
    session: Session,
    invocation: Id,
    digest: Digest,
    by: By,
    reason: Why = "",
    call: Calls = None,
    watch: Watch = None,
) -> int:
    """Say no to a proposal; it goes on here, and its model is told."""
    async with session.runtime() as runtime:
        identity = await find_invocation(runtime.store, invocation)
        tree = await tree_of(runtime.store, identity)
        exact, seen = find_digest(session, tree, digest), tree.root.state.protocol.seq
        saying = runtime.deny(identity, exact, by=by, reason=reason, calls=call)
        going = await said(session, runtime, identity, saying, seen, watch=watch)
        return await shown(session, runtime, going, going.outcome(), seen, watch=watch)


async def answer(
    session: Session,
    invocation: Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer.", show_default=False)],
    by: By,
    watch: Watch = None,
) -> int:
    """Answer the question an invocation waits with; it goes on here."""
    async with session.runtime() as runtime:
        identity = await find_invocation(runtime.store, invocation)
        seen = (await runtime.state(identity)).protocol.seq
        saying = runtime.answer(identity, text, by=by)
        going = await said(session, runtime, identity, saying, seen, watch=watch)
        return await shown(session, runtime, going, going.outcome(), seen, watch=watch)


async def cancel(
    session: Session,
    invocation: Id,
    reason: Why = "",
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who cancels.")] = "cli",
) -> int:
    """Cancel an invocation, wherever it is, and wait for its end."""
    async with session.runtime() as runtime:
        identity = await find_invocation(runtime.store, invocation)
        summary = await runtime.store.summary(identity)
        if summary.owner_alive:
            session.out.say(Text(f"its worker {summary.owner} is told, and waited for", "dim"))
        outcome = await runtime.cancel(identity, reason, by=by)
        await rested(session, runtime, outcome)
    return OK


async def resume(
    session: Session,
    invocation: Id,
    grant_steps: Limit = None,
    grant_tool_calls: Limit = None,
    grant_tokens: Limit = None,
    grant_seconds: Seconds = None,
    grant_cost: Dollars = None,
    grant_failures: Limit = None,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who grants.")] = "cli",
    watch: Watch = None,
) -> int:
    """Let one go on that failed, was abandoned, or waits for reconcilers to be asked again."""
    # Every limit is named, for a Budget without max_steps has some.
    limits = Budget(
        max_steps=grant_steps,
        max_tool_calls=grant_tool_calls,
        max_tokens=grant_tokens,
        max_active_seconds=grant_seconds,
        max_cost=None if grant_cost is None else Decimal(str(grant_cost)),
        max_tool_failures=grant_failures,
    )
    grant = None if limits == Budget(max_steps=None) else limits
    async with session.runtime() as runtime:
        identity = await find_invocation(runtime.store, invocation)
        seen = (await runtime.state(identity)).protocol.seq
        resting = runtime.resume(identity, grant=grant, by=by)
        going = runtime.get(identity)
        return await shown(session, runtime, going, resting, seen, watch=watch)


async def recover(session: Session, watch: Watch = None) -> int:
    """Take over every running invocation whose worker is gone; wake those that wait for nothing."""
    async with session.runtime() as runtime:
        before = {summary.invocation_id: summary for summary in await runtime.invocations()}
        taken = (await runtime.recover()).runs
        # A child has ended, or a proposal has expired, and nobody was there to tell them.
        woken = [
            runtime.get(summary.invocation_id)
            for summary in await runtime.invocations()
            if (known := before.get(summary.invocation_id)) is not None
            and known.head.status == "suspended"
            and summary.seq > known.seq
        ]
        codes = list[int]()
        for heading, runs in (("recovered", taken), ("woken", woken)):
            for run in runs:
                seen = before[run.id].seq if run.id in before else 0
                codes.append(
                    await shown(
                        *(session, runtime, run, run.outcome(), seen), watch=watch, heading=heading
                    )
                )
        alive = await runtime.invocations(status="running")
        session.out.say(_views.recovered(len(taken), len(woken), alive))
    return max(codes, default=OK)


def _edits(given: list[str]) -> dict[str, JsonObject]:
    """Read `CALL=JSON` options.

    Raises:
        ConfigurationError: If one is something else, or two are for one call.
        RemoteProtocolError: If it is not JSON.
    """
    edits: dict[str, JsonObject] = {}
    for text in given:
        call, equals, raw = text.partition("=")
        if not (call and equals):
            msg = f"--edit {bounded(text, 100)!r} names no call; write it as CALL=JSON"
            raise ConfigurationError(msg)
        value = parse_json(raw, where=f"--edit {bounded(call, 100)}")
        if not isinstance(value, dict):
            msg = f"--edit {bounded(call, 100)} gives no arguments; write a JSON object"
            raise ConfigurationError(msg)
        if call in edits:
            raise ConfigurationError(f"--edit {bounded(call, 100)} is there twice; drop one")
        edits[call] = value
    return edits
