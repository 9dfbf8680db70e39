"""What actors log passes the redactor too: it may quote whatever a tool or a store has said."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from loopwright.policy import Redact

from ._redacting import REPORT, Redacting

LOGGERS: Final = (
    "loopwright.kernel",
    "loopwright.runtime",
    "loopwright.committer",
    "loopwright.relay",
    "loopwright.trace",
)
"""Whoever logs here; a filter of a logger is not asked about those below it."""


class RedactingFilter(logging.Filter):
    """Redacts the text of log records, tracebacks included. Put it on loggers or on handlers.

    Args:
        redact: The redactor; each text is an ``error`` to it.
    """

    def __init__(self, redact: Redact) -> None:
        super().__init__()
        self._redacting = Redacting(redact)

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact a record; let it pass."""
        if record.msg is REPORT:
            # The redactor's own failure: it would fail on that as well.
            return True
        text = self._redacting.text
        record.msg, record.args = text(_said(record), "error"), None
        if record.exc_info:
            # As a text: whoever was handed the exception would find everything in it.
            record.exc_text = record.exc_text or _FORMAT.formatException(record.exc_info)
            record.exc_info = None
        if record.exc_text:
            record.exc_text = text(record.exc_text, "error")
        if record.stack_info:
            record.stack_info = text(record.stack_info, "error")
        return True


def redact_logs(redact: Redact) -> Callable[[], None]:
    """Redact what loopwright logs in this process, until what is returned is called.

    Loggers are the process's: with several runtimes, what one of them redacts is redacted in
    the logs of all.
    """
    redacting = RedactingFilter(redact)
    for name in LOGGERS:
        logging.getLogger(name).addFilter(redacting)

    def undo() -> None:
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(redacting)

    return undo


_FORMAT: Final = logging.Formatter()


def _said(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a `__str__` of foreign code; logging would fail the same way
        return str(record.msg)
