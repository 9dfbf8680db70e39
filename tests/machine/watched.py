"""A driver that checks, with every message, what must hold whatever is said in whatever order."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

from loopwright.protocol import (
    CallDispatched,
    Cancel,
    Commit,
    CommitFailed,
    Committed,
    Decide,
    Effect,
    Execute,
    Input,
    InvocationEnded,
    Late,
    Output,
    ProtocolError,
    Reason,
    Rested,
    Resumed,
    RunState,
    Tick,
    ToolCalls,
    TurnCommitted,
    fold,
)
from machine.driver import Driver
from machine.snapshot import plain, snapshot


class Watched:
    """One invocation over any number of processes.

    Args:
        driver: Its first process; commits are held.
    """

    def __init__(self, driver: Driver) -> None:
        self.run = driver
        self.run.hold = True
        self.cancelled = False
        """Whether a cancel was accepted and it has not come to rest since."""
        self.manual: set[tuple[int, str]] = set()
        """Manual writes that were dispatched, in any process."""
        self.next_seq = 1

    def say(self, message: Input, after: float = 0.0) -> Self:
        """Say something, possibly out of place, and check everything."""
        self.run.time += after
        before = snapshot(self.run.machine)
        try:
            out = self.run.tell(message)
        except ProtocolError:
            assert snapshot(self.run.machine) == before
            return self
        if out == (Late(type(message).__name__),):
            assert snapshot(self.run.machine) == before
            return self
        if isinstance(message, Cancel):
            self.cancelled = True
        if isinstance(message, CommitFailed):
            # What was sent behind a refused commit is refused as well.
            self.run.pending.clear()
        for output in out:
            self._check_output(output)
        if isinstance(message, Committed):
            self._check_fold()
        if isinstance(message, Tick):
            wake_at = self.run.machine.wake_at
            assert wake_at is None or wake_at > self.run.time
        return self

    def store(self) -> Self:
        """Make the oldest commit durable."""
        return self.say(Committed(self.run.store()))

    def crash(self) -> Self:
        """Lose everything that is not durable, and go on in a new process."""
        time = self.run.time
        self.run = self.run.reload()
        self.run.time = time
        self.next_seq = len(self.run.journal) + 1
        self.cancelled = bool(self.run.journal) and (
            self.run.machine.folded.protocol.cancelling is not None
        )
        return self

    # ------------------------------------------------------------ what must hold
    def _check_output(self, output: Output) -> None:
        match output:
            case Commit(append=append):
                assert append.first_seq == self.next_seq
                self.next_seq = append.last_seq + 1
            case Decide():
                assert not self.cancelled
                budget = self.run.machine.folded.protocol.budget
                assert budget.max_steps is not None
                assert self.run.machine.folded.protocol.steps < budget.max_steps
            case Execute():
                assert not self.cancelled
                self._check_execute(output)
            case Rested():
                self.cancelled = False
                self._check_rest(output)
            case _:
                pass

    def _check_execute(self, execute: Execute) -> None:
        if not execute.effect.is_write:
            return
        dispatched = [e.record for e in self.run.journal if isinstance(e.record, CallDispatched)]
        assert any(
            (d.turn, d.call_id, d.attempt, d.effect_key)
            == (execute.turn, execute.call_id, execute.attempt, execute.effect_key)
            for d in dispatched
        )
        if execute.effect is Effect.MANUAL:
            assert (execute.turn, execute.call_id) not in self.manual
            self.manual.add((execute.turn, execute.call_id))

    def _check_fold(self) -> None:
        """The live state is what the journal says, record by record."""
        assert plain(self.run.machine.folded) == plain(fold(self.run.journal))

    def _check_rest(self, rested: Rested) -> None:
        folded, reason = self.run.machine.folded, rested.outcome.reason
        p = folded.protocol
        assert p.budget.max_tool_calls is not None
        assert p.tool_calls <= p.budget.max_tool_calls
        assert (rested.outcome.partial is None) == (reason is Reason.COMPLETED)
        assert self.run.machine.wake_at is None
        if p.reason is not reason:
            # The store is lost: what is durable says nothing of an end.
            return
        assert self.run.pending == []
        self._check_results()
        self._check_endings()
        if p.status == "ended":
            assert p.open is None
            assert "dispatched" not in {effect.status for effect in folded.partial().effects}

    def _check_results(self) -> None:
        for entry in self.run.journal:
            turn = entry.record
            if isinstance(turn, TurnCommitted):
                decision = turn.proposal.decision
                declared = decision.calls if isinstance(decision, ToolCalls) else ()
                assert [r.call_id for r in turn.results] == [c.call_id for c in declared]

    def _check_endings(self) -> None:
        """After an end comes nothing, or somebody who lets it go on."""
        records = [entry.record for entry in self.run.journal]
        for record, after in pairwise(records):
            if isinstance(record, InvocationEnded):
                assert isinstance(after, Resumed)
        states = {RunState.FINISHED, RunState.FAILED, RunState.CANCELLED}
        assert isinstance(records[-1], InvocationEnded) == (self.run.state in states)
