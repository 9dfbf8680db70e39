"""A server on loopback that says what a test wants a provider to say: real sockets, real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Heard:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server does with one request.

    A body that is a list is a stream of server-sent events, each a text ready to be sent.
    """

    body: Any = None
    """JSON, or a text as it is; a list is sent piece by piece."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    hang: bool = False
    """Say nothing more after the body, and keep the line open, until the client goes away."""
    cut: bool = False
    """Close the line in the middle of the body."""


Script: TypeAlias = Iterable[Answer] | Callable[[Heard], Answer]


def sse(*events: object, names: bool = False, done: bool = False) -> list[str]:
    """Write objects as server-sent events.

    Args:
        events: Each an object of JSON, or a text as it is.
        names: Whether the `type` of each object is also the name of its event.
        done: Whether ``[DONE]`` comes last.
    """
    sent: list[str] = []
    for event in events:
        if isinstance(event, str):
            sent.append(event)
            continue
        assert isinstance(event, dict)
        name = f"event: {event['type']}\n" if names else ""
        sent.append(f"{name}data: {json.dumps(event)}\n\n")
    return [*sent, "data: [DONE]\n\n"] if done else sent


class Loopback:
    """A server while it is open.

    Attributes:
        requests: What it was asked, in order.
        connections: How many were opened.
        asked: Set once it was asked something.
        gone: Set once a client has gone away from an answer that hangs.
    """

    def __init__(self, script: Script) -> None:
        self._answers = script if callable(script) else iter(script)
        self.requests: list[Heard] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()
        self.url = ""
        """Without a path."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests of one connection until it is closed."""
        self.connections += 1
        try:
            while (heard := await _read(reader)) is not None:
                self.requests.append(heard)
                self.asked.set()
                if not await self._answer(self._next(heard), writer, reader):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    def _next(self, heard: Heard) -> Answer:
        if callable(self._answers):
            return self._answers(heard)
        answer = next(self._answers, None)
        return answer or Answer({"error": {"message": "the script is over"}}, status=418)

    async def _answer(
        self, answer: Answer, writer: asyncio.StreamWriter, reader: asyncio.StreamReader
    ) -> bool:
        """Say whether the connection can be used again."""
        stream = isinstance(answer.body, list)
        kind = "text/event-stream" if stream else "application/json"
        headers = {"content-type": kind, **answer.headers}
        pieces: list[str] = answer.body if stream else []
        if not stream:
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            length = len(text.encode())
            headers["content-length"] = str(length)
            pieces = [text[: length // 2] if answer.cut else text]
        else:
            headers["transfer-encoding"] = "chunked"
        if answer.hang and answer.body is None:
            await self._until_gone(reader)
            return False
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {answer.status} Whatever\r\n{head}\r\n".encode())
        for piece in pieces:
            data = piece.encode()
            writer.write(b"%x\r\n%s\r\n" % (len(data), data) if stream else data)
            await writer.drain()
        if answer.hang:
            await self._until_gone(reader)
            return False
        if answer.cut:
            return False
        if stream:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _until_gone(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            await reader.read()
        self.gone.set()


async def _read(reader: asyncio.StreamReader) -> Heard | None:
    line = (await reader.readline()).decode()
    if not line:
        return None
    headers: dict[str, str] = {}
    while (header := (await reader.readline()).decode().strip()) != "":
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Heard(line.split(" ")[1], headers, json.loads(raw or b"{}"))


@asynccontextmanager
async def loopback(script: Script) -> AsyncGenerator[Loopback]:
    """Open a server with a script of answers, or a function that gives them."""
    server = Loopback(script)
    connections = set[asyncio.Task[None]]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        # asyncio would log that it was cancelled.
        with suppress(asyncio.CancelledError):
            await server.serve(reader, writer)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await listening.wait_closed()
