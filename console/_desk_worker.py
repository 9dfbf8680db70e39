"""A worker of the demo, in a process of its own: `python -m loopwright.console._desk_worker`.

It settles the requests it is given one after the other, and waits for the shop's answer to the
last one so long that it can be killed in between.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import anyio

from loopwright.actors import Runtime
from loopwright.examples.refund_desk import NAME, make_agent
from loopwright.stores import SQLiteStore

LEASE_TTL: Final = 1.0
"""Seconds after its death in which nobody may take over yet; short, for somebody is watching."""
_LONG: Final = 30.0


def goal(request_id: str) -> str:
    """Say what an invocation is to do."""
    return f"Settle refund request {request_id}"


async def work(store: Path, shop: Path, requests: list[str]) -> None:
    """Settle requests, the last one slowly."""
    for delay, some in ((0.0, requests[:-1]), (_LONG, requests[-1:])):
        agent = make_agent(shop, delay=delay)
        async with Runtime([agent], store=SQLiteStore(store), lease_ttl=LEASE_TTL) as runtime:
            for request_id in some:
                await runtime.run(NAME, goal(request_id), key=request_id)


if __name__ == "__main__":
    anyio.run(work, Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
