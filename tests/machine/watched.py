"""A driver that checks, with every message, what must hold whatever is said in whatever order."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Self

from loopwright.protocol import (
    RECONCILER,
    AnswerVerified,
    CallDispatched,
    CallId,
    Cancel,
    Commit,
    CommitFailed,
    Committed,
    Decide,
    Effect,
    EffectReconciled,
    Execute,
    Final,
    Head,
    Input,
    InvocationEnded,
    Late,
    Output,
    ProtocolError,
    Reason,
    Reconcile,
    Rested,
    Resumed,
    RunState,
    Stored,
    Summary,
    Tick,
    ToolResult,
    TurnCommitted,
    bound_to,
    calls_of,
    fold,
    state_of,
)
from machine.driver import Driver
from machine.samples import CHILDREN, INVOCATION
from machine.snapshot import plain, snapshot

Call = tuple[int, CallId]


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
        self.begun: set[Call] = set()
        """Writes that may have been handed to their tool."""
        self.unsaved: tuple[ToolResult, ...] = ()
        """Results that its last process had and could not store."""
        self.durable = True
        """Whether the store says the same of how its last process came to rest."""
        self.next_seq = 1
        self.counted: list[float | Decimal] = []
        """What was used when it was counted last."""

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
            self._check_spent()
        if isinstance(message, Tick):
            wake_at = self.run.machine.wake_at
            assert wake_at is None or wake_at > self.run.time
        return self

    def store(self) -> Self:
        """Make the oldest commit durable."""
        return self.say(Committed(self.run.store()))

    @property
    def stranded(self) -> bool:
        """Whether its process has given it up, and it goes on in the store."""
        return self.run.state.at_rest and not self.durable

    def crash(self) -> Self:
        """Lose everything that is not durable, and go on in a new process."""
        return self._go_on(())

    def revive(self) -> Self:
        """Go on in the process that has given it up; it still has what it could not store."""
        return self._go_on(self.unsaved)

    def _go_on(self, known: tuple[ToolResult, ...]) -> Self:
        time = self.run.time
        self.run, self.unsaved, self.durable = self.run.reload(known), (), True
        self.run.time = time
        self.next_seq = len(self.run.journal) + 1
        self.cancelled = bool(self.run.journal) and (
            self.run.machine.folded.protocol.cancelling is not None
        )
        if self.run.journal and (turn := self.run.machine.folded.protocol.open) is not None:
            # A new process cannot know whether it came to that.
            self.begun |= {(turn.number, call_id) for call_id in turn.dispatched}
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
            case Reconcile():
                call = output.turn, output.call_id
                assert call in {(d.turn, d.call_id) for d in self._dispatched()}
            case Rested():
                self.cancelled = False
                self.unsaved, self.durable = output.unsaved, output.durable
                self._check_rest(output)
            case _:
                pass

    def _dispatched(self) -> list[CallDispatched]:
        return [e.record for e in self.run.journal if isinstance(e.record, CallDispatched)]

    def _check_execute(self, execute: Execute) -> None:
        """A write was announced; and a further attempt is one that its effect class allows."""
        if not execute.effect.is_write:
            return
        call = execute.turn, execute.call_id
        last = [d for d in self._dispatched() if (d.turn, d.call_id) == call][-1]
        assert (last.attempt, last.effect_key) == (execute.attempt, execute.effect_key)
        if execute.attempt > 1:
            words = self._words_before(last)
            if execute.effect is not Effect.IDEMPOTENT:
                assert words
                assert words[-1].found.finding == "not_applied"
            if execute.attempt > self.run.policy.max_attempts:
                assert any(
                    word.by != RECONCILER and word.found.finding == "not_applied" for word in words
                )
        self.begun.add(call)

    def _words_before(self, dispatch: CallDispatched) -> list[EffectReconciled]:
        """What was said of the attempt before this one."""
        words: list[EffectReconciled] = []
        for entry in self.run.journal:
            record = entry.record
            if record == dispatch:
                break
            if not isinstance(record, CallDispatched | EffectReconciled):
                continue
            if (record.turn, record.call_id) == (dispatch.turn, dispatch.call_id):
                words = [*words, record] if isinstance(record, EffectReconciled) else []
        return words

    def _check_fold(self) -> None:
        """The live state is what the journal says, record by record, also with a snapshot of it.

        And the ledger of the store is the ledger of the fold.
        """
        run = self.run
        folded = fold(run.journal)
        assert plain(run.machine.folded) == plain(folded)
        assert run.ledger == folded.business.effects
        if run.snapshot is not None:
            lines = tuple(entry.line for entry in run.journal)
            summary = Summary(
                INVOCATION, Head("desk", "running", None, 0.0), len(lines), 0.0, None, False
            )
            assert plain(state_of(Stored(summary, 1, lines, run.snapshot))) == plain(folded)

    def _check_spent(self) -> None:
        """What is used only grows, over all processes; with all children it fits the budget."""
        folded, before = self.run.machine.folded, self.counted
        p = folded.protocol
        self.counted = [
            p.steps,
            p.tool_calls,
            p.usage.total,
            p.cost,
            round(p.active_seconds, 6),
            p.tool_failures,
            p.denials,
            p.failed_answers,
            len(p.handoffs),
            p.summarized,
        ]
        assert all(was <= now for was, now in zip(before, self.counted, strict=False))
        assert p.budget.max_tool_calls is not None
        assert folded.spent.tool_calls <= p.budget.max_tool_calls

    def _check_rest(self, rested: Rested) -> None:
        folded, reason = self.run.machine.folded, rested.outcome.reason
        p = folded.protocol
        assert p.budget.max_tool_calls is not None
        assert p.tool_calls <= p.budget.max_tool_calls
        assert (rested.outcome.partial is None) == (reason is Reason.COMPLETED)
        assert self.run.machine.wake_at is None
        assert rested.durable == (p.reason is reason)
        if p.reason is not reason:
            # The store is lost: what is durable says nothing of an end.
            return
        assert self.run.pending == []
        self._check_results()
        self._check_words()
        self._check_endings()
        if p.status == "ended":
            # A reply is left to be judged, should it be resumed; nothing that was begun is.
            assert p.open is None or not calls_of(p.open.proposal.decision)
            assert "dispatched" not in {effect.status for effect in folded.partial().effects}
        if reason is Reason.RECONCILIATION_REQUIRED:
            assert p.open is not None
            assert p.open.unsettled() or p.open.children()
        if reason is Reason.COMPLETED:
            self._check_verdicts()
        self._check_handoffs()

    def _check_results(self) -> None:
        """One result for each call; what may have begun is never called not started."""
        for entry in self.run.journal:
            turn = entry.record
            if not isinstance(turn, TurnCommitted):
                continue
            declared = calls_of(turn.proposal.decision)
            assert [r.call_id for r in turn.results] == [c.call_id for c in declared]
            for result in turn.results:
                if (turn.turn, result.call_id) in self.begun:
                    assert result.status != "not_started"
                    assert (result.effect_key is None) == (result.tool_name in CHILDREN)

    def _check_words(self) -> None:
        """Of one attempt there is one word that settles it."""
        settled: set[Call] = set()
        for entry in self.run.journal:
            match entry.record:
                case CallDispatched(turn=turn, call_id=call_id):
                    settled.discard((turn, call_id))
                case EffectReconciled(turn=turn, call_id=call_id, found=found):
                    assert (turn, call_id) not in settled
                    if found.finding != "unknown":
                        settled.add((turn, call_id))
                case _:
                    pass

    def _check_verdicts(self) -> None:
        """Every verifier has passed this answer, with the ledger and the history as they are."""
        turn = self.run.turns[-1]
        claim = turn.proposal.decision
        assert isinstance(claim, Final)
        before = self.run.journal[: [e.record for e in self.run.journal].index(turn)]
        folded = fold(before)
        effects = tuple(folded.business.effects.values())
        bound = bound_to(claim.answer, None, effects, folded.context_digest)
        records = [entry.record for entry in before]
        verdicts = [r for r in records if isinstance(r, AnswerVerified) and r.turn == turn.turn]
        last = {verdict.verifier: verdict for verdict in verdicts}
        assert set(last) == set(self.run.verifiers)
        assert all(verdict.passed and verdict.bound == bound for verdict in last.values())

    def _check_handoffs(self) -> None:
        """The escape agent takes over once, and the others hand it on so often and no more."""
        p = self.run.machine.folded.protocol
        escapes = sum(handoff.escaped for handoff in p.handoffs)
        assert escapes <= 1
        assert p.budget.max_handoffs is None or len(p.handoffs) - escapes <= p.budget.max_handoffs
        for source, target in pairwise(p.handoffs):
            assert source.target == target.source

    def _check_endings(self) -> None:
        """After an end comes nothing but corrections, or somebody who lets it go on."""
        records = [entry.record for entry in self.run.journal]
        records = [r for r in records if not isinstance(r, EffectReconciled)]
        for record, after in pairwise(records):
            if isinstance(record, InvocationEnded):
                assert isinstance(after, Resumed)
        states = {RunState.FINISHED, RunState.FAILED, RunState.CANCELLED}
        assert isinstance(records[-1], InvocationEnded) == (self.run.state in states)
