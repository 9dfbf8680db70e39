"""The inbox lists what waits for a person; a yes is shown exactly, and hides nothing, before it is said."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from services.journals import FIRST_TURN, KEY, STARTED, keep

from loopwright.protocol import Reason

Cli = Callable[..., Any]

GOAL = "Settle refund request "


@pytest.fixture
def clerk(cli: Cli) -> Cli:
    """The office's clerk, who asks before it writes anything down."""

    def run(*words: str) -> Any:
        return cli(*words, "--app", "office:clerk")

    return run


def test_proposals_and_questions_wait_with_what_can_be_typed(cli: Cli) -> None:
    waiting = cli("run", "refund-desk", f"{GOAL}REQ-05", "--json").json
    asked = cli("run", "refund-desk", "A customer wants money back", "--json").json
    cli("run", "refund-desk", f"{GOAL}REQ-01")

    question, proposal = cli("inbox", "--json").lines
    assert question["invocation_id"] == asked["invocation_id"]
    assert (question["reason"], question["question"]) == (
        "clarification_required",
        asked["question"],
    )
    assert proposal["invocation_id"] == waiting["invocation_id"]
    assert proposal["proposal"] == waiting["proposal"]
    assert proposal["principal"]["actor"] == "anonymous"
    shown = cli("inbox").out
    for part in ("amount      189.00", "loopwright approve", "loopwright answer", "refund-desk"):
        assert part in shown
    assert [line["reason"] for line in cli("inbox", "--limit", "1", "--json").lines] == [
        "clarification_required"
    ]


def test_writes_to_be_settled_wait_too(cli: Cli, folder: Path) -> None:
    keep(folder / "loopwright.db", (STARTED, *FIRST_TURN), Reason.RECONCILIATION_REQUIRED)
    (one,) = cli("inbox", "--json").lines
    assert [effect["effect_key"] for effect in one["unresolved_effects"]] == [KEY]
    assert one["proposal"] is None
    shown = cli("inbox").out
    for part in ("waits to be settled", "pay:7 (call a", "loopwright settle 0000feed a FOUND"):
        assert part in shown


def test_an_empty_inbox_says_so(cli: Cli) -> None:
    cli("run", "refund-desk", f"{GOAL}REQ-05")
    assert cli("inbox", "--agent", "nobody").out == "nothing waits for a person\n"
    assert cli("inbox", "--agent", "nobody", "--json").out == ""


# ---------------------------------------------------------------- before a yes
def test_somebody_at_a_terminal_is_asked_once_more(
    clerk: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then everything that will run has been shown; no is the default."""
    waiting = clerk("run", "clerk", "buy milk", "--json").json
    words = ("approve", waiting["invocation_id"], waiting["proposal"]["digest"], "--by", "ana")
    questions: list[str] = []

    def no(text: str, *, abort: bool) -> bool:
        questions.append(text)
        raise typer.Abort

    monkeypatch.setattr(typer, "confirm", no)
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(getattr(sys, stream), "isatty", lambda: True)
    said = clerk(*words)
    assert (said.code, questions) == (130, ["Let it run?"])
    assert "buy milk" in said.out
    assert "manual effect" in said.out
    assert not (folder / "notes.txt").exists()

    assert clerk(*words, "--json").code == 0
    assert len(questions) == 1


def test_yes_is_not_asked_for_twice(clerk: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = clerk("run", "clerk", "buy milk", "--json").json
    words = ("approve", waiting["invocation_id"], waiting["proposal"]["digest"], "--by", "ana")
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(getattr(sys, stream), "isatty", lambda: True)
    assert clerk(*words, "--yes").code == 0


@pytest.mark.parametrize(
    ("hidden", "written"),
    [
        ("pay 9\x1b[2K\rpay 1", r"pay 9\x1b[2K\rpay 1"),
        ("pay \u202e001", r"pay \u202e001"),
        ("a\x08b\u200bc", r"a\x08b\u200bc"),
    ],
)
def test_arguments_cannot_hide_what_they_are(clerk: Cli, hidden: str, written: str) -> None:
    """What a terminal would obey, or not show, is written out, wherever a person decides."""
    waiting = clerk("run", "clerk", hidden, "--json").json
    identity, digest = waiting["invocation_id"], waiting["proposal"]["digest"]
    for words in (
        ("show", identity),
        ("inbox",),
        ("explain", identity),
        ("list",),
        ("approve", identity, digest, "--by", "ana"),
    ):
        said = clerk(*words)
        assert written in said.out, words
        assert hidden not in said.out, words
    assert clerk("show", identity, "--json").json["goal"] == hidden


def test_the_proposal_of_another_digest_is_not_shown_as_if_it_was_meant(clerk: Cli) -> None:
    waiting = clerk("run", "clerk", "buy milk", "--json").json
    said = clerk("approve", waiting["invocation_id"], "0" * 64, "--by", "ana")
    assert (said.code, said.out) == (2, "")
    mine = waiting["proposal"]["digest"][:12]
    assert f"waits for another proposal, {mine}; look at it with `loopwright show" in said.err
