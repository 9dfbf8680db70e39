"""Writes of unknown outcome: the command line says which, and takes a person's word on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.fixture
def till(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("LOOPWRIGHT_APP", "till:till")
    return cli


def sent(folder: Path) -> list[str]:
    return (folder / "sent.txt").read_text().splitlines()


def waiting(till: Cli, goal: str = "pay 7") -> str:
    said = till("run", "till", goal, "--json")
    assert (said.code, said.json["reason"]) == (0, "reconciliation_required")
    return str(said.json["invocation_id"])


def unresolved(done: Any) -> list[str]:
    return [effect["call_id"] for effect in done["unresolved_effects"]]


# ---------------------------------------------------------------- what waits
def test_what_waits_to_be_settled_is_shown_with_the_command_that_does(
    till: Cli, folder: Path
) -> None:
    said = till("run", "till", "pay 7")
    assert said.code == 0
    shown = till("show", till("list", "--json").json["invocation_id"])
    for out in (said.out, shown.out):
        for part in ("waits to be settled", "order  7", "pay:7 (call c7, dispatched 1x)"):
            assert part in out
        (command,) = (line for line in out.splitlines() if "loopwright settle" in line)
        assert "c7 FOUND --by YOUR-NAME" in command

    # Who copies it without a thought has said nothing.
    assert till(*command.replace("YOUR-NAME", "bo").split()[1:]).code == 2
    words = command.replace("YOUR-NAME", "bo").replace("FOUND", "applied").split()[1:]
    done = till(*words)
    assert (done.code, "c7=ok" in done.out, "bo" in done.out) == (0, True, True)
    assert sent(folder) == ["7 paid"]


def test_for_machines_the_unresolved_effects_are_listed(till: Cli) -> None:
    identity = waiting(till, "pay 7 8")
    held = till("show", identity, "--json").json
    (effect,) = held["unresolved_effects"]
    assert (effect["call_id"], effect["status"], effect["arguments"]) == (
        "c7",
        "outcome_unknown",
        {"order": 7},
    )
    assert held["waits_for"] == "c7 (pay)"


# ---------------------------------------------------------------- a person's word
@pytest.mark.parametrize(
    ("words", "answer", "status", "times"),
    [
        (("applied", "--receipt", '{"seen": true}'), "c7=ok", "committed", 1),
        (("applied",), "c7=ok", "committed", 1),
        (("rejected", "--reason", "sent back"), "c7=error", "rejected", 1),
        (("not-applied",), "c7=ok", "committed", 2),
        (("unknown", "--reason", "the bank is gone"), "c7=outcome_unknown", "outcome_unknown", 1),
    ],
    ids=["applied with a receipt", "applied", "rejected", "not applied", "unknown"],
)
def test_each_word_lets_it_go_on(
    till: Cli, folder: Path, words: tuple[str, ...], answer: str, status: str, times: int
) -> None:
    identity = waiting(till)
    said = till("settle", identity, "c7", *words, "--by", "bo", "--json")
    assert (said.code, said.json["reason"], said.json["answer"]) == (0, "completed", answer)
    (effect,) = said.json["effects"]
    assert effect["status"] == status
    assert len(sent(folder)) == times
    if "--receipt" in words:
        assert effect["receipt"] == {"seen": True}


def test_who_said_what_is_shown(till: Cli) -> None:
    said = till("settle", waiting(till), "c7", "rejected", "--reason", "sent back", "--by", "bo")
    assert "pay:7 is rejected, says bo: sent back" in said.out


def test_a_resume_asks_the_bank_again(till: Cli, folder: Path) -> None:
    identity = waiting(till, "refund 7")
    again = till("resume", identity)
    assert (again.code, "waits to be settled" in again.out) == (0, True)
    (folder / "bank.txt").write_text("r-1")
    done = till("resume", identity, "--json").json
    assert (done["reason"], done["answer"]) == ("completed", "c7=ok")
    assert sent(folder) == ["7 refunded"]


def test_what_is_over_leads_to_its_unresolved_effects_and_its_ledger_is_corrected(
    till: Cli, folder: Path
) -> None:
    identity = waiting(till)
    ended = till("cancel", identity)
    assert (
        ended.code,
        f"loopwright show --app till:till {identity[-8:]} --effects" in ended.out,
    ) == (0, True)
    said = till("settle", identity, "c7", "applied", "--by", "bo", "--json")
    assert (said.code, said.json["reason"], unresolved(said.json)) == (0, "cancelled", [])
    assert till("effects", "--unsettled").out == "no effects\n"


# ---------------------------------------------------------------- the ledger
def test_show_effects_is_the_ledger_of_one_invocation(till: Cli) -> None:
    first, second = waiting(till), waiting(till, "refund 9")
    till("settle", first, "c7", "applied", "--receipt", '"r-7"', "--by", "bo")
    held = till("show", first, "--effects", "--json").json
    assert held["invocation_id"] == first
    (effect,) = held["effects"]
    assert (effect["effect_key"], effect["tool_name"], effect["turn"], effect["call_id"]) == (
        "pay:7",
        "pay",
        1,
        "c7",
    )
    assert (effect["status"], effect["attempts"], effect["arguments"], effect["receipt"]) == (
        "committed",
        1,
        {"order": 7},
        "r-7",
    )
    people = till("show", second, "--effects").out
    for part in ("refund:9 outcome_unknown", "c9 of turn 1, dispatched 1x", "order  9"):
        assert part in people
    assert f"loopwright settle --app till:till {second[-8:]} c9 FOUND --by YOUR-NAME" in people
    assert "settle" not in till("show", first, "--effects").out


def test_effects_answers_what_is_unresolved_over_all_invocations(till: Cli) -> None:
    for goal in ("pay 7", "refund 8", "pay 9"):
        waiting(till, goal)
    done = till("list", "--json").lines[0]["invocation_id"]
    till("settle", done, "c9", "applied", "--by", "bo")

    def keys(*words: str) -> list[str]:
        return [line["effect_key"] for line in till("effects", *words, "--json").lines]

    assert keys() == ["pay:9", "refund:8", "pay:7"]
    assert keys("--unsettled") == ["refund:8", "pay:7"]
    assert keys("--status", "committed") == ["pay:9"]
    assert keys("--status", "committed", "--status", "outcome_unknown") == keys()
    assert keys("--tool", "pay", "--unsettled") == ["pay:7"]
    assert keys("--key", "refund:8") == ["refund:8"]
    people = till("effects", "--unsettled").out
    assert "refund:8" in people
    assert "pay:9" not in people
    assert all(len(line) <= 80 for line in people.splitlines())


# ---------------------------------------------------------------- approvals
def test_approve_shows_exactly_what_runs(till: Cli) -> None:
    asked = till("run", "till", "gift 7", "--json").json
    said = till("approve", asked["invocation_id"], asked["proposal"]["digest"], "--by", "ana")
    for part in (
        *("to be approved by ana", "order   7", "amount  5", "call c7, idempotent effect"),
        *("on behalf of  anonymous", "tool_named(gift)", asked["proposal"]["digest"]),
    ):
        assert part in said.out
    assert said.out.index("amount  5") < said.out.index("approved        c7, by ana")


def test_an_edited_call_runs_as_edited_and_as_shown(till: Cli) -> None:
    asked = till("run", "till", "gift 7", "--json").json
    words = ("approve", asked["invocation_id"], asked["proposal"]["digest"], "--by", "ana")
    said = till(*words, "--edit", 'c7={"order": 8}')
    for part in ("order   8", "amount  5", "edited by ana (call c7)", "with order=8, amount=5"):
        assert part in said.out
    held = till("show", asked["invocation_id"], "--json").json
    assert [effect["receipt"] for effect in held["effects"]] == ["5 for 8"]


def test_for_machines_the_approved_calls_are_listed(till: Cli) -> None:
    asked = till("run", "till", "gift 7", "--json").json
    words = ("approve", asked["invocation_id"], asked["proposal"]["digest"], "--by", "ana")
    done = till(*words, "--edit", 'c7={"order": 8, "amount": 1}', "--json").json
    assert done["approved"] == {
        "invocation_id": asked["invocation_id"],
        "digest": asked["proposal"]["digest"],
        "agent": "till",
        "principal": {"actor": "anonymous", "tenant": "", "roles": [], "capabilities": []},
        "expires_at": None,
        "calls": [
            {
                "call_id": "c7",
                "tool_name": "gift",
                "effect": "idempotent",
                "arguments": {"order": 8, "amount": 1},
                "reason": "tool_named(gift) needs a human's yes",
                "edited": True,
            }
        ],
    }


# ---------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("settle", "{id}", "c7", "maybe", "--by", "bo"), "maybe"),
        (("settle", "{id}", "c7", "applied"), "--by"),
        (("settle", "{id}", "c7", "applied", "--by", " "), "needs a name"),
        (("settle", "{id}", "c9", "applied", "--by", "bo"), "no call 'c9'"),
        (("settle", "{id}", "c7", "applied", "--by", "bo", "--turn", "4"), "'c7'"),
        (("settle", "{id}", "c7", "applied", "--by", "bo", "--turn", "0"), "--turn"),
        (("settle", "{id}", "c7", "applied", "--by", "bo", "--receipt", "{{"), "--receipt"),
        (("settle", "{id}", "c7", "rejected", "--by", "bo", "--receipt", "1"), "--receipt has no"),
        (("settle", "{id}", "c7", "applied", "--by", "bo", "--reason", "x"), "--reason has no"),
        (("answer", "{id}", "text", "--by", "ana"), "reconciliation_required"),
        (("effects", "--status", "nope"), "nope"),
        (("effects", "--status", "committed", "--unsettled"), "drop it or --status"),
    ],
)
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_word_that_cannot_be_taken_is_one_sentence_and_changes_nothing(
    till: Cli, words: tuple[str, ...], part: str, flags: tuple[str, ...]
) -> None:
    identity = waiting(till)
    before = till("show", identity, "--json").json
    said = till(*(word.format(id=identity) for word in words), *flags)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert part in said.err
    assert said.json["type"] if flags else said.out == ""
    assert till("show", identity, "--json").json == before


def test_the_first_word_stands(till: Cli) -> None:
    identity = waiting(till)
    till("settle", identity, "c7", "applied", "--by", "bo")
    said = till("settle", identity, "c7", "rejected", "--by", "ana")
    assert (said.code, said.out, "nothing to settle" in said.err) == (2, "", True)


@pytest.mark.parametrize(
    ("edit", "part"),
    [
        ("c7", "names no call; write it as CALL=JSON"),
        ("c7=", "--edit c7"),
        ("c7=[8]", "write a JSON object"),
        ('c7={"order": "many"}', "order"),
        ('c9={"order": 9}', "'c9'"),
    ],
)
def test_an_edit_that_does_not_fit_approves_nothing(till: Cli, edit: str, part: str) -> None:
    asked = till("run", "till", "gift 7", "--json").json
    words = ("approve", asked["invocation_id"], asked["proposal"]["digest"], "--by", "ana")
    said = till(*words, "--edit", edit)
    assert (said.code, "─ approved by" in said.out, said.err.count("\n")) == (2, False, 1)
    assert part in said.err
    twice = till(*words, "--edit", 'c7={"order": 7}', "--edit", 'c7={"order": 8}')
    assert (twice.code, "there twice" in twice.err) == (2, True)
    assert till("show", asked["invocation_id"], "--json").json["reason"] == "approval_required"
