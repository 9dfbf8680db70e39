"""A machine under test: a fake clock, a fake store, and everything it said, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, TypeVar

from loopwright.actors._clock import Instant
from loopwright.actors.machine._machine import Machine
from loopwright.actors.machine._terms import Terms
from loopwright.policy import Policy
from loopwright.protocol import (
    Append,
    AttemptId,
    Budget,
    CallDispatched,
    ChildRested,
    Commit,
    CommitFailed,
    Committed,
    Delivery,
    EffectEntry,
    EffectKey,
    Entered,
    Entry,
    Execute,
    Executed,
    Found,
    Input,
    Interrupt,
    InvocationStarted,
    InvocationState,
    NotDispatched,
    Outcome,
    Output,
    Price,
    Reason,
    Reconcile,
    Reserved,
    Rested,
    RunState,
    Snapshot,
    Tick,
    ToolResult,
    TurnCommitted,
    decode_record,
    fold,
)
from machine.samples import CHILDREN, started

T = TypeVar("T", bound=Output)
AGENTS = ("desk", "refunds", "billing", "human")
"""The invocation begins with the first of them."""
Edge = tuple[RunState, type[Input] | type[Entered], RunState]


class Stand:
    """Feeds a machine, and plays the store: by default every commit is durable at once.

    Args:
        budget: Limits of the invocation.
        policy: What is forgiven, and the grace periods.
        journal: Go on from these lines, as a new process would, instead of a new invocation.
        hold: Keep commits back until `ack`.
        known: Results that this process has and could not store.
        verifiers: Who looks at final answers.
        escape: The agent that takes over where others only hand it on.
        prices: Of the models, as they are pinned at the start.
    """

    def __init__(
        self,
        budget: Budget | None = None,
        policy: Policy | None = None,
        journal: Iterable[bytes] = (),
        *,
        hold: bool = False,
        known: Iterable[ToolResult] = (),
        verifiers: tuple[str, ...] = (),
        escape: str | None = None,
        prices: tuple[Price, ...] = (),
    ) -> None:
        self.verifiers, self.escape, self.prices = verifiers, escape, prices
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
        if isinstance(message, Executed | NotDispatched | ChildRested | Found):
            self._answered(message.attempt_id, out)
        for output in out:
            self.said.append(output)
            if isinstance(output, Commit):
                self.pending.append(output.append)
            elif isinstance(output, Execute):
                self.running[output.call_id] = output
            elif isinstance(output, Reconcile):
                self.asking[output.call_id] = output
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

    def reload(self, known: Iterable[ToolResult] = ()) -> Self:
        """Go on in a new process: everything that is not durable, or `known`, is gone."""
        lines = [entry.line for entry in self.journal]
        again = type(self)(
            self.budget,
            self.policy,
            lines,
            hold=self.hold,
            known=known,
            verifiers=self.verifiers,
            escape=self.escape,
            prices=self.prices,
        )
        again.ledger, again.outbox = dict(self.ledger), list(self.outbox)
        again.snapshot = self.snapshot
        return again

    def later(self, seconds: float) -> Self:
        """Let time pass, and say so."""
        self.time += seconds
        self.tell(Tick())
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

    @property
    def waiting(self) -> dict[str, Execute | Reconcile]:
        """What runs, or is asked after, by call id."""
        return {**self.running, **self.asking}

    def kept_aside(self, order: Execute | Reconcile) -> Reserved:
        """Say what is kept aside for the child that a call stands for."""
        for entry in reversed(self.journal):
            record = entry.record
            if isinstance(record, CallDispatched) and record.effect_key == order.effect_key:
                return record.reserved or Reserved()
        return Reserved()

    def reservations(self) -> list[Reserved | None]:
        """List what was kept aside with each dispatch."""
        records = [entry.record for entry in self.journal]
        return [record.reserved for record in records if isinstance(record, CallDispatched)]

    def executed(self) -> list[str]:
        """Name every attempt that was dispatched."""
        return [execute.attempt_id for execute in self.all(Execute)]

    @property
    def effects(self) -> dict[str, str]:
        """What is known of each write, by call id."""
        return {e.call_id: e.status for e in self.machine.folded.business.effects.values()}

    def _answered(self, attempt: AttemptId, out: tuple[Output, ...]) -> None:
        if self._was_late(out):
            return
        self.running = {c: run for c, run in self.running.items() if run.attempt_id != attempt}
        self.asking = {c: ask for c, ask in self.asking.items() if ask.attempt_id != attempt}

    def interrupted(self, *, begun: bool = True) -> list[str]:
        """Name every attempt that was interrupted though it has begun, or only if it has not."""
        return [i.attempt_id for i in self.all(Interrupt) if i.begun is begun]

    def _was_late(self, out: tuple[Output, ...]) -> bool:
        return [type(output).__name__ for output in out] == ["Late"]

    def terms(self) -> dict[str, Terms]:
        """Say what the machine knows of its agents: all of them have the same policy."""
        terms = Terms(
            self.policy,
            frozenset({"m1"}),
            verifiers=self.verifiers,
            escape=self.escape,
            children=CHILDREN,
        )
        return dict.fromkeys(AGENTS, terms)

    def start_of(self) -> InvocationStarted:
        """Make its first record."""
        return started(self.budget, self.prices)

    def _machine(self, known: Iterable[ToolResult]) -> Machine:
        folded = fold(self.journal) if self.journal else InvocationState(self.start_of())
        return Machine(folded, self.terms(), worker="w1", fence=1, known=known)
