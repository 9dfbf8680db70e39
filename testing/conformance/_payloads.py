"""Conformance of stores: large values in lines may be kept apart, and nobody notices."""

from __future__ import annotations

import pytest

from loopwright.protocol import (
    PAYLOAD_LIMIT,
    Append,
    InvocationId,
    JournalConflictError,
    JsonObject,
    Payload,
    Reason,
    StoreError,
)
from loopwright.stores import Store

from ._base import (
    StoreCase,
    append,
    created,
    delivery,
    effect,
    head,
    kinds,
    line,
    queued,
)

BIG = b'{"page":"' + b"0123456789abcdef" * 4_096 + b'"}'
ODD = bytes(byte for byte in range(256) if byte != ord("\n")) * 200
"""No JSON, no text, and no line break."""


def holding(of: Append, *values: bytes) -> Append:
    """Say of an append that every occurrence of these values is a payload."""
    found: list[Payload] = []
    for index, text in enumerate(of.lines):
        for value in values:
            start = text.find(value)
            while start >= 0:
                found.append(Payload(index, start, start + len(value)))
                start = text.find(value, start + len(value))

    return of._replace(payloads=tuple(sorted(found)))


class PayloadRules(StoreCase):
    """Lines with payloads come back as they were, and count as what they are."""

    @pytest.mark.parametrize(
        "lines",
        [
            (b'{"output":' + BIG + b"}",),
            (BIG,),
            (b"before", b'{"output":' + BIG + b"}", b"after", b"", b"[[0,1,2]]"),
            (b"%s|%s|%s" % (BIG, BIG, ODD), b"", ODD + BIG, BIG, b"[]"),
            (BIG + BIG,),
        ],
        ids=["inside", "all of it", "between lines without", "several", "side by side"],
    )
    async def test_lines_with_payloads_come_back_identical(
        self, store: Store, lines: tuple[bytes, ...]
    ) -> None:
        first = holding(created("a", *lines), BIG, ODD)
        second = holding(append("a", len(lines) + 1, *lines, b"2"), BIG, ODD)
        assert len(first.payloads) > 0
        assert await store.append([first]) == [None]
        assert await store.append([second, append("a", second.last_seq + 1)]) == [None] * 2

        whole = (*lines, *lines, b"2", line("a", second.last_seq + 1))
        for after in range(len(whole)):
            stored = await store.load(InvocationId("a"), after=after)
            assert stored.lines == whole[after:]

    async def test_small_payloads_are_fine_as_well(self, store: Store) -> None:
        marked = created("a", b"abcd", b"x")._replace(
            payloads=(Payload(0, 0, 1), Payload(0, 1, 2), Payload(0, 3, 4), Payload(1, 0, 1))
        )
        assert await store.append([marked]) == [None]
        assert (await store.load(InvocationId("a"))).lines == (b"abcd", b"x")

    async def test_they_are_there_after_closing_and_opening(self, store: Store) -> None:
        await store.append([holding(created("a", b"1" + BIG), BIG)])
        await store.close()
        await store.open()
        assert (await store.load(InvocationId("a"))).lines == (b"1" + BIG,)

    async def test_the_same_append_again_is_a_success(self, store: Store) -> None:
        batch = [
            holding(created("a", b"1" + BIG, b"2"), BIG),
            holding(append("a", 3, BIG + b"3"), BIG),
        ]
        assert await store.append(batch) == [None] * 2
        assert await store.append(batch) == [None] * 2
        # What counts is what the lines are, not how they are kept.
        assert await store.append([one._replace(payloads=()) for one in batch]) == [None] * 2
        pieces = [append("a", 2, b"2"), holding(append("a", 2, b"2", BIG + b"3"), b"2", b"3")]
        assert await store.append(pieces) == [None] * 2
        assert (await store.load(InvocationId("a"))).lines == (b"1" + BIG, b"2", BIG + b"3")

    async def test_other_content_is_a_conflict(self, store: Store) -> None:
        other = BIG.replace(b"f", b"F")
        await store.append([holding(created("a", b"1" + BIG), BIG)])
        again = [
            holding(created("a", b"1" + other), other),
            holding(created("a", b"2" + BIG), BIG),
            holding(created("a", BIG + b"1"), BIG),
            created("a", b"1"),
        ]
        assert kinds(await store.append(again)) == [JournalConflictError] * 4
        assert (await store.load(InvocationId("a"))).lines == (b"1" + BIG,)

    @pytest.mark.parametrize(
        "payloads",
        [
            [(2, 0, 1)],
            [(-1, 0, 1)],
            [(0, -1, 3)],
            [(0, 5, 11)],
            [(0, 10, 12)],
            [(0, 5, 3)],
            [(0, 2, 6), (0, 4, 8)],
            [(0, 2, 6), (0, 3, 4)],
            [(0, 2, 6), (0, 2, 6)],
            [(0, 6, 8), (0, 2, 4)],
            [(1, 0, 1), (0, 0, 1)],
            [(0, 0, 1), (1, 0, 1), (0, 5, 6)],
        ],
        ids=[
            "no such line",
            "a line before the first",
            "before the line",
            "beyond the line",
            "behind the line",
            "backwards",
            "overlapping",
            "one inside another",
            "twice",
            "not in order",
            "lines not in order",
            "back to a line",
        ],
    )
    async def test_payloads_that_do_not_fit_are_refused_alone(
        self, store: Store, payloads: list[tuple[int, int, int]]
    ) -> None:
        bad = append("a", 2, b"0123456789", b"0123")
        bad = bad._replace(payloads=tuple(Payload(*span) for span in payloads))
        new = bad._replace(
            invocation_id=InvocationId("c"), first_seq=1, head=head(), effects=(effect("k"),)
        )
        await store.append([created("a")])
        results = await store.append([bad, created("b"), new])
        assert kinds(results) == [StoreError, None, StoreError]
        assert (await store.load(InvocationId("a"))).lines == (line("a", 1),)
        assert len(await store.invocations()) == 2
        assert list(await store.effects()) == []

    async def test_two_invocations_may_hold_the_same(self, store: Store) -> None:
        ended = append("a", 2, head=head("ended", reason=Reason.COMPLETED, at=2.0))
        await store.append([holding(created("a", b"a" + BIG), BIG), ended])
        await store.append([holding(created("b", b"b" + BIG), BIG)])
        assert await store.prune(ended_before=3.0) == 1
        assert (await store.load(InvocationId("b"))).lines == (b"b" + BIG,)
        # As long as it is kept at all, it is kept for the new one as well.
        await store.append([holding(created("a", b"new" + BIG), BIG)])
        assert (await store.load(InvocationId("a"))).lines == (b"new" + BIG,)

    async def test_large_receipts_and_arguments_come_back_equal(self, store: Store) -> None:
        given: JsonObject = {"text": "\x00ü" * PAYLOAD_LIMIT, "big": 10**400, "one": 1.0}
        receipt: JsonObject = {"text": "r" * PAYLOAD_LIMIT, "given": given}
        small = effect("k1", arguments={"n": 1})
        await store.append([created("a", effects=[small, effect("k2", arguments=given)])])
        ((_, fact), _) = await store.effects()
        assert repr(fact.entry) == repr(effect("k2", arguments=given))

        # Over an earlier line, which alone knows the arguments.
        known = effect("k2", "committed", receipt=receipt)
        await store.append([append("a", 2, effects=[known])])
        ((_, fact), (_, other)) = await store.effects()
        assert fact.entry == effect("k2", "committed", receipt=receipt, arguments=given)
        assert other.entry == small

    async def test_a_large_receipt_of_a_delivery_comes_back_equal(self, store: Store) -> None:
        large: JsonObject = {"to": "b" * PAYLOAD_LIMIT}
        await store.append([queued("a", 1, delivery("a", "k", arguments=large), head=head())])
        (claimed,) = await store.claim("w1", ["desk"])
        assert claimed.delivery.arguments == large
        assert await store.conclude(claimed.number, "w1", "committed", receipt=large)
        ((_, fact),) = await store.effects()
        assert (fact.entry.status, fact.entry.receipt) == ("committed", large)
