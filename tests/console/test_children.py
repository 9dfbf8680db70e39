"""Who waits because of a child is shown what the child waits for, with commands that work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.fixture
def firm(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("LOOPWRIGHT_APP", "firm:agents")
    return cli


def paid(folder: Path) -> list[str]:
    path = folder / "paid.txt"
    return path.read_text().splitlines() if path.exists() else []


def typed(out: str, word: str) -> list[tuple[str, ...]]:
    """Take the commands out that are shown to be copied."""
    lines = [line.split() for line in out.splitlines() if f"loopwright {word} " in line]
    names = {"YOUR-NAME": "ana", "TEXT": "blue", "FOUND": "applied"}
    return [tuple(names.get(part, part) for part in line[1:]) for line in lines]


def one(firm: Cli, agent: str) -> Any:
    """Read the one invocation of an agent back."""
    (summary,) = firm("list", "--agent", agent, "--json").lines
    return firm("show", summary["invocation_id"], "--json").json


# ---------------------------------------------------------------- through the caller
@pytest.mark.parametrize("look", ["run", "show", "explain"])
@pytest.mark.parametrize(("word", "ran"), [("approve", ["7"]), ("deny", [])])
def test_the_command_that_is_shown_answers_for_the_child(
    firm: Cli, folder: Path, look: str, word: str, ran: list[str]
) -> None:
    """As it is printed, with the short digest and the caller's id."""
    said = firm("run", "boss", "pay 7")
    if look != "run":
        said = firm(look, one(firm, "boss")["invocation_id"])
    assert "(clerk) waits: approval_required" in said.out
    (words,) = typed(said.out, word)
    assert one(firm, "boss")["invocation_id"].endswith(words[3])
    done = firm(*words, "--json")
    assert (done.code, done.json["reason"], paid(folder)) == (0, "completed", ran)
    assert one(firm, "clerk")["reason"] == "completed"


def test_a_yes_through_the_caller_shows_the_childs_calls(firm: Cli) -> None:
    asked = firm("run", "boss", "pay 7", "--principal", "ann", "--json").json
    (child,) = asked["waiting_children"]
    digest = child["proposal"]["digest"]
    words = ("approve", asked["invocation_id"], digest[:12], "--by", "ana", "--edit")
    said = firm(*words, 'p7={"amount": 5}')
    for part in (child["invocation_id"], "agent         clerk", "on behalf of  ann", "amount  5"):
        assert part in said.out
    assert said.out.count("edited by ana") == 2
    assert one(firm, "clerk")["answer"] == "the clerk is done with pay 7"


def test_for_machines_the_approved_calls_of_a_child_are_listed(firm: Cli) -> None:
    asked = firm("run", "boss", "pay 7", "--json").json
    (child,) = asked["waiting_children"]
    words = ("approve", asked["invocation_id"], child["proposal"]["digest"][:12], "--by", "ana")
    approved = firm(*words, "--json").json["approved"]
    assert (approved["invocation_id"], approved["agent"]) == (child["invocation_id"], "clerk")
    assert [(c["call_id"], c["arguments"], c["effect"]) for c in approved["calls"]] == [
        ("p7", {"amount": 7}, "manual")
    ]


def test_a_childs_question_is_answered_through_its_caller(firm: Cli) -> None:
    said = firm("run", "boss", "which")
    assert "Which colour?" in said.out
    (words,) = typed(said.out, "answer")
    assert firm(*words, "--json").json["reason"] == "completed"


def test_of_several_children_each_is_shown_and_each_command_works(firm: Cli, folder: Path) -> None:
    said = firm("run", "boss", "pay 7 and which and what and pay 9")
    assert said.out.count("its child") >= 4
    answers = typed(said.out, "answer")
    # Two have asked: a text for the caller would go to the first of them.
    assert len({words[3] for words in answers}) == 2
    for words in (*typed(said.out, "approve"), *answers):
        assert firm(*words).code == 0, words
    assert one(firm, "boss")["reason"] == "completed"
    assert sorted(paid(folder)) == ["7", "9"]


def test_a_write_of_a_child_is_settled_with_the_child(firm: Cli) -> None:
    """The call that stands for the child is no write: nobody is told to settle it."""
    said = firm("run", "boss", "send 7")
    boss, clerk = one(firm, "boss"), one(firm, "clerk")
    assert boss["unresolved_effects"] == []
    for out in (said.out, firm("show", boss["invocation_id"]).out):
        assert out.count("waits to be settled") == 1
        (words,) = typed(out, "settle")
        assert clerk["invocation_id"].endswith(words[3])
        assert words[4] == "p7"
    done = firm(*words, "--json").json
    assert done["reason"] == "completed"
    assert [(c["agent"], c["reason"]) for c in done["callers"]] == [("boss", "completed")]


def test_what_is_kept_aside_for_a_child_is_not_called_used(firm: Cli) -> None:
    said = firm("run", "boss", "pay 7", "--max-tool-calls", "6")
    assert "kept aside for children: 5 tool calls" in " ".join(said.out.split())


# ---------------------------------------------------------------- through the child
def test_the_inbox_says_for_whom_a_child_works(firm: Cli) -> None:
    firm("run", "boss", "pay 7")
    boss = one(firm, "boss")["invocation_id"]
    (waiting,) = firm("inbox", "--json").lines
    assert waiting["root"] == boss
    assert f"works for     {boss}" in firm("inbox").out
    assert f"works for   {boss}, call c0" in firm("show", waiting["invocation_id"]).out


@pytest.mark.parametrize("word", ["approve", "deny", "answer", "settle", "cancel"])
def test_after_a_word_to_a_child_its_callers_go_on_too(firm: Cli, word: str) -> None:
    """They are waited for, and it is said how they stand; nobody is left behind, or running."""
    goals = {"answer": "which", "settle": "send 7"}
    firm("run", "boss", goals.get(word, "pay 7"))
    if word == "cancel":
        words: tuple[str, ...] = ("cancel", one(firm, "clerk")["invocation_id"])
    else:
        (words,) = typed(firm("inbox").out, word)
    said = firm(*words)
    assert said.code == 0
    boss = one(firm, "boss")
    assert boss["reason"] == "completed"
    assert f"its caller {boss['invocation_id'][-8:]} (boss): completed, done" in said.out


def test_callers_that_this_app_does_not_have_are_said_to_wait(firm: Cli) -> None:
    """They don't know yet that the child is over; `recover` tells them where they can run."""
    firm("run", "boss", "pay 7")
    (words,) = typed(firm("inbox").out, "approve")
    alone = firm(*words, "--app", "firm:clerk")
    assert (alone.code, "it does not know yet" in alone.out) == (0, True)
    assert one(firm, "boss")["status"] == "suspended"
    said = firm("recover")
    assert "0 recovered, 1 woken" in said.out
    assert one(firm, "boss")["reason"] == "completed"


# ---------------------------------------------------------------- too late
@pytest.mark.parametrize("word", ["approve", "deny"])
@pytest.mark.parametrize("agent", ["boss", "clerk"])
def test_a_late_answer_is_refused_and_nobody_is_left_running(
    firm: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, word: str, agent: str
) -> None:
    """It has expired, so it goes on without the calls: that is waited for, and shown."""
    monkeypatch.setenv("FIRM_EXPIRES", "0.001")
    asked = firm("run", agent, "pay 7", "--json").json
    words = (word, asked["invocation_id"], asked["proposal"]["digest"][:12], "--by", "ana")
    late = firm(*words)
    assert (late.code, late.err.count("\n"), "expired" in late.err) == (2, 1, True)
    assert "to be approved" not in late.out
    assert "completed" in late.out
    listed = firm("list", "--json").lines
    assert {summary["status"] for summary in listed} == {"ended"}
    assert paid(folder) == []
    if agent == "clerk":
        again = firm(*words)
        assert (again.code, again.out) == (2, "")
        assert "expired unanswered at" in again.err
        assert "nothing of it ran" in again.err


def test_recover_lets_those_go_on_whose_proposal_has_expired(
    firm: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They, and their callers, come to rest before the command is over."""
    monkeypatch.setenv("FIRM_EXPIRES", "0.001")
    firm("run", "boss", "pay 7")
    said = firm("recover")
    assert "0 recovered, 1 woken" in said.out
    assert {summary["status"] for summary in firm("list", "--json").lines} == {"ended"}


# ---------------------------------------------------------------- before anything is shown
@pytest.mark.parametrize(
    ("more", "part"),
    [
        (("--call", "zz"), "'zz' is not waiting for an approval; still waiting: p9"),
        (("--edit", 'zz={"amount": 1}'), "'zz' is not waiting for an approval"),
        (("--call", "p7"), "'p7' was answered before"),
        (("--edit", 'p7={"amount": 1}'), "'p7' was answered before"),
        (("--call", "p9", "--edit", 'p7={"amount": 1}'), "'p7' was answered before"),
    ],
)
@pytest.mark.parametrize("agent", ["boss", "clerk"])
def test_what_cannot_be_approved_is_not_shown_first(
    firm: Cli, agent: str, more: tuple[str, ...], part: str
) -> None:
    asked = firm("run", agent, "pay 7 9", "--json").json
    words = ("approve", asked["invocation_id"], asked["proposal"]["digest"][:12], "--by", "ana")
    assert firm(*words, "--call", "p7").code == 0
    said = firm(*words, *more)
    assert (said.code, said.out) == (2, "")
    assert part in said.err


def test_an_edit_of_a_call_that_is_left_out_is_not_shown_first(firm: Cli) -> None:
    asked = firm("run", "clerk", "pay 7 9", "--json").json
    words = ("approve", asked["invocation_id"], asked["proposal"]["digest"][:12], "--by", "ana")
    said = firm(*words, "--call", "p7", "--edit", 'p9={"amount": 1}')
    assert (said.code, said.out) == (2, "")
    assert "--call leaves out" in said.err


def test_a_second_answer_is_told_whose_the_first_was(firm: Cli) -> None:
    asked = firm("run", "clerk", "pay 7", "--json").json
    words = ("approve", asked["invocation_id"], asked["proposal"]["digest"][:12], "--by")
    firm(*words, "ana")
    said = firm(*words, "bo")
    assert (said.code, said.out) == (2, "")
    assert "answered before, by ana" in said.err
