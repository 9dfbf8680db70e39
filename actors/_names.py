"""Names made by the runtime: invocations and workers."""

from __future__ import annotations

import os
import secrets
import socket
import time

from loopwright.protocol import InvocationId


def new_invocation_id() -> InvocationId:
    """Make a UUIDv7 (RFC 9562): unique, and sorted by the millisecond it was made in."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return InvocationId(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")


def new_worker_name() -> str:
    """Name this process as an owner of invocations, for people who look for it."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
