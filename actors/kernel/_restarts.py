"""Restart intensity: how many rebuilds of an actor are allowed in what time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._messages import ChildSpec


class Restarts:
    """The recent rebuilds of one actor."""

    __slots__ = ("_spec", "_times")

    def __init__(self, spec: ChildSpec) -> None:
        self._spec = spec
        self._times: list[float] = []

    def allow(self, now: float) -> bool:
        """Count one more rebuild, unless there were too many within the period."""
        self._times = [time for time in self._times if time > now - self._spec.period]
        if len(self._times) >= self._spec.intensity:
            return False

        self._times.append(now)
        return True
