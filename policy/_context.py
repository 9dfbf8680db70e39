"""What of an invocation a model is shown: how much, and where it is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from typing import Final, NamedTuple, TypeAlias, cast

from loopwright.protocol import NO_USAGE, ConfigurationError, History, Turn, Usage

CHARS_PER_TOKEN: Final = 4
"""A usual ratio for English text: what estimates rest on."""


class Summary(NamedTuple):
    """A text that stands for turns, and what it has cost to make it."""

    text: str
    usage: Usage = NO_USAGE
    endpoint: str = ""
    """Name of the model that made it, by which its price is found."""


class ToSummarize(NamedTuple):
    """What a summary is to stand for."""

    goal: str
    history: History
    """The turns it is to stand for, as a model was shown them."""
    before: str
    """An earlier summary, of the turns before those; the new one stands for it too."""


Summarize: TypeAlias = Callable[[ToSummarize], object]
"""Returns a text or a `Summary`, at once or awaited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """How much of an invocation a model is shown; the journal keeps all of it.

    Raises:
        ConfigurationError: For a number that cannot be meant.
    """

    max_tokens: int | None = None
    """Estimated tokens of history. What does not fit is left out, oldest turns first, and whole
    turns only; the last turn is always shown."""
    max_result_chars: int = 20_000
    """Characters of one result, and of one call's arguments; longer ones are cut and marked."""
    summarize: Summarize | None = None
    """Makes the summary that stands for what is left out; without it, a line says how much is. What
    it returns is told to the model, and it is given what tools have returned: a summary can carry
    on what a hostile output says."""
    summary_timeout: float = 60.0
    """Seconds it may take; then there is no summary."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        tokens: object = self.max_tokens
        if tokens is not None and (type(tokens) is not int or tokens < 1):
            msg = f"Context.max_tokens is {tokens!r}; give at least 1, or None"
            raise ConfigurationError(msg)
        chars: object = self.max_result_chars
        if type(chars) is not int or chars < 200:
            msg = f"Context.max_result_chars is {chars!r}; give at least 200"
            raise ConfigurationError(msg)
        seconds = cast("object", self.summary_timeout)
        if not (isinstance(seconds, int | float) and 0 < seconds < inf):
            msg = f"Context.summary_timeout is {seconds!r}; give seconds above 0"
            raise ConfigurationError(msg)
        if self.summarize is not None and not callable(self.summarize):
            msg = f"Context.summarize is {self.summarize!r}; give a function of a ToSummarize"
            raise ConfigurationError(msg)
        if self.summarize is not None and tokens is None:
            msg = "Context.summarize without max_tokens is never called; give max_tokens as well"
            raise ConfigurationError(msg)


DEFAULT_CONTEXT = Context()


def first_shown(history: History, chars: int) -> int:
    """Choose the first turn to be shown if the newest turns may have `chars` together.

    Only whole turns are left out: a call and its result are in the same one. The last turn is
    shown whatever its size. No turn is decoded for it, but the ones that have to be cut.

    Returns:
        Its index in `history`; 0 where all of it fits.
    """
    first = len(history)
    for turn in reversed(history):
        chars -= turn.chars
        if chars < 0 and first < len(history):
            break
        first -= 1
    return first


def compact_due(context: Context, history: History, summarized: int) -> int | None:
    """Say up to which turn a summary should stand before the model is asked again.

    It is due once what is shown exceeds `max_tokens`, and leaves about half of that: so it does
    not come every turn. The last turn is never summarized.

    Args:
        context: The agent's.
        history: All committed turns.
        summarized: How many of the first of them a summary stands for already.

    Returns:
        The last turn it should stand for; `None` if nothing is due.
    """
    if context.summarize is None or context.max_tokens is None:
        return None
    shown = history.view(summarized, limit=context.max_result_chars)
    limit = context.max_tokens * CHARS_PER_TOKEN
    if first_shown(shown, limit) == 0:
        return None
    return summarized + first_shown(shown, limit // 2)


def replaced_digest(turns: Sequence[Turn], before: str) -> str:
    """Make the digest of what a summary stands for: an earlier summary, and the turns after it."""
    lines = [turn.body for turn in turns]
    return sha256(b"\n".join([*lines, b"", before.encode("utf-8", "replace")])).hexdigest()
