"""An MCP server over stdio that misbehaves as it is told: raw JSON-RPC, nothing of an SDK.

It writes down each message it gets, one line of JSON, into the file it is given. Run it as
``python stub.py LOG [SETUP]``, where SETUP is the JSON of a `Setup`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]

ANY = {"type": "object"}
NAMES = (
    *("fast", "slow", "die", "die_once", "answer", "refuse", "echo", "progress", "ask", "deaf"),
    *("big", "garbage", "leave", "raw", "mute"),
)


def say(message: Message) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def text(said: str) -> Message:
    """Make the result that is one text."""
    return {"content": [{"type": "text", "text": said}]}


class Stub:
    """The server.

    Args:
        log: Where what it gets is written down.
        setup: ``tools``: what it lists instead of its own, and ``tools_later``: once it was
            started again; ``pages``: each page of its listing as ``[tools, next cursor]``;
            ``start``: how it misbehaves before any call; ``lives``: how often it can be started.
    """

    def __init__(self, log: Path, setup: Message) -> None:
        self.log = log
        self.setup = setup
        self.slow: list[Any] = []

    def serve(self) -> None:
        """Serve until stdin ends."""
        if self.lives >= self.setup.get("lives", 100):
            raise SystemExit(3)
        if self.setup.get("start") == "exit":
            sys.stderr.write("no such luck\n")
            raise SystemExit(3)
        if self.setup.get("start") == "garbage":
            sys.stdout.write("Welcome to the stub!\n{\n\x00\n")
            sys.stdout.flush()
        start = self.setup.get("start")
        says_nothing = start == "silent" or (start == "silent_later" and self.lives > 0)
        for line in sys.stdin:
            message = json.loads(line)
            with self.log.open("a") as log:
                log.write(json.dumps(message) + "\n")
            if not says_nothing:
                self.hear(message)

    @property
    def lives(self) -> int:
        """How often it was spoken to for the first time."""
        return self.log.read_text().count('"initialize"') if self.log.exists() else 0

    def hear(self, message: Message) -> None:
        """React to one message."""
        match message:
            case {"method": "initialize", "id": number, "params": {"protocolVersion": version}}:
                info = {"name": "stub", "version": "1"}
                offers: Message = {"tools": {}}
                told = {"protocolVersion": version, "capabilities": offers, "serverInfo": info}
                say({"id": number, "result": told})
            case {"method": "tools/list", "id": number}:
                say({"id": number, "result": self.listing(message.get("params") or {})})
            case {"method": "tools/call", "id": number, "params": params}:
                self.call(number, params["name"], params.get("arguments") or {}, params)
            case {"method": "notifications/cancelled"}:
                # Too late: nobody is to take any notice of it.
                for number in self.slow:
                    say({"id": number, "result": text("too late")})
                self.slow.clear()
            case {"id": "asked"}:
                say({"id": self.slow.pop(), "result": text(json.dumps(message))})
            case {"method": str(), "id": number}:
                say({"id": number, "error": {"code": -32601, "message": "Method not found"}})
            case _:
                pass

    def listing(self, params: Message) -> Message:
        """Return the page that is asked for."""
        if "pages" in self.setup:
            tools, cursor = self.setup["pages"].get(params.get("cursor", ""), [[], None])
            return {"tools": tools, **({} if cursor is None else {"nextCursor": cursor})}
        if self.lives > 1 and "tools_later" in self.setup:
            return {"tools": self.setup["tools_later"]}
        own = [{"name": name, "inputSchema": ANY} for name in NAMES]
        return {"tools": self.setup.get("tools", own)}

    def call(self, number: Any, name: str, arguments: Message, params: Message) -> None:
        """Run a tool, or do whatever else it is called for."""
        match name:
            case "slow":
                self.slow.append(number)
            case "die":
                os._exit(1)
            case "die_once":
                if self.log.read_text().count('"name": "die_once"') == 1:
                    os._exit(1)
                say({"id": number, "result": text("risen")})
            case "answer":
                say({"id": number, "result": arguments["result"]})
            case "refuse":
                say({"id": number, "error": {"code": arguments["code"], "message": "no"}})
            case "echo":
                say({"id": number, "result": {"content": [], "structuredContent": params}})
            case "progress":
                token = params.get("_meta", {}).get("progressToken")
                for done in range(arguments.get("times", 1)):
                    told: Message = {"progressToken": token, "progress": done + 1, "total": 3}
                    told["message"] = "at work"
                    say({"method": "notifications/progress", "params": told})
                say({"id": number, "result": text("done")})
            case "ask":
                self.slow.append(number)
                say({"id": "asked", "method": arguments["method"], "params": arguments["params"]})
            case "deaf":
                time.sleep(60)
            case "big":
                say({"id": number, "result": text(arguments["text"] * arguments["times"])})
            case "garbage":
                sys.stdout.write("Oops\n[1, 2\n")
                say({"id": number, "result": {"content": "none"}})
            case "raw":
                line = arguments["line"].replace("$id", json.dumps(number)) + "\n"
                sys.stdout.buffer.write(line.encode("latin-1"))
                sys.stdout.flush()
            case "mute":
                pass
            case "leave":
                say({"id": number, "result": text("bye")})
                os._exit(0)
            case _:
                say({"id": number, "result": text(name)})


if __name__ == "__main__":
    Stub(Path(sys.argv[1]), json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}).serve()
