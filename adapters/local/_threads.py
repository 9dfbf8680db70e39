"""Blocking work in a thread that can be left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


async def in_a_thread(work: Callable[[], T], leave: Callable[[], None], name: str) -> T:
    """Run something in a thread of its own, which no process waits for when it ends.

    Args:
        work: What to do.
        leave: Called where whoever waits for it is cancelled, to have it end.
        name: What the thread is called.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not future.done():
            outcome()

    def run() -> None:
        try:
            outcome = partial(future.set_result, work())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            outcome = partial(future.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, outcome)

    Thread(target=run, name=name, daemon=True).start()
    try:
        return await future
    except asyncio.CancelledError:
        leave()
        raise
