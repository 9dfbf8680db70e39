"""Reading whole listings, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loopwright.protocol import (
    EffectFact,
    EffectKey,
    EffectStatus,
    InvocationId,
    Status,
    Summary,
)

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


async def all_effects(
    store: Store,
    *,
    invocation_id: InvocationId | None = None,
    effect_key: EffectKey | None = None,
    tool_name: str | None = None,
    statuses: Sequence[EffectStatus] | None = None,
) -> list[EffectFact]:
    """Query the effect ledger of a store, last announced first.

    Raises:
        StoreError: If it cannot be read.
    """
    found: list[EffectFact] = []
    before: int | None = None
    while True:
        page = await store.effects(
            invocation_id=invocation_id,
            effect_key=effect_key,
            tool_name=tool_name,
            statuses=statuses,
            limit=_PAGE,
            before=before,
        )
        found += [fact for _, fact in page]
        if len(page) < _PAGE:
            return found
        before = page[-1][0]
