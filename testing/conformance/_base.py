"""What the tests of the store conformance suite share: how stores and appends are made."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from loopwright.protocol import (
    Append,
    CallId,
    Delivery,
    Effect,
    EffectEntry,
    EffectKey,
    EffectStatus,
    Head,
    InvocationId,
    JsonObject,
    JsonValue,
    Principal,
    Reason,
    Snapshot,
    Status,
    StoreError,
)
from loopwright.stores import AppendResult, Store


def head(
    status: Status = "running",
    *,
    agent: str = "desk",
    key: str | None = None,
    reason: Reason | None = None,
    detail: str = "",
    at: float = 1.0,
    goal: str = "settle",
) -> Head:
    """Make a head; what a test does not care about has a default."""
    return Head(agent, status, reason, at, goal, key, detail)


def append(
    name: str,
    first_seq: int,
    *lines: bytes,
    fence: int = 1,
    worker: str = "w1",
    head: Head | None = None,
    effects: Sequence[EffectEntry] = (),
    outbox: Sequence[Delivery] = (),
    concluded: Sequence[EffectKey] = (),
    snapshot: Snapshot | None = None,
) -> Append:
    """Make an append; without lines it has one that says where it belongs."""
    return Append(
        InvocationId(name),
        fence,
        first_seq,
        lines or (line(name, first_seq),),
        worker,
        head,
        tuple(effects),
        tuple(outbox),
        tuple(concluded),
        snapshot,
    )


def created(
    name: str,
    *lines: bytes,
    key: str | None = None,
    agent: str = "desk",
    worker: str = "w1",
    effects: Sequence[EffectEntry] = (),
    outbox: Sequence[Delivery] = (),
) -> Append:
    """Make the append that creates an invocation."""
    return append(
        name,
        1,
        *lines,
        worker=worker,
        head=head(agent=agent, key=key),
        effects=effects,
        outbox=outbox,
    )


def effect(
    key: str,
    status: EffectStatus = "dispatched",
    *,
    tool: str = "pay",
    receipt: JsonValue = None,
    attempts: int = 1,
    arguments: JsonObject | None = None,
) -> EffectEntry:
    """Make a line of the effect ledger."""
    return EffectEntry(
        EffectKey(key), tool, 3, CallId(f"call {key}"), status, receipt, attempts, arguments
    )


def delivery(
    name: str,
    key: str,
    *resources: str,
    agent: str = "desk",
    arguments: JsonObject | None = None,
) -> Delivery:
    """Make what is to be delivered for an invocation."""
    return Delivery(
        invocation_id=InvocationId(name),
        agent=agent,
        turn=3,
        call_id=CallId(f"call {key}"),
        tool_name="pay",
        effect=Effect.IDEMPOTENT,
        effect_key=EffectKey(key),
        arguments=arguments or {},
        principal=Principal("ann", "acme", ("clerk",), ("pay",)),
        resources=resources,
    )


def queued(name: str, first_seq: int, *deliveries: Delivery, head: Head | None = None) -> Append:
    """Make an append that puts something into the outbox, and announces it in the ledger."""
    announced = [effect(one.effect_key, "prepared", attempts=0) for one in deliveries]
    return append(name, first_seq, head=head, effects=announced, outbox=deliveries)


def line(name: str, seq: int) -> bytes:
    """Make a line that no other invocation and no other seq has."""
    return f'{{"of":"{name}","seq":{seq}}}'.encode()


def kinds(results: Sequence[AppendResult]) -> list[type[StoreError] | None]:
    """Give the class of each result, None for a success."""
    return [None if result is None else type(result) for result in results]


class StoreCase:
    """Makes the stores of a test, and closes them."""

    pytestmark = pytest.mark.anyio

    durable: bool = False
    """Whether two stores of `make_store` share what they hold, within a test."""

    async def make_store(self) -> Store:
        """Make a store that is not open yet, always of the same place within a test."""
        raise NotImplementedError

    @pytest.fixture
    def anyio_backend(self) -> str:
        """Run on asyncio, as the runtime does."""
        return "asyncio"

    @pytest.fixture
    async def store(self) -> AsyncGenerator[Store]:
        """Give an open store, and close it afterwards."""
        async with self.opened() as store:
            yield store

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Store]:
        """Make a store and open it; close it in the end."""
        store = await self.make_store()
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def second(self) -> AsyncGenerator[Store]:
        """Open a second store of the same place, or skip the test if there is no such thing."""
        if not self.durable:
            pytest.skip("what this store holds is not shared")

        async with self.opened() as store:
            yield store
