"""The crash kit: kills real processes at named points, and checks what is left.

A host process imports the agents once and forks a child for each life; see `_host`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from loopwright.actors import Runtime
from loopwright.protocol import (
    Budget,
    ConfigurationError,
    JsonValue,
    Outcome,
    Principal,
    Reconciled,
    dumps,
    loads,
)
from loopwright.stores import SQLiteStore, all_effects, all_invocations

from ._check import check_case
from ._kept import Kept
from ._life import KEY, LOG, STORE, Spec
from ._log import Killed, read_log
from ._points import CrashPoint

T = TypeVar("T")

LIMIT: Final = 30.0
LEASE_TTL: Final = 15.0
_GRACE: Final = 2.0
"""Seconds a child has to end by itself once its time is over."""


class CrashPoints:
    """Kills processes that run your agents, at points you name, and checks what is left.

    POSIX only: it forks, and sends SIGKILL.

    Args:
        factory: `module:name` of a function that takes the folder of a case and returns an
            `Agent`, or a list of them. It is called in each life anew; what it opens, it opens in
            the process that is killed.
        folder: Where each case gets a folder of its own.
        limit: Seconds in which a life has to come to rest.

    Raises:
        ConfigurationError: If the factory cannot be imported, or this is not POSIX.
    """

    def __init__(
        self, factory: str, folder: str | os.PathLike[str], *, limit: float = LIMIT
    ) -> None:
        if not hasattr(os, "fork"):
            msg = "CrashPoints needs fork and SIGKILL; run these tests on Linux or macOS"
            raise ConfigurationError(msg)
        self._folder = Path(folder)
        self._limit = limit
        self._numbers = itertools.count(1)
        self._host = subprocess.Popen(
            [sys.executable, "-m", "loopwright.testing.crash._host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            self._ask({"path": sys.path, "factory": factory})
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Hand out the kit; its host is running already."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the host, and whoever it has begun; the folders stay."""
        self.close()

    def close(self) -> None:
        """End the host, and whoever it has begun; the folders stay."""
        for stream in (self._host.stdin, self._host.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        self._host.wait()

    def case(
        self,
        agent: str,
        goal: str,
        *,
        principal: Principal | None = None,
        budget: Budget | None = None,
        metadata: JsonValue = None,
        approve: bool = True,
        answer: str = "go on",
        settle: Reconciled | str | None = None,
    ) -> Case:
        """Begin a case: one invocation, in a store of its own, that is killed and recovered.

        Args:
            agent: Name of one of the agents the factory makes.
            goal: As for `Runtime.start`, and so are `principal`, `budget` and `metadata`.
            principal: On whose behalf.
            budget: Limits instead of the agent's own.
            metadata: Any JSON value.
            approve: Whether a person says yes or no to every proposal.
            answer: What a person answers to every question.
            settle: What a person says became of every write that waits for that, or `module:name`
                of a function that is told the folder and the effect key; by default nobody knows.
        """
        folder = self._folder / f"case-{next(self._numbers)}"
        folder.mkdir(parents=True)
        wanted = _Wanted(agent, goal, principal, budget, metadata, approve, answer, settle)
        return Case(self._ask, folder, wanted, self._limit)

    def _ask(self, command: Mapping[str, object]) -> Any:
        """Tell the host something, and wait for its answer."""
        assert self._host.stdin is not None
        assert self._host.stdout is not None
        with suppress(BrokenPipeError):
            self._host.stdin.write(dumps(command) + b"\n")
            self._host.stdin.flush()
        line = self._host.stdout.readline()
        if not line:
            code = self._host.wait()
            msg = f"the host of the crash kit is gone, with exit code {code}; see standard error"
            raise ConfigurationError(msg)
        answer: Any = loads(line)
        if "error" in answer:
            raise ConfigurationError(answer["error"])
        return answer


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is the same in all lives of a case, and what people say in them."""

    agent: str
    goal: str
    principal: Principal | None
    budget: Budget | None
    metadata: JsonValue
    approve: bool
    answer: str
    settle: Reconciled | str | None


class Life:
    """One process that is at work on the invocation of a case; made by `Case.begin`."""

    def __init__(self, case: Case, number: int, pid: int) -> None:
        self.number = number
        """Counts the lives of a case from 1."""
        self.pid = pid
        self._case = case

    def wait(self) -> bool:
        """Wait for its end; return whether it was killed at its point.

        Raises:
            AssertionError: If it has failed by itself.
            ConfigurationError: If its agents could not be made.
        """
        return self._case.ended(self)


class Case:
    """One invocation, and the lives of the processes that are at work on it.

    Made by `CrashPoints.case`.
    """

    def __init__(
        self,
        ask: Callable[[Mapping[str, object]], Any],
        folder: Path,
        wanted: _Wanted,
        limit: float,
    ) -> None:
        self.folder = folder
        """Its own, with the store; the factory is given it, too."""
        self.kills = 0
        """Lives that were killed at their point."""
        self._ask = ask
        self._wanted = wanted
        self._limit = limit
        self._lives = 0
        self._generation = 0
        self._running: set[int] = set()

    def kill_at(
        self, point: CrashPoint, occurrence: int = 1, *, cancel_at: CrashPoint | None = None
    ) -> bool:
        """Let a process start or recover the invocation, until it is killed at a point.

        For an R point, which needs a write of unknown outcome, a case that was not killed yet is
        killed at K6 first. For K12 the invocation is cancelled in the first write, before its
        effect, or where `cancel_at` says.

        Args:
            point: Where to kill it.
            occurrence: At which time this life reaches the point, from 1.
            cancel_at: Where somebody cancels.

        Returns:
            Whether the point was reached; if it was not, the invocation has come to rest.
        """
        if point.about_unknown and not self.kills and not self.kill_at(CrashPoint.K6):
            return False
        if point is CrashPoint.K12 and cancel_at is None:
            cancel_at = CrashPoint.K5
        return self.begin(point, occurrence, cancel_at=cancel_at).wait()

    def finish(
        self,
        *,
        settle: Reconciled | str | None = None,
        cancel_at: CrashPoint | None = None,
    ) -> Outcome:
        """Let another process recover the invocation and bring it to rest.

        Args:
            settle: What a person says of writes that wait for it, instead of what the case says.
            cancel_at: Where somebody cancels.
        """
        self.begin(settle=settle, cancel_at=cancel_at).wait()
        return _apart(self._outcome)

    def begin(
        self,
        point: CrashPoint | None = None,
        occurrence: int = 1,
        *,
        settle: Reconciled | str | None = None,
        cancel_at: CrashPoint | None = None,
        lease_ttl: float = LEASE_TTL,
    ) -> Life:
        """Begin a life, and do not wait for it; one beside a life that runs shares its clock.

        A life that runs alone takes over at once whatever an earlier one has left. One of two that
        run side by side waits until the other's lease is over: give both a short `lease_ttl`.

        Raises:
            ConfigurationError: If the case, or this life of it, cannot be meant so.
        """
        if not self._running:
            self._generation += 1
        self._lives += 1
        wanted = self._wanted
        spec = Spec(
            self._lives,
            self._generation,
            str(self.folder),
            wanted.agent,
            wanted.goal,
            wanted.principal,
            wanted.budget,
            wanted.metadata,
            wanted.approve,
            wanted.answer,
            wanted.settle if settle is None else settle,
            point,
            occurrence,
            cancel_at,
            lease_ttl,
            self._limit,
        )
        pid: int = self._ask({"begin": spec})["pid"]
        self._running.add(pid)
        return Life(self, self._lives, pid)

    def ended(self, life: Life) -> bool:
        """Wait for a life's end; see `Life.wait`."""
        answer = self._ask({"wait": life.pid, "limit": self._limit + _GRACE})
        self._running.discard(life.pid)
        code, said = answer["code"], answer["said"]
        if "configuration" in said:
            raise ConfigurationError(said["configuration"])
        if "reason" in said:
            return False
        if any(
            isinstance(e, Killed) and e.life == life.number for e in read_log(self.folder / LOG)
        ):
            self.kills += 1
            return True
        how = said.get("error", f"exit code {code}")
        raise AssertionError(f"life {life.number} in {self.folder} has failed by itself: {how}")

    def check(self, downstream: Mapping[str, int] | None = None) -> None:
        """Check that nothing is lost, done twice, or out of order; at any moment.

        No effect twice unless its downstream deduplicates, and then under one key; no lost commit;
        one result per call; one end, and nothing after it but what became of effects; no second
        model call for a reply that is durable; nothing dispatched after a cancel.

        Args:
            downstream: How often each effect has really taken place, by effect key, as whoever
                owns the data counts them. Then the store's ledger must say the same.

        Raises:
            AssertionError: Names the first of it that does not hold.
        """
        check_case(_apart(self._kept), read_log(self.folder / LOG), downstream)

    # ------------------------------------------------------------ reading the store
    async def _outcome(self) -> Outcome:
        async with Runtime([], store=SQLiteStore(self.folder / STORE)) as runtime:
            found = await runtime.store.find(self._wanted.agent, KEY)
            assert found is not None
            return await runtime.outcome(found)

    async def _kept(self) -> list[Kept]:
        store = SQLiteStore(self.folder / STORE)
        await store.open()
        try:
            kept: list[Kept] = []
            for summary in await all_invocations(store):
                identity = summary.invocation_id
                stored = await store.load(identity)
                facts = await all_effects(store, invocation_id=identity)
                effects = [fact.entry for fact in facts]
                kept.append(Kept(identity, stored.summary.seq, stored.entries(), effects))
            return kept
        finally:
            await store.close()


def _apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run something async in a thread, for a loop may be running in this one."""
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(asyncio.run(work()))
        except BaseException as error:  # noqa: BLE001 - it is raised again where it belongs
            failed.append(error)

    thread = threading.Thread(target=run, name="crash kit")
    thread.start()
    thread.join()
    for error in failed:
        raise error
    return done[0]
