"""How an invocation goes on here until it is at rest, shown step by step, and then as it stands."""

from __future__ import annotations

from collections.abc import Awaitable

from loopwright.actors import Run, Runtime
from loopwright.protocol import (
    ApprovalExpiredError,
    Ending,
    InvocationId,
    InvocationStateError,
    JsonObject,
    Outcome,
    Record,
)

from . import _plain, _views
from ._session import Session
from ._shared import OK, UNSUCCESSFUL
from ._tree import callers_of, tree_of
from ._watch import Lines, follow


async def shown(
    session: Session,
    runtime: Runtime,
    run: Run,
    resting: Awaitable[Outcome],
    seen: int,
    *,
    watch: bool | None,
    heading: str = "",
    more: JsonObject | None = None,
) -> int:
    """Show an invocation while it goes on, then how it came to rest; return the exit code.

    Args:
        session: Whose output.
        runtime: Where it goes on.
        run: Which invocation.
        resting: Its outcome.
        seen: The seq behind which records are shown.
        watch: Whether they are; by default for people only.
        heading: What goes before everything, with its id.
        more: What goes with the outcome, for machines.
    """
    out, lines = session.out, Lines()
    watching = not out.as_json if watch is None else watch

    def show(record: Record) -> None:
        if watching:
            out.emit({"record": _plain.of_record(record)})
            for line in lines.of(record):
                out.say(line)

    if heading:
        out.say(_views.heading(heading, run.id))
    outcome = await follow(run, resting, seen, show)
    await rested(session, runtime, outcome, more)
    unsuccessful = outcome.reason.outcome in (Ending.FAILED, Ending.CANCELLED)
    return UNSUCCESSFUL if unsuccessful else OK


async def rested(
    session: Session,
    runtime: Runtime,
    outcome: Outcome,
    more: JsonObject | None = None,
) -> None:
    """Show how an invocation came to rest, and, of a child, those that have called it."""
    # They go on here as well, and must not be left without an owner.
    callers = await callers_of(runtime, outcome)
    tree = await tree_of(runtime.store, outcome.invocation_id)
    plain: JsonObject = {
        **_plain.of_outcome(outcome),
        "waiting_children": [_plain.of_waiting(one) for one in tree.waiting],
        "callers": [_plain.of_caller(caller) for caller in callers],
        **(more or {}),
    }
    session.out.show(plain, _views.outcome(session, outcome, tree))
    for caller in callers:
        session.out.say(_views.caller(session, caller))


async def said(
    session: Session,
    runtime: Runtime,
    identity: InvocationId,
    saying: Awaitable[Run],
    seen: int,
    *,
    watch: bool | None,
) -> Run:
    """Wait until something is said to an invocation.

    It may be refused and go on all the same: its proposal has expired, or somebody wanted it
    cancelled. Then it is shown how that comes out before the refusal is raised.
    """
    try:
        return await saying
    except InvocationStateError as error:
        if isinstance(error, ApprovalExpiredError) or runtime.statistics()[0]:
            going = runtime.get(identity)
            await shown(session, runtime, going, going.outcome(), seen, watch=watch)
        raise
