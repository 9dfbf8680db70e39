"""What an invocation has done so far, as far as a stop condition looks at it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from loopwright.protocol import History, ResultStatus, Spent


class Seen:
    """What has been spent and committed.

    It is cheap to make at each turn: the history is read when a condition first asks for tools,
    and from then on only turns that are new.

    Args:
        spent: What was used so far.
        history: The committed turns.
        before: The one made at an earlier turn of the same invocation, whose reading goes on.
    """

    __slots__ = ("_tools", "history", "spent")

    def __init__(self, spent: Spent, history: History, before: Seen | None = None) -> None:
        self.spent = spent
        self.history = history
        self._tools: _Tools = _Tools() if before is None else before._tools

    @property
    def returned(self) -> AbstractSet[str]:
        """Names of the tools of which a call has returned."""
        self._tools.catch_up(self.history)
        return self._tools.returned

    @property
    def ran(self) -> AbstractSet[str]:
        """Names of the tools of which a call has run, whatever became of it."""
        self._tools.catch_up(self.history)
        return self._tools.ran


class _Tools:
    """Names of tools, as far as the history has been read."""

    __slots__ = ("_read", "_unknown", "ran", "returned")

    def __init__(self) -> None:
        self.ran: set[str] = set()
        self.returned: set[str] = set()
        self._read = 0
        self._unknown: set[int] = set()
        """Indexes of turns with a write of which nobody knows yet whether it took place."""

    def catch_up(self, history: History) -> None:
        for index in [i for i in self._unknown if history[i].found]:
            self._take(history, index)
        for index in range(self._read, len(history)):
            self._take(history, index)
        self._read = len(history)

    def _take(self, history: History, index: int) -> None:
        self._unknown.discard(index)
        for result in history[index].results:
            if result.ok:
                self.returned.add(result.tool_name)
            if result.ok or result.attempts:
                self.ran.add(result.tool_name)
            if result.status is ResultStatus.OUTCOME_UNKNOWN:
                self._unknown.add(index)
