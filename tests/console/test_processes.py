"""What one process leaves, another one finds: across exits and kills."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopwright.actors import Runtime
from loopwright.stores import SQLiteStore

Cli = Callable[..., Any]


def loopwright(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loopwright", *words], capture_output=True, text=True, check=False
    )


@pytest.mark.anyio
async def test_b83_another_process_approves_with_a_context_of_its_own(
    folder: Path, office: Any
) -> None:
    """B83: it runs once, with the stored arguments, in the new context; and does not wait again."""
    first = loopwright("run", "clerk", "buy milk", "--app", "office:make", "--json")
    waiting: dict[str, Any] = json.loads(first.stdout)
    assert waiting["reason"] == "approval_required"

    async with Runtime(office.make(), store=SQLiteStore("loopwright.db")) as runtime:
        office.desk.set("the second desk")
        digest = waiting["proposal"]["digest"]
        run = await runtime.approve(waiting["invocation_id"], digest, by="ana")
        outcome = await run.outcome()
    assert (str(outcome.reason), outcome.answer) == ("completed", "written: ok")
    assert (folder / "notes.txt").read_text() == "buy milk at the second desk\n"


def test_b68_an_accepted_run_does_not_vanish(cli: Cli, folder: Path) -> None:
    """B68: killed before its first model call, it is listed, and recovery runs turn 1, once."""
    killed = subprocess.run(
        [sys.executable, "office.py", "loopwright.db"], capture_output=True, text=True, check=False
    )
    assert (killed.returncode, killed.stderr) == (-9, "")
    (listed,) = cli("list", "--json").lines
    assert listed["invocation_id"] == killed.stdout.strip()
    assert (listed["status"], listed["goal"]) == ("running", "buy milk")
    (started,) = cli("show", listed["invocation_id"], "--json").json["timeline"]
    assert started["kind"] == "invocation_started"
    assert not (folder / "asked.txt").exists()

    until = time.monotonic() + 20
    while cli("list", "--json").lines[0]["owner_alive"] and time.monotonic() < until:
        time.sleep(0.02)
    assert "its worker is gone" in " ".join(cli("list").out.split())
    said = cli("recover", "--app", "office:make")
    assert (said.code, "1 recovered" in said.out) == (0, True)
    assert (folder / "asked.txt").read_text() == "1\n"


def test_ctrl_c_cancels_a_run_durably(cli: Cli, folder: Path) -> None:
    """The invocation ends before the process does, and says so."""
    words = ("run", "clerk", "think long", "--app", "office:make")
    process = subprocess.Popen(
        [sys.executable, "-m", "loopwright", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while not (folder / "asked.txt").exists() and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "")
    assert "reason  cancelled" in out
    assert [line["reason"] for line in cli("list", "--json").lines] == ["cancelled"]


def test_cancel_reaches_an_invocation_that_another_process_runs(cli: Cli, folder: Path) -> None:
    """Its worker is told through the store, and its outcome is waited for here."""
    words = ("run", "clerk", "think long", "--app", "office:make", "--json")
    process = subprocess.Popen(
        [sys.executable, "-m", "loopwright", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while not (folder / "asked.txt").exists() and time.monotonic() < until:
        time.sleep(0.02)
    identity = cli("list", "--json").json["invocation_id"]
    said = cli("cancel", identity, "--reason", "sent twice", "--by", "bo", "--app", "office:make")
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (1, "")
    assert json.loads(out)["reason"] == "cancelled"
    assert (said.code, "is told" in said.out, "sent twice" in said.out) == (0, True, True)


def test_without_the_extra_one_sentence_says_what_to_install(folder: Path) -> None:
    """The command line needs typer and rich; a plain install does not have them."""
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "from loopwright.__main__ import main; sys.exit(main())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder
    )
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)
    assert "pip install 'loopwright[cli]'" in said.stderr


def test_python_m_loopwright_returns_the_exit_code(folder: Path) -> None:
    said = loopwright("list", "--json")
    assert (said.returncode, json.loads(said.stdout)["type"]) == (2, "ConfigurationError")


@pytest.mark.parametrize(
    ("redirection", "code", "errors"), [(">&-", 0, 0), (">/dev/full", 2, 1), ("2>&-", 0, 0)]
)
def test_an_output_that_takes_nothing_is_no_traceback(
    cli: Cli, redirection: str, code: int, errors: int
) -> None:
    """Closed, as for a service, there is nobody to tell; on a full disk there is."""
    cli("run", "refund-desk", "Settle refund request REQ-01")
    command = f"{sys.executable} -m loopwright list {redirection}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (code, errors)
