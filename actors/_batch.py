"""The calls of the open turn: where each one is, and its one result."""

from __future__ import annotations

from collections.abc import Iterator

from loopwright.protocol import (
    CALL_TABLE,
    AttemptId,
    BrokenCall,
    CallId,
    CallState,
    Effect,
    ErrorCategory,
    OpenTurn,
    Plan,
    PlannedCall,
    ProtocolViolation,
    ResultStatus,
    ToolCall,
    ToolError,
    ToolResult,
    attempt_id,
)

# An attribute of an enum class costs as much as a small call.
_PLANNED, _PREPARED = CallState.PLANNED, CallState.PREPARED
_DISPATCHED, _SETTLED = CallState.DISPATCHED, CallState.SETTLED
_NOT_STARTED = ResultStatus.NOT_STARTED
_WORKER_GONE = "the worker that dispatched it is gone"


class Batch:
    """A validated batch while it runs, or the remains of one that was interrupted."""

    __slots__ = ("attempts", "journaled", "plan", "results", "running", "states")

    def __init__(self, plan: Plan, open_turn: OpenTurn | None) -> None:
        self.plan = plan if open_turn is None else _with_stored_keys(plan, open_turn)
        self.states = [_PLANNED] * len(plan.calls)
        self.results: dict[CallId, ToolResult] = {}
        self.attempts: dict[CallId, int] = {}
        self.running: dict[AttemptId, int] = {}
        """Dispatched attempts without a result, and the index of their call."""
        self.journaled: set[CallId] = set()
        """Calls whose result is in the journal already, or on its way there."""
        for index, call in enumerate(self.plan.calls):
            if open_turn is not None or call.refused is not None:
                self._take_over(index, call, open_turn)

    def _take_over(self, index: int, call: PlannedCall, before: OpenTurn | None) -> None:
        """Settle what needs no dispatch: known results, refusals, writes that cannot be repeated."""
        if before is not None:
            last = before.dispatched.get(call.call_id)
            if last is not None:
                self.attempts[call.call_id] = last.attempt
            known = before.results.get(call.call_id)
            if known is not None:
                self.attempts.setdefault(call.call_id, known.attempts)
                self.journaled.add(call.call_id)
                self.settle(index, known)
                return
            if last is not None and (call.refused or call.effect is not Effect.IDEMPOTENT):
                self.settle(index, self.unknown(call, _WORKER_GONE))
                return
        if call.refused is not None:
            self.settle(index, call.refused)

    def move(self, index: int, state: CallState) -> None:
        """Take a call to its next state.

        Raises:
            ProtocolViolation: If the table does not allow it.
        """
        if state not in CALL_TABLE[self.states[index]]:
            call = self.plan.calls[index].call_id
            msg = f"call {call!r} cannot go from {self.states[index]} to {state}"
            raise ProtocolViolation(msg)
        self.states[index] = state

    def prepare(self, index: int) -> int:
        """Count a new attempt of a write, to be dispatched once that is durable."""
        self.move(index, _PREPARED)
        return self._attempt(index)

    def dispatch(self, index: int) -> tuple[AttemptId, int]:
        """Take a call as running; return the name and the number of the attempt."""
        number = (
            self.attempts[self.plan.calls[index].call_id]
            if self.states[index] is _PREPARED
            else self._attempt(index)
        )
        self.move(index, _DISPATCHED)
        name = attempt_id(self.plan.calls[index].call_id, number)
        self.running[name] = index
        return name, number

    def _attempt(self, index: int) -> int:
        call_id = self.plan.calls[index].call_id
        number = self.attempts[call_id] = self.attempts.get(call_id, 0) + 1
        return number

    def _take_back(self, call_id: CallId) -> None:
        """Uncount an attempt that was prepared and won't be made."""
        self.attempts[call_id] -= 1
        if not self.attempts[call_id]:
            del self.attempts[call_id]

    def settle(self, index: int, result: ToolResult) -> None:
        """Give a call its one result."""
        self.move(index, _SETTLED)
        self.results[result.call_id] = result

    def next_stage(self) -> tuple[int, ...] | None:
        """Return the unsettled calls of the first unfinished stage; `None` once all have results."""
        if len(self.results) == len(self.plan.calls):
            return None
        for stage in self.plan.stages:
            left = tuple([i for i in stage if self.states[i] is not _SETTLED])
            if left:
                return left
        return None

    @property
    def busy(self) -> bool:
        """Whether a stage is under way."""
        return bool(self.running) or _PREPARED in self.states

    def unjournaled(self) -> Iterator[ToolResult]:
        """Results of dispatched calls that no record holds yet; they count as journaled now."""
        for call_id, result in self.results.items():
            if call_id not in self.journaled and call_id in self.attempts:
                self.journaled.add(call_id)
                yield result

    def stop(self) -> None:
        """Settle everything that was not dispatched, and never will be."""
        for index, state in enumerate(self.states):
            call, prepared = self.plan.calls[index], state is _PREPARED
            if prepared:
                self._take_back(call.call_id)
            if prepared or state is _PLANNED:
                earlier = call.call_id in self.attempts
                self.settle(
                    index,
                    self.unknown(call, _WORKER_GONE)
                    if earlier
                    else not_started(call, prepared=prepared),
                )

    def give_up(self) -> None:
        """Settle everything that still runs: it is abandoned, nobody waits for it any more."""
        for index in self.running.values():
            call = self.plan.calls[index]
            if call.effect.is_write:
                self.settle(
                    index, self.unknown(call, "it did not report in time and was abandoned")
                )
            else:
                self.settle(index, self._cancelled(call))
        self.running.clear()

    def in_order(self) -> tuple[ToolResult, ...]:
        """Return the full batch in declared order."""
        results = self.results
        return tuple([results[call.call_id] for call in self.plan.calls])

    @property
    def dispatched(self) -> int:
        """How many calls were handed to their tool."""
        count = 0
        for call_id in self.attempts:
            if self.results[call_id].status is not _NOT_STARTED:
                count += 1
        return count

    def unknown(self, call: PlannedCall, why: str) -> ToolResult:
        """Make the result of a dispatched write about which nothing is known."""
        error = ToolError(
            ErrorCategory.INTERNAL, "OutcomeUnknown", f"{why}; it may or may not have taken effect"
        )
        return ToolResult(
            call.call_id,
            call.tool_name,
            ResultStatus.OUTCOME_UNKNOWN,
            error=error,
            attempts=self.attempts.get(call.call_id, 0),
            effect_key=call.effect_key,
        )

    def _cancelled(self, call: PlannedCall) -> ToolResult:
        text = "it was interrupted, did not end in time, and was abandoned"
        error = ToolError(ErrorCategory.TRANSIENT, "Cancelled", text)
        attempts = self.attempts.get(call.call_id, 0)
        return ToolResult(
            call.call_id, call.tool_name, ResultStatus.CANCELLED, error=error, attempts=attempts
        )


def _with_stored_keys(plan: Plan, before: OpenTurn) -> Plan:
    """Keep the effect key a write was dispatched under, whatever it would be today."""
    stored = {call_id: last.effect_key for call_id, last in before.dispatched.items()}
    return plan._replace(
        calls=tuple(
            call._replace(effect_key=stored.get(call.call_id, call.effect_key))
            for call in plan.calls
        )
    )


def not_started(call: PlannedCall, *, prepared: bool = False) -> ToolResult:
    """Make the result of a call that was never handed to its tool.

    Args:
        call: The call.
        prepared: Whether its dispatch is journaled; the result then takes that back.
    """
    error = ToolError(ErrorCategory.TRANSIENT, "NotStarted", "the batch ended before it was run")
    return ToolResult(
        call.call_id,
        call.tool_name,
        ResultStatus.NOT_STARTED,
        error=error,
        effect_key=call.effect_key if prepared else None,
    )


def remains(calls: tuple[ToolCall | BrokenCall, ...], open_turn: OpenTurn) -> Batch:
    """Wrap what is left of a turn that will not go on: nothing of it can be dispatched."""
    planned: list[PlannedCall] = []
    for call in calls:
        last = open_turn.dispatched.get(call.call_id)
        planned.append(
            PlannedCall(call.call_id, call.tool_name, Effect.READ, {})
            if last is None
            else PlannedCall(
                call.call_id, call.tool_name, Effect.MANUAL, last.arguments, last.effect_key
            )
        )
    batch = Batch(Plan(tuple(planned), (tuple(range(len(planned))),), b""), open_turn)
    batch.stop()
    return batch
