"""What counts as progress: the rule itself, and what its counting rests on."""

from __future__ import annotations

from typing import Any

import pytest
from trajectories.notation import assessments, proposed, track, turn_of

from loopwright.policy import Progress, Tracking, Traits, replan_notice
from loopwright.protocol import (
    ConfigurationError,
    Stalled,
    Turn,
    TurnCommitted,
    encode_record,
)

SAME = "get(x=1) -> same"


def turns(*texts: str) -> list[Turn]:
    """Commit these turns."""
    return [Turn(n, encode_record(turn_of(n, text))) for n, text in enumerate(texts, 1)]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"max_repeats": 0}, "Progress.max_repeats is 0; give at least 1, or None"),
        ({"max_repeats": True}, "give at least 1"),
        ({"max_rounds": 1}, "Progress.max_rounds is 1; give at least 2, or None"),
        ({"max_errors": 1.5}, "give at least 1"),
        ({"max_stale_turns": -1}, "give at least 1"),
        ({"max_seen_turns": "8"}, "give at least 1"),
        ({"nudge": 1}, "Progress.nudge is 1; give True or False"),
        ({"on_stall": "stop"}, "give one of: end, ask"),
        ({"goals": ["tests"]}, "give a mapping of names to functions"),
        ({"goals": {"tests": "green"}}, "give a mapping of names to functions"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], problem: str) -> None:
    """A rule that exists can be followed."""
    with pytest.raises(ConfigurationError, match=problem):
        Progress(**given)


@pytest.mark.parametrize("given", [{"polling": "yes"}, {"volatile": "at"}, {"volatile": (1,)}])
def test_a_tool_cannot_declare_what_means_nothing(given: dict[str, Any]) -> None:
    """One name as a bare text would be taken for its letters."""
    with pytest.raises(ConfigurationError, match="Traits"):
        Traits(**given)


def test_the_same_batch_is_stopped_before_it_runs_again() -> None:
    """Three times by default, with one notice after the third; the fourth does not start."""
    said = assessments(SAME, SAME, SAME)
    assert [assessment.nudge is not None for assessment in said] == [False, False, True]
    assert all(assessment.stalled is None for assessment in said)

    tracking = track(SAME, SAME, SAME)
    stalled = proposed(tracking, SAME)
    assert stalled is not None
    assert stalled.signal == "repeated_plan"
    assert "(get) ran 3 times" in stalled.evidence
    assert proposed(tracking, "get(x=2) -> other") is None


def test_results_that_change_are_progress() -> None:
    """Asking again goes on for as long as something else comes back."""
    for answers in ("abcdefgh", "aabbaabb", "abababababababab"):
        texts = [f"get(x=1) -> {answer}" for answer in answers]
        assert all(said == (None, None) for said in assessments(*texts))
        assert proposed(track(*texts), "get(x=1) -> z") is None


def test_the_reference_controller_counts_the_batch_alone() -> None:
    """`Progress.exact(1)`: once is fine, whatever came back; twice is not, and nobody is told."""
    rule = Progress.exact(1)
    assert assessments("get(x=1) -> a", rule=rule) == [(None, None)]
    stalled = proposed(track("get(x=1) -> a", rule=rule), "get(x=1) -> b")
    assert stalled == Stalled("repeated_plan", "the same batch (get) ran once already")
    cycle = ("a() -> 1", "b() !internal broke") * 20
    assert all(said == (None, None) for said in assessments(*cycle, rule=rule))


@pytest.mark.parametrize(
    ("off", "texts"),
    [
        ("max_repeats", (SAME,) * 30),
        ("max_rounds", ("a() -> 1", "b() -> 2") * 3),
        ("max_errors", tuple(f"a(n={n}) !internal broke" for n in range(6))),
        ("max_stale_turns", tuple(f"a(n={n}) -> same" for n in range(40))),
        ("max_seen_turns", (*"abcdefghi", *"abcdefghi")),
    ],
)
def test_each_signal_can_be_switched_off(off: str, texts: tuple[str, ...]) -> None:
    """Without it, its loop goes on."""
    texts = tuple(f"{text}() -> {text}" if len(text) == 1 else text for text in texts)
    limits: dict[str, Any] = {off: None}
    ends: list[bool] = []
    for rule in (Progress(), Progress(**limits)):
        tracking = Tracking(rule, {})
        stalled = False
        for number, text in enumerate(texts, 1):
            stalled = stalled or proposed(tracking, text) is not None
            stalled = stalled or tracking.observe(turn_of(number, text)).stalled is not None
        ends.append(stalled)
    assert ends == [True, False]


def test_nobody_is_told_where_notices_are_off() -> None:
    """The limit is the same."""
    rule = Progress(nudge=False)
    assert assessments(SAME, SAME, SAME, rule=rule) == [(None, None)] * 3
    assert proposed(track(SAME, SAME, SAME, rule=rule), SAME) is not None


def test_the_model_is_told_once_until_it_finds_something_out() -> None:
    """A second signal that comes near its limit says nothing new; one after a finding does."""
    looks = ("a() -> 1", "b() -> 2", "c() -> 3", "d() -> 4", "e() -> 5")
    rule = Progress(max_seen_turns=4)
    again = assessments(
        *looks, "a() -> 1", "a() -> 1", "a() -> 1", "b() -> 2", "c() -> 3", rule=rule
    )
    assert [n for n, said in enumerate(again, 1) if said.nudge is not None] == [8]
    found = assessments(*looks, *("a() -> 1",) * 3, "new() -> 6", *("b() -> 2",) * 3)
    assert [n for n, said in enumerate(found, 1) if said.nudge is not None] == [8, 12]


def test_what_the_model_is_told_names_the_evidence() -> None:
    """It is told what was seen, and what comes next."""
    nudge = track(SAME, SAME, SAME).pending
    assert nudge is not None
    assert nudge.evidence in replan_notice(nudge)
    assert len(replan_notice(nudge)) < 400


def test_evidence_is_short_and_printable_whatever_a_tool_is_called() -> None:
    """Names of tools that don't exist are written by a model."""
    text = " ; ".join(f"{chr(97 + n) * 500}() ?unknown_tool none" for n in range(9))
    stalled = proposed(track(text, text, text), text)
    assert stalled is not None
    assert "and 6 more" in stalled.evidence
    assert len(stalled.evidence) < 300


def test_a_stall_stands_until_a_person_has_said_something() -> None:
    """Also where the process died before it could be stored."""
    history = turns(*("a() -> 1", "b() -> 2") * 3)
    stalled = Tracking.rebuilt(Progress(), {}, history)
    assert proposed(stalled, "c() -> 3") is not None

    history[-1].answer = "go on"
    assert proposed(Tracking.rebuilt(Progress(), {}, history), "c() -> 3") is None

    history[-1].answer = None
    tracking = Tracking.rebuilt(Progress(), {}, history)
    assert tracking.observe(turn_of(7, "b() -> 2", by="ann")) == (None, None)
    assert proposed(tracking, "b() -> 2") is None


def test_an_answer_starts_the_counting_anew() -> None:
    """What comes before it no longer counts, what comes after it does."""
    history = turns(SAME, SAME, SAME, SAME, SAME)
    history[2].answer = "try once more"
    assert proposed(Tracking.rebuilt(Progress(), {}, history), SAME) is None
    history.append(Turn(6, encode_record(turn_of(6, SAME))))
    assert proposed(Tracking.rebuilt(Progress(), {}, history), SAME) is not None


def test_an_answer_counts_also_where_it_comes_after_the_history_was_read() -> None:
    """An invocation is brought into memory first, and is given its answer then."""
    history = turns(SAME, SAME, SAME)
    tracking = Tracking.rebuilt(Progress(), {}, history)
    history[-1].answer = "try once more"
    assert proposed(tracking, SAME) is None


def test_a_notice_is_due_only_until_the_next_turn() -> None:
    """A turn without calls, which nobody observes, was begun with that notice."""
    history = turns(SAME, SAME, SAME)
    assert Tracking.rebuilt(Progress(), {}, history).pending is not None
    answer = turn_of(4, SAME)
    silent = TurnCommitted(4, answer.proposal, (), 0, 0.0, 0.0)
    history.append(Turn(4, encode_record(silent)))
    tracking = Tracking.rebuilt(Progress(), {}, history)
    assert tracking.pending is None
    assert proposed(tracking, SAME) is not None


def test_a_turn_of_which_nothing_ran_says_nothing() -> None:
    """A budget that ran out before a batch is no attempt at it."""
    unstarted = "get(x=1) ?not_started the budget ran out"
    tracking = track(SAME, SAME, unstarted, unstarted)
    assert proposed(tracking, SAME) is None
    assert tracking.observe(turn_of(5, SAME)).nudge is not None


@pytest.mark.parametrize("how", ["-> queued", "!unavailable down", "!timeout slow"])
def test_a_polling_tool_is_never_flagged(how: str) -> None:
    """By no signal, alone or beside others, whatever it returns."""
    traits = {"poll": Traits(polling=True)}
    rule = Progress(goals={"never": lambda turn: False})
    for text in (f"poll() {how}", f"poll() {how} ; log() -> empty"):
        texts = [text] * 60
        assert all(said == (None, None) for said in assessments(*texts, rule=rule, traits=traits))
        assert proposed(track(*texts, rule=rule, traits=traits), text) is None


def test_a_polling_call_that_is_refused_is_a_call_like_any_other() -> None:
    """It has not waited for anything."""
    traits = {"poll": Traits(polling=True)}
    refused = "poll() ?denied not yours"
    assert proposed(track(*(refused,) * 3, traits=traits), refused) is not None


def test_only_calls_that_ran_are_part_of_an_error_loop() -> None:
    """Arguments that don't fit are the faulty turns' business."""
    texts = [f"set(n={n}) ?invalid_arguments n is a text" for n in range(12)]
    assert all(said == (None, None) for said in assessments(*texts))


# ---------------------------------------------------------------- goals
def is_green(turn: TurnCommitted) -> bool | None:
    """Whether the tests are green."""
    outputs = [r.output for r in turn.results if r.tool_name == "run_tests"]
    return outputs[-1] == "green" if outputs else None


def test_a_goal_that_is_met_may_be_lost_again() -> None:
    """Either is a change; while all are met, nothing is counted."""
    rule = Progress(goals={"tests": is_green}, max_goal_turns=3)
    edits = [f"*edit(n={n}) -> ok" for n in range(9)]
    assert all(
        said.stalled is None for said in assessments("run_tests() -> green", *edits, rule=rule)
    )
    said = assessments("run_tests() -> green", "run_tests() -> red", *edits[:3], rule=rule)
    assert [assessment.stalled is not None for assessment in said] == [False] * 4 + [True]
    assert said[-1].stalled == Stalled(
        "goals_unchanged", "no goal was met or lost in 3 turns; open: tests"
    )


def test_a_goal_met_long_ago_is_still_met_after_a_recovery() -> None:
    """However much was done since."""
    rule = Progress(goals={"tests": is_green}, max_goal_turns=3)
    history = turns("run_tests() -> green", *(f"*edit(n={n}) -> ok" for n in range(90)))
    tracking = Tracking.rebuilt(rule, {}, history)
    assert tracking.observe(turn_of(92, "*edit(n=91) -> ok")) == (None, None)


def test_a_check_that_raises_leaves_its_goal_open_and_is_named() -> None:
    """It is foreign code: it neither ends the tracker nor meets the goal."""

    def broken(turn: TurnCommitted) -> bool | None:
        raise KeyError(turn)

    garbage: Any = str
    rule = Progress(goals={"a": broken, "b": garbage}, max_goal_turns=2)
    said = assessments(*(f"read(n={n}) -> {n}" for n in range(3)), rule=rule)[-1].stalled
    assert said is not None
    assert "a (its check raised KeyError)" in said.evidence
    assert "b (its check returned a str)" in said.evidence
