"""The official SDK as a line to a server: JSON goes out, and JSON comes back as it is.

The SDK's own types of replies are built without looking at what came, so they are not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Final

from openai import APIConnectionError, APIError, AsyncOpenAI, AsyncStream, RequestOptions, Timeout

from loopwright.protocol import JsonObject, ModelError, ModelErrorKind, Usage, bounded

from ..provider._clients import CONNECT_TIMEOUT, Clients
from ..provider._failures import failure_of, without
from ._access import Access

if TYPE_CHECKING:
    from openai._models import SecurityOptions
    from openai._streaming import ServerSentEvent

_REST: Final = 0.1
"""Seconds for what comes after the end of a reply; the connection can be used again only then."""
_TRANSPORT: Final = ("httpx2", "httpx", "httpcore2", "httpcore")


class EventStream(AsyncStream[object]):
    """The events of one reply, each as plain JSON."""

    done = False
    """Whether the server has said that there are no more, with ``[DONE]``."""

    async def _iter_events(self) -> AsyncIterator[ServerSentEvent]:
        async for event in super()._iter_events():
            self.done = self.done or event.data.startswith("[DONE]")
            yield event


class Line:
    """A way to one path of a server.

    Args:
        path: Below the base URL.
        to: Where the server is, and what it is shown; or a client of the caller's, which is used
            as it is, and never closed.
        timeout: Seconds without a sign of it, after which it is taken to be gone.
    """

    def __init__(self, path: str, to: Access | AsyncOpenAI, timeout: float) -> None:
        self._path = path
        self._client = None if isinstance(to, Access) else to
        self._timeout = Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT))
        self._secret = ""
        """The key that was used last."""

        def make() -> AsyncOpenAI:
            return AsyncOpenAI(base_url=to.base_url, api_key=to.api_key, max_retries=0)

        self._clients = Clients(make, AsyncOpenAI.close)

    async def post(self, payload: JsonObject) -> object:
        """Ask for a reply as a whole."""
        async with self._lend() as client:
            options = self._options()
            return await client.post(self._path, body=payload, cast_to=object, options=options)

    @asynccontextmanager
    async def events(self, payload: JsonObject) -> AsyncGenerator[EventStream]:
        """Ask for a reply piece by piece."""
        async with self._lend() as client:
            events = await client.post(
                self._path,
                body=payload,
                cast_to=object,
                options=self._options(),
                stream=True,
                stream_cls=EventStream,
            )
            try:
                yield events
                with suppress(Exception):  # the reply has come: nothing can be wrong with it now
                    async with asyncio.timeout(_REST):
                        async for _ in events:
                            pass
            finally:
                await events.close()

    async def aclose(self) -> None:
        """Close what was opened in this loop."""
        await self._clients.aclose()

    def failure(self, error: Exception, usage: Usage | None) -> Exception:
        """Return what to raise for what was raised on the way: a `ModelError`, or itself."""
        if isinstance(error, ModelError):
            return without(error, self._secret)
        if isinstance(error, APIError):
            return failure_of(error, (APIConnectionError,), usage, self._secret)
        name, text = type(error).__name__, ""
        if isinstance(error, ValueError | RecursionError):  # of the decoder
            text = f"the server sent something that is no JSON ({name}); is the base_url right?"
        elif type(error).__module__.partition(".")[0] in _TRANSPORT:
            # The SDK does not wrap what happens while the body of an error is read.
            text = f"the line was lost: {name}: {bounded(str(error))}"
        return ModelError(text, kind=ModelErrorKind.TRANSIENT, usage=usage) if text else error

    @asynccontextmanager
    async def _lend(self) -> AsyncGenerator[AsyncOpenAI]:
        lent = self._clients.lend() if self._client is None else nullcontext(self._client)
        async with lent as client:
            try:
                yield client
            finally:
                self._secret = client.api_key  # it may have been asked for just now

    def _options(self) -> RequestOptions:
        # Never the key for administration, which the SDK may have found in the environment.
        key: SecurityOptions = {"bearer_auth": True}
        return {"max_retries": 0, "timeout": self._timeout, "security": key}
