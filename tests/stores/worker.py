"""A process that writes to a store, for the tests: `python worker.py COMMAND PATH …`.

`append PATH NAME RUNS COUNT` makes RUNS invocations and appends COUNT times to each, at once;
`endless PATH NAME` appends until it is killed, and prints each seq that was acknowledged;
`idle PATH NAME` appends once, says so, and waits for its standard input to end;
`claim PATH NAME` says it is alive for a minute, puts two deliveries of one resource into the outbox,
claims what it can, says so, and waits for its standard input to end.
"""

from __future__ import annotations

import asyncio
import sys

from loopwright.protocol import Append, Head, InvocationId
from loopwright.stores import SQLiteStore
from loopwright.testing.conformance._base import delivery, queued

START = Head("desk", "running", None, 1.0)


async def append(store: SQLiteStore, name: str, seq: int) -> None:
    head = START if seq == 1 else None
    line = b'{"seq":%d,"pad":"%s"}' % (seq, b"x" * 700)
    (error,) = await store.append(
        [Append(InvocationId(name), 1, seq, (line,), f"worker-{name}", head)]
    )
    if error is not None:
        raise error


async def run(store: SQLiteStore, name: str, count: int) -> None:
    for seq in range(1, count + 1):
        await append(store, name, seq)


async def main(command: str, path: str, name: str, *numbers: str) -> None:
    store = SQLiteStore(path)
    await store.open()
    match command:
        case "append":
            runs, count = map(int, numbers)
            await asyncio.gather(*(run(store, f"{name}-{n}", count) for n in range(runs)))
        case "endless":
            seq = 0
            while True:
                seq += 1
                await append(store, name, seq)
                print(seq, flush=True)
        case "idle":
            await append(store, name, 1)
            print("idle", flush=True)
            sys.stdin.read()
            await append(store, name, 2)
        case "claim":
            await store.heartbeat(f"worker-{name}", 60)
            deliveries = [delivery(name, key, "order:7") for key in ("first", "second")]
            await store.append(
                [queued(name, 1, *deliveries, head=START)._replace(worker=f"worker-{name}")]
            )
            claimed = await store.claim(f"worker-{name}", ["desk"])
            print(*(one.delivery.effect_key for one in claimed), flush=True)
            sys.stdin.read()
        case _:
            raise SystemExit(f"unknown command {command!r}")
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
