"""Clients of a provider's SDK: one for each event loop, for that is whose its connections are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from weakref import WeakKeyDictionary

C = TypeVar("C")

CONNECT_TIMEOUT: Final = 10.0
"""Seconds until there is a connection; a machine that is gone is not waited for any longer."""


@dataclass(slots=True, eq=False)
class _Lent(Generic[C]):
    client: C
    users: int = 0
    closing: bool = False


class Clients(Generic[C]):
    """Lends clients, and closes them once nobody uses them.

    A runtime can be closed and entered again, in another loop or in the same: after `aclose`, the
    next request opens a new client. One that is under way keeps its client until it ends.

    Args:
        make: Makes a client, in the loop that it is for.
        close: Closes one, in that loop.
    """

    def __init__(self, make: Callable[[], C], close: Callable[[C], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._lent: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lent[C]] = WeakKeyDictionary()

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[C]:
        """Lend the client of the running loop."""
        loop = asyncio.get_running_loop()
        lent = self._lent.get(loop)
        if lent is None:
            lent = self._lent[loop] = _Lent(self._make())
        lent.users += 1
        try:
            yield lent.client
        finally:
            lent.users -= 1
            if lent.closing and not lent.users:
                await self._close(lent.client)

    async def aclose(self) -> None:
        """Close the client of the running loop, at the latest when its last user is done."""
        lent = self._lent.pop(asyncio.get_running_loop(), None)
        if lent is None:
            return
        lent.closing = True
        if not lent.users:
            await self._close(lent.client)
