"""The stand, driven in words: each says one thing to the machine, as somebody would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from loopwright.protocol import (
    NO_USAGE,
    Answer,
    AnswerApproval,
    Assess,
    Assessed,
    AttemptFailed,
    Budget,
    CallId,
    Cancel,
    ChildRested,
    Compact,
    Compacted,
    Decide,
    Decided,
    DecideFailed,
    DecideInstead,
    Executed,
    Expire,
    Final,
    Found,
    Grant,
    InvocationId,
    JsonObject,
    LeaseLost,
    ModelErrorKind,
    NotDispatched,
    Observe,
    Observed,
    Proposed,
    Reason,
    Reconciled,
    Recover,
    Settle,
    Stalled,
    Start,
    ToolResult,
    Usage,
    Validate,
    Validated,
    ValidationVerdict,
    Verified,
    Verify,
    Wake,
    failed,
    passed,
)
from machine.samples import CHILDREN, calls, judge, lost, ok, stand_of
from machine.stand import Stand


class Driver(Stand):
    """A stand with a word for each message; a reply is to what was asked last."""

    def start(self) -> Self:
        """Begin."""
        self.tell(Start(self.start_of()))
        return self

    def recover(self) -> Self:
        """Go on from what is stored."""
        self.tell(Recover())
        return self

    def decide(self, decision: Proposed, usage: Usage | None = None, endpoint: str = "m1") -> Self:
        """Let the model reply."""
        turn, used = self.last(Decide).turn, usage or Usage(100, 10)
        self.tell(Decided(turn, decision, used, "scripted", "r1", endpoint=endpoint))
        return self

    def attempt_failed(
        self,
        usage: Usage = NO_USAGE,
        endpoint: str = "m1",
        category: ModelErrorKind = ModelErrorKind.TRANSIENT,
    ) -> Self:
        """Let one attempt at a model come to nothing, with another to follow."""
        turn = self.last(Decide).turn
        self.tell(AttemptFailed(turn, 1, endpoint, category, "503", usage))
        return self

    def fail_model(
        self,
        error: str = "the provider is down",
        category: ModelErrorKind = ModelErrorKind.TRANSIENT,
    ) -> Self:
        """Let the model not reply."""
        self.tell(DecideFailed(self.last(Decide).turn, error, category))
        return self

    def judged(self, verdict: ValidationVerdict | None = None) -> Self:
        """Let the Validator answer: as `samples.judge` does, or with this."""
        request = self.last(Validate)
        self.tell(Validated(request.turn, verdict or judge(request)))
        return self

    def assessed(self, stalled: Stalled | None = None) -> Self:
        """Let the tracker answer before a batch."""
        self.tell(Assessed(self.last(Assess).turn, stalled))
        return self

    def observed(self, stalled: Stalled | None = None, nudge: Stalled | None = None) -> Self:
        """Let the tracker answer after a batch."""
        self.tell(Observed(self.last(Observe).turn, stalled, nudge))
        return self

    def verified(self, problem: str = "") -> Self:
        """Let the verifier that was asked pass the answer, or fail it for this problem."""
        asked = self.last(Verify)
        name, done = self.verifiers[asked.number], asked.number == len(self.verifiers) - 1
        said = failed(problem) if problem else passed()
        self.tell(Verified(asked.turn, asked.number, name, said, done))
        return self

    def compacted(self, summary: str = "as before", usage: Usage = NO_USAGE) -> Self:
        """Let there be a summary."""
        asked = self.last(Compact)
        self.tell(Compacted(asked.turn, asked.upto, summary, usage, "m1"))
        return self

    def propose(self, *tools: str) -> Self:
        """Let the model ask for a batch that nobody objects to."""
        return self.decide(calls(*tools)).judged().assessed()

    def done(self, call_id: str, result: ToolResult | None = None) -> Self:
        """Let a running call return."""
        execute = self.running[call_id]
        if execute.tool_name in CHILDREN:
            return self.child_rested(call_id, result=result)
        self.tell(Executed(execute.turn, execute.attempt_id, result or ok(execute)))
        return self

    def child_rested(
        self,
        call_id: str,
        reason: Reason | None = Reason.COMPLETED,
        *,
        tool_calls: int = 1,
        usage: Usage = NO_USAGE,
        cost: str = "0",
        result: ToolResult | None = None,
    ) -> Self:
        """Let a child end, or wait for somebody, whether it runs or was asked after."""
        order = self.running.get(call_id) or self.asking[call_id]
        stand = result or stand_of(order, reason, tool_calls, usage, cost)
        self.tell(ChildRested(order.turn, order.attempt_id, stand))
        return self

    def lost(self, call_id: str) -> Self:
        """Let a running write come to an unknown outcome."""
        return self.done(call_id, lost(self.running[call_id]))

    def found(self, call_id: str, found: Reconciled) -> Self:
        """Let the owner of the data say what became of a write."""
        asked = self.asking[call_id]
        self.tell(Found(asked.turn, asked.attempt_id, found))
        return self

    def settle(
        self, call_id: str, found: Reconciled, turn: int | None = None, by: str = "ann"
    ) -> Self:
        """Let a human say what became of a write."""
        self.tell(Settle(CallId(call_id), found, by, turn))
        return self

    def refuse_dispatch(self, call_id: str) -> Self:
        """Let the executor find the lease not safely held."""
        execute = self.running[call_id]
        self.tell(NotDispatched(execute.turn, execute.attempt_id, "the lease is stale"))
        return self

    def lose_lease(self) -> Self:
        """Let the worker find out that it was away for too long."""
        self.tell(LeaseLost("no heartbeat in time"))
        return self

    def turn(self, *tools: str) -> Self:
        """Take one whole turn with a batch in which everything works."""
        self.propose(*tools)
        while self.running:
            self.done(next(iter(self.running)))
        return self.observed()

    def finish(self, answer: str = "all done") -> Self:
        """Let the model give its final answer."""
        return self.decide(Final(answer)).judged()

    def cancel(self, *, hard: bool = False) -> Self:
        """Let somebody cancel."""
        self.tell(Cancel("not wanted any more", "ann", hard))
        return self

    def approve(
        self, *call_ids: str, yes: bool = True, edits: Mapping[CallId, JsonObject] | None = None
    ) -> Self:
        """Let a human answer for these calls, or for all."""
        some = tuple(CallId(call_id) for call_id in call_ids) or None
        proposal = self.machine.folded.proposal()
        assert proposal is not None
        self.tell(AnswerApproval(proposal.digest, yes, "ann", some, edits=edits or {}))
        return self

    def reply(self, text: str = "order 7") -> Self:
        """Let a human answer the model's question."""
        self.tell(Answer(text, "ann"))
        return self

    def grant(self, budget: Budget | None = None) -> Self:
        """Let a human grant more."""
        self.tell(Grant(budget, "ann"))
        return self

    def decide_instead(self, decision: Proposed, by: str = "ann") -> Self:
        """Let a human decide in the model's place."""
        self.tell(DecideInstead(decision, by))
        return self

    def expire(self) -> Self:
        """Let nobody have answered in time."""
        self.tell(Expire("runtime"))
        return self

    def wake(self, child: str) -> Self:
        """Say that the child it waits for has come to rest."""
        self.tell(Wake(InvocationId(child)))
        return self
