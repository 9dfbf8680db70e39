"""From one committed turn to the next reply: the gate, what the model is told, and asking it."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.policy import (
    Seen,
    allowance,
    compact_due,
    replaced_digest,
    soft_stop_due,
    soft_stop_notice,
    used_up,
)
from loopwright.protocol import (
    AttemptFailed,
    Budget,
    Compact,
    Compacted,
    ContextCompacted,
    Decide,
    Decided,
    DecideFailed,
    ModelAttempted,
    ModelErrorKind,
    Reason,
    Record,
    RunState,
    Spent,
    Stalled,
)

from ._stopping import Stopping

SUMMARY_PAUSE = 8
"""Turns after which a summary that failed is tried again."""
_SHOWN_DONE = 5
"""Effects that a soft-stop notice names, the last ones."""


class Thinking(Stopping):
    """The part of the machine that has the model asked."""

    __slots__ = ()

    def _prepare(self) -> None:
        """Gate, then ask the model: the only place where a model call begins."""
        self._enter(RunState.PREPARE_CONTEXT)
        self._proposal, self._batch, self._proposed = None, None, False
        self._linger_due = self._retry_due = None
        folded, p = self.folded, self.folded.protocol
        budget, spent = p.budget, self._spent()
        stop = self._gate(budget, spent)
        if stop is not None:
            self._enter(RunState.COMPACT_OR_SAVE)
            self._end(stop[0], cause=stop[1])
            return
        stopped = p.soft_stopped
        left = self._seconds_left()
        if not stopped and soft_stop_due(budget, spent, left, self._seconds_given()):
            stopped = True
            notice = soft_stop_notice(budget, spent, self._done(), seconds_left=left)
            self._notices_due.insert(0, ("soft_stop", notice))
        allowed = allowance(
            budget, spent, until=self._until, soft_stop=self._policy.soft_stop, stopped=stopped
        )
        self._deciding, self._tools = self.turn, allowed.tools
        self._enter(RunState.MODEL_THINKING)
        self._out.append(
            Decide(
                self.invocation_id,
                self.turn,
                folded.business.goal,
                folded.history(),
                self.started.principal,
                "\n".join([text for _, text in self._notices_due]) if self._notices_due else None,
                folded.business.metadata,
                folded.context_chars,
                allowed,
                self.started.prices,
                p.summary,
                p.summarized,
            )
        )

    def _gate(self, budget: Budget, spent: Spent) -> tuple[Reason, str] | None:
        """Say why no further model call may be made, if so."""
        condition = self._policy.stop
        if condition is not None:
            # First: what is reached with the last step is reached.
            self._seen = Seen(spent, self.folded.history(), self._seen)
            met = condition.met(self._seen)
            if met is not None:
                return met.reason, met.text
        reason = used_up(budget, spent, self._seconds_left(), free=self._free)
        return None if reason is None else (reason, f"no further model call: {reason}")

    def _seconds_left(self) -> float | None:
        return None if self._deadline is None else self._deadline - self._now.monotonic

    def _seconds_given(self) -> float | None:
        deadline = self.folded.protocol.budget.deadline
        return None if deadline is None else deadline.timestamp() - self.started.at

    def _done(self) -> list[str]:
        """Name what has taken effect, for a model that is to come to an end."""
        effects = self.folded.business.effects.values()
        return [str(e.effect_key) for e in effects if e.status == "committed"][-_SHOWN_DONE:]

    # ------------------------------------------------------------ no reply
    def _on_attempt_failed(self, message: AttemptFailed) -> None:
        self._charge(message, message.category, message.error)

    def _charge(self, message: AttemptFailed | Decided, category: str, error: str) -> None:
        """A model was asked for nothing: what that has cost is durable, whatever comes."""
        if self._store_lost:
            return
        number = message.attempt if isinstance(message, AttemptFailed) else message.attempts
        endpoint, usage = message.endpoint, message.usage
        attempted = ModelAttempted(
            message.turn,
            number,
            endpoint,
            category,
            error,
            self._now.wall,
            usage,
            self._cost(endpoint, usage),
        )
        self._commit([attempted])

    def _on_decide_failed(self, message: DecideFailed) -> None:
        self._deciding = None
        if self.state is RunState.CANCELLING:
            self._drain()
            return
        self._enter(RunState.COMPACT_OR_SAVE)
        self._end(self._no_reply(message), cause=message.error)

    def _no_reply(self, message: DecideFailed) -> Reason:
        over = self._out_of_time()
        if over is not None:
            return over[0]
        match message.category:
            case ModelErrorKind.REFUSED:
                return Reason.MODEL_REFUSED
            case ModelErrorKind.UNAVAILABLE:
                # It was not asked: perhaps because nothing is left to ask it with.
                budget, spent = self.folded.protocol.budget, self._spent()
                if budget.max_cost is not None and spent.cost >= budget.max_cost:
                    return Reason.COST_BUDGET_EXHAUSTED
                return used_up(budget, spent, None) or Reason.MODEL_ERROR
            case _:
                return Reason.MODEL_ERROR

    # ------------------------------------------------------------ compacting
    def _continue(self) -> None:
        """Go on after a turn: with a summary of the first ones, if it has become too much."""
        p = self.folded.protocol
        upto = None
        if p.turn >= self._summary_again:
            upto = compact_due(self._policy.context, self.folded.history(), p.summarized)
        if upto is None or self._gate(p.budget, self._spent()) is not None:
            # Where no model may be asked any more, no summary is made either.
            self._prepare()
            return
        self._compacting = self.turn
        self._out.append(
            Compact(
                self.invocation_id,
                self.turn,
                self.folded.business.goal,
                upto,
                self.folded.history(),
                p.summary,
                p.summarized,
            )
        )

    def _on_compacted(self, message: Compacted) -> None:
        self._compacting = None
        if not message.summary:
            # Without one, what does not fit is left out all the same.
            self._summary_again = self.folded.protocol.turn + SUMMARY_PAUSE
            self._prepare()
            return
        p, turns = self.folded.protocol, self.folded.business.turns
        compacted = ContextCompacted(
            message.upto,
            message.summary,
            replaced_digest(turns[p.summarized : message.upto], p.summary),
            self._now.wall,
            message.usage,
            self._cost(message.endpoint, message.usage),
        )
        self._commit([compacted], self._prepare)

    # ------------------------------------------------------------ being stuck
    def _stall(self, stalled: Stalled, records: Sequence[Record]) -> None:
        """Come to an end without progress, or have a person say how to go on."""
        evidence = f"{stalled.signal}: {stalled.evidence}"
        if self._policy.progress.on_stall == "ask":
            question = f"There is no progress ({evidence}). How should it go on?"
            self._suspend(Reason.CLARIFICATION_REQUIRED, records, question=question)
        else:
            self._end(Reason.NO_PROGRESS, records=records, cause=evidence)
