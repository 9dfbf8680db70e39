"""How a turn is committed, and what follows from it: the end, another agent, or the next turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from loopwright.policy import state_fingerprint
from loopwright.protocol import (
    AnswerVerified,
    Claim,
    Delivery,
    Ending,
    Fault,
    Final,
    HandedOff,
    Handoff,
    HandOver,
    JsonValue,
    Observe,
    Reason,
    Record,
    ResultStatus,
    RunState,
    ToolResult,
    Turn,
    TurnCommitted,
    TurnProposed,
    Verified,
    Verify,
    bound_to,
    encode_record,
)

from ._batch import Batch
from ._results import deliveries
from ._thinking import Thinking


class Concluding(Thinking):
    """The part of the machine that commits turns and draws the consequences."""

    __slots__ = ()

    # ------------------------------------------------------------ writing ahead
    def _write_ahead(self, extra: Sequence[Record] = ()) -> list[Record]:
        """What is known of the open turn and no record holds yet, then `extra`."""
        self._linger_due = None
        records: list[Record] = [*self._notices()]
        if not self._proposed:
            self._proposed = True
            records.append(TurnProposed(self.turn, self._open_proposal, self._now.wall))
        if self._batch is not None:
            records += self._completed(self._batch)
        return [*records, *self._said(), *extra]

    # ------------------------------------------------------------ saving
    def _save(self, turn: TurnCommitted, batch: Batch | None = None) -> None:
        """Commit the turn, and with it the end it may lead to, or the agent that goes on."""
        self._batch, self._linger_due = None, None
        records: list[Record] = [*self._notices(), *self._said(), turn]
        outbox: tuple[Delivery, ...] = ()
        if batch is not None and batch.queued:
            agent = self.folded.protocol.agent
            outbox = deliveries(batch.plan, batch.results, self.started, agent, turn.turn)
        decision = turn.proposal.decision
        end = self._unforgivable(turn)
        if end is not None:
            self._end(end[0], records=records, cause=end[1], outbox=outbox)
        elif isinstance(decision, Handoff) and turn.fault is None:
            self._hand_off(decision, turn, records, outbox)
        else:
            observed = turn if batch is not None else None
            self._commit(records, partial(self._saved, observed), outbox=outbox)

    def _saved(self, turn: TurnCommitted | None) -> None:
        if turn is None:
            self._continue()
            return
        self._observing = turn.turn
        self._out.append(Observe(turn.turn, turn))

    def _unforgivable(self, turn: TurnCommitted) -> tuple[Reason, str] | None:
        """Say which end a turn leads to: what is forgiven a few times has happened once too often."""
        if turn.fault is None and all(result.status is _OK for result in turn.results):
            return None
        p, policy = self.folded.protocol, self._policy
        denied = _denied(turn.results)
        if denied and p.denials + len(denied) >= policy.max_denials:
            error = denied[-1].error
            tool = denied[-1].tool_name
            why = "" if error is None else f", the last one, of {tool}, because: {error.message}"
            return Reason.POLICY_DENIED, f"{p.denials + len(denied)} calls were denied{why}"
        fault = turn.fault
        if fault is not None and fault.level == "answer":
            if p.failed_answers + 1 >= policy.max_verifications:
                return Reason.VERIFICATION_FAILED, fault.problem
        elif fault is not None:
            decisions = p.faulty_decisions + 1 if fault.level == "decision" else 0
            if decisions > policy.max_repairs or p.faulty_turns + 1 >= policy.max_faulty_turns:
                return Reason.INVALID_DECISION, fault.problem
        down = _unavailable(turn.results)
        if down is not None and p.unavailable_turns + 1 >= policy.max_unavailable_turns:
            return Reason.TOOL_UNAVAILABLE, down
        return None

    # ------------------------------------------------------------ handing over
    def _hand_off(
        self,
        decision: Handoff,
        turn: TurnCommitted,
        records: list[Record],
        outbox: tuple[Delivery, ...],
    ) -> None:
        """Let another agent go on; or the escape agent, where they only hand it on and on."""
        p, business = self.folded.protocol, self.folded.business
        turns = [*business.turns[-_LOOK_BACK:], Turn(turn.turn, encode_record(turn))]
        note = decision.progress
        fingerprint = state_fingerprint(turns, business.effects.values(), note)
        problem = self._going_round(decision.target, fingerprint)
        escape = self._terms[p.agent].escape
        target, escaped = decision.target, False
        if problem is not None:
            if escape is None or escape == p.agent or any(h.escaped for h in p.handoffs):
                self._end(Reason.HANDOFF_LIMIT, records=records, cause=problem, outbox=outbox)
                return
            target, escaped = escape, True
        reason = decision.reason if problem is None else f"{decision.reason} ({problem})"
        handed = HandedOff(
            turn.turn, p.agent, target, reason, note, fingerprint, self._now.wall, escaped
        )
        self._commit([*records, handed], self._handed_over, outbox=outbox)

    def _going_round(self, target: str, fingerprint: str) -> str | None:
        """Say why a handoff is one too many, if it is."""
        p = self.folded.protocol
        limit = p.budget.max_handoffs
        if limit is not None and p.accepted_handoffs >= limit:
            return f"it was handed over {limit} times, the limit"
        for earlier in p.handoffs:
            if earlier.source == target and earlier.fingerprint == fingerprint:
                return f"it came from {target!r} and nothing has changed since"
        return None

    def _handed_over(self) -> None:
        agent = self.folded.protocol.agent
        self._work_for(agent)
        self._out.append(HandOver(agent))
        self._continue()

    # ------------------------------------------------------------ verifying an answer
    def _verify(self, output: JsonValue) -> None:
        """A final answer is a claim: whoever can check it does, one after the other."""
        if self.state is not RunState.VERIFY_ANSWER:
            self._enter(RunState.VERIFY_ANSWER)
            self._output = output
            if not self._proposed:
                # It may take long: the reply it is about must not be lost meanwhile.
                self._commit(self._write_ahead())
        self._bound = self._binding()
        self._ask_verifier(0)

    def _binding(self) -> str:
        decision, folded = self._open_proposal.decision, self.folded
        assert isinstance(decision, Final)
        effects = tuple(folded.business.effects.values())
        return bound_to(decision.answer, self._output, effects, folded.context_digest)

    def _ask_verifier(self, number: int) -> None:
        """Ask the next one whose verdict is not there; once all have agreed, that is the end."""
        p, decision = self.folded.protocol, self._open_proposal.decision
        verifiers = self._terms[p.agent].verifiers
        known = p.open.verified if p.open is not None else {}
        while number < len(verifiers):
            verdict = known.get(verifiers[number])
            if verdict is None or not verdict.passed or verdict.bound != self._bound:
                break
            number += 1
        assert isinstance(decision, Final)
        if number == len(verifiers):
            self._enter(RunState.COMPACT_OR_SAVE)
            self._complete([], decision, self._output)
            return
        self._verifying = number
        business = self.folded.business
        claim = Claim(
            self.invocation_id,
            p.agent,
            business.goal,
            decision.answer,
            self._output,
            self.folded.history(),
            tuple(business.effects.values()),
            self.started.principal,
            business.metadata,
        )
        self._out.append(Verify(self.invocation_id, self.turn, number, claim))

    def _on_verified(self, message: Verified) -> None:
        self._verifying = None
        decision, said = self._open_proposal.decision, message.verification
        assert isinstance(decision, Final)
        if self._settling or self._bound != self._binding():
            # Something it was about is another by now, or is about to be: all of them look again.
            self._verify(self._output)
            return
        verdict = AnswerVerified(
            self.turn, message.verifier, said.passed, said.reason, self._bound, self._now.wall
        )
        if said.passed and not message.done:
            self._commit([verdict])
            self._ask_verifier(message.number + 1)
            return
        self._enter(RunState.COMPACT_OR_SAVE)
        if said.passed:
            self._complete([verdict], decision, self._output)
        else:
            problem = f"the answer does not stand up to {message.verifier}: {said.reason}"
            self._commit([verdict])
            self._save(self._committed_turn(fault=Fault("answer", problem, message.verifier)))

    def _complete(self, verdicts: list[Record], decision: Final, output: JsonValue) -> None:
        """Commit the answer and the end."""
        records: list[Record] = [*self._notices(), *verdicts, *self._said(), self._committed_turn()]
        self._end(Reason.COMPLETED, records=records, answer=decision.answer, output=output)


_OK = ResultStatus.OK
_LOOK_BACK = 8
"""Turns before the present one that can tell whether anything has changed."""


def _denied(results: Sequence[ToolResult]) -> list[ToolResult]:
    return [result for result in results if result.denied]


def _unavailable(results: Sequence[ToolResult]) -> str | None:
    """Say what is down, where every call of a turn has met something that is."""
    for result in results:
        if not result.unavailable:
            return None
    return f"{results[0].tool_name} is unavailable" if results else None


def waiting_reason(results: Sequence[ToolResult]) -> Reason:
    """Say why an invocation waits, given its calls whose outcome is unknown.

    What only a person can find out about a write of its own goes before what a child waits for.
    """
    for result in results:
        child = result.child
        if child is None or child.reason.outcome is not Ending.SUSPENDED:
            return Reason.RECONCILIATION_REQUIRED
    child = results[0].child
    assert child is not None
    return child.reason
