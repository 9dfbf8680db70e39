"""Conformance of stores: what is stored is read back, by id, by key and in listings."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from loopwright.protocol import (
    InvocationId,
    InvocationNotFoundError,
    Reason,
    Status,
)
from loopwright.stores import Store

from ._base import StoreCase, append, created, head, line


class ReadRules(StoreCase):
    """Journals come back identical; listings are in order of creation."""

    async def test_loading_an_unknown_invocation_is_an_error(self, store: Store) -> None:
        with pytest.raises(InvocationNotFoundError, match="nobody"):
            await store.load(InvocationId("nobody"))
        with pytest.raises(InvocationNotFoundError, match="nobody"):
            await store.summary(InvocationId("nobody"))

    @pytest.mark.parametrize("after", range(7))
    async def test_load_reads_from_behind_after(self, store: Store, after: int) -> None:
        await store.append([created("a", b"1"), append("a", 2, b"2", b"3", b"4")])
        await store.append([append("a", 5, b"5")])
        stored = await store.load(InvocationId("a"), after=after)
        assert stored.first_seq == after + 1
        assert stored.lines == (b"1", b"2", b"3", b"4", b"5")[after:]
        assert stored.summary.seq == 5

    async def test_a_load_beside_appends_is_one_consistent_view(self, store: Store) -> None:
        await store.append([created("a")])

        async def write() -> None:
            for seq in range(2, 40, 2):
                pair = (line("a", seq), line("a", seq + 1))
                await store.append([append("a", seq, *pair)])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            for _ in range(20):
                stored = await store.load(InvocationId("a"))
                assert len(stored.lines) == stored.summary.seq
                assert stored.summary.seq % 2 == 1

    async def test_what_was_appended_is_read_at_once(self, store: Store) -> None:
        await store.append([created("a", key="k")])
        for seq in range(2, 10):
            await store.append([append("a", seq)])
            assert (await store.load(InvocationId("a"), after=seq - 1)).lines == (line("a", seq),)

    @pytest.mark.parametrize(
        "content",
        [
            b'{"a\\u0000b":"\\u0000 and \\\\u0000"}',
            b"\x00\xff raw \x00",
            b'{"id":1234567890123456789,"big":' + b"9" * 4_000 + b"}",
            '{"text":"\ufffd \U0001f600 \u2028"}'.encode(),
            b"",
            b'"' + b"x" * 5_000_000 + b'"',
        ],
        ids=["NUL", "any byte", "big integers", "replaced surrogate", "empty", "5 MB"],
    )
    async def test_lines_come_back_identical(self, store: Store, content: bytes) -> None:
        lines = (content, b"between", content)
        assert await store.append([created("a", *lines)]) == [None]
        await store.close()
        await store.open()
        assert (await store.load(InvocationId("a"))).lines == lines

    async def test_names_come_back_identical(self, store: Store) -> None:
        odd = "a\x00b 'quoted' \U0001f600 %?;"
        first = append(odd, 1, head=head(agent=odd, key=odd, goal=odd, detail=odd))
        await store.append([first])
        assert await store.find(odd, odd) == odd
        assert await store.find(odd, "a") is None
        assert (await store.load(InvocationId(odd))).summary.head == first.head

    async def test_find_knows_agent_and_key(self, store: Store) -> None:
        await store.append([created("a", key="k"), created("b", key="k", agent="billing")])
        assert await store.find("desk", "k") == "a"
        assert await store.find("billing", "k") == "b"
        assert await store.find("desk", "other") is None
        assert await store.find("nobody", "k") is None

    async def test_invocations_are_listed_newest_first(self, store: Store) -> None:
        # The order is that of creation, whatever the clock said and whoever wrote last.
        for number in range(5):
            at = float(10 - number)
            await store.append([append(f"i{number}", 1, head=head(at=at))])
        await store.append([append("i0", 2)])
        assert await self.listed(store) == ["i4", "i3", "i2", "i1", "i0"]
        first = (await store.invocations())[-1]
        assert (first.seq, first.created_at, first.owner) == (2, 10.0, "w1")

    async def test_a_listing_is_continued_before_the_last_one_seen(self, store: Store) -> None:
        await store.append([created(f"i{number}") for number in range(5)])
        assert await self.listed(store, limit=2) == ["i4", "i3"]
        assert await self.listed(store, limit=2, before="i3") == ["i2", "i1"]
        assert await self.listed(store, limit=2, before="i1") == ["i0"]
        assert await self.listed(store, limit=2, before="i0") == []
        with pytest.raises(InvocationNotFoundError):
            await store.invocations(before=InvocationId("nobody"))

    async def test_a_listing_is_narrowed_by_status_and_agent(self, store: Store) -> None:
        asked = head("suspended", reason=Reason.APPROVAL_REQUIRED)
        await store.append(
            [
                created("a"),
                created("b", agent="billing"),
                created("c"),
                append("a", 2, head=asked),
                append("b", 2, head=replace(asked, agent="billing")),
            ]
        )
        assert await self.listed(store, status="suspended") == ["b", "a"]
        assert await self.listed(store, status="running") == ["c"]
        assert await self.listed(store, status="ended") == []
        assert await self.listed(store, agent="desk") == ["c", "a"]
        assert await self.listed(store, agent="desk", status="suspended") == ["a"]
        assert await self.listed(store, status="suspended", limit=1) == ["b"]
        assert await self.listed(store, status="suspended", before="b") == ["a"]

    async def listed(
        self,
        store: Store,
        *,
        status: Status | None = None,
        agent: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[str]:
        """Give the ids of a listing."""
        last = None if before is None else InvocationId(before)
        summaries = await store.invocations(status=status, agent=agent, limit=limit, before=last)
        return [summary.invocation_id for summary in summaries]
