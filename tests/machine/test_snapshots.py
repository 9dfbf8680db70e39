"""Snapshots: a cache of the state between two turns, worth nothing where it does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from unittest.mock import patch

import orjson
import pytest

from loopwright.actors.machine import _core
from loopwright.actors.machine._core import SNAPSHOT_EVERY
from loopwright.policy import Policy
from loopwright.protocol import (
    Budget,
    CallId,
    Clarification,
    Commit,
    Head,
    InvocationState,
    JournalCorruptError,
    JsonValue,
    Malformed,
    Snapshot,
    Stored,
    Summary,
    ToolCalls,
    applied,
    decode_record,
    encode_snapshot,
    fold,
    rejected,
    state_of,
    unknown,
)
from machine.driver import Driver
from machine.samples import INVOCATION, calls
from machine.snapshot import plain


def stored(lines: list[bytes], snapshot: Snapshot | None = None, first_seq: int = 1) -> Stored:
    """Hand a journal back as a store does."""
    head = Head("desk", "running", None, 0.0)
    summary = Summary(INVOCATION, head, len(lines), 0.0, None, False)
    return Stored(summary, first_seq, tuple(lines), snapshot)


def lines_of(run: Driver) -> list[bytes]:
    return [entry.line for entry in run.journal]


def snapshots_of(run: Driver) -> list[Snapshot]:
    made = [commit.append.snapshot for commit in run.all(Commit)]
    return [snapshot for snapshot in made if snapshot is not None]


def folded(lines: list[bytes]) -> InvocationState:
    return fold(stored(lines).entries())


@pytest.fixture
def each_turn() -> Iterator[None]:
    """Make a snapshot after each turn."""
    with patch.object(_core, "SNAPSHOT_EVERY", 1):
        yield


# ---------------------------------------------------------------- stories with everything in them
def story_of_effects() -> Driver:
    """Writes that are unknown, settled in their turn, later, and twice."""
    run = Driver().start().propose("mail").lost("mail").settle("mail", unknown()).judged()
    run.observed().propose("wire", "post").lost("wire").found("wire", unknown("down"))
    run.settle("wire", applied("w")).judged().observed().settle("mail", unknown("still"))
    run.turn("read").settle("mail", applied("m")).turn("pay").turn("mail_b", "read")
    return run.finish()


def story_of_people() -> Driver:
    """Approvals with edits, a question, a fault, a notice, a grant."""
    run = Driver(Budget(max_steps=6), Policy(approval_grace=60)).start()
    run.propose("transfer_a", "transfer_b")
    run.approve("transfer_a", edits={CallId("transfer_a"): {"amount": 5}})
    run.approve("transfer_b", yes=False).judged().done("transfer_a").observed()
    run.decide(Malformed("no JSON", "{"))
    run.decide(Clarification("which?")).judged().reply("the blue one")
    run.decide(ToolCalls(calls("read").calls, "let me see")).judged().assessed()
    run.done("read").observed().turn("pay").turn("read")
    return run.grant(Budget(max_steps=3)).turn("read").turn("pay").finish()


def story_of_a_cancel() -> Driver:
    """A cancel while something runs, and an effect that is settled long after."""
    run = Driver().start().turn("read").propose("mail").cancel().later(5)
    return run.settle("mail", rejected("no"))


STORIES = (story_of_effects, story_of_people, story_of_a_cancel)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@pytest.mark.usefixtures("each_turn")
def test_a_snapshot_is_the_fold_of_what_it_covers(story: Callable[[], Driver]) -> None:
    """With whatever of the journal comes behind it, at every seq: state by state the plain fold."""
    run = story()
    lines, made = lines_of(run), snapshots_of(run)
    assert len(made) >= (1 if story is story_of_a_cancel else 5)
    for snapshot in made:
        for end in range(snapshot.seq, len(lines) + 1):
            state = state_of(stored(lines[:end], snapshot))
            assert plain(state) == plain(folded(lines[:end]))
            assert [t.results for t in state.history()] == [
                t.results for t in folded(lines[:end]).history()
            ]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@pytest.mark.usefixtures("each_turn")
def test_what_comes_from_a_snapshot_goes_on_as_the_fold_would(story: Callable[[], Driver]) -> None:
    """A state that was restored can be saved and restored again."""
    run = story()
    lines = lines_of(run)
    for snapshot in snapshots_of(run):
        state = state_of(stored(lines[: snapshot.seq], snapshot))
        assert encode_snapshot(state) == snapshot.body


# ---------------------------------------------------------------- when one is made
def test_one_goes_along_now_and_then() -> None:
    """With the commit after every so many turns: none of its own, and none for a short task."""
    run = Driver(Budget(max_steps=1_000)).start()
    for _ in range(2 * SNAPSHOT_EVERY):
        run.turn("read")
    assert [s.seq for s in snapshots_of(run)] == [1 + SNAPSHOT_EVERY]
    run.turn("read")
    assert [s.seq for s in snapshots_of(run)] == [1 + SNAPSHOT_EVERY, 1 + 2 * SNAPSHOT_EVERY]
    assert run.snapshot == snapshots_of(run)[-1]


def test_a_process_that_takes_over_makes_the_next_one_when_it_is_due() -> None:
    """Not at once: the one before may be there."""
    run = Driver(Budget(max_steps=1_000)).start()
    for _ in range(SNAPSHOT_EVERY):
        run.turn("read")
    run = run.reload().recover()
    for _ in range(SNAPSHOT_EVERY):
        run.turn("read")
    assert snapshots_of(run) == []
    run.turn("read")
    assert len(snapshots_of(run)) == 1


@pytest.mark.usefixtures("each_turn")
def test_none_is_made_within_a_turn() -> None:
    """Between turns there is no open one, which it would not hold."""
    run = Driver().start().turn("read").propose("pay", "mail")
    assert [s.seq for s in snapshots_of(run)] == [2]
    run.done("pay").done("mail")
    assert [s.seq for s in snapshots_of(run)] == [2]


@pytest.mark.usefixtures("each_turn")
def test_none_is_made_of_what_rests() -> None:
    """It does not hold why: what it rests for is in the journal behind every snapshot."""
    run = Driver().start().propose("mail").lost("mail").settle("mail", unknown()).judged()
    run.observed().finish()
    before = len(snapshots_of(run))
    run.settle("mail", applied())
    assert len(snapshots_of(run)) == before
    run = Driver().start().decide(Clarification("which?")).judged().reply()
    assert snapshots_of(run) == []


# ---------------------------------------------------------------- what it spares
@pytest.mark.usefixtures("each_turn")
def test_what_a_snapshot_covers_is_not_decoded() -> None:
    """Only the start, and what comes behind it."""
    run = story_of_people()
    lines, snapshot = lines_of(run), snapshots_of(run)[-1]
    decoded: list[bytes] = []

    def counted(line: bytes) -> object:
        decoded.append(line)
        return decode_record(line)

    with patch("loopwright.protocol._journal.decode_record", counted):
        state_of(stored(lines, snapshot))
    assert decoded == lines[snapshot.seq :]


# ---------------------------------------------------------------- one that does not fit
def a_snapshot() -> tuple[list[bytes], Snapshot]:
    """Take a journal and a snapshot in the midst of it."""
    with patch.object(_core, "SNAPSHOT_EVERY", 1):
        run = story_of_effects()
    return lines_of(run), snapshots_of(run)[3]


def said_of(turn: int) -> JsonValue:
    """Say something beside a turn, as a snapshot does."""
    return [{"number": turn, "notice": "x", "answer": None, "found": []}]


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b"[]", b"\xff\x00"])
def test_one_that_cannot_be_read_is_ignored(body: bytes) -> None:
    """Also where it is cut short: the journal alone is enough."""
    lines, snapshot = a_snapshot()
    for damaged in (body, snapshot.body[:-7], snapshot.body + b"}"):
        state = state_of(stored(lines, Snapshot(snapshot.seq, damaged)))
        assert plain(state) == plain(folded(lines))


@pytest.mark.parametrize(
    "fields",
    [
        {"v": 2},
        {"v": 99, "mood": "fine"},
        {"digest": "0" * 32},
        {"seq": 10_000},
        {"turn_seqs": [0, 3]},
        {"turn_seqs": [-1, 3]},
        {"turn_seqs": [10_000]},
        {"turn_seqs": []},
        {"found_seqs": []},
        {"turns": said_of(0)},
        {"turns": said_of(99)},
        {"budget": "much"},
    ],
    ids=str,
)
def test_one_that_does_not_fit_is_ignored(fields: dict[str, JsonValue]) -> None:
    """Of a newer version, or of another journal than the one that is there."""
    lines, snapshot = a_snapshot()
    body = orjson.dumps({**orjson.loads(snapshot.body), **fields})
    state = state_of(stored(lines, Snapshot(snapshot.seq, body)))
    assert plain(state) == plain(folded(lines))


def test_one_of_another_invocation_is_ignored() -> None:
    """Its digest is of other turns."""
    lines, _ = a_snapshot()
    with patch.object(_core, "SNAPSHOT_EVERY", 1):
        foreign = snapshots_of(story_of_people())[-1]
    assert plain(state_of(stored(lines, foreign))) == plain(folded(lines))


def test_one_of_a_journal_that_is_shorter_now_is_ignored() -> None:
    """A store that was restored from a backup, say."""
    lines, snapshot = a_snapshot()
    short = lines[: snapshot.seq - 1]
    assert plain(state_of(stored(short, snapshot))) == plain(folded(short))


def test_a_turn_that_is_another_one_now_voids_it() -> None:
    """What it was made of is not what is there: the turns are folded as they are."""
    lines, snapshot = a_snapshot()
    turn = next(i for i, line in enumerate(lines) if b'"turn_committed"' in line)
    lines[turn] = lines[turn].replace(b'"scripted"', b'"doctored"')
    state = state_of(stored(lines, snapshot))
    assert plain(state) == plain(folded(lines))
    assert state.history()[0].proposal.model == "doctored"


@pytest.mark.parametrize("kind", [b'"turn_committed"', b'"effect_reconciled"'])
def test_a_damaged_turn_is_found_though_it_is_covered(kind: bytes) -> None:
    """Before anything rests on it, and named by its seq."""
    lines, snapshot = a_snapshot()
    covered = lines[: snapshot.seq]
    seqs = orjson.loads(snapshot.body)
    which = seqs["turn_seqs" if kind == b'"turn_committed"' else "found_seqs"][0]
    assert kind in covered[which - 1]
    lines[which - 1] = lines[which - 1][:-9]
    with pytest.raises(JournalCorruptError, match=f"seq {which}"):
        state_of(stored(lines, snapshot))


@pytest.mark.parametrize("snapshot", [None, Snapshot(1, b"{}")])
def test_without_a_start_there_is_nothing_to_build_on(snapshot: Snapshot | None) -> None:
    """With a snapshot or without one."""
    lines, good = a_snapshot()
    for journal in ([], lines[1:]):
        for given in (snapshot, good):
            with pytest.raises(JournalCorruptError):
                state_of(stored(journal, given))
