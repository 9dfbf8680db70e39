"""What every store of ours refuses, and how it says so."""

from __future__ import annotations

from math import isnan
from typing import cast

from loopwright.protocol import (
    Append,
    FencedError,
    InvocationId,
    InvocationNotFoundError,
    JournalConflictError,
    LeaseHeldError,
    StoreError,
)


def unfit(append: Append) -> StoreError | None:
    """Say why no store could keep this append, whatever is stored already."""
    if append.first_seq < 1:
        return StoreError(f"{_name(append)} starts before seq 1; count from 1.")

    if not append.lines:
        return StoreError(f"{_name(append)} holds no line; send at least one record.")

    for line in append.lines:
        if b"\n" in line:
            return StoreError(f"{_name(append)} has a line with a line break; encode it as JSON.")

    head = append.head
    if head is not None:
        try:
            f"{append.invocation_id}{head.agent}{head.key}{head.goal}{head.detail}".encode()
        except UnicodeEncodeError:
            return StoreError(f"{_name(append)} has a lone surrogate in its head; replace it.")

    elif append.first_seq == 1:
        return StoreError(f"{_name(append)} creates an invocation without a head; add one.")

    if append.effects or append.outbox or append.payloads or append.snapshot is not None:
        return _unfit_rest(append)

    return None


def _unfit_rest(append: Append) -> StoreError | None:
    """Say why what goes with the lines could not be kept."""
    names = [f"{one.effect_key}{one.tool_name}{one.call_id}" for one in append.effects]
    for delivery in append.outbox:
        names += (delivery.effect_key, delivery.agent, *delivery.resources)
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return StoreError(f"{_name(append)} has a lone surrogate in an effect; replace it.")

    snapshot = append.snapshot
    if snapshot is not None and not 0 < snapshot.seq < append.first_seq:
        return StoreError(
            f"{_name(append)} has a snapshot of seq {snapshot.seq}; "
            "send one of a seq that is stored before it."
        )
    if not _payloads_fit(append):
        return StoreError(
            f"{_name(append)} has payloads that are not in its lines, in order and apart; "
            "find them with payloads_of."
        )
    return None


def _payloads_fit(append: Append) -> bool:
    """Whether each payload is within a line, and behind the one before it."""
    last_line = last_end = 0
    for index, start, end in append.payloads:
        if index > last_line:
            last_line, last_end = index, 0
        if index < last_line or index >= len(append.lines):
            return False
        if not last_end <= start < end <= len(append.lines[index]):
            return False
        last_end = end
    return True


def misplaced(append: Append, *, fence: int, seq: int) -> StoreError:
    """Say why an append does not follow `seq` under `fence`; the fence is looked at first.

    A former owner must learn that it is one, also where the new owner has written in its place.
    """
    if append.fence != fence:
        return FencedError(
            f"{_name(append)} carries fence {append.fence}, the current one is {fence}; "
            "stop: another worker has taken over."
        )
    return JournalConflictError(
        f"{_name(append)} does not follow what is stored, whose next seq is {seq + 1}; "
        "load the journal and compare."
    )


def key_taken(append: Append) -> JournalConflictError:
    """Say that another invocation was started under this agent and key."""
    agent, key = (append.head.agent, append.head.key) if append.head else ("", None)
    return JournalConflictError(
        f"{_name(append)} uses the key {key!r} of agent {agent!r}, which another invocation has; "
        "find that one, or use a new key."
    )


def not_found(invocation_id: InvocationId, where: str) -> InvocationNotFoundError:
    """Say that a store holds no such invocation."""
    return InvocationNotFoundError(
        f"{where} holds no invocation {invocation_id!r}; list its invocations to see the ids."
    )


def check_prune(ended_before: object, limit: object) -> None:
    """Refuse to delete by a time that is none: SQLite calls every number less than any text.

    Raises:
        StoreError: If the time is no number, or the limit none that counts.
    """
    if type(ended_before) not in (int, float) or isnan(cast("float", ended_before)):
        raise StoreError(
            f"ended_before is {ended_before!r}; give seconds since the epoch, as time.time() does."
        )
    if type(limit) is not int or limit < 0:
        raise StoreError(f"limit is {limit!r}; give how many may be deleted at most.")


def lease_held(invocation_id: InvocationId, owner: str) -> LeaseHeldError:
    """Say that a live worker owns the invocation."""
    return LeaseHeldError(
        f"invocation {invocation_id!r} is owned by worker {owner!r}, which is alive; "
        "wait until it is done or gone."
    )


def _name(append: Append) -> str:
    return f"append {append.first_seq}..{append.last_seq} of invocation {append.invocation_id!r}"
