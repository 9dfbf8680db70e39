"""Large values inside records: where they are in a line, so that a store can keep each once.

The same output stands in the record of its call and in that of its turn, the same arguments in up
to four. A store that is told where may keep such a value by digest and put it back when the line
is read; a line comes back as it was either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final as Constant

from ._canonical import dumps
from ._decisions import Final, ToolCall, calls_of
from ._evidence import Proposal
from ._journal import Entry, Payload
from ._json import JsonValue
from ._records import (
    ApprovalDecided,
    ApprovalRequested,
    CallCompleted,
    CallDispatched,
    EffectReconciled,
    InvocationEnded,
    InvocationStarted,
    Record,
    TurnCommitted,
    TurnProposed,
)

PAYLOAD_LIMIT: Constant = 32_768
"""Bytes of encoded JSON above which a value is a payload of its own."""


def payloads_of(entries: Sequence[Entry]) -> tuple[Payload, ...]:
    """Find the large values in encoded records."""
    found: list[Payload] = []
    for index, entry in enumerate(entries):
        line = entry.line
        if len(line) <= PAYLOAD_LIMIT:
            continue
        spans: list[Payload] = []
        for value in _values(entry.record):
            encoded = dumps(value)
            if len(encoded) <= PAYLOAD_LIMIT:
                continue
            # What is found is these bytes, whichever value they were written for.
            start = line.find(encoded)
            while start >= 0 and any(
                start < s.end and s.start < start + len(encoded) for s in spans
            ):
                start = line.find(encoded, start + 1)
            if start >= 0:
                spans.append(Payload(index, start, start + len(encoded)))
        found += sorted(spans)
    return tuple(found)


def _values(record: Record) -> Iterable[JsonValue]:
    """List what may be large in a record."""
    match record:
        case TurnCommitted(proposal=proposal, results=results):
            yield from _proposed(proposal)
            for result in results:
                yield result.output
                yield result.arguments
        case TurnProposed(proposal=proposal):
            yield from _proposed(proposal)
        case CallCompleted(result=result):
            yield result.output
            yield result.arguments
        case CallDispatched(arguments=arguments):
            yield arguments
        case ApprovalRequested(asks=asks):
            for ask in asks:
                yield ask.arguments
        case ApprovalDecided(answers=answers):
            for answer in answers:
                yield answer.arguments
        case EffectReconciled(found=found):
            yield found.receipt
        case InvocationStarted(metadata=metadata):
            yield metadata
        case InvocationEnded(output=output):
            yield output
        case _:
            return


def _proposed(proposal: Proposal) -> Iterable[JsonValue]:
    for call in calls_of(proposal.decision):
        if isinstance(call, ToolCall):
            yield call.arguments
    if isinstance(proposal.decision, Final):
        yield proposal.decision.output
