"""Three layers of verifiers, cheap to real: the shape, the facts, and a command's exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from loopwright import Claim, Verification, failed, passed

SHOWN = 1_000
"""Bytes of a command's output the model is shown: the last ones, where the error is."""


def has_fields(*fields: str) -> Callable[[Claim], Verification]:
    """Layer 1, the shape: the output is an object in which none of these is missing or blank."""

    def shape(claim: Claim) -> Verification:
        output = claim.output if isinstance(claim.output, dict) else {}
        missing = [name for name in fields if not str(output.get(name) or "").strip()]
        return failed(f"the output lacks {', '.join(missing)}") if missing else passed()

    return shape


def receipts_exist(tool: str, *fields: str) -> Callable[[Claim], Verification]:
    """Layer 2, the facts: a committed write of this tool has a receipt that says the same.

    That the answer says so is no evidence, nor is a write whose outcome nobody knows.
    """

    def receipts(claim: Claim) -> Verification:
        said = claim.output if isinstance(claim.output, dict) else {}
        claimed = {name: said.get(name) for name in fields}
        for effect in claim.effects:
            receipt = effect.receipt if isinstance(effect.receipt, dict) else {}
            known = {name: receipt.get(name) for name in fields}
            if (effect.tool_name, effect.status) == (tool, "committed") and known == claimed:
                return passed()
        shown = ", ".join(f"{name} {value!r}" for name, value in claimed.items())
        return failed(f"no {tool} with {shown} has taken place; do it, and name its receipt")

    receipts.__name__ = f"receipts of {tool}"
    return receipts


class command:
    """Layer 3, reality: a command that ends with exit code 0.

    Args:
        argv: The program and its arguments; no shell is involved.
        cwd: Where it runs.
        timeout: Seconds it may take. The runtime keeps the time, and cancels.
    """

    def __init__(self, *argv: str, cwd: Path, timeout: float = 30.0) -> None:
        self.argv = argv
        self.cwd = cwd
        self.timeout = timeout
        self.__name__ = f"command {Path(argv[0]).name} {' '.join(argv[1:])}".strip()

    async def __call__(self, _claim: Claim) -> Verification:
        """Run it to its end; whoever cancels it ends it, and all it has started."""
        # A file and no pipe: it takes output of any size, and nobody left behind holds it open.
        with tempfile.TemporaryFile() as output:
            process = await asyncio.create_subprocess_exec(
                *self.argv,
                cwd=self.cwd,
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                start_new_session=True,
            )
            try:
                code = await process.wait()
            finally:
                if process.returncode is None:
                    _kill(process)
                    await process.wait()
            return passed() if code == 0 else failed(self._told(code, output))

    def _told(self, code: int, output: BinaryIO) -> str:
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - SHOWN))
        end = output.read().decode(errors="replace").strip()
        return f"{self.__name__} ended with exit code {code}:\n{end}"


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
