"""A server as a process of ours: it is talked to over its stdin and stdout."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from threading import Thread
from typing import TYPE_CHECKING, Final

from mcp import StdioServerParameters, stdio_client

from loopwright.protocol import bounded

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

LONGEST_LINE: Final = 1_000
"""Characters kept of a line that a server writes to its stderr."""

logger = logging.getLogger("loopwright.mcp")


@asynccontextmanager
async def stdio_transport(
    name: str,
    command: str,
    args: Sequence[str],
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None,
) -> AsyncGenerator[TransportStreams]:
    """Start a process and connect to it; what it writes to its stderr goes into the log."""
    directory = None if cwd is None else os.fspath(cwd)
    server = StdioServerParameters(
        command=command,
        args=list(args),
        env=dict(env),
        cwd=directory,
        # Else one byte that is no UTF-8 would be the last that is heard, and nobody would know.
        encoding_error_handler="replace",
    )
    reading, writing = os.pipe()
    Thread(target=_log, args=(name, reading), name=f"loopwright-mcp-{name}", daemon=True).start()
    stderr = os.fdopen(writing, "w")
    try:
        async with stdio_client(server, stderr) as streams:
            # From here on only the process holds that end: the thread is over when the process is.
            stderr.close()
            yield streams
    finally:
        stderr.close()


def _log(name: str, reading: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        while line := lines.readline(LONGEST_LINE):
            text = line.decode(errors="replace").rstrip()
            logger.info("%s says: %s", name, bounded(text, LONGEST_LINE))
