"""How one turn goes, from the gate before the model call to the commit after the last result.

Records nobody waits for linger: a turn of fast reads ends as one `TurnCommitted` in one
commit, while a slow one, or one with a write, has its proposal written ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from loopwright.policy import Left, allowance, backoff, child_budget, fits_tool_calls, reserve
from loopwright.protocol import (
    WAITS_FOR_CHILD,
    Accepted,
    ApprovalRequested,
    Assess,
    Assessed,
    Budget,
    CallDispatched,
    CannotContinue,
    ChildRested,
    Clarification,
    Decided,
    Decision,
    EffectKey,
    Execute,
    Executed,
    Fault,
    Faulty,
    Final,
    Handoff,
    JsonValue,
    Malformed,
    NeedsApproval,
    Observed,
    Plan,
    PlannedCall,
    Proposal,
    ProposalDigest,
    Reason,
    Record,
    Reserved,
    RunState,
    ToolAccess,
    Validate,
    Validated,
    Verdict,
    calls_of,
    raw_text,
)

from ._batch import Batch
from ._concluding import Concluding, waiting_reason
from ._core import LINGER
from ._remains import remains
from ._results import unknown_calls, withheld

RETRY_FIRST = 0.1
"""Seconds before a write of unknown outcome is sent again; doubled for each further attempt."""
RETRY_LONGEST = 5.0


class Turns(Concluding):
    """The part of the machine that takes one turn after the other."""

    __slots__ = ()

    # ------------------------------------------------------------ judging what it said
    def _on_decided(self, message: Decided) -> None:
        self._deciding = None
        if self.state is RunState.CANCELLING:
            self._charge(message, "discarded", "its reply came after the stop")
            self._drain()
            return
        self._proposal = Proposal(
            message.decision,
            message.usage,
            message.model,
            message.response_id,
            message.attempts,
            self.folded.context_digest,
            (),
            self._cost(message.endpoint, message.usage),
            "",
            message.stop_reason,
            message.replay,
        )
        self._enter(RunState.DECIDE_ACTION)
        if isinstance(message.decision, Malformed):
            self._refuse_decision(message.decision.problem)
        else:
            self._validate(message.decision)

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
                # Whether a person may have denied calls after all is that person's business.
                frozenset() if self._open_proposal.by else self.folded.protocol.denied,
                self._tool_access(),
                self.folded.business.metadata,
                before.expired() if before is not None else frozenset(),
            )
        )

    def _tool_access(self) -> ToolAccess:
        """Which tools this decision may use, near the end of a budget."""
        if self._open_proposal.by:
            return "all"
        if self._tools is None:
            # Taken over in the middle of its turn.
            p = self.folded.protocol
            self._tools = allowance(
                p.budget,
                self._spent(),
                until=None,
                soft_stop=self._policy.soft_stop,
                stopped=p.soft_stopped,
            ).tools
        return self._tools

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
            self._proposal = _with_verdicts(self._open_proposal, plan.verdicts)
        runnable, p = plan.runnable, self.folded.protocol
        used = p.tool_calls
        if p.open is not None:
            used += p.open.used_by_children().tool_calls
        if not fits_tool_calls(p.budget, used, runnable):
            cause = f"{runnable} more tool calls do not fit the budget"
            self._end_unstarted(plan, Reason.TOOL_BUDGET_EXHAUSTED, cause)
        elif (over := self._out_of_time()) is not None:
            self._end_unstarted(plan, *over)
        elif self._proposed:
            self._go_ahead()
        else:
            self._assessing = self.turn
            self._out.append(Assess(self.turn, calls_of(self._open_proposal.decision)))

    def _on_assessed(self, message: Assessed) -> None:
        self._assessing = None
        verdict = self._verdict
        if message.stalled is None or verdict is None or verdict.plan is None:
            self._go_ahead()
            return
        batch = Batch(verdict.plan, self.folded.protocol.open, self._known)
        batch.stop()
        self._enter(RunState.COMPACT_OR_SAVE)
        self._stall(message.stalled, [*self._notices(), self._committed_turn(batch)])

    def _go_ahead(self) -> None:
        verdict, self._verdict = self._verdict, None
        if isinstance(verdict, NeedsApproval):
            self._request_approval(verdict)
        elif verdict is not None and verdict.plan is not None:
            self._execute(verdict.plan)

    def _conclude(self, output: JsonValue) -> None:
        """A decision without calls: the end, a question, giving up, or another agent."""
        decision = self._open_proposal.decision
        if isinstance(decision, Final) and self._terms[self.folded.protocol.agent].verifiers:
            self._verify(output)
            return
        self._enter(RunState.COMPACT_OR_SAVE)
        if isinstance(decision, Handoff):
            self._save(self._committed_turn())
            return
        if isinstance(decision, Final):
            self._complete([], decision, output)
            return
        records: list[Record] = [*self._notices(), self._committed_turn()]
        match decision:
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
        calls = calls_of(proposal.decision)
        if before is not None and calls:
            self._run(remains(calls, before, self._known, problem))
            return
        if not isinstance(proposal.decision, Malformed):
            refused = Malformed(problem, raw_text(proposal.decision))
            self._proposal = replace(proposal, decision=refused)
        self._enter(RunState.COMPACT_OR_SAVE)
        self._save(self._committed_turn(fault=Fault("decision", problem)))

    # ------------------------------------------------------------ asking a human
    def _request_approval(self, verdict: NeedsApproval) -> None:
        self._enter(RunState.WAIT_APPROVAL)
        now, expires = self._now.wall, self._policy.approval_expires
        until = None if expires is None else now + expires
        asked = ApprovalRequested(self.turn, verdict.digest, verdict.asks, now, until)
        records = self._write_ahead([asked])
        if self._policy.approval_grace:
            self._commit(records, self._await_answer)
        else:
            self._suspend_for_approval(records, verdict.digest)

    def _await_answer(self) -> None:
        self._pause_activity()
        grace, expires = self._policy.approval_grace, self._policy.approval_expires
        wait = grace if expires is None else min(grace, expires)
        self._approval_until = self._now.monotonic + wait

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
        reserved = self._reserve(batch, index)
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
            reserved,
        )
        self._commit(self._write_ahead([dispatched]), partial(self._dispatch, batch, index))

    def _reserve(self, batch: Batch, index: int) -> Reserved | None:
        """Keep aside what a child and its own may use, so that the whole tree fits the budget."""
        plan = batch.plan
        call = plan.calls[index]
        if call.child is None:
            return None
        if call.call_id not in batch.reserved:
            budget, spent = self.folded.protocol.budget, self._spent()
            mine = plan.runnable
            left = Left.of(budget, spent._replace(tool_calls=spent.tool_calls + mine))
            own = self._terms[self.folded.protocol.agent].children[call.tool_name]
            at_once = next(stage for stage in plan.stages if index in stage)
            siblings = sum(
                plan.calls[i].child is not None and plan.calls[i].call_id not in batch.reserved
                for i in at_once
            )
            batch.reserved[call.call_id] = reserve(own, left, siblings)
        return batch.reserved[call.call_id]

    def _childs_budget(self, batch: Batch, call: PlannedCall) -> Budget | None:
        """The limits a child is started with: its agent's, within what its parent has for it."""
        if call.child is None:
            return None
        budget = self.folded.protocol.budget
        own = self._terms[self.folded.protocol.agent].children[call.tool_name]
        limit = budget.max_active_seconds
        left = None if limit is None else limit - self._active_seconds()
        return child_budget(own, batch.reserved[call.call_id], budget.deadline, left)

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
                self._childs_budget(batch, call),
                self._until,
            )
        )

    def _on_child_rested(self, message: ChildRested) -> None:
        batch = self._batch
        assert batch is not None
        batch.rested(message.attempt_id, message.result)
        if self.state is RunState.CANCELLING:
            batch.stop()
            self._drain()
        elif self.state is RunState.RECONCILE:
            self._carry_on(batch)
        else:
            if self._linger_due is None:
                self._linger_due = self._now.monotonic + LINGER
            self._advance(batch)

    def _carry_on(self, batch: Batch) -> None:
        """Go on with the batch, once nobody is asked any more and everything is known."""
        if batch.asking:
            return
        if batch.unknown:
            self._reconcile(batch)
            return
        self._enter(RunState.EXECUTE_TOOL)
        self._advance(batch)

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
        unknown = tuple(batch.unknown.values())
        reason, own = waiting_reason(unknown), [r for r in unknown if r.child is None]
        detail = unknown_calls((r.call_id, r.tool_name) for r in own)
        if not own and unknown[0].child is not None:
            detail = f"{WAITS_FOR_CHILD}{unknown[0].child.invocation_id}"
        self._suspend(reason, self._write_ahead(), detail=detail)

    # ------------------------------------------------------------ progress
    def _on_observed(self, message: Observed) -> None:
        self._observing = None
        if message.stalled is not None:
            self._stall(message.stalled, [])
            return
        if message.nudge is not None:
            self._nudge(message.nudge)
        self._continue()

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


def _with_verdicts(reply: Proposal, verdicts: tuple[Verdict, ...]) -> Proposal:
    """As `dataclasses.replace`, which takes three times as long, at each turn."""
    return Proposal(
        reply.decision,
        reply.usage,
        reply.model,
        reply.response_id,
        reply.attempts,
        reply.context_digest,
        verdicts,
        reply.cost,
        reply.by,
        reply.stop_reason,
        reply.replay,
    )
