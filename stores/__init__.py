"""What is kept: the Store Protocol and the stores that ship with loopwright."""

from __future__ import annotations

from ._memory import MemoryStore as MemoryStore
from ._protocol import AppendResult as AppendResult
from ._protocol import AppendsNow as AppendsNow
from ._protocol import Store as Store
from ._sqlite import SQLiteStore as SQLiteStore
