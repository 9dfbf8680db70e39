"""Reading a whole listing, page by page."""

from __future__ import annotations

from typing import Final

from loopwright.protocol import Status, Summary

from ._protocol import Store

_PAGE: Final = 500


async def all_invocations(
    store: Store, *, status: Status | None = None, agent: str | None = None
) -> list[Summary]:
    """List all invocations of a store, newest first.

    Raises:
        StoreError: If it cannot be read.
    """
    found: list[Summary] = []
    while True:
        last = found[-1].invocation_id if found else None
        page = await store.invocations(status=status, agent=agent, limit=_PAGE, before=last)
        found += page
        if len(page) < _PAGE:
            return found
