"""A server whose tools an agent may use, for as long as it is open."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable, Mapping, Sequence
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias, cast
from urllib.parse import SplitResult, urlsplit

from loopwright.actors import AnyTool, ToolContext, ToolFailure
from loopwright.protocol import (
    ConfigurationError,
    Effect,
    ErrorCategory,
    JsonObject,
    JsonValue,
    bounded,
)

from ._errors import MCPConnectError, NotSentError
from ._names import check_server_name

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Transport

    from ._connection import Connection
    from ._listing import Offer

Effects: TypeAlias = Mapping[str, Effect | str]


_TO_CONNECT: Final = 0.8
"""The share of an attempt's time that it waits for a connection."""


class MCPServer:
    """A server of the Model Context Protocol; made by `stdio` or `http`, and opened by `async with`.

    Its tools are pinned when it is opened. Where the server ends meanwhile, the call that needs
    it next connects anew, and runs nothing that is not what it was.
    """

    def __init__(
        self,
        name: str,
        shown: str,
        transport: Callable[[], Transport],
        effects: Effects,
        trust_hints: bool,
        timeout: float | None,
        connect_timeout: float,
    ) -> None:
        check_server_name(name)
        if not 0 < connect_timeout < inf:
            msg = (
                f"MCP server {name!r} has connect_timeout={connect_timeout!r}; give seconds above 0"
            )
            raise ConfigurationError(msg)
        self.name = name
        self._shown = shown
        self._transport = transport
        self._effects = {tool: _effect(name, tool, effect) for tool, effect in effects.items()}
        self._trust_hints = trust_hints
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._tools: Mapping[str, AnyTool] | None = None
        self._loop: asyncio.AbstractEventLoop
        self._connection: Connection | None = None
        self._former: set[Connection] = set()
        """Lost connections that are still being left."""

    @classmethod
    def stdio(
        cls,
        name: str,
        command: str,
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        effects: Effects | None = None,
        trust_hints: bool = False,
        timeout: float | None = 60.0,
        connect_timeout: float = 30.0,
    ) -> Self:
        """Name a server that is a process of ours, talked to over its stdin and stdout.

        Args:
            name: Begins the names of its tools: ``name__tool``.
            command: What is started. What it writes to its stderr goes into the log.
            args: Its arguments.
            env: Variables of its environment, beside a few harmless ones (`PATH`, `HOME`, …):
                nothing else of ours is handed on.
            cwd: Where it runs.
            effects: What running a tool does to the world, by the server's own name of it; what
                is declared here counts, whatever the server says.
            trust_hints: Whether the server's own hints are believed for all others. Without, each
                of them is `manual`.
            timeout: Seconds one attempt of a call may take.
            connect_timeout: Seconds until it has to be ready.

        Raises:
            ConfigurationError: If something cannot be meant.
        """
        given = dict(env or {})
        if isinstance(args, str):
            msg = f"MCP server {bounded(name)!r} has args= as one text; give a list of texts"
            raise ConfigurationError(msg)

        def transport() -> Transport:
            from ._stdio import stdio_transport

            return stdio_transport(name, command, args, given, cwd)

        shown = f"stdio {command}"
        return cls(name, shown, transport, effects or {}, trust_hints, timeout, connect_timeout)

    @classmethod
    def http(
        cls,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: httpx2.Auth | None = None,
        effects: Effects | None = None,
        trust_hints: bool = False,
        timeout: float | None = 60.0,
        connect_timeout: float = 30.0,
    ) -> Self:
        """Name a server that is talked to over streamable HTTP.

        Args:
            name: Begins the names of its tools: ``name__tool``.
            url: Its endpoint.
            headers: Sent with each request, such as ``{"Authorization": "Bearer …"}``.
            auth: Signs each request, such as the OAuth provider of the SDK.
            effects: As for `stdio`.
            trust_hints: As for `stdio`.
            timeout: Seconds one attempt of a call may take.
            connect_timeout: Seconds until it has to be ready.

        Raises:
            ConfigurationError: If something cannot be meant.
        """
        parts = _address(name, url)
        given = dict(headers or {})

        def transport() -> Transport:
            from ._http import http_transport

            return http_transport(url, given, auth)

        # What else may be in it, such as a password or a token, is shown to nobody.
        shown = f"{parts.scheme}://{parts.hostname}{parts.path}"
        return cls(name, shown, transport, effects or {}, trust_hints, timeout, connect_timeout)

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """What an agent may be given, as the server listed it when it was opened.

        Raises:
            ConfigurationError: If it was never opened.
        """
        return tuple(self._pinned.values())

    def tool(self, name: str) -> AnyTool:
        """Return one of them, by the server's own name for it.

        Raises:
            ConfigurationError: If it was never opened, or has no usable tool of that name.
        """
        found = self._pinned.get(name)
        if found is None:
            known = bounded(", ".join(self._pinned) or "none", 500)
            msg = f"MCP server {self.name!r} has no usable tool {bounded(name)!r}; it has: {known}"
            raise ConfigurationError(msg)
        return found

    async def __aenter__(self) -> Self:
        """Connect, and read which tools there are.

        Raises:
            MCPConnectError: If it cannot be connected to.
            ConfigurationError: If it is open, an effect is declared of a tool that it does not
                have, or if the extra `mcp` is not installed.
        """
        if self._connection is not None and not self._loop.is_closed():
            raise ConfigurationError(f"MCP server {self.name!r} is open; open it once")
        self._former = set()
        try:
            from ._tools import tools_of
        except ImportError:
            msg = "MCP servers need mcp and jsonschema-rs; run pip install 'loopwright[mcp]'"
            raise ConfigurationError(msg) from None
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._connection = connection = self._connect()
        try:
            await connection.ready()
            self._tools = tools_of(
                self.name,
                connection.offers,
                self._effects,
                self._run,
                trust_hints=self._trust_hints,
                timeout=self._timeout,
            )
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the server; calls of its tools fail from here on."""
        await self._close()

    async def _close(self) -> None:
        connections, self._connection = {*self._former, self._connection}, None
        self._former = set()
        await asyncio.gather(*(one.close() for one in connections if one is not None))

    def __repr__(self) -> str:
        """Name it and where it is; never with what it is given to be let in."""
        return f"<MCPServer {self.name} {self._shown}>"

    @property
    def _pinned(self) -> Mapping[str, AnyTool]:
        if self._tools is None:
            msg = f"MCP server {self.name!r} was never opened; take its tools inside `async with`"
            raise ConfigurationError(msg)
        return self._tools

    def _connect(self) -> Connection:
        from ._connection import Connection

        within, context = self._connect_timeout, self._context.copy()
        return Connection(self.name, self._transport, within, context)

    async def _run(
        self, offer: Offer, effect: Effect, arguments: JsonObject, context: ToolContext
    ) -> JsonValue:
        """Run a tool at the server, from whichever loop."""
        if self._connection is None or self._loop.is_closed():
            raise self._unreachable(f"MCP server {self.name!r} is closed")
        call = self._call(offer, effect, arguments, context)
        if asyncio.get_running_loop() is self._loop:
            return await call
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))

    async def _call(
        self, offer: Offer, effect: Effect, arguments: JsonObject, context: ToolContext
    ) -> JsonValue:
        """Run a tool; where the line is dead before anything was sent, over another one."""
        until = None if self._timeout is None else self._loop.time() + self._timeout * _TO_CONNECT
        connection = await self._connected(until)
        try:
            return await connection.call(offer, effect, arguments, context)
        except NotSentError:
            connection.leave()
        connection = await self._connected(until)
        try:
            return await connection.call(offer, effect, arguments, context)
        except NotSentError as error:
            connection.leave()
            raise self._unreachable(str(error)) from None

    async def _connected(self, until: float | None) -> Connection:
        """Give a connection that can be used, if there is one by then."""
        connection = self._connection
        if connection is None:
            raise self._unreachable(f"MCP server {self.name!r} is closed")
        if connection.lost:
            self._former = {one for one in self._former if not one.over} | {connection}
            self._connection = connection = self._connect()
        try:
            # Before the time of the attempt is over: it could not be told that nothing was sent.
            async with asyncio.timeout_at(until):
                await connection.ready()
        except MCPConnectError as error:
            raise self._unreachable(str(error)) from None
        except TimeoutError:
            raise self._unreachable(f"MCP server {self.name!r} is not ready yet") from None
        return connection

    def _unreachable(self, why: str) -> ToolFailure:
        """Make a failure of a call that was certainly not run; it may be, some other time."""
        msg = f"{why}; the call was not sent"
        return ToolFailure(msg, category=ErrorCategory.TRANSIENT, retryable=True)


def _address(server: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    msg = f"MCP server {server!r} has no usable url; give one that begins with http(s)://"
    raise ConfigurationError(msg)


def _effect(server: str, tool: str, effect: Effect | str) -> Effect:
    given = cast("object", effect)
    if not isinstance(given, str) or given not in set(Effect):
        known = ", ".join(repr(e.value) for e in Effect)
        msg = f"effects= of MCP server {server!r} says {given!r} of {tool!r}; give one of {known}"
        raise ConfigurationError(msg)
    return Effect(given)
