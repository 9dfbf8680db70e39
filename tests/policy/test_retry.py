"""Waiting before something is tried again."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright import ConfigurationError
from loopwright.policy import Breaker, Retry, backoff


def test_each_wait_is_twice_the_one_before_up_to_the_longest() -> None:
    assert [backoff(n, 0.5, 3.0) for n in (1, 2, 3, 4, 5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert [backoff(n, 0.02) for n in (1, 2, 3)] == [0.02, 0.04, 0.08]


def test_no_number_of_attempts_is_too_large() -> None:
    """A person may let something be tried again as often as they like."""
    assert backoff(5_000, 0.1, 5.0) == 5.0


def test_the_jitter_is_full() -> None:
    """Whoever failed at the same moment comes back spread over all of the wait."""
    retry = Retry(first=1.0, longest=3.0)
    assert [retry.wait(n, None, 0.0) for n in (1, 2, 3)] == [0.0, 0.0, 0.0]
    assert [retry.wait(n, None, 0.5) for n in (1, 2, 3)] == [0.5, 1.0, 1.5]


def test_what_somebody_asks_for_is_waited_at_least() -> None:
    """B99: also longer than `longest`; the jitter comes on top, so that not all return at once."""
    retry = Retry(first=1.0, longest=3.0)
    assert retry.wait(1, 7.0, 0.0) == 7.0
    assert retry.wait(9, 7.0, 0.5) == 8.5
    assert retry.wait(1, 0.0, 0.5) == 0.5


def test_nobody_is_waited_for_without_end() -> None:
    """What somebody else asks for is theirs to say, and ours to agree to; the text says both."""
    retry = Retry(patience=60)
    assert [retry.impatient(after) for after in (None, 0.0, 60.0)] == ["", "", ""]
    assert retry.impatient(60.5) == "; it asks for a wait of 60.5 s, and at most 60 s are waited"
    assert "1000000000000 s, and at most 300 s" in Retry().impatient(1e12)


@given(
    st.integers(1, 10_000),
    st.none() | st.floats(0, 1e9),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
)
def test_no_wait_is_negative_endless_or_shorter_than_asked(
    failures: int, asked: float | None, random: float, first: float, longest: float
) -> None:
    wait = Retry(first=first, longest=longest).wait(failures, asked, random)
    least = asked or 0.0
    assert least <= wait <= least + longest
    assert math.isfinite(wait)


@pytest.mark.parametrize(
    ("make", "options", "problem"),
    [
        (Retry, {"max_attempts": 0}, "Retry.max_attempts is 0; give at least 1"),
        (Retry, {"max_attempts": True}, "Retry.max_attempts is True; give at least 1"),
        (Retry, {"first": -1}, "Retry.first is -1; give seconds that are not negative"),
        (Retry, {"longest": math.nan}, "Retry.longest is nan; give seconds that are not negative"),
        (Retry, {"patience": -1}, "Retry.patience is -1; give seconds that are not negative"),
        (Retry, {"patience": math.inf}, "Retry.patience is inf; give seconds that are not"),
        (Retry, {"longest": "1"}, "Retry.longest is '1'; give seconds that are not negative"),
        (Breaker, {"failures": -1}, "Breaker.failures is -1; give a number that is not negative"),
        (Breaker, {"failures": 1.5}, "Breaker.failures is 1.5; give a number that is not"),
        (Breaker, {"cool_down": 0}, "Breaker.cool_down is 0; give seconds above 0"),
        (Breaker, {"cool_down": math.inf}, "Breaker.cool_down is inf; give seconds above 0"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(
    make: Any, options: dict[str, object], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem.replace(".", r"\.")):
        make(**options)
