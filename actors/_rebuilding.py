"""After a crash of a Supervisor: a bug of ours, over which no invocation is to be lost."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from loopwright.protocol import (
    Append,
    Entry,
    Head,
    InvocationEnded,
    InvocationState,
    Reason,
    Recover,
    encode_record,
    state_of,
)

from ._live import Live
from .machine._outcomes import outcome_of

if TYPE_CHECKING:
    from ._engine import Engine

logger = logging.getLogger("loopwright.runtime")


async def rebuild(engine: Engine, live: Live, error: BaseException) -> None:
    """Go on from what is durable, once; a second crash ends it, and its last commit stands."""
    live.tracker.stop(block=False)
    cause = f"{type(error).__name__}: {error}"
    if engine.redacting is not None:
        cause = engine.redacting.text(cause, "error")
    try:
        # A new fence: what the crashed one still has on its way must not arrive any more.
        live.lease = await engine.store.acquire(live.invocation_id, engine.tenure.worker)
        state = state_of(await engine.store.load(live.invocation_id))
        reason = state.protocol.reason
        if reason is not None:
            # It had come to rest, and only did not get to say so.
            await engine.store.release(live.lease)
            engine.forget(live)
            engine.tell(live, outcome_of(state, reason, state.protocol.cause))
        elif live.crashes > 1:
            await _give_up(engine, live, state, cause)
        else:
            engine.start_actors(live, state)
            live.supervisor.tell(Recover())
    except Exception as second:
        logger.exception("Invocation %s could not be rebuilt:", live.invocation_id)
        engine.forget(live)
        engine.stranded[live.invocation_id] = None
        live.fail(second)


async def _give_up(engine: Engine, live: Live, state: InvocationState, cause: str) -> None:
    """End it with `internal_error`; its last commit stands, and a resume goes on from there."""
    at, p = engine.clock.now().wall, state.protocol
    ended = InvocationEnded(Reason.INTERNAL_ERROR, p.active_seconds, at, cause=cause)
    line = encode_record(ended)
    head = Head(p.started.agent, "ended", Reason.INTERNAL_ERROR, at)
    lease = live.lease
    append = Append(live.invocation_id, lease.fence, p.seq + 1, (line,), lease.worker, head)
    (refused,) = await engine.store.append([append])
    if refused is not None:
        raise refused
    state.apply(Entry(ended, line))
    engine.forget(live)
    engine.tell(live, outcome_of(state, Reason.INTERNAL_ERROR, cause))
