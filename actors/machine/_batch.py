"""The calls of the open turn: where each one is, and its one result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from loopwright.protocol import (
    CALL_TABLE,
    NO_CHILD_USE,
    RECONCILER,
    AttemptId,
    CallId,
    CallState,
    ChildUse,
    Effect,
    EffectEntry,
    EffectKey,
    OpenTurn,
    Plan,
    PlannedCall,
    ProtocolViolation,
    Reconciled,
    Reserved,
    ResultStatus,
    ToolResult,
    attempt_id,
    settled,
    used_by_children,
)

from ._results import (
    ABANDONED,
    ABANDONED_ASKING,
    WORKER_GONE,
    as_dispatched,
    cancelled,
    edited,
    in_doubt,
    not_started,
    out_of_the_outbox,
    outcome_unknown,
    queued,
    with_effect,
)

# An attribute of an enum class costs as much as a small call.
_PLANNED, _PREPARED = CallState.PLANNED, CallState.PREPARED
_DISPATCHED, _UNKNOWN, _SETTLED = CallState.DISPATCHED, CallState.UNKNOWN, CallState.SETTLED
_NOT_STARTED = ResultStatus.NOT_STARTED
_OUTCOME_UNKNOWN = ResultStatus.OUTCOME_UNKNOWN


class Batch:
    """A validated batch while it runs, or the remains of one that was interrupted.

    Args:
        plan: Its calls as they are to run today.
        open_turn: What is durable of it, if it was begun before.
        known: Results that this process has and could not store.
        max_attempts: How often one write may be dispatched without a person's word.
    """

    __slots__ = (
        "_asked",
        "_max_attempts",
        "_otherwise",
        "asking",
        "attempts",
        "journaled",
        "plan",
        "queued",
        "reserved",
        "results",
        "running",
        "states",
        "unknown",
    )

    def __init__(
        self,
        plan: Plan,
        open_turn: OpenTurn | None,
        known: Mapping[CallId, ToolResult] | None = None,
        *,
        max_attempts: int = 1,
    ) -> None:
        self.plan = plan if open_turn is None else as_dispatched(plan, open_turn)
        self.states = [_PLANNED] * len(plan.calls)
        self.results: dict[CallId, ToolResult] = {}
        self.attempts: dict[CallId, int] = {}
        self.running: dict[AttemptId, int] = {}
        """Dispatched attempts without a result, and the index of their call."""
        self.unknown: dict[int, ToolResult] = {}
        """Calls whose outcome is unknown, by index, and what they end with should it stay so."""
        self.asking: dict[AttemptId, int] = {}
        """Attempts whose fate the owner of the data is being asked, and the index of their call."""
        self.journaled: set[CallId] = set()
        """Calls whose present result is in the journal already, or on its way there."""
        self.queued = False
        """Whether any of them goes into the outbox."""
        self.reserved: dict[CallId, Reserved] = {}
        """What is kept aside for children, by the call that stands for them."""
        self._max_attempts = max_attempts
        self._otherwise: dict[int, ToolResult] = {}
        """What calls that are planned again end with if they are not dispatched again."""
        self._asked: set[AttemptId] = set()
        """Attempts whose fate the owner of the data was asked."""
        for index, call in enumerate(self.plan.calls):
            if open_turn is not None or call.refused is not None:
                self._take_over(index, call, open_turn, known or {})

    def _take_over(
        self,
        index: int,
        call: PlannedCall,
        before: OpenTurn | None,
        known: Mapping[CallId, ToolResult],
    ) -> None:
        """Settle what needs no dispatch: known results and refusals; tell what is unknown."""
        call_id = call.call_id
        last = before.dispatched.get(call_id) if before is not None else None
        stored = before.results.get(call_id) if before is not None else None
        if last is not None:
            self.attempts[call_id] = last.attempt
            if last.reserved is not None:
                self.reserved[call_id] = last.reserved
        if stored is not None and stored.status is not _OUTCOME_UNKNOWN:
            self.attempts.setdefault(call_id, stored.attempts)
            self.journaled.add(call_id)
            self.settle(index, stored)
        elif last is not None and before is not None:
            result = known.get(call_id)
            if result is not None and (result.attempts, result.effect_key) == (
                last.attempt,
                last.effect_key,
            ):
                self.settle(index, result)
            else:
                self._take_over_write(index, call, before, stored)
        elif call.refused is not None:
            self.settle(index, call.refused)

    def _take_over_write(
        self, index: int, call: PlannedCall, before: OpenTurn, result: ToolResult | None
    ) -> None:
        """Take over a write that was dispatched and has no last word in the journal."""
        said = before.found.get(call.call_id)
        self._lose(index, result or outcome_unknown(call, self._attempts(call), WORKER_GONE))
        if result is not None:
            self.journaled.add(call.call_id)
        if said is not None:
            if said.last_word:
                self.found(index, said.found, by_person=said.by != RECONCILER)
        elif call.effect is Effect.IDEMPOTENT:
            self._again(index, self.unknown[index])

    # ------------------------------------------------------------ one call, step by step
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
        # Whatever was journaled of it was of the attempt before.
        self.journaled.discard(self.plan.calls[index].call_id)
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

    def _attempts(self, call: PlannedCall) -> int:
        return self.attempts.get(call.call_id, 0)

    def _take_back(self, call_id: CallId) -> None:
        """Uncount an attempt that was prepared and won't be made."""
        self.attempts[call_id] -= 1
        if not self.attempts[call_id]:
            del self.attempts[call_id]

    def queue(self, index: int, ledger: Mapping[EffectKey, EffectEntry]) -> None:
        """Put a write into the outbox, once per effect key; it goes out once its turn is durable."""
        call = self.plan.calls[index]
        entry = None if call.effect_key is None else ledger.get(call.effect_key)
        if entry is not None and entry.status in ("rejected", "not_applied"):
            self.settle(index, out_of_the_outbox(call, entry))
            return
        there = entry is not None or any(
            result.effect_key == call.effect_key for result in self.results.values()
        )
        self.queued = True
        self.settle(index, queued(call, again=there))

    def used_by_children(self) -> ChildUse:
        """What children have used, and those at work may still use."""
        return used_by_children(self.reserved, self.results) if self.reserved else NO_CHILD_USE

    def rested(self, attempt: AttemptId, result: ToolResult) -> None:
        """Take in how a child stands: ended, or waiting for somebody, its parent with it."""
        index = self.running.pop(attempt, None)
        asked = index is None
        if index is None:
            index = self.asking.pop(attempt)
        call = self.plan.calls[index]
        # What a child has done is in its own ledger.
        result = replace(result, attempts=self._attempts(call), effect_key=None, effect=None)
        if asked:
            del self.unknown[index]
            self.journaled.discard(result.call_id)
            if result.status is _OUTCOME_UNKNOWN:
                self.unknown[index] = result
                return
        elif result.status is _OUTCOME_UNKNOWN:
            if result.child is not None:
                # It waits: asking again would tell nothing else.
                self._asked.add(attempt)
            self._lose(index, result)
            return
        self.settle(index, result)

    def refuse(self, index: int, refusal: ToolResult) -> None:
        """Not dispatch a call; one that was dispatched before ends as what is known of that."""
        self.settle(index, self._otherwise.get(index, refusal))

    def returned(self, attempt: AttemptId, result: ToolResult) -> bool:
        """Take in what an attempt came to; say whether the call is to be dispatched again.

        A write of unknown outcome is not settled by it.
        """
        index = self.running.pop(attempt)
        call = self.plan.calls[index]
        if not (call.edited or call.effect.is_write):
            self.settle(index, result)
            return False
        earlier = self._otherwise.pop(index, None)
        if result.status is _NOT_STARTED and earlier is not None:
            # Only this attempt never ran: what is known of the one before it still holds.
            result = replace(earlier, attempts=result.attempts)
        elif earlier is not None and earlier.status is _OUTCOME_UNKNOWN:
            result = in_doubt(call, result)
        if result.status is not _OUTCOME_UNKNOWN or not call.effect.is_write:
            self.settle(index, edited(call, result))
            return False
        self._lose(index, edited(call, result))
        return call.effect is Effect.IDEMPOTENT and self._again(index, self.unknown[index])

    def _lose(self, index: int, result: ToolResult) -> None:
        self.move(index, _UNKNOWN)
        self.unknown[index] = result

    def _again(self, index: int, otherwise: ToolResult, *, by_person: bool = False) -> bool:
        """Plan a write of unknown outcome anew, unless it was attempted too often.

        Args:
            index: Of the call.
            otherwise: What it ends with should it not get as far as that.
            by_person: Whether a person lets it.
        """
        call = self.plan.calls[index]
        if call.refused is not None or not self._max_attempts:
            return False
        if self._attempts(call) >= self._max_attempts and not by_person:
            return False
        self.move(index, _PLANNED)
        del self.unknown[index]
        self._otherwise[index] = otherwise
        return True

    def settle(self, index: int, result: ToolResult) -> None:
        """Give a call its one result."""
        self.move(index, _SETTLED)
        self.results[result.call_id] = result

    # ------------------------------------------------------------ unknown outcomes
    def ask(self, *, stop: bool = False) -> Iterator[tuple[AttemptId, PlannedCall]]:
        """Take the unknown writes whose downstream can be asked as being asked.

        Args:
            stop: Whether children are to stop: those that have said how they stand are told, too.
        """
        for index in self.unknown:
            call = self.plan.calls[index]
            name = attempt_id(call.call_id, self._attempts(call))
            again = name not in self._asked or (stop and call.child is not None)
            if call.effect is Effect.RECONCILABLE and again:
                self._asked.add(name)
                self.asking[name] = index
                yield name, call

    def waiting_children(self) -> Iterator[tuple[AttemptId, PlannedCall]]:
        """Name the calls whose child waits for somebody, and nobody is asking after it."""
        for index, result in self.unknown.items():
            if result.child is not None:
                call = self.plan.calls[index]
                yield attempt_id(call.call_id, self._attempts(call)), call

    def found(self, index: int, found: Reconciled, *, by_person: bool, stop: bool = False) -> None:
        """Take in what became of a write.

        Args:
            index: Of the call.
            found: What was said of it.
            by_person: Whether a person did, whose `unknown` is a last word, and whose
                `not_applied` counts more than `max_attempts`.
            stop: Whether nothing may be dispatched any more.
        """
        result = self.unknown[index]
        if found.finding == "unknown" and not by_person:
            return
        result = settled(result, found)
        unapplied = found.finding == "not_applied" and not stop
        if unapplied and self._again(index, result, by_person=by_person):
            return
        del self.unknown[index]
        call = self.plan.calls[index]
        if unapplied and call.refused is not None and call.refused.status is not _NOT_STARTED:
            # It has not run, and may not run today: that is what its result says.
            result = with_effect(call.refused, call, self._attempts(call))
        self.settle(index, result)
        self.journaled.discard(call.call_id)

    def index_of(self, call_id: CallId) -> int | None:
        """Find an unknown call."""
        for index in self.unknown:
            if self.plan.calls[index].call_id == call_id:
                return index
        return None

    def give_up_asking(self) -> None:
        """Let what is unknown stay so: those are its results."""
        self.asking.clear()
        for index, result in tuple(self.unknown.items()):
            del self.unknown[index]
            self.settle(index, result)

    # ------------------------------------------------------------ the whole batch
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
        for result in self.unknown.values():
            if result.call_id not in self.journaled:
                self.journaled.add(result.call_id)
                yield result

    def stop(self) -> None:
        """Settle everything that was not dispatched, and never will be."""
        for index, state in enumerate(self.states):
            call, prepared = self.plan.calls[index], state is _PREPARED
            if prepared:
                self._take_back(call.call_id)
            if prepared or state is _PLANNED:
                otherwise = self._otherwise.get(index)
                if otherwise is None:
                    self.settle(index, not_started(call, prepared=prepared))
                elif otherwise.status is _OUTCOME_UNKNOWN:
                    self._lose(index, otherwise)
                else:
                    self.settle(index, otherwise)
            elif call.outbox is not None and state is _SETTLED and call.refused is None:
                # It was to go out with the turn's commit.
                self.results[call.call_id] = not_started(call)

    def give_up(self) -> None:
        """Wait no longer for what still runs: it is abandoned, and a write's outcome unknown."""
        for index in self.running.values():
            call = self.plan.calls[index]
            if call.effect.is_write:
                self._lose(index, outcome_unknown(call, self._attempts(call), ABANDONED))
            else:
                self.settle(index, cancelled(call, self._attempts(call)))
        self.running.clear()

    def stop_asking(self) -> None:
        """Wait no longer for those who were asked what became of a write."""
        for index in self.asking.values():
            call = self.plan.calls[index]
            self.unknown[index] = outcome_unknown(call, self._attempts(call), ABANDONED_ASKING)
        self.asking.clear()

    def in_order(self) -> tuple[ToolResult, ...]:
        """Return the full batch in declared order."""
        results = self.results
        return tuple([results[call.call_id] for call in self.plan.calls])

    @property
    def dispatched(self) -> int:
        """How many calls were handed to their tool, or put into the outbox."""
        count = 0
        for call_id in self.attempts:
            if self.results[call_id].status is not _NOT_STARTED:
                count += 1
        for call in self.plan.calls:
            if self.results[call.call_id].effect == "prepared":
                count += 1
        return count
