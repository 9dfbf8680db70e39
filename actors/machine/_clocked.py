"""Time, as a machine knows it: it arrives with each message, and is never asked for."""

from __future__ import annotations

from loopwright.protocol import InvocationState, Reason, RunState

from .._clock import Instant


class Clocked:
    """The limits of time of one invocation, and when it wants to be told that time has passed."""

    __slots__ = (
        "_active_before",
        "_active_since",
        "_approval_until",
        "_deadline",
        "_ending",
        "_grace_until",
        "_linger_due",
        "_now",
        "_retry_due",
        "folded",
        "state",
    )

    folded: InvocationState
    state: RunState
    _now: Instant
    _ending: bool
    _active_before: float
    _active_since: float | None
    _deadline: float | None
    _linger_due: float | None
    _grace_until: float | None
    _retry_due: float | None
    _approval_until: float | None

    def _begin_activity(self) -> None:
        """Start the running-time clock, and fix the deadline on the monotonic one."""
        if self._active_since is None:
            self._active_since = self._now.monotonic
        deadline = self.folded.protocol.budget.deadline
        if deadline is not None and self._deadline is None:
            self._deadline = self._now.monotonic + deadline.timestamp() - self._now.wall

    def _pause_activity(self) -> None:
        """Stop the running-time clock: somebody is waited for."""
        self._active_before = self._active_seconds()
        self._active_since = None

    def _active_seconds(self) -> float:
        """Running time so far: no waiting for people, no downtime."""
        if self._active_since is None:
            return self._active_before
        return self._active_before + self._now.monotonic - self._active_since

    @property
    def _active_until(self) -> float | None:
        """When the running time is used up, on the monotonic clock."""
        limit = self.folded.protocol.budget.max_active_seconds
        if limit is None or self._active_since is None:
            return None
        return self._active_since + limit - self._active_before

    def _out_of_time(self) -> tuple[Reason, str] | None:
        """Say which limit of time has been reached, if any."""
        if self._due(self._deadline):
            return Reason.DEADLINE_EXCEEDED, "the deadline has passed"
        if self._due(self._active_until):
            return Reason.TIME_BUDGET_EXHAUSTED, "the running time is used up"
        return None

    @property
    def _until(self) -> float | None:
        """When it has to be over, on the monotonic clock."""
        deadline, active = self._deadline, self._active_until
        if deadline is None or active is None:
            return active if deadline is None else deadline
        return min(deadline, active)

    @property
    def wake_at(self) -> float | None:
        """When the machine wants to be told that time has passed, on the monotonic clock."""
        if self.state is RunState.CANCELLING:
            return self._grace_until
        if self.state.at_rest or self._ending:
            return None
        soonest = self._linger_due
        retry = self._retry_due if self.state is RunState.EXECUTE_TOOL else None
        for time in (retry, self._active_until, self._deadline, self._approval_until):
            if time is not None and (soonest is None or time < soonest):
                soonest = time
        return soonest

    def _due(self, when: float | None) -> bool:
        return when is not None and self._now.monotonic >= when
