"""A line that says when it is dead: the SDK tells only those who wait for an answer on it."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mcp.client import Transport
from mcp.shared.message import SessionMessage

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams


@asynccontextmanager
async def watched(
    transport: Transport, ended: Callable[[], None]
) -> AsyncGenerator[TransportStreams]:
    """Use a transport, and hear when nothing will come over it any more."""
    async with transport as (read, write):
        yield _Watched(read, ended), write


class _Watched:
    """A stream whose reader leaves it when it has ended."""

    def __init__(
        self, inner: ReadStream[SessionMessage | Exception], ended: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._ended = ended

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context that the last message was sent in, where the stream knows it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._inner.receive()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return await self._inner.__anext__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self._ended()
        await self.aclose()
