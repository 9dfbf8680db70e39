"""Large values are found where they stand in the lines of records, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.protocol import (
    PAYLOAD_LIMIT,
    ApprovalRequested,
    Ask,
    Budget,
    CallCompleted,
    CallDispatched,
    CallId,
    EffectKey,
    EffectReconciled,
    Entry,
    Handoff,
    InvocationEnded,
    InvocationId,
    InvocationStarted,
    JsonObject,
    JsonValue,
    Payload,
    Principal,
    ProgressNote,
    Proposal,
    ProposalDigest,
    Reason,
    Reconciled,
    Record,
    RequestApproval,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolResult,
    TurnCommitted,
    TurnProposed,
    Usage,
    dumps,
    encode_record,
    payloads_of,
)

C1, KEY, DIGEST = CallId("c1"), EffectKey("call:7"), ProposalDigest("d1")
LARGE: JsonObject = {"text": "ü\x00\n" * PAYLOAD_LIMIT}
OTHER: JsonObject = {"list": list(range(PAYLOAD_LIMIT))}


def entries_of(records: Sequence[Record]) -> list[Entry]:
    return [Entry(record, encode_record(record)) for record in records]


def proposed(*arguments: JsonObject) -> Proposal:
    calls = tuple(ToolCall(CallId(f"c{n}"), "pay", one) for n, one in enumerate(arguments))
    return Proposal(ToolCalls(calls), Usage())


def result(output: JsonValue, arguments: JsonObject | None = None) -> ToolResult:
    return ToolResult(C1, "pay", ResultStatus.OK, output, arguments=arguments)


def committed(arguments: Sequence[JsonObject], *results: ToolResult) -> TurnCommitted:
    return TurnCommitted(1, proposed(*arguments), results, len(results), 0.25, 1.0)


def started(metadata: JsonObject) -> InvocationStarted:
    of = InvocationId("i1")
    return InvocationStarted(
        of, "desk", "1", "1", "go", Principal("ann"), Budget(), 1.0, metadata=metadata
    )


def asking(arguments: JsonObject) -> TurnProposed:
    call = ToolCall(C1, "pay", arguments)
    return TurnProposed(1, Proposal(RequestApproval((call,), "much"), Usage()), 1.0)


def handing_over(arguments: JsonObject) -> TurnCommitted:
    call = ToolCall(C1, "pay", arguments)
    decision = Handoff("refunds", "not mine", ProgressNote(), (call,))
    return TurnCommitted(1, Proposal(decision, Usage()), (result(1),), 1, 0.25, 1.0)


def reconciled(receipt: JsonObject) -> EffectReconciled:
    return EffectReconciled(1, C1, "pay", KEY, Reconciled("applied", receipt), "ann", 1.0)


def holders(value: JsonObject) -> list[Record]:
    """Make a record of every kind, and in every place, that may hold a large value."""
    return [
        started(value),
        TurnProposed(1, proposed(value), 1.0),
        asking(value),
        handing_over(value),
        CallDispatched(1, C1, 1, "pay", value, KEY, 1.0),
        CallCompleted(1, result(value), 1.0),
        CallCompleted(1, result(1, value), 1.0),
        reconciled(value),
        committed([value]),
        committed([{}], result(value)),
        committed([{}], result(1, value)),
        ApprovalRequested(1, DIGEST, (Ask(C1, "pay", value, "much"),), 1.0),
        InvocationEnded(Reason.COMPLETED, 0.5, 1.0, output=value),
    ]


@st.composite
def values(draw: st.DrawFn) -> JsonObject:
    """Make a small or a large value; parts of it repeat, and one may hold another."""
    text = draw(st.text(max_size=8)) or "x"
    size = draw(st.sampled_from([1, 100, PAYLOAD_LIMIT - 9, PAYLOAD_LIMIT, 2 * PAYLOAD_LIMIT]))
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return {"t": text * (size // len(text.encode("utf-8", "replace")) + 1)}
    if kind == 1:
        numbers: list[JsonValue] = [draw(st.integers())]
        return {text: numbers * (size // 8)}
    if kind == 2:
        return {"in": {"t": "x" * size}, "again": {"t": "x" * size}}
    return {"t": "x" * size}


@st.composite
def held(draw: st.DrawFn) -> tuple[list[JsonObject], list[Record]]:
    """Make records, and list the values that were put into them."""
    found = draw(st.lists(values(), min_size=1, max_size=3))
    records: list[Record] = []
    for _ in range(draw(st.integers(0, 4))):
        first, second, third = (draw(st.sampled_from(found)) for _ in range(3))
        turn = committed([first, second], result(second, third), result(first))
        records.append(draw(st.sampled_from([*holders(first), turn])))
    return found, records


@settings(deadline=None, max_examples=150)
@given(held())
def test_payloads_are_large_values_in_order_and_apart(
    case: tuple[list[JsonObject], list[Record]],
) -> None:
    given_values, records = case
    encoded = {dumps(value) for value in given_values}
    entries = entries_of(records)
    payloads = payloads_of(entries)
    for index, start, end in payloads:
        assert 0 <= index < len(entries)
        assert 0 <= start < end <= len(entries[index].line)
        assert end - start > PAYLOAD_LIMIT
        assert entries[index].line[start:end] in encoded
    for one, following in pairwise(payloads):
        assert one.line < following.line or (
            one.line == following.line and one.end <= following.start
        )


@pytest.mark.parametrize("place", range(len(holders({}))))
def test_a_large_value_is_found_wherever_it_may_stand(place: int) -> None:
    """What is left of the line is small."""
    (entry,) = entries_of([holders(LARGE)[place]])
    ((index, start, end),) = payloads_of([entry])
    assert (index, entry.line[start:end]) == (0, dumps(LARGE))
    assert len(entry.line) - (end - start) < 1_000


def test_small_records_have_none() -> None:
    small: JsonObject = {"text": "x" * (PAYLOAD_LIMIT // 2)}
    assert payloads_of(entries_of(holders(small))) == ()
    assert payloads_of([]) == ()


def test_many_small_values_in_a_large_line_are_none() -> None:
    small: JsonObject = {"text": "x" * (PAYLOAD_LIMIT // 2)}
    (entry,) = entries_of([committed([small, small], result(small, small))])
    assert len(entry.line) > PAYLOAD_LIMIT
    assert payloads_of([entry]) == ()


def test_the_limit_itself_is_small() -> None:
    edge: JsonObject = {"t": "x" * (PAYLOAD_LIMIT - len(dumps({"t": ""})))}
    assert payloads_of(entries_of([CallCompleted(1, result(edge), 1.0)])) == ()
    (found,) = payloads_of(entries_of([CallCompleted(1, result({"t": f"{edge['t']}x"}), 1.0)]))
    assert found.end - found.start == PAYLOAD_LIMIT + 1


def test_the_same_value_twice_in_a_line_gives_two_spans() -> None:
    (entry,) = entries_of([committed([LARGE], result(LARGE))])
    first, second = payloads_of([entry])
    assert entry.line[first.start : first.end] == entry.line[second.start : second.end]
    assert first.end <= second.start


def test_all_values_of_all_lines_are_found() -> None:
    records: list[Record] = [
        CallCompleted(1, result(LARGE), 1.0),
        CallCompleted(1, result(7), 1.0),
        committed([LARGE, OTHER, LARGE], result(OTHER, LARGE), result(LARGE, OTHER)),
    ]
    entries = entries_of(records)
    payloads = payloads_of(entries)
    assert [one.line for one in payloads] == [0, *[2] * 7]
    found = [entries[index].line[start:end] for index, start, end in payloads]
    assert sorted(found) == sorted([dumps(LARGE)] * 5 + [dumps(OTHER)] * 3)


def test_a_value_inside_another_is_found_only_once() -> None:
    """Where both are large, the spans are apart all the same, and nothing is lost by it."""
    outer: JsonObject = {"in": LARGE}
    entries = entries_of([committed([outer], result(LARGE)), committed([LARGE], result(outer))])
    for entry in entries:
        spans = payloads_of([entry])
        assert all(one.end <= following.start for one, following in pairwise(spans))
        left = len(entry.line) - sum(end - start for _, start, end in spans)
        assert left < 1_000


@pytest.mark.parametrize(
    "odd", [{"big": 10**400}, {"lone": "\ud800"}, {"float": 1e22}], ids=["big", "lone", "float"]
)
def test_values_that_are_written_slowly_are_found_too(odd: JsonObject) -> None:
    value = {**odd, **LARGE}
    (entry,) = entries_of([CallCompleted(1, result(value), 1.0)])
    (found,) = payloads_of([entry])
    assert found == Payload(0, found.start, found.start + len(dumps(value)))
