"""Stages, digests and fingerprints: pure functions of what is to run."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from loopwright.policy import Progress, Streak, plan_fingerprint, proposal_digest, stages
from loopwright.protocol import (
    CallId,
    Effect,
    JsonObject,
    ProposalDigest,
    ResultStatus,
    ToolCall,
    ToolResult,
    parse_call,
)

EFFECTS = st.lists(st.sampled_from(Effect), max_size=12)
Bound = tuple[CallId, str, JsonObject, str]


@given(EFFECTS)
def test_stages_keep_every_call_once_and_in_order(effects: list[Effect]) -> None:
    """Nothing is lost, doubled or moved."""
    planned = stages(list(enumerate(effects)))
    assert [index for stage in planned for index in stage] == list(range(len(effects)))
    assert all(planned)


@given(EFFECTS)
def test_a_write_is_alone_and_neighbouring_reads_are_together(effects: list[Effect]) -> None:
    """A stage holds one write, or as many reads as stand side by side."""
    planned = stages(list(enumerate(effects)))
    for stage in planned:
        assert len(stage) == 1 or all(effects[index] is Effect.READ for index in stage)
    for before, after in pairwise(planned):
        assert effects[before[-1]].is_write or effects[after[0]].is_write


def test_only_what_runs_is_planned() -> None:
    """Refused calls leave gaps in the indexes and none in the stages."""
    assert stages([(1, Effect.READ), (3, Effect.READ), (4, Effect.MANUAL)]) == ((1, 3), (4,))


CALLS: tuple[Bound, ...] = (
    (CallId("c1"), "pay", {"amount": 1, "to": "ann"}, "1"),
    (CallId("c2"), "pay", {"amount": 2}, "1"),
)


def bind(*calls: Bound, version: str = "1") -> ProposalDigest:
    """Digest these calls."""
    return proposal_digest(calls, version)


def test_a_digest_is_for_exactly_one_proposal() -> None:
    """Another id, tool, argument, schema, order, number of calls or policy is another one."""
    first, second = CALLS
    others = [
        bind(second, first),
        bind(first),
        bind((CallId("c9"), *first[1:]), second),
        bind((first[0], "refund", *first[2:]), second),
        bind((first[0], first[1], {"amount": 1.5, "to": "ann"}, "1"), second),
        bind((first[0], first[1], {"amount": 1, "to": "ann", "x": None}, "1"), second),
        bind((*first[:3], "2"), second),
        bind(*CALLS, version="2"),
    ]
    assert len({bind(*CALLS), *others}) == len(others) + 1


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    """The same arguments are the same proposal, however they were written."""
    turned: Bound = (CallId("c1"), "pay", {"to": "ann", "amount": 1}, "1")
    assert bind(turned, CALLS[1]) == bind(*CALLS)


@given(st.permutations(["read", "pay", "pay"]))
def test_a_fingerprint_does_not_depend_on_order_or_ids(tools: list[str]) -> None:
    """The same batch again is the same, whatever the provider called it."""
    again = [parse_call(f"x{i}", tool, {"b": 1, "a": 2}) for i, tool in enumerate(tools)]
    first = [ToolCall(CallId(f"c{i}"), t, {"a": 2, "b": 1}) for i, t in enumerate(sorted(tools))]
    assert plan_fingerprint(again) == plan_fingerprint(first)
    assert plan_fingerprint(again[:2]) != plan_fingerprint(first)
    assert plan_fingerprint([parse_call("c", "read", "{broken")]) != plan_fingerprint(
        [parse_call("c", "read", "{other")]
    )


def result(output: str, call_id: str = "c1") -> tuple[ToolResult, ...]:
    """Return one result of a batch."""
    return (ToolResult(CallId(call_id), "read", ResultStatus.OK, output),)


def run(rule: Progress, *outputs: str) -> Streak:
    """Let the same batch run once for each output."""
    streak = Streak()
    for index, output in enumerate(outputs):
        assert streak.assess(b"plan", rule) is None
        streak = streak.observe(b"plan", result(output, f"c{index}"), rule)
    return streak


def test_the_same_batch_with_the_same_results_is_stopped_before_it_runs_again() -> None:
    """Three times by default; the fourth does not start."""
    stalled = run(Progress(), "a", "a", "a").assess(b"plan", Progress())
    assert stalled is not None
    assert (stalled.signal, "3 times" in stalled.evidence) == ("repeated_plan", True)


def test_results_that_change_are_progress() -> None:
    """Polling goes on for as long as something new comes back."""
    assert run(Progress(), *"abcdefgh").runs == 1
    assert run(Progress(), *"aabbaabb").assess(b"plan", Progress()) is None


def test_another_batch_is_progress() -> None:
    """A streak is of one batch, in a row."""
    rule = Progress()
    streak = run(rule, "a", "a", "a")
    assert streak.assess(b"other", rule) is None
    assert streak.observe(b"other", result("a"), rule).runs == 1


def test_the_reference_controller_counts_the_batch_alone() -> None:
    """`Progress.exact(1)`: once is fine, whatever came back; twice is not."""
    rule = Progress.exact(1)
    assert Streak().assess(b"plan", rule) is None
    streak = Streak().observe(b"plan", result("a"), rule)
    assert streak.assess(b"plan", rule) is not None
    assert streak.observe(b"plan", result("b"), rule).runs == 2
