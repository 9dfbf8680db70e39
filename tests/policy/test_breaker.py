"""The breaker: closed, open, one probe, closed or open again; and nobody keeps a place for ever."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.policy import Breaker, Circuit

RULE = Breaker(failures=3, cool_down=10.0)


def failed(circuit: Circuit, times: int, now: float = 0.0) -> Circuit:
    """Let as many callers in a row meet a countable failure."""
    for _ in range(times):
        circuit = circuit.failed(circuit.enter(RULE, now).generation, RULE, now)
    return circuit


def test_it_opens_after_that_many_failures_in_a_row() -> None:
    assert not failed(Circuit(), 2).refuses(0.0)
    assert failed(Circuit(), 3).refuses(0.0)


def test_a_success_in_between_starts_anew() -> None:
    circuit = failed(Circuit(), 2)
    circuit = circuit.succeeded(circuit.generation)
    assert not failed(circuit, 2).refuses(0.0)
    assert failed(circuit, 3).refuses(0.0)


def test_what_does_not_count_is_as_if_it_had_never_been() -> None:
    """A 4xx neither opens it nor says that the endpoint is well."""
    circuit = failed(Circuit(), 2)
    circuit = circuit.left(circuit.generation)
    assert not circuit.refuses(0.0)
    assert failed(circuit, 1).refuses(0.0)


def test_it_never_opens_with_a_rule_of_none() -> None:
    circuit = Circuit()
    for _ in range(100):
        circuit = circuit.failed(circuit.generation, Breaker(failures=0), 0.0)
    assert circuit == Circuit()


def test_after_the_cool_down_one_probe_is_let_through() -> None:
    circuit = failed(Circuit(), 3)
    assert circuit.refuses(9.9)
    assert not circuit.refuses(10.0)
    assert circuit.enter(RULE, 10.0).refuses(10.0)


def test_a_probe_that_succeeds_closes_it() -> None:
    circuit = failed(Circuit(), 3).enter(RULE, 10.0)
    circuit = circuit.succeeded(circuit.generation)
    assert not failed(circuit, 2, 10.0).refuses(10.0)


def test_a_probe_that_fails_opens_it_again() -> None:
    """One is enough, and the whole cool-down begins anew."""
    circuit = failed(Circuit(), 3).enter(RULE, 10.0)
    circuit = circuit.failed(circuit.generation, RULE, 12.0)
    assert circuit.refuses(21.9)
    assert not circuit.refuses(22.0)


def test_a_probe_that_is_cancelled_frees_its_place_at_once() -> None:
    circuit = failed(Circuit(), 3).enter(RULE, 10.0)
    circuit = circuit.left(circuit.generation)
    assert not circuit.refuses(10.0)
    assert circuit.enter(RULE, 10.0).refuses(10.0)


def test_a_probe_that_hangs_loses_its_place() -> None:
    """The next one is let through after another cool-down, and the first one's word is void."""
    first = failed(Circuit(), 3).enter(RULE, 10.0)
    assert first.refuses(19.9)
    assert not first.refuses(20.0)
    second = first.enter(RULE, 20.0)
    for late in (
        second.succeeded(first.generation),
        second.failed(first.generation, RULE, 21.0),
        second.left(first.generation),
    ):
        assert late == second
    assert not second.succeeded(second.generation).refuses(21.0)


@pytest.mark.parametrize("report", ["succeeded", "failed", "left"])
def test_who_began_before_it_opened_says_nothing_of_now(report: str) -> None:
    """Ten calls in flight that all fail must not push the probe away, nor one late reply close it."""
    before = Circuit().enter(RULE, 0.0).generation
    circuit = failed(Circuit(), 3, now=5.0)
    if report == "failed":
        assert circuit.failed(before, RULE, 14.0) == circuit
    else:
        assert getattr(circuit, report)(before) == circuit


@dataclass
class Endpoint:
    """An endpoint, and callers who come and report in any order."""

    now: float = 0.0
    circuit: Circuit = field(default_factory=Circuit)
    inside: list[int] = field(default_factory=list[int])

    def do(self, act: str, which: int) -> None:
        if act == "wait":
            self.now += which
        elif act == "come":
            if not self.circuit.refuses(self.now):
                self.circuit = self.circuit.enter(RULE, self.now)
                self.inside.append(self.circuit.generation)
        elif self.inside:
            generation = self.inside.pop(which % len(self.inside))
            if act == "fail":
                self.circuit = self.circuit.failed(generation, RULE, self.now)
            else:
                self.circuit = getattr(self.circuit, act)(generation)


ACTS = st.lists(
    st.tuples(st.sampled_from(["come", "fail", "succeeded", "left", "wait"]), st.integers(0, 12)),
    max_size=80,
)


@given(ACTS)
def test_whatever_happens_somebody_is_let_through_before_long(acts: list[tuple[str, int]]) -> None:
    """No history of calls that fail, hang or are cancelled shuts an endpoint off for good."""
    endpoint = Endpoint()
    for act, which in acts:
        endpoint.do(act, which)
    assert not endpoint.circuit.refuses(endpoint.now + RULE.cool_down)
    circuit = endpoint.circuit.enter(RULE, endpoint.now + RULE.cool_down)
    closed = circuit.succeeded(circuit.generation)
    assert closed.free_at is None
    assert closed.failures == 0


@given(ACTS)
def test_while_it_is_open_no_two_probes_are_let_through_within_a_cool_down(
    acts: list[tuple[str, int]],
) -> None:
    """Unless the first one has said that it gives up its place."""
    endpoint, probed = Endpoint(), -RULE.cool_down
    for act, which in acts:
        was_open, before = endpoint.circuit.free_at is not None, len(endpoint.inside)
        endpoint.do(act, which)
        if act == "left":
            probed = -RULE.cool_down
        elif was_open and len(endpoint.inside) > before:
            assert endpoint.now >= probed + RULE.cool_down
            probed = endpoint.now
        if endpoint.circuit.free_at is None:
            probed = -RULE.cool_down
