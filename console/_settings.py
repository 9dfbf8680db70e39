"""Where the command line finds its app and its store: options, environment, `loopwright.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from loopwright.protocol import ConfigurationError

CONFIG: Final = Path("loopwright.toml")
DEFAULT_STORE: Final = Path("loopwright.db")
_KEYS: Final = ("app", "store")


@dataclass(frozen=True, slots=True)
class Settings:
    """What every command works with."""

    folder: Path
    """Where modules of the app are looked for first."""
    app: str | None
    """`module:attribute`; without one, the built-in refund desk."""
    store: Path
    model: str | None
    """`module:attribute` of a model for the built-in refund desk."""
    given: tuple[str, ...] = ()
    """The options that lead here, for commands that are shown to be copied."""


def load_settings(
    config: Path | None, app: str | None, store: Path | None, model: str | None
) -> Settings:
    """Put options and the configuration file together; an option goes before the file.

    Raises:
        ConfigurationError: If the file cannot be read, or says what nothing is known of.
    """
    path = config or CONFIG
    held = _read(path) if config is not None or path.exists() else {}
    given: list[str] = []
    for option, value in (
        ("--config", config),
        ("--app", app),
        ("--store", store),
        ("--model", model),
    ):
        given += [] if value is None else [option, str(value)]
    app = app or held.get("app")
    if app is not None and model is not None:
        msg = f"--model is for the built-in refund desk, and the app is {app!r}; drop one of them"
        raise ConfigurationError(msg)
    if store is None:
        # A path in the file counts from the file, wherever the command is typed.
        store = path.parent / held["store"] if "store" in held else DEFAULT_STORE
    return Settings(path.parent, app, store, model, tuple(given))


def _read(path: Path) -> dict[str, str]:
    try:
        held: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"the configuration {str(path)!r} cannot be read: {error.strerror}; check the path"
        raise ConfigurationError(msg) from None
    except ValueError as error:
        msg = f"the configuration {str(path)!r} is not TOML: {error}; correct it"
        raise ConfigurationError(msg) from None
    for key, value in held.items():
        if key not in _KEYS:
            msg = f"the configuration {str(path)!r} has the unknown key {key!r}; use app or store"
            raise ConfigurationError(msg)
        if not isinstance(value, str):
            msg = f"the configuration {str(path)!r} has {key} = {value!r}; {key!r} must be a text in quotes"
            raise ConfigurationError(msg)
    return held
