"""Agents by name of their module, and the refund desk that is there without any."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, TypeAlias, cast

from loopwright.actors import Agent, FallbackChain
from loopwright.examples.refund_desk import NAME, make_agent
from loopwright.examples.refund_desk.shop import ShopFileError, build
from loopwright.protocol import ConfigurationError, LoopwrightError, Model, bounded

from ._settings import Settings

_Opening: TypeAlias = AbstractAsyncContextManager[object]


async def load_agents(
    settings: Settings, opened: AsyncExitStack, wanted: str | None = None
) -> list[Agent]:
    """Load the agents of the app, or make the refund desk and, if need be, its shop.

    Args:
        settings: Where they are.
        opened: What the app needs while its agents work, such as MCP servers, is closed with it.
        wanted: An agent that has to be there; if it is not, nothing is made.

    Raises:
        ConfigurationError: If there is no such app or agent, or the app cannot be loaded.
    """
    if settings.app is None:
        _check(wanted, [NAME])
        return [_desk(settings)]
    loaded = _called(settings.app, _attribute(settings.app, settings.folder))
    if isinstance(loaded, AbstractAsyncContextManager):
        try:
            loaded = await opened.enter_async_context(cast("_Opening", loaded))
        except (Exception, SystemExit) as error:
            raise _unloadable(settings.app, error) from error
    agents = list(cast("Iterable[object]", loaded)) if isinstance(loaded, Iterable) else [loaded]
    found = [agent for agent in agents if isinstance(agent, Agent)]
    if not agents or len(found) != len(agents):
        msg = f"the app {settings.app!r} gives no agents; name an Agent, a list of them, or a "
        msg += "function that returns one of these, or opens it as an async context manager"
        raise ConfigurationError(msg)
    _check(wanted, [agent.name for agent in found])
    return found


def check_app(settings: Settings) -> None:
    """Look whether there is such an app, and run nothing of it: for commands that need none.

    One that is named in the configuration file may be elsewhere; one that was given is meant.

    Raises:
        ConfigurationError: If its module cannot be found.
    """
    if settings.app is None or "--app" not in settings.given:
        return
    module = _parts(settings.app, settings.folder)[0]
    top = module.partition(".")[0]
    if top not in sys.modules and importlib.util.find_spec(top) is None:
        msg = f"{settings.app!r} cannot be loaded: No module named {top!r}"
        raise ConfigurationError(msg)


def shop_path(store: Path) -> Path:
    """Name the refund desk's shop database: it lies next to the store."""
    return store.with_name(f"{store.stem}-shop.db")


def make_shop(path: Path) -> None:
    """Make the shop at `path`, whole or not at all, unless there is one.

    Raises:
        ShopFileError: If it cannot be written.
    """
    if path.exists():
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    build(draft)
    try:
        # Not a rename, which would replace the shop another process has just made.
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _desk(settings: Settings) -> Agent:
    model = None if settings.model is None else _model(settings.model, settings.folder)
    path = shop_path(settings.store)
    try:
        make_shop(path)
        return make_agent(path, model)
    except ShopFileError as error:
        raise ConfigurationError(str(error)) from None


def _model(reference: str, folder: Path) -> Model | FallbackChain:
    model = _attribute(reference, folder)
    # A class or a function stands for what it makes.
    if isinstance(model, type) or not _decides(model):
        model = _called(reference, model)
    if not _decides(model):
        msg = f"{reference!r} is no model, for it has no `async def decide`; name another one"
        raise ConfigurationError(msg)
    return cast("Model", model)


def _decides(model: object) -> bool:
    return isinstance(model, FallbackChain) or hasattr(model, "decide")


def _check(wanted: str | None, names: list[str]) -> None:
    if wanted is not None and wanted not in names:
        msg = f"there is no agent named {wanted!r}; the app has: {', '.join(names)}"
        raise ConfigurationError(msg)


def _parts(reference: str, folder: Path) -> tuple[str, str]:
    module, colon, name = reference.partition(":")
    if not (module and colon and name):
        msg = f"{reference!r} names no attribute of a module; write it as module:attribute"
        raise ConfigurationError(msg)
    path = str(folder.resolve())
    if path not in sys.path:
        sys.path.insert(0, path)
    return module, name


def _attribute(reference: str, folder: Path) -> Any:
    module, name = _parts(reference, folder)
    try:
        loaded = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise _unloadable(reference, error) from error
    try:
        return getattr(loaded, name)
    except AttributeError:
        msg = f"{reference!r} cannot be loaded: the module {module!r} has no {name!r}"
        raise ConfigurationError(msg) from None


def _called(reference: str, loaded: Any) -> Any:
    if not callable(loaded):
        return loaded
    try:
        return loaded()
    except (Exception, SystemExit) as error:
        raise _unloadable(reference, error) from error


def _unloadable(reference: str, error: BaseException) -> ConfigurationError:
    lines = str(error).splitlines()
    text = bounded(lines[0] if lines else "", 500)
    kind = "" if isinstance(error, LoopwrightError) else f"{type(error).__name__}: "
    return ConfigurationError(f"{reference!r} cannot be loaded: {kind}{text}")
