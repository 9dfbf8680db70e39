"""An MCP server over HTTP that fails as it is told: raw HTTP and JSON-RPC on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from .stub import ANY, Message, text

NAMES = ("fast", "slow", "drop", "plain", "status", "body", "big")


class Web:
    """The server: it knows one session, until it is told to forget it.

    Args:
        port: Where it is to listen; 0 for anywhere.
    """

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.heard: list[Message] = []
        """All messages that it got."""
        self.headers: list[dict[str, str]] = []
        """The headers of all requests, names in lower case."""
        self.session = "s1"
        self.listened = 0
        """How often it was asked for a stream, which it closes at once if it has one at all."""
        self.stream: str | None = None
        self.deaf = set[str]()
        """What is never answered, by its method."""

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/mcp"

    def calls(self, tool: str) -> list[Message]:
        """The calls of a tool that it got, in order."""
        calls = [m for m in self.heard if m.get("method") == "tools/call"]
        return [m for m in calls if m["params"]["name"] == tool]

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[Web]:
        """Listen, as long as it lasts."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        tasks = self._tasks = set[asyncio.Task[None]]()
        try:
            yield self
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._serve(reader, writer):
                pass
        except asyncio.IncompleteReadError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; return whether there may be another one."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.headers.append(headers)
        if head[0].startswith("GET") and self.stream is not None:
            self.listened += 1
            said = {"content-type": "text/event-stream"}
            return await self._answer(writer, 200, self.stream, **said)
        if not head[0].startswith("POST"):
            return await self._answer(writer, 405)
        message = json.loads(body)
        self.heard.append(message)
        if message.get("method") in self.deaf:
            await asyncio.Event().wait()
        if headers.get("mcp-session-id", self.session) != self.session:
            return await self._answer(writer, 404)
        match message:
            case {"method": "initialize", "id": number, "params": {"protocolVersion": version}}:
                info = {"name": "web", "version": "1"}
                offers: Message = {"tools": {}}
                told = {"protocolVersion": version, "capabilities": offers, "serverInfo": info}
                session = {"mcp-session-id": self.session}
                return await self._say(writer, number, told, **session)
            case {"method": "tools/list", "id": number}:
                tools = [{"name": name, "inputSchema": ANY} for name in NAMES]
                return await self._say(writer, number, {"tools": tools})
            case {"method": "tools/call", "id": number, "params": params}:
                return await self._call(writer, number, params["name"], params["arguments"])
            case {"id": number, "method": str()}:
                error = {"code": -32601, "message": "Method not found"}
                return await self._answer(writer, 200, {"id": number, "error": error})
            case _:
                return await self._answer(writer, 202)

    async def _call(
        self, writer: asyncio.StreamWriter, number: Any, name: str, arguments: Message
    ) -> bool:
        match name:
            case "slow":
                await asyncio.Event().wait()
                return False
            case "drop":
                return False
            case "plain":
                return await self._answer(writer, 200, "hello", **{"content-type": "text/plain"})
            case "status":
                return await self._answer(writer, **arguments)
            case "body":
                json_of_100 = {"content-type": "application/json", "content-length": "100"}
                return await self._answer(writer, 200, "{", **json_of_100)
            case "big":
                said = text("x" * arguments["chars"])
                if "plain" in arguments:
                    return await self._say(writer, number, said)
                event = json.dumps({"jsonrpc": "2.0", "id": number, "result": said})
                stream = {"content-type": "text/event-stream"}
                return await self._answer(writer, 200, f"data: {event}\n\n", **stream)
            case _:
                return await self._say(writer, number, text(name))

    async def _say(
        self, writer: asyncio.StreamWriter, number: Any, result: Message, **headers: str
    ) -> bool:
        return await self._answer(writer, 200, {"id": number, "result": result}, **headers)

    async def _answer(
        self, writer: asyncio.StreamWriter, status: int, body: Any = "", **headers: str
    ) -> bool:
        if isinstance(body, dict):
            body = json.dumps({"jsonrpc": "2.0", **body})
            headers.setdefault("content-type", "application/json")
        headers.setdefault("content-length", str(len(body)))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {status} Said\r\n{lines}\r\n{body}".encode())
        await writer.drain()
        # A body that is shorter than it says ends with the connection.
        return int(headers["content-length"]) == len(body)
