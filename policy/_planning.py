"""In which order the calls of a batch run, and which of them at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from loopwright.protocol import Effect


class Footprint(NamedTuple):
    """What one call touches, by the names its tool declares."""

    call: int
    """Its index in the batch."""
    effect: Effect
    reads: tuple[str, ...] | None = None
    """`None` where that is not declared: a read then keeps its place beside every write."""
    writes: tuple[str, ...] | None = None
    """`None` where that is not declared: a write then runs alone."""

    @property
    def alone(self) -> bool:
        """Whether nothing else may run at the same time."""
        return self.effect is Effect.MANUAL or (self.effect.is_write and self.writes is None)


def stages(calls: Sequence[Footprint], *, serial: bool = False) -> tuple[tuple[int, ...], ...]:
    """Split a batch into stages: the calls of one run at the same time, then comes the next.

    Two calls depend on each other where one of them changes what the other one reads or changes,
    and keep their declared order. A model that asks for several calls at once has not shown that
    they are independent: only what is declared says so.

    Args:
        calls: Those that are to run, in declared order.
        serial: Let nothing move past a write, and run each write alone, whatever is declared.

    Returns:
        Indexes of the calls, each in exactly one stage, in declared order within a stage.
    """
    if all(call.effect is Effect.READ for call in calls):
        return (tuple([call.call for call in calls]),) if calls else ()
    levels = _Levels()
    found: list[list[int]] = []
    for call in calls:
        level = levels.place(Footprint(call.call, call.effect) if serial else call)
        if level == len(found):
            found.append([])
        found[level].append(call.call)
    return tuple([tuple(stage) for stage in found])


class _Levels:
    """The stage of each call is the first one behind everything it depends on."""

    __slots__ = ("_any_read", "_any_write", "_floor", "_read", "_top", "_written")

    def __init__(self) -> None:
        self._floor = 0
        """First stage behind the last call that runs alone."""
        self._top = 0
        """First stage that is empty."""
        self._any_write = 0
        """First stage behind every write."""
        self._any_read = 0
        """First stage behind every read of which nobody knows what it reads."""
        self._written: dict[str, int] = {}
        """First stage behind all that change it."""
        self._read: dict[str, int] = {}
        """First stage behind all that read it."""

    def place(self, call: Footprint) -> int:
        """Say in which stage it runs; the calls before it have been placed."""
        if call.alone:
            level = self._top
            self._floor = level + 1
        elif call.effect.is_write:
            writes, reads = call.writes or (), call.reads or ()
            level = max(
                self._floor,
                self._any_read,
                _behind(self._written, (*writes, *reads)),
                _behind(self._read, writes),
            )
        elif call.reads is None:
            level = max(self._floor, self._any_write)
        else:
            level = max(self._floor, _behind(self._written, call.reads))
        self._note(call, level + 1)
        return level

    def _note(self, call: Footprint, after: int) -> None:
        self._top = max(self._top, after)
        for resource in call.reads or ():
            self._read[resource] = max(after, self._read.get(resource, 0))
        if call.effect.is_write:
            self._any_write = max(after, self._any_write)
            for resource in call.writes or ():
                self._written[resource] = max(after, self._written.get(resource, 0))
        elif call.reads is None:
            self._any_read = max(after, self._any_read)


def _behind(stage: dict[str, int], resources: Iterable[str]) -> int:
    return max((stage.get(resource, 0) for resource in resources), default=0)
