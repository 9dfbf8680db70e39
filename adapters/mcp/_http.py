"""Streamable HTTP: a line for each request, and what its failures say of that request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ErrorData, JSONRPCError

from ._failures import FORBIDDEN, NO_ANSWER, NOT_SENT, TOO_MANY

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

CONNECT_WITHIN: Final = 30.0
"""Seconds to connect, and to send a part of a request; an answer may take as long as a call may."""
LARGEST_EVENT: Final = 64 * 1024 * 1024
"""Bytes of one event of a stream, or of one answer, such as a result."""
TOLD_WITHIN: Final = 5.0
"""Seconds a server gets to take note of what needs no answer, such as a cancel."""
LISTENS_AT_ONCE: Final = 20
LISTENS_EVERY: Final = 0.1
"""Streams that are opened at once to hear of a server, and seconds for each one more."""

_SESSION: Final = "mcp-session-id"
_OF_THE_BODY: Final = ("content-encoding", "content-length", "transfer-encoding")


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str], auth: httpx2.Auth | None
) -> AsyncGenerator[TransportStreams]:
    """Connect over streamable HTTP."""
    timeout = httpx2.Timeout(CONNECT_WITHIN, read=None)
    # A call that was given up may keep its line for as long as its server likes; with a limit, no
    # other call would get through some day.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    async with (
        _Client(headers=dict(headers), auth=auth, timeout=timeout, limits=limits) as client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=LARGEST_EVENT
        ) as streams,
    ):
        try:
            yield streams
        finally:
            await client.told()


class _Client(httpx2.AsyncClient):
    """Answers for a server that does not: the SDK takes an exception for the end of the line.

    What a failure says of one request would be lost, and the others would fail with it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._telling: set[asyncio.Task[httpx2.Response]] = set()
        self._listened = 0.0

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; whatever happens, there is a response."""
        if _is_aside(request):
            # The SDK sends nothing else before it has a response, and there may never be one.
            request.extensions["timeout"] = httpx2.Timeout(TOLD_WITHIN).as_dict()
            task = asyncio.create_task(self._answered(request, follow_redirects=False))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
            return httpx2.Response(202, request=request)
        if request.method == "GET":
            await self._paced()
        return await self._answered(request, **options)

    async def told(self) -> None:
        """Give what is being told a moment to get there, and drop it then."""
        try:
            if self._telling:
                await asyncio.wait(self._telling, timeout=1)
        finally:
            for task in self._telling:
                task.cancel()

    async def _paced(self) -> None:
        """Wait: a server that closes each stream at once, and says so, is asked without a pause."""
        now = asyncio.get_running_loop().time()
        self._listened = max(self._listened, now) + LISTENS_EVERY
        await asyncio.sleep(self._listened - now - LISTENS_AT_ONCE * LISTENS_EVERY)

    async def _answered(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
            instead = _instead_of(request, response)
            if instead is not None:
                await response.aclose()
                return instead
            if not response.is_redirect and "json" in response.headers.get("content-type", ""):
                return await _whole(response)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _answer(request, NOT_SENT, f"it cannot be reached ({type(error).__name__})")
        except Exception as error:  # noqa: BLE001 - whoever signs requests is foreign code, too
            return _answer(request, NO_ANSWER, f"the line went dead ({type(error).__name__})")
        return response


def _is_aside(request: httpx2.Request) -> bool:
    """Whether nobody waits for what comes of a request, and whatever comes next may overtake it."""
    if request.method != "POST":
        return False
    message = json.loads(request.content)
    is_request = "id" in message and "method" in message
    return not is_request and message.get("method") != "notifications/initialized"


async def _whole(response: httpx2.Response) -> httpx2.Response:
    """Read an answer to its end here: where it breaks off, it is no answer."""
    parts, size = list[bytes](), 0
    try:
        async for part in response.aiter_bytes():
            parts.append(part)
            size += len(part)
            if size > LARGEST_EVENT:
                why = f"it answered with more than {LARGEST_EVENT} bytes"
                return _answer(response.request, NO_ANSWER, why)
    finally:
        await response.aclose()
    headers = [(k, v) for k, v in response.headers.multi_items() if k not in _OF_THE_BODY]
    whole, request = b"".join(parts), response.request
    return httpx2.Response(response.status_code, headers=headers, content=whole, request=request)


def _instead_of(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response | None:
    """Read a status that says more than the SDK would make of it."""
    status = response.status_code
    if status == 404 and _SESSION in request.headers:
        return _answer(request, NOT_SENT, "it does not know the session any more")
    if status in (401, 403):
        return _answer(request, FORBIDDEN, f"it answered with status {status}")
    if status == 429:
        after = response.headers.get("retry-after")
        return _answer(request, TOO_MANY, "it answered with status 429", after)
    if status >= 500 and "json" not in response.headers.get("content-type", ""):
        return _answer(request, NO_ANSWER, f"it answered with status {status}")
    return None


def _answer(
    request: httpx2.Request, code: int, why: str, data: str | None = None
) -> httpx2.Response:
    error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=why, data=data))
    body = error.model_dump(by_alias=True, mode="json", exclude_unset=True)
    return httpx2.Response(503, json=body, request=request)
