"""The kernel against a bare asyncio.Queue ping-pong (the floor) and pykka's threads.

    python benchmarks/kernel.py [--json] [--uvloop]

Each figure is the median of five; the floor is timed right after each sample, and the ratio is
the median of the paired ratios (above 1: more of it per second than round trips of the floor).
Targets (T8): lone ask 0.8, goal 1.4; tell 5, goal 9; creation 40 us and 4 KiB, goal 5 and 1.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict, dataclass
from typing import Any

import pykka
from _floor import resident_kib

from loopwright.actors.kernel import Actor, ActorSystem

SAMPLES = 5
ACTORS = 10_000
THREAD_ACTORS = 300


@dataclass(frozen=True, slots=True)
class Rate:
    """Operations of one kind."""

    what: str
    microseconds: float
    floor_microseconds: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Creation:
    """Actors of one kind."""

    what: str
    microseconds: float
    kib: float


class Echo(Actor):
    def on_receive(self, message: int) -> int:
        return message


class ThreadEcho(pykka.ThreadingActor):
    def on_receive(self, message: int) -> int:
        return message


async def ping_pong(rounds: int) -> None:
    there, back = asyncio.Queue[int](), asyncio.Queue[int]()

    async def echo() -> None:
        for _ in range(rounds):
            back.put_nowait(await there.get())

    echoing = asyncio.create_task(echo())
    for i in range(rounds):
        there.put_nowait(i)
        await back.get()
    await echoing


async def timed(run: Callable[[int], Awaitable[None]], count: int) -> float:
    begin = time.perf_counter()
    await run(count)
    return (time.perf_counter() - begin) / count * 1e6


async def rate(what: str, run: Callable[[int], Awaitable[None]], count: int) -> Rate:
    await timed(run, count // 10)
    pairs = [(await timed(run, count), await timed(ping_pong, 5_000)) for _ in range(SAMPLES)]
    return Rate(
        what,
        statistics.median(own for own, _ in pairs),
        statistics.median(floor for _, floor in pairs),
        statistics.median(floor / own for own, floor in pairs),
    )


def creation(what: str, create: Callable[[], object], count: int) -> tuple[Creation, list[object]]:
    gc.collect()
    memory, begin = resident_kib(), time.perf_counter()
    made = [create() for _ in range(count)]
    seconds = time.perf_counter() - begin
    gc.collect()
    return Creation(what, seconds / count * 1e6, (resident_kib() - memory) / count), made


async def kernel() -> list[Rate | Creation]:
    async with ActorSystem(mailbox_capacity=1_000_000) as system:
        # First of all: memory freed by an earlier measurement would hide what this one takes.
        created, made = creation("kernel create", lambda: system.start(Echo), ACTORS)
        again = [creation("", lambda: system.start(Echo), ACTORS) for _ in range(SAMPLES - 1)]
        microseconds = [created.microseconds, *(one.microseconds for one, _ in again)]
        created = Creation(created.what, statistics.median(microseconds), created.kib)
        del made, again
        ref = system.start(Echo)

        async def lone_ask(count: int) -> None:
            for i in range(count):
                await ref.ask(i, block=False)

        async def pipelined_ask(count: int) -> None:
            for reply in [ref.ask(i, block=False) for i in range(count)]:
                await reply

        async def tell(count: int) -> None:
            for i in range(count):
                ref.tell(i)
            await ref.ask(0, block=False)

        return [
            await rate("kernel lone ask", lone_ask, 20_000),
            await rate("kernel pipelined ask", pipelined_ask, 10_000),
            await rate("kernel tell", tell, 20_000),
            created,
        ]


async def threads() -> list[Rate | Creation]:
    ref = ThreadEcho.start()

    async def lone_ask(count: int) -> None:
        for i in range(count):
            ref.ask(i)

    async def pipelined_ask(count: int) -> None:
        pykka.get_all([ref.ask(i, block=False) for i in range(count)])

    async def tell(count: int) -> None:
        for i in range(count):
            ref.tell(i)
        ref.ask(0)

    rates = [
        await rate("pykka threads lone ask", lone_ask, 3_000),
        await rate("pykka threads pipelined ask", pipelined_ask, 3_000),
        await rate("pykka threads tell", tell, 10_000),
    ]
    created, made = creation("pykka threads create", ThreadEcho.start, THREAD_ACTORS)
    pykka.ActorRegistry.stop_all()
    del made
    return [*rates, created]


async def measure() -> list[Rate | Creation]:
    return [*await kernel(), *await threads()]


def run_on_uvloop(main: Coroutine[Any, Any, list[Rate | Creation]]) -> list[Rate | Creation]:
    import uvloop  # optional

    return uvloop.run(main)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Time the kernel, beside the floor of the same run."
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop")
    options = parser.parse_args()
    run = run_on_uvloop if options.uvloop else asyncio.run
    for figure in run(measure()):
        if options.json:
            print(json.dumps(asdict(figure)))
        elif isinstance(figure, Rate):
            print(
                f"{figure.what:28} {figure.microseconds:8.2f} us   floor "
                f"{figure.floor_microseconds:6.2f} us   {figure.ratio:6.2f} x"
            )
        else:
            print(f"{figure.what:28} {figure.microseconds:8.2f} us   {figure.kib:6.2f} KiB")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
