"""One connection to a server, held by a task of its own.

The SDK's transports and sessions are cancel scopes, and have to be entered and left by one and
the same task. Calls come from the tasks of invocations, which are cancelled and time out; so none
of those holds anything. A connection that is dead stays dead: the next call makes another one.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, cast

from mcp import Client, MCPError
from mcp.client import ClientSession, Transport
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    Implementation,
    InputRequiredResult,
)
from pydantic import TypeAdapter, ValidationError

from loopwright import __version__
from loopwright.actors import ToolContext, ToolFailure
from loopwright.protocol import Effect, JsonObject, JsonValue, RemoteProtocolError, bounded

from ._errors import MCPConnectError, MCPNoAnswerError, NotSentError
from ._failures import failure_of
from ._listing import Offer, offers_of
from ._results import output_of
from ._watched import watched

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import RequestParamsMeta

CLOSE_WITHIN: Final = 10.0
"""Seconds a server gets to end when its connection is closed."""
UNHEARD: Final = 3
"""So many calls in a row that were given up, with nothing heard meanwhile: the line is left then."""

_RESULT: Final[TypeAdapter[CallToolResult | InputRequiredResult]] = TypeAdapter(
    CallToolResult | InputRequiredResult
)

logger = logging.getLogger("loopwright.mcp")


class Connection:
    """A connection: made at once, ready a little later, and lost some day.

    Args:
        server: Name of the server.
        transport: Makes the line to it.
        within: Seconds it may take until it is ready.
        context: The context variables it is held in: not those of whichever call has made it.
    """

    def __init__(
        self,
        server: str,
        transport: Callable[[], Transport],
        within: float,
        context: contextvars.Context,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._server = server
        self._transport = transport
        self._within = within
        self._ended = asyncio.Event()
        self._left = False
        self._calls = 0
        self._unheard = 0
        self._ready: asyncio.Future[ClientSession] = loop.create_future()
        self.offers: Mapping[str, Offer] = {}
        """What the server has, by its own names."""
        self._task = loop.create_task(self._hold(), name=f"mcp {server}", context=context)

    @property
    def lost(self) -> bool:
        """Whether it is dead, or about to be left: the next call needs another one."""
        return self._left or self._ended.is_set()

    @property
    def over(self) -> bool:
        """Whether nothing of it is left."""
        return self._task.done()

    def lose(self) -> None:
        """Let go of it; those who wait for an answer on it will get none."""
        self._ended.set()

    def leave(self) -> None:
        """Use it no more, and let go of it once nobody waits for an answer on it."""
        self._left = True
        if not self._calls:
            self.lose()

    def _heard(self) -> None:
        self._unheard = 0

    async def ready(self) -> None:
        """Wait until it can be used.

        Raises:
            MCPConnectError: If it cannot.
        """
        await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Leave it, and wait until nothing of it is left; a server that does not end is given up."""
        self.lose()
        done, _ = await asyncio.wait({self._task}, timeout=CLOSE_WITHIN)
        if not done:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_WITHIN)

    async def call(
        self, offer: Offer, effect: Effect, arguments: JsonObject, context: ToolContext
    ) -> JsonValue:
        """Run a tool; where this is cancelled, the server is told to stop.

        Raises:
            NotSentError: If the line was dead before anything was sent.
            MCPNoAnswerError: If nobody knows what came of it.
            ToolFailure: If it has failed, or is not the tool any more that it was.
        """
        name, server = offer.tool.name, f"MCP server {self._server!r}"
        if self.lost:
            raise NotSentError(f"{server} has ended")
        offered = self.offers.get(name)
        if offered is None or offered.version != offer.version:
            msg = (
                f"{server} does not have the tool {bounded(name)!r} any more that it had when it "
                "was opened; it is not run until the server is opened again"
            )
            raise ToolFailure(msg)
        self._calls += 1
        try:
            return await self._answer(offer, effect, arguments, context)
        except asyncio.CancelledError:
            self._unheard += 1
            raise
        finally:
            self._calls -= 1
            if self._left or self._unheard >= UNHEARD:
                self.leave()

    async def _answer(
        self, offer: Offer, effect: Effect, arguments: JsonObject, context: ToolContext
    ) -> JsonValue:
        name, server = offer.tool.name, f"MCP server {self._server!r}"
        meta = cast("RequestParamsMeta", _meta(context))
        request = CallToolRequest(
            params=CallToolRequestParams(name=name, arguments=arguments, _meta=meta)
        )
        progress = None if context.report is None else _progress(context)
        try:
            session = self._ready.result()
            result = await session.send_request(request, _RESULT, progress_callback=progress)
        except MCPError as error:
            raise failure_of(error.error, self._server, effect) from None
        except ValidationError:
            msg = f"{server} answered something that is no result"
            raise (MCPNoAnswerError(msg) if effect.is_write else ToolFailure(msg)) from None
        return output_of(result)

    async def _hold(self) -> None:
        """Make it, hold it until it is lost, and leave it."""
        try:
            async with AsyncExitStack() as stack:
                # asyncio's timeout: a scope of anyio could not be left before what is entered in it.
                async with asyncio.timeout(self._within):
                    line = watched(self._transport(), self._heard, self.lose)
                    own = Implementation(name="loopwright", version=__version__)
                    client = Client(line, cache=None, client_info=own)
                    await stack.enter_async_context(client)
                    self.offers = await offers_of(client, self._server)
                self._ready.set_result(client.session)
                await self._ended.wait()
        except Exception as error:  # noqa: BLE001 - foreign code, and groups of whatever it raises
            self._fail(self._told(error))
        finally:
            self.lose()
            self._fail("it was closed before it was ready")

    def _fail(self, why: str) -> None:
        if not self._ready.done():
            msg = f"MCP server {self._server!r} cannot be connected to: {why}"
            self._ready.set_exception(MCPConnectError(msg))
            # Nobody may be waiting any more; that is no fault of theirs.
            self._ready.exception()

    def _told(self, error: Exception) -> str:
        """Say what has happened; what an unknown exception says may hold a secret of its set-up."""
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cast("BaseExceptionGroup[BaseException]", cause).exceptions[0]
        match cause:
            case MCPError(error=ErrorData(code=code)) if code == CONNECTION_CLOSED:
                return f"{cause}; what a process wrote to its stderr is in the log loopwright.mcp"
            case MCPError() | RemoteProtocolError():
                return bounded(str(cause), 500)
            case ValidationError():
                return "it said something that the protocol does not have"
            case TimeoutError():
                return f"it was not ready within {self._within} s"
            case FileNotFoundError():
                told = bounded(f"{type(cause).__name__}: {cause}", 500)
                return f"{told}; is the command installed, with its arguments in args=?"
            case OSError():
                return bounded(f"{type(cause).__name__}: {cause}", 500)
            case _:
                return type(cause).__name__


def _meta(context: ToolContext) -> dict[str, str | int]:
    """What a server may deduplicate by, and correlate with what we have journaled."""
    meta: dict[str, str | int] = {
        "loopwright/invocation_id": context.invocation_id,
        "loopwright/call_id": context.call_id,
        "loopwright/attempt": context.attempt,
    }
    if context.effect_key is not None:
        meta["loopwright/effect_key"] = context.effect_key
    return meta


def _progress(context: ToolContext) -> ProgressFnT:
    async def tell(progress: float, total: float | None, message: str | None) -> None:
        context.progress(message or "", done=progress, total=total)

    return tell
