"""The effect ledger of a store in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import final

from loopwright.protocol import EffectEntry, EffectFact, EffectKey, EffectStatus, InvocationId


@dataclass(slots=True)
class _Line:
    number: int
    invocation_id: InvocationId
    agent: str
    at: float
    entry: EffectEntry


@final
class EffectLedger:
    """What each write is known to have done, over all invocations."""

    def __init__(self) -> None:
        self._lines: dict[tuple[InvocationId, EffectKey], _Line] = {}
        """In the order in which they were announced."""
        self._last = 0

    def put(self, invocation_id: InvocationId, agent: str, entry: EffectEntry) -> None:
        """Write a line over the earlier one of its effect key."""
        key = invocation_id, entry.effect_key
        line = self._lines.get(key)
        if line is None:
            self._last += 1
            self._lines[key] = _Line(self._last, invocation_id, agent, time.time(), entry)
        else:
            self._change(line, entry.over(line.entry))

    def change(
        self,
        invocation_id: InvocationId,
        effect_key: EffectKey,
        change: Callable[[EffectEntry], EffectEntry],
    ) -> None:
        """Change a line, if there is one."""
        line = self._lines.get((invocation_id, effect_key))
        if line is not None:
            self._change(line, change(line.entry))

    def find(
        self,
        *,
        invocation_id: InvocationId | None,
        effect_key: EffectKey | None,
        tool_name: str | None,
        statuses: Sequence[EffectStatus] | None,
        limit: int,
        before: int | None,
    ) -> list[tuple[int, EffectFact]]:
        """Query the ledger, last announced first."""
        found: list[tuple[int, EffectFact]] = []
        for line in reversed(self._lines.values()):
            if len(found) == limit:
                break
            entry = line.entry
            if (
                (before is None or line.number < before)
                and invocation_id in (None, line.invocation_id)
                and effect_key in (None, entry.effect_key)
                and tool_name in (None, entry.tool_name)
                and (statuses is None or entry.status in statuses)
            ):
                fact = EffectFact(line.invocation_id, line.agent, line.at, entry)
                found.append((line.number, fact))

        return found

    def unsettled(self) -> set[InvocationId]:
        """Tell which invocations have an effect that is not settled."""
        return {line.invocation_id for line in self._lines.values() if not line.entry.settled}

    def forget(self, invocations: AbstractSet[InvocationId]) -> None:
        """Delete the lines of these invocations."""
        self._lines = {key: line for key, line in self._lines.items() if key[0] not in invocations}

    def _change(self, line: _Line, entry: EffectEntry) -> None:
        line.entry = entry
        line.at = time.time()
