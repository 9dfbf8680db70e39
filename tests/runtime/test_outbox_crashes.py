"""Processes that are killed over a delivery, and others that share one file with them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from loopwright.protocol import EffectEntry, loads
from loopwright.stores import SQLiteStore
from runtime.outbox_worker import DELIVER

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by a signal"),
]
WORKER = Path(__file__).with_name("outbox_worker.py")
SIGKILL = -9


class Mail:
    """One file that all processes share, and the world they act on."""

    def __init__(self, folder: Path, effect: str) -> None:
        self.path = folder / "store.db"
        self.world = folder / "world"
        self.effect = effect

    def start(self, command: str, *goals: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, WORKER, command, self.path, self.world, self.effect, *goals],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    async def ended(self, process: subprocess.Popen[str]) -> tuple[int, Any]:
        """Wait for a process; return its exit code and what it reported."""
        said, errors = await anyio.to_thread.run_sync(process.communicate)
        assert errors == ""
        return process.returncode, loads(said.encode()) if said else None

    async def run(self, command: str, *goals: str) -> tuple[int, Any]:
        return await self.ended(self.start(command, *goals))

    @property
    def sent(self) -> list[str]:
        """What took effect: the effect keys, each with the number of the attempt."""
        return self.world.read_text().splitlines() if self.world.exists() else []

    async def ledger(self) -> list[EffectEntry]:
        """Read how the effects stand, first announced first."""
        store = SQLiteStore(self.path)
        await store.open()
        found = [fact.entry for _, fact in reversed(await store.effects())]
        await store.close()
        return found


@pytest.fixture
def mail(tmp_path: Path) -> Mail:
    return Mail(tmp_path, "idempotent")


@pytest.fixture
def asked(tmp_path: Path) -> Mail:
    return Mail(tmp_path, "reconcilable")


async def test_killed_before_the_commit_nothing_was_queued(mail: Mail) -> None:
    """The turn is made again by whoever takes it over, and only then anything is delivered."""
    assert (await mail.run("before_commit", "ana"))[0] == SIGKILL
    assert (mail.sent, await mail.ledger()) == ([], [])
    assert await mail.run(DELIVER) == (
        0,
        {"ana:1": ["committed", "ana has 1", 1], "ana:2": ["committed", "ana has 2", 1]},
    )
    assert mail.sent == ["ana:1 1", "ana:2 1"]


async def test_killed_after_the_commit_it_is_delivered_by_another(mail: Mail) -> None:
    assert (await mail.run("after_commit", "ana"))[0] == SIGKILL
    assert mail.sent == []
    assert [entry.status for entry in await mail.ledger()] == ["prepared", "prepared"]
    code, said = await mail.run(DELIVER)
    assert (code, said["ana:1"]) == (0, ["committed", "ana has 1", 1])
    assert mail.sent == ["ana:1 1", "ana:2 1"]


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        ("after_claim", ["ana:1 2", "ana:2 1"]),
        ("before_effect", ["ana:1 2", "ana:2 1"]),
        ("after_effect", ["ana:1 1", "ana:1 2", "ana:2 1"]),
        ("before_conclusion", ["ana:1 1", "ana:1 2", "ana:2 1"]),
        ("after_conclusion", ["ana:1 1", "ana:2 1"]),
    ],
)
async def test_killed_over_a_delivery_it_is_made_again_under_its_key(
    mail: Mail, command: str, sent: list[str]
) -> None:
    """At least once, in order, and never after it is known to be delivered."""
    assert (await mail.run(command, "ana"))[0] == SIGKILL
    first, second = await mail.ledger()
    assert (first.status, first.attempts) == (
        "committed" if command == "after_conclusion" else "dispatched",
        1,
    )
    assert (second.status, second.attempts) == ("prepared", 0)
    code, said = await mail.run(DELIVER)
    assert (code, [status for status, _, _ in said.values()]) == (0, ["committed"] * 2)
    assert mail.sent == sent


@pytest.mark.parametrize(
    ("command", "sent", "receipt"),
    [
        ("before_effect", ["ana:1 2", "ana:2 1"], "ana has 1"),
        ("after_effect", ["ana:1 1", "ana:2 1"], "found"),
        ("before_conclusion", ["ana:1 1", "ana:2 1"], "found"),
    ],
)
async def test_killed_over_a_reconcilable_delivery_its_downstream_is_asked(
    asked: Mail, command: str, sent: list[str], receipt: str
) -> None:
    """So it takes effect once, whether or not it had."""
    assert (await asked.run(command, "ana"))[0] == SIGKILL
    code, said = await asked.run(DELIVER)
    assert code == 0
    assert said == {
        "ana:1": ["committed", receipt, 2],
        "ana:2": ["committed", "ana has 2", 1],
    }
    assert asked.sent == sent


async def test_killed_again_and_again_it_arrives_in_the_end(mail: Mail) -> None:
    assert (await mail.run("after_effect", "ana"))[0] == SIGKILL
    for _ in range(3):
        assert (await mail.run("after_effect"))[0] == SIGKILL
    code, _ = await mail.run(DELIVER)
    assert code == 0
    assert mail.sent == [*(f"ana:1 {n}" for n in range(1, 6)), "ana:2 1"]


async def test_a_claim_of_a_living_process_is_left_alone(mail: Mail) -> None:
    """What a killed one had claimed is taken over only when its heartbeat is over."""
    assert (await mail.run("after_effect", "ana"))[0] == SIGKILL
    began = time.monotonic()
    store = SQLiteStore(mail.path)
    await store.open()
    while not (claimed := await store.claim("other", ["desk"])):
        assert time.monotonic() - began < 5
        await anyio.sleep(0.01)
    await store.close()
    assert [one.attempt for one in claimed] == [2]


async def test_processes_that_share_a_file_deliver_each_entry_once(mail: Mail) -> None:
    """All of them look for deliveries of all of them, and box by box the order is kept."""
    boxes = [[f"p{process}b{box}" for box in range(8)] for process in range(3)]
    processes = [mail.start(DELIVER, " ".join(names[:4]), " ".join(names[4:])) for names in boxes]
    for process in processes:
        assert (await mail.ended(process))[0] == 0
    counts = Counter(line.split()[0] for line in mail.sent)
    assert counts == {f"{box}:{n}": 1 for names in boxes for box in names for n in (1, 2)}
    assert all(line.endswith(" 1") for line in mail.sent)
    for names in boxes:
        for box in names:
            assert mail.sent.index(f"{box}:1 1") < mail.sent.index(f"{box}:2 1")
    assert {entry.status for entry in await mail.ledger()} == {"committed"}
