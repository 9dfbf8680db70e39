"""What a command works with: its settings, its output, and the store or runtime behind them."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from loopwright.actors import Agent, Runtime
from loopwright.protocol import (
    ConfigurationError,
    InvocationId,
    InvocationNotFoundError,
)
from loopwright.stores import SQLiteStore, Store, all_invocations

from ._apps import check_app, load_agents
from ._out import Output
from ._settings import Settings

SHORT_ID: Final = 8
"""Characters of an id that are shown; the last ones, for the first ones are the time."""
SHORT_DIGEST: Final = 12
_SHORTEST_ID: Final = 4


@dataclass(frozen=True, slots=True)
class Session:
    """One command's settings and output."""

    settings: Settings
    out: Output
    opened: AsyncExitStack
    """What was opened for the command, and is closed once it is over."""

    @asynccontextmanager
    async def store(self) -> AsyncGenerator[Store]:
        """Open the store, which has to be there.

        Raises:
            ConfigurationError: If it is not there.
            StoreError: If it cannot be opened.
        """
        path = self.settings.store
        if not path.exists():
            msg = f"there is no store {str(path)!r}; `loopwright run` makes it, --store names one"
            raise ConfigurationError(msg)
        store = SQLiteStore(path)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def looking(self) -> AsyncGenerator[Store]:
        """Open the store for a command that needs no app; one that is named has to be there.

        Raises:
            ConfigurationError: If the store or the app is not there.
            StoreError: If the store cannot be opened.
        """
        check_app(self.settings)
        async with self.store() as store:
            yield store

    @asynccontextmanager
    async def runtime(self) -> AsyncGenerator[Runtime]:
        """Open the store, which has to be there, and enter a runtime of the app's agents.

        Raises:
            ConfigurationError: If there is no store, or no usable app.
            StoreError: If the store cannot be opened.
        """
        async with self.store():
            # Before an app is loaded, or a shop made: what is no store changes nothing.
            agents = await self.load_agents()
        async with self.runtime_of(agents) as runtime:
            yield runtime

    async def load_agents(self) -> list[Agent]:
        """Load the app of a store that is there.

        Raises:
            ConfigurationError: If there is no usable app.
        """
        return await load_agents(self.settings, self.opened)

    async def agents(self, wanted: str) -> list[Agent]:
        """Load the app of a store that may not be there yet.

        Raises:
            ConfigurationError: If there is no folder for the store, no usable app, or no such
                agent; nothing is made then.
            StoreError: If the store is there, and cannot be opened.
        """
        if self._has_store():
            async with self.store():
                return await load_agents(self.settings, self.opened, wanted)
        return await load_agents(self.settings, self.opened, wanted)

    def _has_store(self) -> bool:
        path = self.settings.store
        if not path.parent.is_dir():
            msg = f"there is no folder {str(path.parent)!r} for the store; make it first"
            raise ConfigurationError(msg)
        return path.exists()

    @asynccontextmanager
    async def runtime_of(self, agents: list[Agent]) -> AsyncGenerator[Runtime]:
        """Enter a runtime of these agents, on a store that is made if it is not there."""
        async with Runtime(agents, store=SQLiteStore(self.settings.store)) as runtime:
            yield runtime

    def command(self, *words: str) -> str:
        """Write a command that can be copied, with the options that lead to this store."""
        return f"loopwright {shlex.join([words[0], *self.settings.given, *words[1:]])}"


async def find_invocation(store: Store, text: str) -> InvocationId:
    """Find the one invocation whose id begins or ends like this.

    Raises:
        InvocationNotFoundError: If there is none.
        ConfigurationError: If there are several, or the text is too short to say.
        StoreError: If the store cannot be read.
    """
    if len(text) < _SHORTEST_ID:
        msg = f"{text!r} is too short for an id; give {_SHORTEST_ID} characters or more of it"
        raise ConfigurationError(msg)
    ids = [summary.invocation_id for summary in await all_invocations(store)]
    found = [known for known in ids if known.startswith(text) or known.endswith(text)]
    if not found:
        msg = f"no invocation has an id like {text!r}; `loopwright list` shows all of them"
        raise InvocationNotFoundError(msg)
    if len(found) > 1:
        msg = f"{len(found)} invocations have an id like {text!r}; give more of it"
        raise ConfigurationError(msg)
    return found[0]


def short(invocation_id: str) -> str:
    """Abbreviate an id for people."""
    return invocation_id[-SHORT_ID:]
