"""Reasons: a closed list, each with what it means for the caller."""

from __future__ import annotations

import pytest

from loopwright.protocol import (
    Ending,
    InvocationEnded,
    Reason,
    decode_record,
    encode_record,
    ending_status,
)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_says_what_it_means(reason: Reason) -> None:
    """Name, outcome, whether it can go on, and one sentence of advice."""
    ended = decode_record(encode_record(InvocationEnded(reason, 0.0, 0.0)))
    assert isinstance(ended, InvocationEnded)
    assert ended.reason is reason
    assert str(reason) == reason.value == reason.name.lower()
    assert isinstance(reason.outcome, Ending)
    assert reason.advice.endswith(".")
    assert len(reason.advice) < 120


def test_every_ending_has_a_reason() -> None:
    """And only one reason finishes, only one cancels."""
    by_outcome = {ending: [r for r in Reason if r.outcome is ending] for ending in Ending}
    assert by_outcome[Ending.FINISHED] == [Reason.COMPLETED]
    assert by_outcome[Ending.CANCELLED] == [Reason.CANCELLED]
    assert len(by_outcome[Ending.SUSPENDED]) == 3


def test_what_is_suspended_can_go_on_and_what_is_over_cannot() -> None:
    """Of the failures those can whose cause somebody can lift."""
    assert all(r.resumable for r in Reason if r.outcome is Ending.SUSPENDED)
    assert not Reason.COMPLETED.resumable
    assert not Reason.CANCELLED.resumable
    assert not Reason.DEADLINE_EXCEEDED.resumable
    assert Reason.MAX_STEPS.resumable


def test_a_reason_decides_how_an_invocation_is_listed() -> None:
    """At rest it is suspended or ended."""
    for reason in Reason:
        expected = "suspended" if reason.outcome is Ending.SUSPENDED else "ended"
        assert ending_status(reason) == expected
