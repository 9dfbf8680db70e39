"""Each kind of bad input gives one sentence and exit code 2, and changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loopwright.console import main

Cli = Callable[..., Any]

RUN = ("run", "refund-desk", "Settle refund request REQ-01")
TOOLS = """
from loopwright import Agent, tool
from office import Clerk, note
"""


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def newer(folder: Path) -> None:
    main(["run", "refund-desk", "Settle refund request REQ-01", "--json"])
    with closing(sqlite3.connect(folder / "loopwright.db")) as db:
        db.execute("PRAGMA user_version = 99")
    (folder / "loopwright-shop.db").unlink()


def stored(folder: Path) -> None:
    main(["run", "clerk", "buy milk", "--app", "office:clerk"])


def corrupt(folder: Path) -> None:
    (folder / "loopwright.db").write_bytes(b"not a database" * 100)


def foreign(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "loopwright.db")) as db:
        db.execute("CREATE TABLE theirs(x)")


def write(name: str, text: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        (folder / name).write_text(text)

    return prepare


def nothing(folder: Path) -> None:
    pass


CASES: dict[str, tuple[Callable[[Path], None], tuple[str, ...], str]] = {
    "store of a newer version": (newer, RUN, "schema version 99"),
    "corrupt store": (corrupt, RUN, "not an SQLite database"),
    "corrupt store, listed": (corrupt, ("list",), "not an SQLite database"),
    "corrupt store, recovered": (corrupt, ("recover",), "not an SQLite database"),
    "store of another application": (foreign, RUN, "another application"),
    "store in no folder": (nothing, (*RUN, "--store", "no/such.db"), "no folder"),
    "no store yet": (nothing, ("list",), "there is no store"),
    "wrong agent": (nothing, ("run", "nope", "go"), "no agent named 'nope'"),
    "blank goal": (nothing, ("run", "refund-desk", " "), "goal is blank"),
    "wrong agent of an app": (
        nothing,
        ("run", "nope", "go", "--app", "office:make"),
        "the app has: clerk",
    ),
    "tool without effect class": (
        write("bad.py", TOOLS + "@tool()\ndef send(x: int) -> int: return x\n"),
        ("run", "a", "go", "--app", "bad:send"),
        "'send' has no effect class",
    ),
    "plain function as tool": (
        write("bad.py", TOOLS + "a = Agent('a', model=Clerk(), tools=[print])\n"),
        ("run", "a", "go", "--app", "bad:a"),
        "no effect class",
    ),
    "duplicate tool names": (
        write("bad.py", TOOLS + "a = Agent('a', model=Clerk(), tools=[note, note])\n"),
        ("run", "a", "go", "--app", "bad:a"),
        "two tools named 'note'",
    ),
    "two agents of one name": (
        write("bad.py", TOOLS + "a = [Agent('a', model=Clerk()), Agent('a', model=Clerk())]\n"),
        ("run", "a", "go", "--app", "bad:a"),
        "two agents named 'a'",
    ),
    "app that is no agent": (nothing, ("run", "a", "go", "--app", "office:desk"), "no agents"),
    "app without a colon": (nothing, ("run", "a", "go", "--app", "office"), "module:attribute"),
    "app without a module": (nothing, ("run", "a", "go", "--app", "gone:a"), "No module named"),
    "app without the attribute": (nothing, ("run", "a", "go", "--app", "office:z"), "no 'z'"),
    "app with a syntax error": (
        write("bad.py", "def (\n"),
        ("run", "a", "go", "--app", "bad:a"),
        "SyntaxError",
    ),
    "app that exits": (
        write("bad.py", "raise SystemExit('bye')\n"),
        ("run", "a", "go", "--app", "bad:a"),
        "SystemExit: bye",
    ),
    "app function that fails": (
        write("bad.py", "def a():\n    return 1 / 0\n"),
        ("run", "a", "go", "--app", "bad:a"),
        "ZeroDivisionError",
    ),
    "model that is none": (nothing, (*RUN, "--model", "office:make"), "is no model"),
    "model for an app": (
        nothing,
        (*RUN, "--model", "office:Clerk", "--app", "office:make"),
        "drop one",
    ),
    "unknown config key": (write("loopwright.toml", "ap = 'x'\n"), RUN, "unknown key 'ap'"),
    "config that is no text": (
        write("loopwright.toml", "store = 7\n"),
        RUN,
        "'store' must be a text in quotes",
    ),
    "config that is no TOML": (write("loopwright.toml", "store =\n"), RUN, "not TOML"),
    "config that is not there": (nothing, (*RUN, "--config", "no.toml"), "cannot be read"),
    "damaged shop": (write("loopwright-shop.db", "no shop"), RUN, "loopwright-shop.db"),
    "app that is not there, for a look": (
        stored,
        ("list", "--app", "gone:a"),
        "No module named 'gone'",
    ),
    "negative budget": (nothing, (*RUN, "--max-steps", "-1"), "--max-steps"),
    "unknown option": (nothing, (*RUN, "--nope"), "--nope"),
    "missing argument": (nothing, ("run", "refund-desk"), "GOAL"),
    "unknown command": (nothing, ("nope",), "nope"),
    "unknown status": (nothing, ("list", "--status", "nope"), "nope"),
    "demo in a folder in use": (nothing, ("demo", "--dir", "."), "not empty"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_one_sentence_exit_code_2_and_nothing_changed(
    cli: Cli, folder: Path, case: str, flags: tuple[str, ...]
) -> None:
    prepare, words, part = CASES[case]
    prepare(folder)
    before = files(folder)
    said = cli(*words, *flags)
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert said.err.startswith("loopwright: ")
    assert part in said.err
    assert "Traceback" not in said.err
    if flags:
        assert said.err == f"loopwright: {said.json['error']}\n"
        assert said.json["type"]
    else:
        assert said.out == ""
    assert files(folder) == before


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("show", "nothing-like-it"), "no invocation has an id like"),
        (("show", "abc"), "too short"),
        (("show", "0"), "too short"),
        (("approve", "{id}", "f" * 64, "--by", "ana"), ""),
        (("approve", "{id}", "{digest}", "--by", " "), "name"),
        (("answer", "{id}", "text", "--by", "ana"), "waits for an approval"),
        (("resume", "{id}"), "approval_required"),
        (("resume", "{id}", "--grant-steps", "5"), "approval_required"),
    ],
)
def test_a_request_that_cannot_be_granted_changes_nothing(
    cli: Cli, words: tuple[str, ...], part: str
) -> None:
    waiting = cli("run", "refund-desk", "Settle refund request REQ-05", "--json").json
    identity, digest = waiting["invocation_id"], waiting["proposal"]["digest"]
    before = cli("show", identity, "--json").json
    said = cli(*(word.format(id=identity, digest=digest) for word in words))
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert part in said.err
    assert cli("show", identity, "--json").json == before


def test_doctor_names_what_is_wrong_and_goes_on(cli: Cli, folder: Path) -> None:
    corrupt(folder)
    said = cli("doctor", "--json", "--app", "gone:a")
    wrong = {check["name"]: check["found"] for check in said.json["checks"] if not check["ok"]}
    assert (said.code, list(wrong)) == (2, ["store", "app"])
    assert "not an SQLite database" in wrong["store"]
    assert "gone:a" in wrong["app"]


@pytest.mark.parametrize("words", [("list",), RUN, ("recover",)], ids=lambda words: words[0])
def test_a_path_the_system_refuses_is_one_sentence(cli: Cli, words: tuple[str, ...]) -> None:
    said = cli(*words, "--store", "n" * 300)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "File name too long; check the path" in said.err


def test_a_path_the_system_refuses_is_one_finding_of_the_doctor(cli: Cli) -> None:
    wrong = [
        check["name"]
        for check in cli("doctor", "--json", "--store", "n" * 300).json["checks"]
        if not check["ok"]
    ]
    assert wrong == ["store"]
