"""What is kept: the Store Protocol and the stores that ship with loopwright."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._listing import all_effects as all_effects
from ._listing import all_invocations as all_invocations
from ._protocol import AppendResult as AppendResult
from ._protocol import AppendsNow as AppendsNow
from ._protocol import Store as Store
from .memory._store import MemoryStore as MemoryStore

if TYPE_CHECKING:
    from .sqlite._store import SQLiteStore as SQLiteStore


def __getattr__(name: str) -> object:
    """Import the SQLite store, and sqlite3 with it, where it is first used."""
    if name == "SQLiteStore":
        from .sqlite._store import SQLiteStore

        return SQLiteStore
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
