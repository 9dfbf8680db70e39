"""Standard output: lines and tables for people, or JSON and nothing else."""

from __future__ import annotations

import sys

from rich.console import Console, RenderableType

from loopwright.protocol import JsonValue

from . import _plain


class Output:
    """Prints everything twice over: for people or for machines, whichever was asked for.

    Args:
        as_json: Whether for machines.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._console = Console(highlight=False)

    @property
    def answers(self) -> bool:
        """Whether there is somebody who could answer a question."""
        return (
            not self.as_json
            and sys.stdin is not None
            and sys.stdin.isatty()
            and sys.stdout.isatty()
        )

    def show(self, value: JsonValue, renderable: RenderableType) -> None:
        """Print one thing."""
        if self.as_json:
            self.emit(value)
        else:
            self.say(renderable)

    def emit(self, value: JsonValue) -> None:
        """Print for machines only, as one line."""
        if self.as_json:
            sys.stdout.write(f"{_plain.line(value)}\n")
            sys.stdout.flush()

    def say(self, renderable: RenderableType) -> None:
        """Print for people only."""
        if not self.as_json:
            with self._console.capture() as captured:
                self._console.print(renderable)
            # rich fills lines up with blanks, which whoever copies or greps has to live with.
            for line in captured.get().splitlines():
                sys.stdout.write(f"{line.rstrip()}\n")
            sys.stdout.flush()
