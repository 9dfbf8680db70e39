"""The demo tells the truth: every request in its right state, one payment per key, a real kill."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopwright.examples.refund_desk.shop import Shop

Cli = Callable[..., Any]


def test_the_whole_story_ends_as_expected(cli: Cli, folder: Path) -> None:
    said = cli("demo", "--dir", "desk", "--json")
    told = said.json
    assert (said.code, told["ok"], said.err) == (0, True, "")
    assert (told["keys"], told["payments"]) == (7, 7)
    assert all(row["ok"] for row in told["requests"])
    assert len(told["requests"]) == 16
    assert (told["killed"]["exit_code"], told["killed"]["store_says"]) == (-9, "dispatched")
    assert (told["recovered"]["attempts"], told["recovered"]["replayed"]) == (2, True)
    assert [(one["by"], one["approved"]) for one in told["decided"]] == (
        [("ana", True), ("ben", False)]
    )
    assert told["seconds"] < 30

    keys = [paid.effect_key for paid in Shop(folder / "desk" / "loopwright-shop.db").ledger()]
    assert len(keys) == len(set(keys)) == 7
    listed = cli("list", "--store", "desk/loopwright.db", "--json").lines
    assert [line["status"] for line in listed] == ["ended"] * 16


def test_it_is_readable_without_a_terminal_and_leaves_no_files(folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = subprocess.run(
        [sys.executable, "-m", "loopwright", "demo", "--fast"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "one payment per effect key: yes (7 keys, 7 payments)" in done.stdout
    assert "16 of 16 requests as expected" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert sorted(folder.iterdir()) == before
