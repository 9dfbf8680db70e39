"""Committed turns as the history: the encoded event itself, decoded only where it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias, overload

from ._canonical import dumps
from ._cut import cut_finding, cut_turn
from ._effects import Reconciled
from ._evidence import Fault, Proposal
from ._ids import CallId
from ._json import JsonValue
from ._records import TurnCommitted, decode_record, encode_record
from ._results import ToolResult, settled

_Findings: TypeAlias = tuple[tuple[CallId, Reconciled], ...]


class Turn:
    """One committed turn.

    It keeps the encoded `TurnCommitted` and decodes it on access, so that a live invocation
    holds a few hundred bytes a turn and nothing is ever copied or encoded again.
    """

    __slots__ = ("_cut", "answer", "body", "found", "memo", "notice", "number")

    def __init__(
        self,
        number: int,
        body: bytes,
        notice: str | None = None,
        answer: str | None = None,
        found: _Findings = (),
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
        self.memo: object = None
        """A place for an adapter's translation, which lasts as long as the turn does."""
        self._cut: tuple[tuple[int, str | None, _Findings], Turn | None] | None = None

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

    @property
    def chars(self) -> int:
        """About how many characters it has, for estimates."""
        size = len(self.body) + len(self.notice or "") + len(self.answer or "")
        for _, found in self.found:
            size += len(found.reason) + len(dumps(found.receipt))
        return size

    def within(self, limit: int) -> Turn:
        """Return it as a model is shown it: no text, output or arguments have more characters.

        That is this very turn, where it is small enough. What is not is cut once, and kept as
        long as the turn: a history is shown again and again.
        """
        if len(self.body) <= limit and not self.found:
            return self
        key = limit, self.answer, self.found
        if self._cut is None or self._cut[0] != key:
            self._cut = key, self._cut_to(limit)
        return self._cut[1] or self

    def _cut_to(self, limit: int) -> Turn | None:
        record = self.record
        cut = cut_turn(record, limit)
        found = tuple((call_id, cut_finding(finding, limit)) for call_id, finding in self.found)
        if cut is record and found == self.found:
            return None
        body = self.body if cut is record else encode_record(cut)
        return Turn(self.number, body, self.notice, self.answer, found)

    def outputs(self) -> dict[str, JsonValue]:
        """Outputs of the calls that returned, by call id."""
        return {result.call_id: result.output for result in self.results if result.ok}


class History(Sequence[Turn]):
    """An immutable view of turns in an append-only list: taking it is O(1).

    Args:
        turns: The list; what is appended to it later is not seen.
        start: How many of the first turns are left out.
        limit: Characters of one text, output or arguments, where they are to be cut; see
            `Turn.within`.
    """

    __slots__ = ("_limit", "_start", "_stop", "_turns")

    def __init__(self, turns: list[Turn], *, start: int = 0, limit: int | None = None) -> None:
        self._turns = turns
        self._start = start
        self._stop = len(turns)
        self._limit = limit

    def view(self, start: int = 0, stop: int | None = None, *, limit: int | None = None) -> History:
        """Return a view of a part of it, its turns cut to `limit`."""
        part = History(self._turns, start=self._start + start, limit=limit or self._limit)
        part._stop = self._stop if stop is None else min(self._start + stop, self._stop)
        return part

    def __len__(self) -> int:
        """Return how many turns it shows."""
        return max(0, self._stop - self._start)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        """Return a turn, or a slice of them."""
        length = len(self)
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(length)))
        if not -length <= index < length:
            raise IndexError(index)
        turn = self._turns[(self._start if index >= 0 else self._stop) + index]
        return turn if self._limit is None else turn.within(self._limit)

    def __iter__(self) -> Iterator[Turn]:
        """Go through the turns."""
        limit = self._limit
        for turn in islice(self._turns, self._start, self._stop):
            yield turn if limit is None else turn.within(limit)

    def __reversed__(self) -> Iterator[Turn]:
        """Go through the turns, the newest first."""
        limit = self._limit
        for index in range(self._stop - 1, self._start - 1, -1):
            turn = self._turns[index]
            yield turn if limit is None else turn.within(limit)

    def __eq__(self, other: object) -> bool:
        """Compare turn by turn."""
        if not isinstance(other, History):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Hash the length: equal histories have equal ones."""
        return hash(len(self))

    def __repr__(self) -> str:
        """Say how many turns it shows."""
        return f"<History of {len(self)} turns>"
