"""The events of a response: pieces of text to be heard, and at the end the response itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loopwright.protocol import ModelError, Usage

from ...provider._boundary import Sent, Word, read
from ...provider._failures import error_in_stream

_ENDS: Final = frozenset(("response.completed", "response.incomplete", "response.failed"))


class _Event(Sent):
    type: Word = ""
    delta: Word = ""
    response: object = None
    code: Word = ""
    message: Word = ""


@dataclass(slots=True)
class Events:
    """Collects the events of one response."""

    usage: Usage | None = None
    """Never known: the last event alone says it."""
    over: bool = False
    """Whether the last event has come."""
    _response: object = None

    def add(self, event: object) -> str:
        """Take in one event; what it adds to the text is returned.

        Raises:
            ModelError: If it says that there will be no response.
        """
        given = read(_Event, event, "event of a response")
        if given.type == "error":
            raise error_in_stream(f"{given.code} {given.message}", {given.code}, self.usage)
        if given.type in _ENDS:
            self._response, self.over = given.response, True
        return given.delta if given.type == "response.output_text.delta" else ""

    def body(self, *, done: bool) -> object:
        """Return the response.

        Raises:
            ModelError: If the last event has not come.
        """
        if not self.over:
            raise ModelError("the stream ended before the response did")
        return self._response
