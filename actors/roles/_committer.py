"""The Committer: one per store. It writes whatever has piled up as one transaction.

Concurrency, not a lower level of durability, is what buys throughput: while one transaction
is being synced, the commits of all live invocations gather for the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from loopwright.policy import backoff
from loopwright.protocol import (
    Append,
    Commit,
    CommitFailed,
    Committed,
    FencedError,
    StoreError,
)
from loopwright.stores import AppendResult, AppendsNow, Store

from .._clock import Clock, sleep
from .._work import described, text_of
from ..kernel import Request
from ._service import Service, answer

RETRIES: Final = 5
BACKOFF: Final = 0.02
"""Seconds before the first retry; doubled for each further one."""

logger = logging.getLogger("loopwright.committer")


class _Flush:
    """What the Committer tells itself: whatever is in the mailbox by then is one group."""


class Committer(Service[Commit]):
    """Makes records durable, in the order in which each invocation sends them.

    Args:
        store: Where they go.
        clock: Time.
        queued: Called after a commit that has put something into the outbox.
    """

    def __init__(
        self, store: Store, clock: Clock, queued: Callable[[], None] | None = None
    ) -> None:
        super().__init__()
        self._store = store
        self._now = store if isinstance(store, AppendsNow) else None
        self._clock = clock
        self._queued = queued
        self._open: list[Request[Commit]] = []
        self._writing = False
        """Whether a flush is due or under way."""

    def on_receive(self, message: Request[Commit] | _Flush) -> None:
        """Take a commit into the open group, or write the group."""
        if isinstance(message, _Flush):
            self._flush()
        else:
            super().on_receive(message)

    def serve(self, request: Request[Commit]) -> None:
        """Take a commit into the open group."""
        self._open.append(request)
        if not self._writing:
            self._writing = True
            self.actor_ref.tell(_FLUSH)

    def _flush(self) -> None:
        group, self._open = self._open, []
        results = self._append_now([request.message.append for request in group])
        if results is None:
            self.spawn(self._write(group), name="commit")
        else:
            self._writing = False
            self._acknowledge(group, results)

    def _append_now(self, batch: Sequence[Append]) -> Sequence[AppendResult] | None:
        """Append without waiting, if the store can; if it fails, the waiting way reports."""
        if self._now is not None:
            with suppress(Exception):
                results = self._now.append_nowait(batch)
                if results is not None and len(results) == len(batch):
                    return results
        return None

    async def _write(self, group: list[Request[Commit]]) -> None:
        """Write group after group, until nothing has gathered meanwhile."""
        while group:
            results = await self._append([request.message.append for request in group])
            self._acknowledge(group, results)
            group, self._open = self._open, []
        self._writing = False

    async def _append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Append with retries: the same records under the same seqs, so a repeat is harmless."""
        for attempt in range(RETRIES + 1):
            try:
                results = await self._store.append(batch)
                if len(results) == len(batch):
                    return results
                text = f"the store gave {len(results)} results for {len(batch)} appends"
                return [StoreError(text)] * len(batch)
            except StoreError as error:
                if not error.transient or attempt == RETRIES:
                    return [error] * len(batch)
                logger.warning("Store is busy (%s); trying again.", error)
            except BaseException as error:
                if _is_meant_for_us(error):
                    raise
                logger.exception("The store failed:")
                return [StoreError(described(error))] * len(batch)
            await sleep(self._clock, backoff(attempt + 1, BACKOFF))
        raise AssertionError

    def _acknowledge(self, group: list[Request[Commit]], results: Sequence[AppendResult]) -> None:
        queued = False
        for request, result in zip(group, results, strict=True):
            append = request.message.append
            if result is None:
                answer(request.reply_to, Committed(append.last_seq))
                queued = queued or bool(append.outbox)
            else:
                fenced = isinstance(result, FencedError)
                answer(request.reply_to, CommitFailed(append.last_seq, text_of(result), fenced))
        if queued and self._queued is not None:
            self._queued()


_FLUSH: Final = _Flush()


def _is_meant_for_us(error: BaseException) -> bool:
    """Whether it ends this task or the process; a store may also raise a cancellation of its own."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit)
