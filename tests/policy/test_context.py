"""What a model is shown of an invocation: bounded, whole turns, and the newest of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.policy import (
    CHARS_PER_TOKEN,
    Context,
    ToSummarize,
    compact_due,
    first_shown,
    replaced_digest,
)
from loopwright.protocol import (
    BrokenCall,
    CallId,
    CannotContinue,
    Clarification,
    ConfigurationError,
    ErrorCategory,
    Fault,
    Final,
    Handoff,
    History,
    JsonValue,
    Malformed,
    ProgressNote,
    Proposal,
    Proposed,
    RequestApproval,
    ResultStatus,
    ToolCall,
    ToolCalls,
    ToolError,
    ToolResult,
    Turn,
    TurnCommitted,
    Usage,
    applied,
    cut_text,
    dumps,
    encode_record,
    loads,
    rejected,
)
from loopwright.protocol._cut import cut_arguments, cut_turn, cut_value

LIMIT = 200
LONG = 'é"\\\n' * 100
A, B = CallId("a"), CallId("b")
MARKER = re.compile(r"… \[cut: the whole has (\d+) characters( of JSON)?\]$")

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=400),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def committed(number: int, decision: Proposed, *results: ToolResult, fault: str = "") -> Turn:
    """Commit a turn."""
    found = Fault("call", fault) if fault else None
    proposal = Proposal(decision, Usage(1, 1))
    record = TurnCommitted(number, proposal, results, len(results), 0.0, 0.0, found)
    return Turn(number, encode_record(record))


def reading(number: int, output: JsonValue = "ok", call_id: CallId = A) -> Turn:
    """Commit a turn with one read."""
    call = ToolCall(call_id, "read", {"n": number})
    result = ToolResult(call_id, "read", ResultStatus.OK, output)
    return committed(number, ToolCalls((call,)), result)


def sized(sizes: list[int]) -> History:
    """Make turns of about these sizes."""
    return History([reading(n, "x" * size) for n, size in enumerate(sizes, 1)])


def texts(value: Any) -> list[str]:
    """List all texts in a JSON value."""
    if isinstance(value, str):
        return [value]
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = [*cast("dict[str, Any]", value).items()]
    elif isinstance(value, list | tuple):
        inner = [*cast("list[Any]", value)]
    return [text for item in inner for text in texts(item)]


# ------------------------------------------------------------ cutting
@given(st.text(max_size=1_000), st.integers(100, 300))
def test_a_text_is_cut_on_a_character_boundary_and_marked(text: str, limit: int) -> None:
    """At most `limit` characters with the marker, which says how long the whole is."""
    shown = cut_text(text, limit)

    assert len(shown) <= limit
    assert shown.encode().decode() == shown
    if len(text) <= limit:
        assert shown is text
    else:
        marker = MARKER.search(shown)
        assert marker is not None
        assert int(marker[1]) == len(text)
        assert text.startswith(shown[: marker.start()])
        assert len(shown) == limit


@given(json_values)
def test_a_value_that_is_too_long_becomes_the_beginning_of_its_json(value: JsonValue) -> None:
    """And one that is not stays the very same value."""
    shown = cut_value(value, LIMIT)
    size = len(value) if isinstance(value, str) else len(dumps(value).decode())

    if size <= LIMIT:
        assert shown is value
    else:
        assert isinstance(shown, str)
        assert len(shown) <= LIMIT
        assert f"the whole has {size} characters" in shown


@given(st.dictionaries(st.text(), json_values))
def test_arguments_stay_an_object_and_fit_as_json(arguments: dict[str, Any]) -> None:
    """Also where every character has to be escaped."""
    shown = cut_arguments(arguments, LIMIT)

    assert len(dumps(shown).decode()) <= LIMIT
    if shown is not arguments:
        assert list(shown) == ["cut"]
        assert f"the whole has {len(dumps(arguments).decode())} " in str(shown["cut"])


CALLS = (ToolCall(A, "read", {LONG: [LONG]}), BrokenCall(B, "read", LONG, LONG))
DECISIONS: list[Proposed] = [
    ToolCalls(CALLS, LONG),
    RequestApproval(CALLS, LONG),
    Handoff("clerk", LONG, ProgressNote((LONG, "a"), (LONG, "b"), (A,)), CALLS),
    Final(LONG),
    Final(output=[LONG]),
    Clarification(LONG),
    CannotContinue(LONG, LONG),
    Malformed(LONG, LONG),
]


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.kind)
def test_nothing_in_a_turn_is_longer_than_the_limit(decision: Proposed) -> None:
    """Arguments, results, errors, what the model said and what was wrong with it; ids stay."""
    error = ToolError(ErrorCategory.PERMANENT, LONG, LONG)
    results = (
        ToolResult(A, "read", ResultStatus.OK, {"long": LONG}, arguments={"edited": LONG}),
        ToolResult(B, "read", ResultStatus.ERROR, error=error),
    )
    turn = committed(1, decision, *results, fault=LONG)
    shown = turn.within(LIMIT)

    assert max(map(len, texts(loaded(shown)))) <= LIMIT
    assert max(map(len, texts(loaded(turn)))) >= len(LONG)
    assert [(r.call_id, r.tool_name, r.status) for r in shown.results] == [
        (r.call_id, r.tool_name, r.status) for r in turn.results
    ]
    assert type(shown.proposal.decision) is type(decision)
    assert shown.fault is not None
    assert turn.within(100_000) is turn


def loaded(turn: Turn) -> object:
    """Read a turn as it would be written."""
    return loads(turn.body)


def test_a_turn_without_anything_long_is_not_even_rebuilt() -> None:
    """It is the same record, whose translation may have been kept."""
    record = reading(1).record
    assert cut_turn(record, LIMIT) is record


# ------------------------------------------------------------ the view
def test_what_is_small_enough_is_the_very_same_turn() -> None:
    """So that what was made of it once can be kept by it; what is not is cut once."""
    small, many, big = reading(1), committed(2, Final("x" * 150), fault="y" * 150), reading(3, LONG)
    history = History([small, many, big], limit=LIMIT)

    assert len(many.body) > LIMIT
    assert history[0] is small
    assert history[1] is many
    assert history[2] is not big
    assert history[2] is history[2] is history[-1] is list(history)[2]
    assert big.results[0].output == LONG
    assert len(str(history[2].results[0].output)) == LIMIT
    assert len(str(history.view(limit=150)[2].results[0].output)) == 150


def test_what_is_said_later_of_a_turn_is_seen_in_the_view() -> None:
    """An answer, and what became of a write of unknown outcome; cut as well."""
    lost = ToolResult(A, "pay", ResultStatus.OUTCOME_UNKNOWN, effect_key=None)
    small = committed(1, ToolCalls((ToolCall(A, "pay", {}),)), lost)
    big = committed(2, ToolCalls((ToolCall(A, "pay", {"why": LONG}),)), lost)
    history = History([small, big], limit=LIMIT)
    assert [turn.results[0].status for turn in history] == ["outcome_unknown"] * 2

    small.found = big.found = ((A, applied({"receipt": LONG})),)
    big.answer = "yes"
    assert [turn.results[0].status for turn in history] == ["ok"] * 2
    assert [len(str(turn.results[0].output)) for turn in history] == [LIMIT, LIMIT]
    assert history[1].answer == "yes"

    small.found = ((A, rejected(LONG)),)
    error = history[0].results[0].error
    assert error is not None
    assert len(error.message) == LIMIT
    small.found = ((A, rejected("no")),)
    assert history[0] is small


def test_a_view_is_a_sequence_of_its_own() -> None:
    """Of a part of the turns, as they were when it was taken."""
    turns = [reading(n) for n in range(1, 7)]
    whole = History(turns)
    turns.append(reading(7))
    part = whole.view(1, 4)

    assert [turn.number for turn in whole] == [1, 2, 3, 4, 5, 6]
    assert [turn.number for turn in part] == [2, 3, 4]
    assert (part[0].number, part[-1].number, part[-3].number) == (2, 4, 2)
    assert [turn.number for turn in part[1:]] == [3, 4]
    assert [turn.number for turn in reversed(part)] == [4, 3, 2]
    assert [turn.number for turn in part.view(1)] == [3, 4]
    assert len(whole.view(3, 99)) == 3
    assert len(whole.view(9)) == len(whole.view(2, 1)) == 0
    for index in (3, -4):
        with pytest.raises(IndexError):
            part[index]
    assert part == History(turns[1:4])
    assert hash(part) == hash(History(turns[1:4]))
    assert part != whole
    assert repr(part) == "<History of 3 turns>"


class Unread(list[Turn]):
    """Turns nobody may look at."""

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError(index)

    def __iter__(self) -> Iterator[Turn]:
        raise AssertionError


def test_taking_a_view_looks_at_no_turn() -> None:
    """It takes the same time however many there are."""
    history = History(Unread([reading(1)] * 9))
    assert len(history.view(2, limit=LIMIT)) == 7


# ------------------------------------------------------------ the cut
@given(st.lists(st.integers(0, 500), max_size=12), st.integers(0, 4_000))
def test_the_newest_whole_turns_that_fit_are_shown(sizes: list[int], chars: int) -> None:
    """As many as fit, in order, and the last one whatever its size."""
    history = sized(sizes)
    first = first_shown(history, chars)
    size = [turn.chars for turn in history]

    assert 0 <= first <= max(0, len(sizes) - 1)
    assert sum(size[first:]) <= chars or first == max(0, len(sizes) - 1)
    if first:
        assert sum(size[first - 1 :]) > chars


def test_sizes_are_those_that_are_shown() -> None:
    """A huge result costs what is shown of it, and pushes nobody out."""
    turns = [reading(1), reading(2, "x" * 1_000_000), reading(3)]
    assert first_shown(History(turns), 3_000) == 2
    assert first_shown(History(turns, limit=LIMIT), 3_000) == 0


def test_no_turn_is_decoded_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    """A history that is shown again and again must not be read again and again."""
    turns = [reading(n) for n in range(1, 50)]
    monkeypatch.setattr("loopwright.protocol._history.decode_record", None)
    assert first_shown(History(turns, limit=20_000), 1_000) > 40


# ------------------------------------------------------------ compaction
def summary(_: ToSummarize) -> str:
    return "they read"


@given(st.lists(st.integers(0, 2_000), max_size=30), st.integers(100, 1_000))
def test_a_summary_is_due_now_and_then_and_leaves_room(sizes: list[int], tokens: int) -> None:
    """It stands for whole turns, never the last one; after it, half the room is free."""
    context, summarized, turns = Context(max_tokens=tokens, summarize=summary), 0, list[Turn]()
    limit = tokens * CHARS_PER_TOKEN
    for turn in sized(sizes):
        turns.append(turn)
        history = History(turns)
        shown = sum(turn.chars for turn in history.view(summarized))
        upto = compact_due(context, history, summarized)
        if upto is None:
            assert shown <= limit or len(history) - summarized == 1
            continue
        assert shown > limit
        assert summarized < upto < len(turns)
        left = [turn.chars for turn in history.view(upto)]
        assert sum(left) <= limit // 2 or len(left) == 1
        summarized = upto
        assert compact_due(context, history, summarized) is None


def test_no_summary_is_due_where_nobody_makes_one() -> None:
    """Then turns are only left out."""
    history = sized([5_000] * 9)
    assert compact_due(Context(max_tokens=100), history, 0) is None
    assert compact_due(Context(), history, 0) is None
    assert compact_due(Context(max_tokens=100, summarize=summary), history, 0) == 8


def test_the_digest_of_what_was_replaced_is_that_of_all_of_it() -> None:
    """Each turn, their order, and the summary before them."""
    one, two = reading(1), reading(2)
    digests = {
        replaced_digest(turns, before)
        for turns in ([], [one], [two], [one, two], [two, one])
        for before in ("", "before", one.body.decode())
    }
    assert len(digests) == 15
    assert replaced_digest(History([one, two]), "x") == replaced_digest((one, two), "x")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Context(max_tokens=0), "max_tokens is 0"),
        (lambda: Context(max_result_chars=199), "max_result_chars is 199"),
        (lambda: Context(summary_timeout=0), "summary_timeout is 0"),
        (lambda: Context(summary_timeout=float("nan")), "summary_timeout is nan"),
        (lambda: Context(summarize=summary), "without max_tokens"),
        (lambda: Context(max_tokens=9, summarize="no"), "summarize is 'no'"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_meant_is_refused(make: Callable[[], Context], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make()
