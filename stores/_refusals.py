"""What every store of ours refuses, and how it says so."""

from __future__ import annotations

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

    return None


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


def lease_held(invocation_id: InvocationId, owner: str) -> LeaseHeldError:
    """Say that a live worker owns the invocation."""
    return LeaseHeldError(
        f"invocation {invocation_id!r} is owned by worker {owner!r}, which is alive; "
        "wait until it is done or gone."
    )


def _name(append: Append) -> str:
    return f"append {append.first_seq}..{append.last_seq} of invocation {append.invocation_id!r}"
