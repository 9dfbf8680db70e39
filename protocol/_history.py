"""Committed turns as the history: the encoded event itself, decoded only where it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from ._effects import Reconciled
from ._ids import CallId
from ._json import JsonValue
from ._records import Fault, Proposal, TurnCommitted, decode_record
from ._results import ToolResult, settled


class Turn:
    """One committed turn.

    It keeps the encoded `TurnCommitted` and decodes it on access, so that a live invocation
    holds a few hundred bytes a turn and nothing is ever copied or encoded again. Adapters
    that translate turns should keep their translation per turn.
    """

    __slots__ = ("answer", "body", "found", "notice", "number")

    def __init__(
        self,
        number: int,
        body: bytes,
        notice: str | None = None,
        answer: str | None = None,
        found: tuple[tuple[CallId, Reconciled], ...] = (),
    ) -> None:
        self.number = number
        """Counts from 1."""
        self.body = body
        """The encoded `TurnCommitted`."""
        self.notice = notice
        """What the runtime told the model just before this turn."""
        self.answer = answer
        """What a human answered to this turn's question."""
        self.found = found
        """What became of writes whose outcome was unknown when the turn was committed."""

    def __eq__(self, other: object) -> bool:
        """Compare what was committed and said."""
        if not isinstance(other, Turn):
            return NotImplemented
        return self._said() == other._said()

    def _said(self) -> tuple[object, ...]:
        return self.body, self.notice, self.answer, self.found

    def __hash__(self) -> int:
        """Hash the event."""
        return hash(self.body)

    def __repr__(self) -> str:
        """Name the turn."""
        return f"<Turn {self.number}>"

    @property
    def record(self) -> TurnCommitted:
        """The decoded event; decoded anew at each access."""
        record = decode_record(self.body)
        assert isinstance(record, TurnCommitted)
        return record

    @property
    def proposal(self) -> Proposal:
        """What the model replied."""
        return self.record.proposal

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """One result for each call, in declared order; unknown outcomes as settled since."""
        results, found = self.record.results, dict(self.found)
        if not found:
            return results
        return tuple(
            result if result.call_id not in found else settled(result, found[result.call_id])
            for result in results
        )

    @property
    def fault(self) -> Fault | None:
        """What was wrong with the turn, if the model has to do better."""
        return self.record.fault

    def outputs(self) -> dict[str, JsonValue]:
        """Outputs of the calls that returned, by call id."""
        return {result.call_id: result.output for result in self.results if result.ok}


class History(Sequence[Turn]):
    """An immutable view of the first `length` turns of an append-only list: taking it is O(1)."""

    __slots__ = ("_length", "_turns")

    def __init__(self, turns: list[Turn]) -> None:
        self._turns = turns
        self._length = len(turns)

    def __len__(self) -> int:
        """Return how many turns were committed when the view was taken."""
        return self._length

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        """Return a turn, or a slice of them."""
        if isinstance(index, slice):
            return tuple(self._turns[i] for i in range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._turns[index if index >= 0 else index + self._length]

    def __eq__(self, other: object) -> bool:
        """Compare turn by turn."""
        if not isinstance(other, History):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Hash the length: equal histories have equal ones."""
        return hash(self._length)

    def __repr__(self) -> str:
        """Say how many turns it shows."""
        return f"<History of {self._length} turns>"
