"""The entry point: the commands by name, and one sentence for whatever goes wrong."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

import typer

from loopwright.protocol import LoopwrightError

from . import _plain
from ._acting import answer, approve, cancel, deny, recover, resume, run
from ._demo import demo
from ._doctor import doctor
from ._looking import effects, explain_invocation, list_invocations, show, show_inbox
from ._settling import settle
from ._shared import REFUSED, UNSUCCESSFUL, add
from ._story import DemoError

_INTERRUPTED = 130
_HELP = """Run agents as bounded, durable invocations, and look after them.

Exit codes: 0 done or waiting for somebody, 1 ended failed or cancelled, 2 refused.
"""


def application() -> typer.Typer:
    """Put the commands together."""
    app = typer.Typer(
        help=_HELP, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
    )
    app.command("demo")(demo)
    add(app, "run", run)
    add(app, "list", list_invocations)
    add(app, "inbox", show_inbox)
    add(app, "show", show)
    add(app, "explain", explain_invocation)
    add(app, "effects", effects)
    add(app, "approve", approve)
    add(app, "deny", deny)
    add(app, "answer", answer)
    add(app, "settle", settle)
    add(app, "cancel", cancel)
    add(app, "resume", resume)
    add(app, "recover", recover)
    add(app, "doctor", doctor)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line, and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # A service may have been started with either of them closed.
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a customer's name is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        return int(application()(given or ["--help"], standalone_mode=False) or 0)
    except (LoopwrightError, typer.TyperException) as error:
        message = error.format_message() if isinstance(error, typer.TyperException) else str(error)
        _complain(" ".join(message.split()), type(error).__name__, as_json="--json" in given)
        return UNSUCCESSFUL if isinstance(error, DemoError) else REFUSED
    except OSError as error:
        if error.filename is None:
            _silence()
        _complain(_refusal(error), type(error).__name__, as_json="--json" in given)
        return REFUSED
    except (KeyboardInterrupt, typer.Abort):
        return _INTERRUPTED


def _complain(sentence: str, kind: str, *, as_json: bool) -> None:
    sys.stderr.write(f"loopwright: {sentence}\n")
    if as_json:
        sys.stdout.write(f"{_plain.line({'error': sentence, 'type': kind})}\n")


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _silence() -> None:
    """Give up on an output that takes nothing: at the exit Python would try once more."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refusal(error: OSError) -> str:
    if error.filename is None:
        return f"the system refuses: {error.strerror}; check the disk, and where the output goes"
    return f"{str(error.filename)!r} cannot be used: {error.strerror}; check the path"
