"""The Committer: one per store. It writes whatever has piled up as one transaction.

Concurrency, not a lower level of durability, is what buys throughput: while one transaction
is being synced, the commits of all live invocations gather for the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from loopwright.protocol import (
    Append,
    Commit,
    CommitFailed,
    Committed,
    FencedError,
    StoreError,
)
from loopwright.stores import AppendResult, Store

from ._clock import Clock, sleep
from ._service import Service, answer
from .kernel import Request

RETRIES: Final = 5
BACKOFF: Final = 0.02
"""Seconds before the first retry; doubled for each further one."""

logger = logging.getLogger("loopwright.committer")


class Committer(Service[Commit]):
    """Makes records durable, in the order in which each invocation sends them."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._open: list[Request[Commit]] = []
        self._something = asyncio.Event()

    def on_start(self) -> None:
        """Begin to write."""
        self.spawn(self._write(), name="committer")

    def serve(self, request: Request[Commit]) -> None:
        """Take a commit into the open group."""
        self._open.append(request)
        self._something.set()

    async def _write(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            group, self._open = self._open, []
            results = await self._append([request.message.append for request in group])
            for request, result in zip(group, results, strict=True):
                answer(request.reply_to, _acknowledge(request.message.append, result))

    async def _append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Append with retries: the same records under the same seqs, so a repeat is harmless."""
        for attempt in range(RETRIES + 1):
            try:
                return await self._store.append(batch)
            except StoreError as error:
                if not error.transient or attempt == RETRIES:
                    return [error] * len(batch)
                logger.warning("Store is busy (%s); trying again.", error)
            except Exception as error:
                logger.exception("The store failed:")
                text = f"{type(error).__name__}: {error}"
                return [StoreError(text)] * len(batch)
            await sleep(self._clock, BACKOFF * 2**attempt)
        raise AssertionError


def _acknowledge(append: Append, result: AppendResult) -> Committed | CommitFailed:
    if result is None:
        return Committed(append.last_seq)
    return CommitFailed(append.last_seq, str(result), isinstance(result, FencedError))
