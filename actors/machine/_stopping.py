"""How an invocation stops while something is in flight: the one way out, for every reason.

From `CANCELLING` nothing is dispatched. Reads and the model call are interrupted at once,
writes in flight get the grace period to report, and the primary reason is never masked by
what goes wrong on the way.
"""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.protocol import (
    AttemptId,
    CallCompleted,
    Cancel,
    CancelDecide,
    CancelRequested,
    CancelVerify,
    CommitFailed,
    EffectReconciled,
    Interrupt,
    NotDispatched,
    OpenTurn,
    PlannedCall,
    Reason,
    Reconcile,
    Record,
    ResultStatus,
    RunState,
    ServiceFailed,
    ToolResult,
    TurnCommitted,
    TurnProposed,
    calls_of,
)

from ._batch import Batch
from ._core import Core
from ._remains import remains

UNWIND_GRACE = 1.0
"""Seconds a model call or a read gets to end once it is interrupted; then it is abandoned."""
_OK, _ERROR = ResultStatus.OK, ResultStatus.ERROR


class Stopping(Core):
    """The part of the machine that ends an invocation before its time."""

    __slots__ = ()

    def _on_cancel(self, message: Cancel) -> None:
        if self._ending:
            return
        requested = CancelRequested(message.reason, message.by, self._now.wall)
        if self.state is not RunState.CANCELLING:
            self._stop(Reason.CANCELLED, message.reason or None, hard=message.hard, told=requested)
            return
        if not self._store_lost and self._stop_reason is not Reason.CANCELLED:
            # A person's word goes before whatever else it is stopping for.
            self._stop_reason = Reason.CANCELLED
            self._stop_cause = message.reason or self._stop_cause
            self._commit([requested], head=self._head(None))
        if message.hard:
            self._asked = True
            self._grace_over()

    def _on_commit_failed(self, message: CommitFailed) -> None:
        """The store refuses, for good: nothing may be dispatched that it does not know of."""
        self._lose_store()
        if self.state.at_rest:
            # Only the ledger was to be corrected; it rests as before.
            p = self.folded.protocol
            self._rest(p.reason or Reason.CHECKPOINT_FAILED, p.cause)
        elif self.state is not RunState.CANCELLING:
            reason = Reason.LEASE_LOST if message.fenced else Reason.CHECKPOINT_FAILED
            self._stop(reason, message.error)
        else:
            self._also(f"then the store: {message.error}")
            self._drain()

    def _on_not_dispatched(self, message: NotDispatched) -> None:
        assert self._batch is not None
        self._batch.running.pop(message.attempt_id)
        self._on_lease_lost(message.error)

    def _on_lease_lost(self, error: str) -> None:
        """Dispatch nothing and write nothing: whoever owns it by now goes on, from the journal."""
        self._lose_store()
        if self.state is RunState.CANCELLING:
            self._also(f"then the lease: {error}")
            self._drain()
        else:
            self._stop(Reason.LEASE_LOST, error)

    def _also(self, what: str) -> None:
        """Attach what went wrong on the way to the primary cause."""
        self._stop_cause = "; ".join(text for text in (self._stop_cause, what) if text)

    def _lose_store(self) -> None:
        """Write nothing any more; keep what writes have returned and nobody else knows."""
        self._store_lost = True
        self._unsaved.update(self._known)
        for commit in self._outstanding:
            for entry in commit.entries:
                match entry.record:
                    case CallCompleted(result=result):
                        self._keep_unsaved([result])
                    case TurnCommitted(results=results):
                        self._keep_unsaved(results)
                    case _:
                        pass
        self._outstanding.clear()

    def _keep_unsaved(self, results: Iterable[ToolResult]) -> None:
        for result in results:
            if result.effect_key is not None and result.attempts and result.status in (_OK, _ERROR):
                self._unsaved[result.call_id] = result

    def _on_service_failed(self, message: ServiceFailed) -> None:
        """A bug of ours, somewhere else: end in order, say so, and wait for nobody."""
        if self._ending or self.state is RunState.CANCELLING:
            return
        self._deciding = None
        if self._outstanding and message.service == "Committer":
            # What became of the commits under way nobody will say any more.
            self._lose_store()
        self._stop(Reason.INTERNAL_ERROR, f"{message.service} failed: {message.error}", hard=True)

    def _stop(
        self,
        reason: Reason,
        cause: str | None,
        *,
        hard: bool = False,
        told: CancelRequested | None = None,
    ) -> None:
        """Enter `CANCELLING`; leave it at once if nothing is in flight."""
        self._enter(RunState.CANCELLING)
        self._stop_reason, self._stop_cause = reason, cause
        self._grace_until = self._now.monotonic + (0.0 if hard else self._grace())
        self._linger_due = self._approval_until = self._retry_due = None
        self._asked = hard
        self._validating = self._assessing = self._observing = self._compacting = None
        if self._batch is not None:
            self._batch.stop()
        self._interrupt(writes=hard)
        if told is not None and self._in_flight():
            # Durable at once, in case this process does not live to see the end of the drain.
            # It takes a suspension back that is on its way, so that the cancel is not lost then.
            self._commit([told], head=self._head(None))
            told = None
        self._drain(told)

    def _grace(self) -> float:
        """How long is waited for what has to report; children end before their parent does."""
        own, batch = self._policy.cancel_grace, self._batch
        if batch is None or not batch.reserved:
            return own
        return max(own, self._terms[self.folded.protocol.agent].children_grace)

    def _take_open_turn(self) -> None:
        """Know the calls of an interrupted turn, also of one that was never planned here."""
        before = self.folded.protocol.open
        if before is None and self._proposal is not None:
            before = OpenTurn(self.turn, self._proposal)
        if self._batch is not None or before is None:
            return
        if calls := calls_of(before.proposal.decision):
            self._batch = remains(calls, before, self._known)
            self._proposal = before.proposal

    def _interrupt(self, *, writes: bool) -> None:
        if self._deciding is not None:
            self._out.append(CancelDecide(self.invocation_id, self._deciding))
        if self._verifying is not None:
            self._verifying = None
            self._out.append(CancelVerify(self.invocation_id, self.turn))
        if self._batch is None:
            return
        for name, index in self._batch.running.items():
            call = self._batch.plan.calls[index]
            # A write that has begun is left to report; one that waits for its turn must not begin.
            # A child is told to stop, and reports once it has; unless its parent goes on elsewhere.
            begun = writes or call.child is not None or not call.effect.is_write
            self._tell(name, call, begun=begun)
        for name, index in self._batch.asking.items():
            call = self._batch.plan.calls[index]
            if call.child is not None:
                self._tell(name, call, begun=True)

    def _tell(self, name: AttemptId, call: PlannedCall, *, begun: bool) -> None:
        tool, detach = call.tool_name, self._store_lost
        self._out.append(Interrupt(self.invocation_id, self.turn, name, tool, begun, detach))

    def _grace_over(self) -> None:
        """Wait no longer: what has not reported by now is interrupted and given up."""
        self._interrupt(writes=True)
        self._deciding = None
        if self._batch is not None:
            self._batch.stop_asking()
            self._batch.give_up()
        self._grace_until = None
        self._drain()

    def _hurry(self) -> None:
        """The long grace is for writes: what was interrupted only gets the time to unwind."""
        if self._grace_until is None:
            return
        batch = self._batch
        if batch is not None and batch.asking:
            return
        running = batch.running.values() if batch is not None else ()
        if batch is None or not any(batch.plan.calls[i].effect.is_write for i in running):
            self._grace_until = min(self._grace_until, self._now.monotonic + UNWIND_GRACE)

    def _in_flight(self) -> bool:
        """Whether a model call, a tool call or a commit has not reported yet."""
        batch = self._batch
        running = batch is not None and bool(batch.running or batch.asking)
        return self._deciding is not None or running or bool(self._outstanding)

    def _drain(self, told: CancelRequested | None = None) -> None:
        """Once nothing is in flight, write the end, and rest."""
        if self._in_flight():
            self._hurry()
            return
        reason, cause = self._stop_reason, self._stop_cause
        assert reason is not None
        if self._store_lost:
            if self._batch is not None:
                self._keep_unsaved(self._batch.results.values())
            self._rest(reason, cause)
            return
        self._take_open_turn()
        if self._batch is not None and not self._asked:
            self._asked = True
            if self._ask(self._batch):
                # They get as long as the writes themselves did.
                self._grace_until = self._now.monotonic + self._grace()
                if told is not None:
                    self._commit([told], head=self._head(None))
                return
        records: list[Record] = [told] if told is not None else []
        if self._batch is not None and self._proposal is not None:
            for name, call in self._batch.waiting_children():
                # Nobody waits for it any more, but it must not wait either.
                self._reconcile_call(name, call, stop=True)
            self._batch.give_up_asking()
            records += [*self._notices(), *self._said(), self._committed_turn(self._batch)]
            self._batch = None
        elif self._proposal is not None and not self._proposed:
            # It was paid for; should it be resumed, it is judged then.
            records += [*self._notices(), TurnProposed(self.turn, self._proposal, self._now.wall)]
        self._end(reason, records=records, cause=cause)

    def _ask(self, batch: Batch) -> bool:
        """Ask the owners of the data what became of writes; whether there was anybody to ask."""
        stop = self.state is RunState.CANCELLING
        asked = list(batch.ask(stop=stop))
        for name, call in asked:
            self._reconcile_call(name, call, stop=stop)
        return bool(asked)

    def _reconcile_call(self, name: AttemptId, call: PlannedCall, *, stop: bool) -> None:
        assert call.effect_key is not None
        assert self._batch is not None
        index = self._batch.index_of(call.call_id)
        known = None if index is None else self._batch.unknown[index].child
        self._out.append(
            Reconcile(
                self.invocation_id,
                self.turn,
                call.call_id,
                name,
                call.tool_name,
                call.effect_key,
                stop,
                None if known is None else known.invocation_id,
            )
        )

    def _completed(self, batch: Batch) -> list[CallCompleted]:
        """Results of the open turn that no record holds yet."""
        return [CallCompleted(self.turn, r, self._now.wall) for r in batch.unjournaled()]

    def _said(self) -> list[EffectReconciled]:
        """What was said of writes and no record holds yet."""
        if not self._findings:
            return []
        said, self._findings = self._findings, []
        return said

    def _stopped(self) -> None:
        """Go on after a commit was acknowledged in `CANCELLING`."""
        ended = self.folded.protocol.status == "ended"
        if ended:
            self._rest_as_folded()
        else:
            self._drain()
