"""How one turn goes, from the gate before the model call to the commit after the last result.

Records nobody waits for linger: a turn of fast reads ends as one `TurnCommitted` in one
commit, while a slow one, or one with a write, has its proposal written ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from loopwright.policy import backoff, fits_tool_calls, soft_stop_due, soft_stop_notice, used_up
from loopwright.protocol import (
    Accepted,
    ApprovalRequested,
    Assess,
    Assessed,
    CallCompleted,
    CallDispatched,
    CannotContinue,
    Clarification,
    Decide,
    Decided,
    DecideFailed,
    Decision,
    Delivery,
    EffectKey,
    Execute,
    Executed,
    Fault,
    Faulty,
    Final,
    JsonValue,
    Malformed,
    NeedsApproval,
    Observe,
    Observed,
    Plan,
    Proposal,
    ProposalDigest,
    Reason,
    Record,
    RequestApproval,
    RunState,
    Stalled,
    ToolCalls,
    TurnCommitted,
    TurnProposed,
    Validate,
    Validated,
    raw_text,
)

from ._batch import Batch
from ._core import LINGER
from ._remains import remains
from ._results import unknown_calls, withheld
from ._stopping import Stopping

RETRY_FIRST = 0.1
"""Seconds before a write of unknown outcome is sent again; doubled for each further attempt."""
RETRY_LONGEST = 5.0


class Turns(Stopping):
    """The part of the machine that takes one turn after the other."""

    __slots__ = ()

    # ------------------------------------------------------------ asking the model
    def _prepare(self) -> None:
        """Gate, then ask the model: the only place where a model call begins."""
        self._enter(RunState.PREPARE_CONTEXT)
        folded, budget, spent = self.folded, self.folded.protocol.budget, self._spent()
        self._proposal, self._batch, self._proposed = None, None, False
        self._linger_due = self._retry_due = None
        left = None if self._deadline is None else self._deadline - self._now.monotonic
        reason = used_up(budget, spent, left)
        if reason is not None:
            self._enter(RunState.COMPACT_OR_SAVE)
            self._end(reason, cause=f"no further model call: {reason}")
            return
        if not folded.protocol.soft_stopped and soft_stop_due(budget, spent):
            self._notice = soft_stop_notice(budget, spent)
        self._deciding = self.turn
        self._enter(RunState.MODEL_THINKING)
        self._out.append(
            Decide(
                self.invocation_id,
                self.turn,
                folded.business.goal,
                folded.history(),
                self.started.principal,
                self._notice,
                folded.business.metadata,
                folded.context_chars,
            )
        )

    def _on_decided(self, message: Decided) -> None:
        self._deciding = None
        if self.state is RunState.CANCELLING:
            self._drain()
            return
        self._proposal = Proposal(
            message.decision,
            message.usage,
            message.model,
            message.response_id,
            message.attempts,
            self.folded.context_digest,
        )
        self._enter(RunState.DECIDE_ACTION)
        if isinstance(message.decision, Malformed):
            self._refuse_decision(message.decision.problem)
        else:
            self._validate(message.decision)

    def _on_decide_failed(self, message: DecideFailed) -> None:
        self._deciding = None
        if self.state is RunState.CANCELLING:
            self._drain()
            return
        self._enter(RunState.COMPACT_OR_SAVE)
        self._end(Reason.MODEL_ERROR, cause=message.error)

    # ------------------------------------------------------------ judging what it said
    def _validate(self, decision: Decision) -> None:
        self._validating = self.turn
        before = self.folded.protocol.open
        approved, denied = before.verdicts() if before is not None else ((), ())
        request = before.request if before is not None else None
        self._out.append(
            Validate(
                self.invocation_id,
                self.turn,
                decision,
                self.started.principal,
                approved,
                denied,
                request.digest if request is not None else None,
                before.edits() if before is not None else {},
            )
        )

    def _on_validated(self, message: Validated) -> None:
        self._validating = None
        verdict = message.verdict
        if isinstance(verdict, Faulty):
            self._refuse_decision(verdict.problem)
        elif isinstance(verdict, Accepted) and verdict.plan is None:
            self._conclude(verdict.output)
        elif verdict.plan is not None:
            self._verdict = verdict
            self._consider(verdict.plan)

    def _consider(self, plan: Plan) -> None:
        """A sound batch: does it fit the budget, and does it lead anywhere?"""
        if plan.verdicts:
            self._proposal = replace(self._open_proposal, verdicts=plan.verdicts)
        runnable = sum(call.refused is None for call in plan.calls)
        if not fits_tool_calls(self.folded.protocol.budget, self._spent(), runnable):
            cause = f"{runnable} more tool calls do not fit the budget"
            self._end_unstarted(plan, Reason.TOOL_BUDGET_EXHAUSTED, cause)
        elif (over := self._out_of_time()) is not None:
            self._end_unstarted(plan, *over)
        elif self._proposed:
            self._go_ahead()
        else:
            self._assessing = self.turn
            self._out.append(Assess(self.turn, plan.fingerprint))

    def _on_assessed(self, message: Assessed) -> None:
        self._assessing = None
        verdict = self._verdict
        if message.stalled is None or verdict is None or verdict.plan is None:
            self._go_ahead()
        else:
            self._end_unstarted(verdict.plan, Reason.NO_PROGRESS, _evidence(message.stalled))

    def _go_ahead(self) -> None:
        verdict, self._verdict = self._verdict, None
        if isinstance(verdict, NeedsApproval):
            self._request_approval(verdict)
        elif verdict is not None and verdict.plan is not None:
            self._execute(verdict.plan)

    def _conclude(self, output: JsonValue) -> None:
        """A decision without calls: the end, a question, or giving up."""
        self._enter(RunState.COMPACT_OR_SAVE)
        decision = self._open_proposal.decision
        records: list[Record] = [*self._notices(), self._committed_turn()]
        match decision:
            case Final(answer=answer):
                self._end(Reason.COMPLETED, records=records, answer=answer, output=output)
            case Clarification(question=question):
                self._suspend(Reason.CLARIFICATION_REQUIRED, records, question=question)
            case CannotContinue(code=code, reason=reason):
                self._end(Reason.CANNOT_CONTINUE, records=records, cause=f"{code}: {reason}")
            case _:
                raise AssertionError(decision)

    def _refuse_decision(self, problem: str) -> None:
        """Nothing of it runs; it is kept as a fault, and the model gets to repair it.

        A turn that was taken over keeps its calls: some of them may have run.
        """
        before, proposal = self.folded.protocol.open, self._open_proposal
        if before is not None and isinstance(proposal.decision, ToolCalls | RequestApproval):
            self._run(remains(proposal.decision.calls, before, self._known, problem))
            return
        if not isinstance(proposal.decision, Malformed):
            refused = Malformed(problem, raw_text(proposal.decision))
            self._proposal = replace(proposal, decision=refused)
        self._enter(RunState.COMPACT_OR_SAVE)
        self._save(self._committed_turn(fault=Fault("decision", problem)))

    # ------------------------------------------------------------ asking a human
    def _request_approval(self, verdict: NeedsApproval) -> None:
        self._enter(RunState.WAIT_APPROVAL)
        records = self._write_ahead(
            [ApprovalRequested(self.turn, verdict.digest, verdict.asks, self._now.wall)]
        )
        if self._policy.approval_grace:
            self._commit(records, self._await_answer)
        else:
            self._suspend_for_approval(records, verdict.digest)

    def _await_answer(self) -> None:
        self._pause_activity()
        self._approval_until = self._now.monotonic + self._policy.approval_grace

    def _suspend_for_approval(self, records: Sequence[Record], digest: ProposalDigest) -> None:
        self._suspending = True
        self._suspend(Reason.APPROVAL_REQUIRED, records, detail=digest)

    # ------------------------------------------------------------ running the batch
    def _execute(self, plan: Plan) -> None:
        before, limit = self.folded.protocol.open, self._policy.max_attempts
        self._run(Batch(plan, before, self._known, max_attempts=limit))

    def _run(self, batch: Batch) -> None:
        self._batch = batch
        self._enter(RunState.EXECUTE_TOOL)
        if not self._proposed:
            self._linger_due = self._now.monotonic + LINGER
        self._advance(batch)

    def _advance(self, batch: Batch) -> None:
        """Start the next stage, or observe the whole batch once every call has its result."""
        if batch.busy:
            return
        if batch.unknown:
            self._reconcile(batch)
            return
        if self._retry_due is not None and not self._due(self._retry_due):
            return
        self._retry_due = None
        stage = batch.next_stage()
        if stage is None:
            self._enter(RunState.OBSERVE)
            self._enter(RunState.COMPACT_OR_SAVE)
            fault = Fault("call", batch.plan.fault) if batch.plan.fault else None
            self._save(self._committed_turn(batch, fault=fault), batch)
            return
        for index in stage:
            if batch.plan.calls[index].effect.is_write:
                self._begin_write(batch, index)
            else:
                self._dispatch(batch, index)
        if not batch.busy:
            # All of it went into the outbox, or may not run.
            self._advance(batch)

    def _begin_write(self, batch: Batch, index: int) -> None:
        """A write is dispatched only once that it will be is durable."""
        call = batch.plan.calls[index]
        ledger = self.folded.business.effects
        if call.outbox is not None:
            batch.queue(index, ledger)
            return
        refusal = withheld(call, self.turn, ledger.values(), batch.plan.calls, batch.results)
        if refusal is not None:
            batch.refuse(index, refusal)
            return
        attempt = batch.prepare(index)
        dispatched = CallDispatched(
            self.turn,
            call.call_id,
            attempt,
            call.tool_name,
            call.arguments,
            call.effect_key or EffectKey(""),
            self._now.wall,
            call.effect,
        )
        self._commit(self._write_ahead([dispatched]), partial(self._dispatch, batch, index))

    def _dispatch(self, batch: Batch, index: int) -> None:
        call = batch.plan.calls[index]
        name, number = batch.dispatch(index)
        self._out.append(
            Execute(
                self.invocation_id,
                self.turn,
                call.call_id,
                name,
                number,
                call.tool_name,
                call.effect,
                call.arguments,
                call.effect_key,
                self.started.principal,
                self._lease,
            )
        )

    def _on_executed(self, message: Executed) -> None:
        batch = self._batch
        assert batch is not None
        again = batch.returned(message.attempt_id, message.result)
        if self.state is RunState.CANCELLING:
            batch.stop()
            self._drain()
            return
        if again:
            # It is sent again, under the same key; whatever failed gets a moment.
            wait = backoff(message.result.attempts, RETRY_FIRST, RETRY_LONGEST)
            self._retry_due = self._now.monotonic + wait
        if self._proposed and self._linger_due is None:
            self._linger_due = self._now.monotonic + LINGER
        self._advance(batch)

    # ------------------------------------------------------------ unknown outcomes
    def _reconcile(self, batch: Batch) -> None:
        """Ask what became of writes, before anything else runs; or leave it to a person."""
        self._enter(RunState.RECONCILE)
        if batch.asking or self._ask(batch):
            return
        self._suspending = True
        detail = unknown_calls((r.call_id, r.tool_name) for r in batch.unknown.values())
        self._suspend(Reason.RECONCILIATION_REQUIRED, self._write_ahead(), detail=detail)

    # ------------------------------------------------------------ saving
    def _write_ahead(self, extra: Sequence[Record] = ()) -> list[Record]:
        """What is known of the open turn and no record holds yet, then `extra`."""
        self._linger_due = None
        records: list[Record] = [*self._notices()]
        if not self._proposed:
            self._proposed = True
            records.append(TurnProposed(self.turn, self._open_proposal, self._now.wall))
        if self._batch is not None:
            records += [
                CallCompleted(self.turn, result, self._now.wall)
                for result in self._batch.unjournaled()
            ]
        return [*records, *self._said(), *extra]

    def _save(self, turn: TurnCommitted, batch: Batch | None = None) -> None:
        """Commit the turn; too many faults in a row end the invocation with it."""
        self._batch, self._linger_due = None, None
        records: list[Record] = [*self._notices(), *self._said(), turn]
        if turn.fault is not None and self._unforgivable(turn.fault):
            self._end(Reason.INVALID_DECISION, records=records, cause=turn.fault.problem)
        else:
            outbox: tuple[Delivery, ...] = ()
            if batch is not None and batch.queued:
                outbox = batch.deliveries(self.started, turn.turn)
            self._commit(records, partial(self._saved, batch), outbox=outbox)

    def _unforgivable(self, fault: Fault) -> bool:
        p, policy = self.folded.protocol, self._policy
        decisions = p.faulty_decisions + 1 if fault.level == "decision" else 0
        return decisions > policy.max_repairs or p.faulty_turns + 1 >= policy.max_faulty_turns

    def _saved(self, batch: Batch | None) -> None:
        if batch is None:
            self._prepare()
            return
        self._observing = self.folded.protocol.turn
        self._out.append(Observe(self._observing, batch.plan.fingerprint, batch.in_order()))

    def _on_observed(self, message: Observed) -> None:
        self._observing = None
        if message.stalled is None:
            self._prepare()
        else:
            self._end(Reason.NO_PROGRESS, cause=_evidence(message.stalled))

    def _end_unstarted(self, plan: Plan, reason: Reason, cause: str) -> None:
        """End before anything of the batch starts: each call gets a result that says so."""
        batch = Batch(plan, self.folded.protocol.open, self._known)
        batch.stop()
        if batch.unknown:
            # Those who can be asked what became of writes are, before it ends.
            self._batch = batch
            self._stop(reason, cause)
            return
        self._enter(RunState.COMPACT_OR_SAVE)
        records: list[Record] = [*self._notices(), self._committed_turn(batch)]
        self._end(reason, records=records, cause=cause)


def _evidence(stalled: Stalled) -> str:
    return f"{stalled.signal}: {stalled.evidence}"
