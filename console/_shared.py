"""What all commands share: the options, how one is run, and what becomes of its errors."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, Concatenate, Final, ParamSpec

import typer

from ._out import Output
from ._session import Session
from ._settings import load_settings

P = ParamSpec("P")
Command = Callable[Concatenate[Session, P], Coroutine[Any, Any, int]]
"""A command: it gets a session and its own arguments, and returns the exit code."""

OK: Final = 0
UNSUCCESSFUL: Final = 1
"""The request was fine, and the invocation ended failed or cancelled."""
REFUSED: Final = 2
"""Bad input, or a request that cannot be granted; nothing has changed."""

_App = Annotated[
    str | None,
    typer.Option(
        "--app",
        envvar="LOOPWRIGHT_APP",
        metavar="MODULE:ATTRIBUTE",
        help="An agent, a list of agents, or a function that returns them.",
        show_default=False,
    ),
]
_Store = Annotated[
    Path | None,
    typer.Option(
        "--store",
        envvar="LOOPWRIGHT_STORE",
        metavar="FILE",
        help="Where invocations are kept, by default loopwright.db.",
        show_default=False,
    ),
]
_Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Says app and store, by default loopwright.toml.",
        show_default=False,
    ),
]
_Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODULE:ATTRIBUTE",
        help="A model for the built-in refund desk, instead of its rules.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def add(app: typer.Typer, name: str, function: Command[P]) -> None:
    """Make an asynchronous function a command, with the options every command has."""

    def call(
        app: str | None,
        store: Path | None,
        config: Path | None,
        model: str | None,
        as_json: bool,
        **arguments: Any,
    ) -> None:
        settings = load_settings(config, app, store, model)
        # Checked where the function is written: the keywords are its own parameters.
        run: Callable[..., Coroutine[Any, Any, int]] = function

        async def command() -> int:
            async with AsyncExitStack() as opened:
                return await run(Session(settings, Output(as_json=as_json), opened), **arguments)

        raise typer.Exit(asyncio.run(command()))

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for key, kind, default in (
            ("app", _App, None),
            ("store", _Store, None),
            ("config", _Config, None),
            ("model", _Model, None),
            ("as_json", Json, False),
        )
    ]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    # typer reads a command's options off its signature.
    call.__signature__ = inspect.Signature([*parameters, *shared])  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in (*parameters, *shared)}
    call.__doc__ = function.__doc__
    app.command(name)(call)
