"""The command that says what became of a write nobody knows the fate of: settle."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import typer

from loopwright.protocol import (
    ConfigurationError,
    Reconciled,
    applied,
    not_applied,
    parse_json,
    rejected,
    unknown,
)

from ._acting import By, Id, Watch
from ._resting import said, shown
from ._session import Session, find_invocation
from ._shared import OK

Word: TypeAlias = Literal["applied", "rejected", "not-applied", "unknown"]


async def settle(
    session: Session,
    invocation: Id,
    call: Annotated[str, typer.Argument(metavar="CALL", help="The call's id.", show_default=False)],
    found: Annotated[
        Word,
        typer.Argument(
            metavar="FOUND",
            help="applied, rejected, not-applied (so it may be sent again) or unknown (go on so).",
            show_default=False,
        ),
    ],
    by: By,
    receipt: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="For applied: the evidence, which becomes the call's output.",
            show_default=False,
        ),
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="For rejected and unknown: why.", show_default=False),
    ] = None,
    turn: Annotated[
        int | None,
        typer.Option(min=1, help="Which turn's, where turns share a call id.", show_default=False),
    ] = None,
    watch: Watch = None,
) -> int:
    """Say what became of a write whose outcome is unknown; what waits for it goes on here."""
    finding = _finding(found, receipt, reason)
    async with session.runtime() as runtime:
        identity = await find_invocation(runtime.store, invocation)
        before = (await runtime.state(identity)).protocol
        saying = runtime.settle(identity, call, finding, by=by, turn=turn)
        going = await said(session, runtime, identity, saying, before.seq, watch=watch)
        code = await shown(session, runtime, going, going.outcome(), before.seq, watch=watch)
    # Of one that was over, only the ledger was to be corrected: that has succeeded.
    return OK if before.status == "ended" else code


def _finding(word: Word, receipt: str | None, reason: str | None) -> Reconciled:
    """Put a finding together.

    Raises:
        ConfigurationError: If an option has no meaning for the word.
        RemoteProtocolError: If the receipt is not JSON.
    """
    if receipt is not None and word != "applied":
        raise ConfigurationError(f"--receipt has no meaning for {word}; drop it, or say applied")
    if reason is not None and word not in ("rejected", "unknown"):
        raise ConfigurationError(f"--reason has no meaning for {word}; drop it")
    match word:
        case "applied":
            return applied(None if receipt is None else parse_json(receipt, where="--receipt"))
        case "rejected":
            return rejected(reason or "")
        case "not-applied":
            return not_applied()
        case "unknown":
            return unknown(reason or "")
