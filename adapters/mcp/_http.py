"""Streamable HTTP: a line for each request, and what its failures say of that request."""

from __future__ import annotations

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
"""Bytes of one event of a stream, such as a result."""

_SESSION: Final = "mcp-session-id"


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str], auth: httpx2.Auth | None
) -> AsyncGenerator[TransportStreams]:
    """Connect over streamable HTTP."""
    timeout = httpx2.Timeout(CONNECT_WITHIN, read=None)
    async with (
        _Client(headers=dict(headers), auth=auth, timeout=timeout) as client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=LARGEST_EVENT
        ) as streams,
    ):
        yield streams


class _Client(httpx2.AsyncClient):
    """Answers for a server that does not: the SDK takes an exception for the end of the line.

    What a failure says of one request would be lost, and the others would fail with it.
    """

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; whatever happens, there is a response."""
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _answer(request, NOT_SENT, f"it cannot be reached ({type(error).__name__})")
        except httpx2.TransportError as error:
            return _answer(request, NO_ANSWER, f"the line went dead ({type(error).__name__})")
        instead = _instead_of(request, response)
        if instead is None:
            return response
        await response.aclose()
        return instead


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
