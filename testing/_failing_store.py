"""A store whose appends fail when a test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from loopwright.protocol import Append, StoreError
from loopwright.stores import AppendResult, Store

from ._wrapped_store import WrappedStore


class FailingStore(WrappedStore):
    """Another store, whose next appends fail with given errors; all else is as there.

    Args:
        store: Where everything is kept.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._errors: deque[StoreError] = deque()

    def fail_next(self, error: StoreError) -> None:
        """Let one more append fail: a transient error is raised, any other refuses the batch."""
        self._errors.append(error)

    @property
    def failures_left(self) -> int:
        """How many arranged failures have not happened."""
        return len(self._errors)

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Store a batch, or fail as arranged.

        Raises:
            StoreError: If a transient failure was arranged, or as there.
        """
        if not self._errors:
            return await super().append(batch)
        error = self._errors.popleft()
        if error.transient:
            raise error
        return [error] * len(batch)
