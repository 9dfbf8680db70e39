"""A line that says when it is dead: the SDK tells only those who wait for an answer on it."""

from __future__ import annotations

import contextvars
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from loopwright.protocol import RemoteProtocolError, to_json

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams


@asynccontextmanager
async def watched(
    transport: Transport, heard: Callable[[], None], ended: Callable[[], None]
) -> AsyncGenerator[TransportStreams]:
    """Use a transport, and hear when something came, and when nothing will any more."""
    async with transport as (read, write):
        yield _Watched(read, heard, ended), write


class _Watched:
    """A stream whose reader leaves it when it has ended."""

    def __init__(
        self,
        inner: ReadStream[SessionMessage | Exception],
        heard: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._inner = inner
        self._heard = heard
        self._ended = ended

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context that the last message was sent in, where the stream knows it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._came(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._came(await self._inner.__anext__())

    def _came(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        self._heard()
        return _read_again(item)

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


def _read_again(item: SessionMessage | Exception) -> SessionMessage | Exception:
    """Make the best of what is no message: whoever waits for it would wait in vain.

    Half a character, as JavaScript leaves where it cuts a text, is JSON, but no text that can be
    read here; so is what is nested too deep.
    """
    if not isinstance(item, ValidationError):
        return item
    line: object = item.errors(include_url=False, include_context=False)[0]["input"]
    try:
        read: object = json.loads(line) if isinstance(line, str) else None
    except (ValueError, RecursionError):
        return item
    if not isinstance(read, dict) or "method" in read:
        return item
    message = cast("dict[str, object]", read)
    try:
        return SessionMessage(
            jsonrpc_message_adapter.validate_python(to_json(message).value, by_name=False)
        )
    except (ValueError, RemoteProtocolError):
        return _cannot_be_read(message.get("id")) or item


def _cannot_be_read(number: object) -> SessionMessage | None:
    if not isinstance(number, int | str):
        return None
    error = ErrorData(code=PARSE_ERROR, message="it answered with what cannot be read")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error))
