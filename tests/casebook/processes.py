"""Starts worker processes, and waits for them without blocking the loop."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread

from loopwright.protocol import loads

_WORKER = Path(__file__).with_name("worker.py")


class Worker:
    """One process that runs a command of `worker.py`."""

    def __init__(self, command: str, store: Path, ledger: Path, *more: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(_WORKER), command, str(store), str(ledger), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(_WORKER.parents[1])},
        )

    async def said(self) -> Any:
        """Wait for the line it reports with."""
        assert self._process.stdout is not None
        line = await anyio.to_thread.run_sync(self._process.stdout.readline)
        return loads(line.encode()) if line else None

    def go_on(self) -> None:
        """Let it go on where it waits for a line."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill it at once, as a machine that loses power would."""
        self._process.kill()

    async def ended(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and what it wrote to standard error."""
        _, errors = await anyio.to_thread.run_sync(self._process.communicate)
        return self._process.returncode, errors


def lines(ledger: Path) -> list[str]:
    """What was done to the world, by all processes together."""
    return ledger.read_text().splitlines() if ledger.exists() else []
