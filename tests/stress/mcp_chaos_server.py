"""The server of `mcp_chaos.py`: it counts effects by their keys, in a file. Nothing but Python.

Run it as ``python -S -E mcp_chaos_server.py FOLDER SEED``.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

WRITES: Final = ("idempotent", "reconcilable", "manual")
PAUSES: Final = (0, 0, 0.005, 0.03)


def serve(folder: Path, seed: int) -> None:
    """Take effect before and after a pause, and answer; deduplicate what says so."""
    dice = random.Random(seed)
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        match message:
            case {"method": "initialize", "id": number, "params": {"protocolVersion": version}}:
                info = {"name": "chaos", "version": "1"}
                offers: dict[str, Any] = {"tools": {}}
                answer(number, protocolVersion=version, capabilities=offers, serverInfo=info)
            case {"method": "tools/list", "id": number}:
                names = ("read", *WRITES)
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
                answer(number, tools=tools)
            case {"method": "tools/call", "id": number, "params": params}:
                time.sleep(dice.choice(PAUSES))
                if params["name"] in WRITES:
                    key = params["_meta"]["loopwright/effect_key"]
                    apply(folder, key, once=params["name"] == "idempotent")
                time.sleep(dice.choice(PAUSES))
                answer(number, content=[{"type": "text", "text": params["name"]}])
            case {"method": str(), "id": number}:
                say(number, error={"code": -32601, "message": "Method not found"})
            case _:
                pass


def answer(number: object, **result: object) -> None:
    """Answer with a result."""
    say(number, result=result)


def say(number: object, **said: object) -> None:
    """Write a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": number, **said}) + "\n")
    sys.stdout.flush()


def ledger(folder: Path) -> sqlite3.Connection:
    """Open the file that effects are counted in."""
    db = sqlite3.connect(folder / "ledger.db", isolation_level=None, timeout=30)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("CREATE TABLE IF NOT EXISTS effects (key TEXT PRIMARY KEY, n INTEGER)")
    return db


def apply(folder: Path, key: str, *, once: bool) -> None:
    """Let an effect take place."""
    grow = "1" if once else "n + 1"
    add = f"INSERT INTO effects VALUES (?, 1) ON CONFLICT DO UPDATE SET n = {grow}"
    with closing(ledger(folder)) as db:
        db.execute(add, (key,))


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
