"""Heartbeats and due times rest on a clock of the machine that nobody can set."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from loopwright.protocol import InvocationId
from loopwright.stores import SQLiteStore
from loopwright.stores.sqlite._clock import NEVER, Instant, MachineClock, boot_id
from loopwright.testing.conformance._base import created, delivery, head, queued


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


def reboot(monkeypatch: pytest.MonkeyPatch, boot: str) -> None:
    """Pretend that this is another run of the machine, or a machine that does not name its runs."""
    monkeypatch.setattr("loopwright.stores.sqlite._clock.boot_id", lambda: boot)


def test_a_moment_is_before_a_later_one_of_the_same_boot_only() -> None:
    now = Instant("boot", 10.0)
    assert now.is_before(*now.plus(1.0))
    assert not now.is_before(*now)
    assert not now.is_before("other", 11.0)
    assert not now.is_before(*NEVER)


def test_the_seconds_are_monotonic_where_the_boot_has_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reboot(monkeypatch, "boot")
    assert MachineClock().now().boot == "boot"
    assert abs(MachineClock().now().seconds - time.monotonic()) < 5


def test_the_seconds_are_wall_clock_where_the_boot_has_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reboot(monkeypatch, "")
    assert MachineClock().now().boot == ""
    assert abs(MachineClock().now().seconds - time.time()) < 5
    assert not MachineClock().now().is_before(*NEVER)


def test_a_machine_without_a_boot_id_gives_an_empty_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("loopwright.stores.sqlite._clock._BOOT_ID", tmp_path / "missing")
    assert boot_id.__wrapped__() == ""


@pytest.mark.anyio
@pytest.mark.parametrize("boot", ["boot", ""], ids=["named", "nameless"])
async def test_only_a_boot_without_a_name_minds_the_wall_clock(
    path: Path, monkeypatch: pytest.MonkeyPatch, boot: str
) -> None:
    reboot(monkeypatch, boot)
    store = SQLiteStore(path)
    await store.open()
    await store.append([created("a")])
    await store.heartbeat("w1", 60)
    jumped = time.time() + 3_600
    monkeypatch.setattr(time, "time", lambda: jumped)
    later = SQLiteStore(path)
    await later.open()
    assert (await later.summary(InvocationId("a"))).owner_alive == (boot == "boot")
    await later.close()
    await store.close()


@pytest.mark.anyio
async def test_after_a_reboot_nobody_is_alive_and_everything_is_due(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the new boot starts low, so that all old moments would be far ahead."""
    reboot(monkeypatch, "first")
    store = SQLiteStore(path, clock=lambda: 1_000_000.0)
    await store.open()
    await store.heartbeat("w1", 60)
    await store.append([queued("a", 1, delivery("a", "k1"), delivery("a", "k2"), head=head())])
    put_off, _ = await store.claim("w1", ["desk"])
    await store.conclude(put_off.number, "w1", "prepared", retry_in=3_600)
    assert list(await store.claim("w2", ["desk"])) == []
    await store.close()

    reboot(monkeypatch, "second")
    store = SQLiteStore(path, clock=lambda: 7.0)
    await store.open()
    assert not (await store.summary(InvocationId("a"))).owner_alive
    assert [one.invocation_id for one in await store.orphans(["desk"])] == ["a"]
    assert (await store.acquire(InvocationId("a"), "w2")).fence == 2
    claimed = await store.claim("w2", ["desk"])
    assert [(one.delivery.effect_key, one.attempt) for one in claimed] == [("k1", 2), ("k2", 2)]
    await store.close()


@pytest.mark.anyio
async def test_what_was_put_off_is_due_by_the_clock_handed_in(path: Path) -> None:
    now = 100.0
    store = SQLiteStore(path, clock=lambda: now)
    await store.open()
    await store.append([queued("a", 1, delivery("a", "k"), head=head())])
    (claimed,) = await store.claim("w1", ["desk"])
    await store.conclude(claimed.number, "w1", "prepared", retry_in=10)
    now = 109.9
    assert list(await store.claim("w1", ["desk"])) == []
    now = 110.0
    assert [one.attempt for one in await store.claim("w1", ["desk"])] == [2]
    await store.close()
