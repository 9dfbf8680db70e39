"""What deciders that find their place by walking the history rest on: all of it, and only their own."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright import Handoff, ModelError, ModelErrorKind, ModelRequest
from loopwright.protocol import Turn


def own_turns(request: ModelRequest) -> Sequence[Turn]:
    """Return the committed turns since this agent was given the invocation.

    Raises:
        ModelError: If turns are left out. Whoever finds their place by what they have done would
            take themselves to be at the start, and do it all again, payments too.
    """
    if request.summary:
        msg = (
            f"agent {request.agent!r} is not shown all its turns, and cannot tell where it is; "
            "give it a Policy whose context= has no max_tokens"
        )
        raise ModelError(msg, kind=ModelErrorKind.PERMANENT)
    turns = request.history
    handed = (
        index
        for index in range(len(turns), 0, -1)
        if isinstance(turns[index - 1].proposal.decision, Handoff)
    )
    return turns[next(handed, 0) :]
