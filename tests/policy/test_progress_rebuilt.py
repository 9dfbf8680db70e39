"""What a tracker knows is what the journal says: live and rebuilt are the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from trajectories.notation import turn_of

from loopwright.policy import Progress, Tracking, Traits
from loopwright.protocol import Turn, TurnCommitted, calls_of, encode_record

TRAITS = {"poll": Traits(polling=True), "get": Traits(volatile=("at",))}
CALLS = (
    "a() -> 1",
    "a() -> 1",
    "A() -> 1",
    "b() -> 2",
    "b() -> 3",
    "c(n=1) !internal broke",
    "c(n=2) !internal broke",
    "d() ?denied no",
    "e() ?not_started stopped",
    "*w(n=1) -> ok",
    "*w(n=2) -> ok",
    "poll() -> queued",
    'get(at=1) -> {"at": 2}',
)
TEXTS = st.lists(st.sampled_from(CALLS), min_size=1, max_size=2).map(" ; ".join)


def is_two(turn: TurnCommitted) -> bool | None:
    """A goal that comes and goes."""
    return next((r.output == 2 for r in turn.results if r.tool_name == "b"), None)


LIMITS = st.none() | st.integers(2, 4)
RULES = st.builds(
    Progress,
    max_repeats=LIMITS,
    results_must_repeat=st.booleans(),
    max_stale_turns=LIMITS,
    max_rounds=LIMITS,
    max_errors=LIMITS,
    max_seen_turns=LIMITS,
    max_goal_turns=LIMITS,
    goals=st.sampled_from(({}, {"two": is_two})),
)
ANSWERS = st.sampled_from((None, None, None, None, None, None, None, "go on"))


@settings(max_examples=150, deadline=None)
@given(RULES, st.lists(st.tuples(TEXTS, ANSWERS), max_size=60))
def test_live_and_rebuilt_say_the_same_of_every_turn(
    rule: Progress, script: list[tuple[str, str | None]]
) -> None:
    """For every prefix: what is said before the next turn, after it, and what is due then."""
    live, turns = Tracking(rule, TRAITS), list[Turn]()
    for number, (text, answer) in enumerate(script, 1):
        committed = turn_of(number, text)
        calls = calls_of(committed.proposal.decision)
        rebuilt = Tracking.rebuilt(rule, TRAITS, turns)
        assert rebuilt.assess(calls) == live.assess(calls)
        assert rebuilt.observe(committed) == live.observe(committed)
        turns.append(Turn(number, encode_record(committed), answer=answer))
        if answer is not None:
            # Whoever waits for an answer has left memory.
            live = Tracking.rebuilt(rule, TRAITS, turns)
            assert live.pending is None


class Counted(Turn):
    """A turn that knows how often turns were decoded."""

    __slots__ = ()
    decoded = 0

    @property
    def record(self) -> TurnCommitted:
        Counted.decoded += 1
        return super().record


def test_a_long_history_is_not_decoded_as_a_whole() -> None:
    """A recovery costs the same after a hundred turns and after a thousand."""
    for length in (100, 400):
        history = [
            Counted(n, encode_record(turn_of(n, f"read(n={n}) -> {n}"))) for n in range(1, length)
        ]
        Counted.decoded = 0
        Tracking.rebuilt(Progress(), {}, history)
        assert Counted.decoded == 49
