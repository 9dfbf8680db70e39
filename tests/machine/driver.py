"""A machine under test: a fake clock, a fake store, and everything it said, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self, TypeVar

from loopwright.actors._clock import Instant
from loopwright.actors.machine._machine import Machine
from loopwright.policy import Policy
from loopwright.protocol import (
    Answer,
    AnswerApproval,
    Append,
    Assess,
    Assessed,
    AttemptId,
    Budget,
    CallId,
    Cancel,
    Commit,
    CommitFailed,
    Committed,
    Decide,
    Decided,
    DecideFailed,
    Delivery,
    EffectEntry,
    EffectKey,
    Entered,
    Entry,
    Execute,
    Executed,
    Final,
    Found,
    Grant,
    Input,
    Interrupt,
    InvocationState,
    JsonObject,
    LeaseLost,
    NotDispatched,
    Observe,
    Observed,
    Outcome,
    Output,
    Proposed,
    Reason,
    Reconcile,
    Reconciled,
    Recover,
    Rested,
    RunState,
    Settle,
    Snapshot,
    Stalled,
    Start,
    Tick,
    ToolResult,
    TurnCommitted,
    Usage,
    Validate,
    Validated,
    ValidationVerdict,
    decode_record,
    fold,
)
from machine.samples import calls, judge, lost, ok, started

T = TypeVar("T", bound=Output)
Edge = tuple[RunState, type[Input] | type[Entered], RunState]


class Driver:
    """Feeds a machine, and plays the store: by default every commit is durable at once.

    Args:
        budget: Limits of the invocation.
        policy: What is forgiven, and the grace periods.
        journal: Go on from these lines, as a new process would, instead of a new invocation.
        hold: Keep commits back until `ack`.
        known: Results that this process has and could not store.
    """

    def __init__(
        self,
        budget: Budget | None = None,
        policy: Policy | None = None,
        journal: Iterable[bytes] = (),
        *,
        hold: bool = False,
        known: Iterable[ToolResult] = (),
    ) -> None:
        self.budget = budget or Budget()
        self.policy = policy or Policy()
        self.hold = hold
        self.time = 0.0
        self.journal = [Entry(decode_record(line), line) for line in journal]
        self.commits: list[tuple[str, ...]] = []
        """The kinds of record in each commit that is durable."""
        self.pending: list[Append] = []
        self.said: list[Output] = []
        self.edges: set[Edge] = set()
        self.running: dict[str, Execute] = {}
        """Dispatched calls without a result, by call id."""
        self.asking: dict[str, Reconcile] = {}
        """Calls whose owner was asked what became of them and has not answered, by call id."""
        self.ledger: dict[EffectKey, EffectEntry] = {}
        """The effect ledger as a store keeps it."""
        self.outbox: list[Delivery] = []
        """What the store has to deliver."""
        self.snapshot: Snapshot | None = None
        """The last one the store was given."""
        self.machine = self._machine(known)

    # ------------------------------------------------------------ what it does
    def tell(self, message: Input) -> tuple[Output, ...]:
        """Hand one message to the machine; then acknowledge, unless commits are held."""
        before = self.machine.state
        out = self.machine.on(message, Instant(self.time, 1_000.0 + self.time))
        trigger: type[Input | Entered] = type(message)
        # A late message doesn't get as far as the table.
        trail = self.machine.trail or ([] if self._was_late(out) else [before])
        for state in trail:
            self.edges.add((before, trigger, state))
            before, trigger = state, Entered
        for output in out:
            self.said.append(output)
            if isinstance(output, Commit):
                self.pending.append(output.append)
            elif isinstance(output, Execute):
                self.running[output.call_id] = output
            elif isinstance(output, Reconcile):
                self.asking[output.call_id] = output
        if isinstance(message, Executed | NotDispatched) and not self._was_late(out):
            self._answered(message.attempt_id, self.running)
        if isinstance(message, Found) and not self._was_late(out):
            self._answered(message.attempt_id, self.asking)
        if not self.hold:
            self.ack()
        return out

    def ack(self, count: int | None = None) -> Self:
        """Make held commits durable, oldest first: all of them, or this many."""
        done = 0
        while self.pending and (count is None or done < count):
            self.tell(Committed(self.store()))
            done += 1
        return self

    def store(self) -> int:
        """Make the oldest held commit durable, not saying so yet; return its last seq."""
        append = self.pending.pop(0)
        entries = [Entry(decode_record(line), line) for line in append.lines]
        self.journal += entries
        self.commits.append(tuple(entry.record.kind for entry in entries))
        for effect in append.effects:
            self.ledger[effect.effect_key] = effect.over(self.ledger.get(effect.effect_key))
        self.outbox += append.outbox
        self.snapshot = append.snapshot or self.snapshot
        return append.last_seq

    def lose(self, *, fenced: bool = False) -> Self:
        """Let the oldest held commit fail, and with it every later one."""
        first = self.pending[0]
        self.pending.clear()
        self.tell(CommitFailed(first.last_seq, "disk full", fenced))
        return self

    def reload(self, known: Iterable[ToolResult] = ()) -> Driver:
        """Go on in a new process: everything that is not durable, or `known`, is gone."""
        lines = [entry.line for entry in self.journal]
        again = Driver(self.budget, self.policy, lines, hold=self.hold, known=known)
        again.ledger, again.outbox = dict(self.ledger), list(self.outbox)
        again.snapshot = self.snapshot
        return again

    def later(self, seconds: float) -> Self:
        """Let time pass, and say so."""
        self.time += seconds
        self.tell(Tick())
        return self

    # ------------------------------------------------------------ one step, in words
    def start(self) -> Self:
        """Begin."""
        self.tell(Start(started(self.budget)))
        return self

    def recover(self) -> Self:
        """Go on from what is stored."""
        self.tell(Recover())
        return self

    def decide(self, decision: Proposed, usage: Usage | None = None) -> Self:
        """Let the model reply."""
        turn = self.last(Decide).turn
        self.tell(Decided(turn, decision, usage or Usage(100, 10), "scripted", "r1"))
        return self

    def fail_model(self, error: str = "the provider is down") -> Self:
        """Let the model not reply."""
        self.tell(DecideFailed(self.last(Decide).turn, error))
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

    def observed(self, stalled: Stalled | None = None) -> Self:
        """Let the tracker answer after a batch."""
        self.tell(Observed(self.last(Observe).turn, stalled))
        return self

    def propose(self, *tools: str) -> Self:
        """Let the model ask for a batch that nobody objects to."""
        return self.decide(calls(*tools)).judged().assessed()

    def done(self, call_id: str, result: ToolResult | None = None) -> Self:
        """Let a running call return."""
        execute = self.running[call_id]
        self.tell(Executed(execute.turn, execute.attempt_id, result or ok(execute)))
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

    # ------------------------------------------------------------ what it said
    def last(self, kind: type[T]) -> T:
        """Return the last output of this kind."""
        return next(output for output in reversed(self.said) if isinstance(output, kind))

    def all(self, kind: type[T]) -> list[T]:
        """Return every output of this kind."""
        return [output for output in self.said if isinstance(output, kind)]

    @property
    def state(self) -> RunState:
        """Where the machine is."""
        return self.machine.state

    @property
    def outcome(self) -> Outcome:
        """How it came to rest, the last time."""
        return self.last(Rested).outcome

    @property
    def reason(self) -> Reason:
        """Why it came to rest, the last time."""
        return self.outcome.reason

    @property
    def turns(self) -> list[TurnCommitted]:
        """Every committed turn."""
        return [e.record for e in self.journal if isinstance(e.record, TurnCommitted)]

    def statuses(self, turn: int = -1) -> list[str]:
        """Name the results of a committed turn, in declared order."""
        return [result.status.value for result in self.turns[turn].results]

    def executed(self) -> list[str]:
        """Name every attempt that was dispatched."""
        return [execute.attempt_id for execute in self.all(Execute)]

    @property
    def effects(self) -> dict[str, str]:
        """What is known of each write, by call id."""
        return {e.call_id: e.status for e in self.machine.folded.business.effects.values()}

    def _answered(self, attempt: AttemptId, waiting: dict[str, Any]) -> None:
        for call_id, asked in tuple(waiting.items()):
            if asked.attempt_id == attempt:
                del waiting[call_id]

    def interrupted(self, *, begun: bool = True) -> list[str]:
        """Name every attempt that was interrupted though it has begun, or only if it has not."""
        return [i.attempt_id for i in self.all(Interrupt) if i.begun is begun]

    def _was_late(self, out: tuple[Output, ...]) -> bool:
        return [type(output).__name__ for output in out] == ["Late"]

    def _machine(self, known: Iterable[ToolResult]) -> Machine:
        folded = fold(self.journal) if self.journal else InvocationState(started(self.budget))
        return Machine(folded, self.policy, worker="w1", fence=1, known=known)
