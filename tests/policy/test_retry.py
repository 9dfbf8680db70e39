"""Waiting before something is tried again."""

from __future__ import annotations

from loopwright.policy import backoff


def test_each_wait_is_twice_the_one_before_up_to_the_longest() -> None:
    assert [backoff(n, 0.5, 3.0) for n in (1, 2, 3, 4, 5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert [backoff(n, 0.02) for n in (1, 2, 3)] == [0.02, 0.04, 0.08]


def test_no_number_of_attempts_is_too_large() -> None:
    """A person may let something be tried again as often as they like."""
    assert backoff(5_000, 0.1, 5.0) == 5.0
