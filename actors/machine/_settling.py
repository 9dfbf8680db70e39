"""What became of writes whose outcome is unknown: as their downstream says, or a person.

A word on a write of the open turn lets the turn go on; one on a write of a turn that is history
by now corrects the ledger, and what the model is shown of that turn, at any time.
"""

from __future__ import annotations

from functools import partial

from loopwright.protocol import (
    RECONCILER,
    WAITS_FOR_CHILD,
    AlreadyDecidedError,
    CallId,
    EffectEntry,
    EffectReconciled,
    Found,
    Head,
    InvocationStateError,
    Malformed,
    OpenTurn,
    ProtocolViolation,
    Reason,
    Record,
    Resumed,
    RunState,
    Settle,
    bounded,
)

from ._batch import Batch
from ._results import unknown_calls
from ._turns import Turns


class Settling(Turns):
    """The part of the machine that takes in what became of writes."""

    __slots__ = ()

    def _on_found(self, message: Found) -> None:
        batch = self._batch
        assert batch is not None
        index = batch.asking.pop(message.attempt_id)
        call = batch.plan.calls[index]
        assert call.effect_key is not None
        self._findings.append(
            EffectReconciled(
                self.turn,
                call.call_id,
                call.tool_name,
                call.effect_key,
                message.found,
                RECONCILER,
                self._now.wall,
                call.child is not None,
            )
        )
        stop = self.state is RunState.CANCELLING
        batch.found(index, message.found, by_person=False, stop=stop)
        if stop:
            self._drain()
        else:
            self._carry_on(batch)

    def _go_on(self) -> None:
        """Take up the thread: an open turn is judged again, as policy is today."""
        before = self.folded.protocol.open
        if before is None:
            self._begin_activity()
            self._prepare()
            return
        self._proposal, self._proposed = before.proposal, True
        if before.request is not None and before.unanswered():
            self._enter(RunState.WAIT_APPROVAL)
            self._suspend_for_approval([], before.request.digest)
            return
        if isinstance(before.proposal.decision, Malformed):
            msg = f"{self.invocation_id}: a refused decision was written ahead"
            raise ProtocolViolation(msg)
        self._begin_activity()
        self._enter(RunState.DECIDE_ACTION)
        self._validate(before.proposal.decision)

    def _answered(self) -> None:
        """An answer is durable: go on once every call has one."""
        turn = self.folded.protocol.open
        if self._outstanding or turn is None:
            return
        if not turn.unanswered():
            self._answering, self._suspending = frozenset(), False
            self._go_on()
        elif self.folded.protocol.status == "suspended":
            self._rest_as_folded()

    # ------------------------------------------------------------ what people say
    def _on_settle(self, message: Settle) -> None:
        before, past = self.folded.protocol.open, self._past_effect(message)
        if (
            before is not None
            and message.turn in (None, before.number)
            and message.call_id in self._waiting(before)
        ):
            dispatched = before.dispatched[message.call_id]
            word = EffectReconciled(
                before.number,
                message.call_id,
                dispatched.tool_name,
                dispatched.effect_key,
                message.found,
                message.by,
                self._now.wall,
                dispatched.reserved is not None,
            )
            stopping = self.state is RunState.CANCELLING
            if self._batch is not None and (stopping or not self._suspending):
                self._settle_running(self._batch, word)
            elif self.folded.protocol.reason in (None, Reason.RECONCILIATION_REQUIRED):
                self._settle_suspended(before, word)
            else:
                # It waits for somebody else.
                self._correct(word)
        elif past is not None:
            word = EffectReconciled(
                past.turn,
                message.call_id,
                past.tool_name,
                past.effect_key,
                message.found,
                message.by,
                self._now.wall,
            )
            self._correct(word)
        else:
            raise self._nothing_to_settle(message)

    def _waiting(self, before: OpenTurn) -> list[CallId]:
        """Writes of the open turn that are unknown, and on which nobody has given a word."""
        batch, waiting = self._batch, list[CallId]()
        if batch is None and self.state in (RunState.RECONCILE, RunState.SUSPENDED):
            waiting += before.unsettled()
        elif batch is not None and self.state in (RunState.RECONCILE, RunState.CANCELLING):
            # What a child that waits has done is settled there.
            waiting += [r.call_id for r in batch.unknown.values() if r.child is None]
        return [call for call in waiting if (before.number, call) not in self._settling]

    def _past_effect(self, message: Settle) -> EffectEntry | None:
        """Find the last write of a committed turn that is meant, and unknown, or in the outbox.

        What is in the outbox is delivered until somebody says that it need not be any more.
        """
        final = message.found.finding in ("applied", "rejected")
        for effect in reversed(self.folded.business.effects.values()):
            if (
                effect.call_id == message.call_id
                and (effect.status == "outcome_unknown" or (effect.status == "prepared" and final))
                and effect.turn <= self.folded.protocol.turn
                and message.turn in (None, effect.turn)
                and (effect.turn, effect.call_id) not in self._settling
            ):
                return effect
        return None

    def _settle_running(self, batch: Batch, word: EffectReconciled) -> None:
        """Somebody knows sooner than the one who is asked."""
        index = batch.index_of(word.call_id)
        assert index is not None
        for name in [name for name, asked in batch.asking.items() if asked == index]:
            del batch.asking[name]
        stop = self.state is RunState.CANCELLING
        batch.found(index, word.found, by_person=True, stop=stop)
        self._findings.append(word)
        durable = partial(self._corrected, self._on_its_way(word))
        if stop:
            self._commit(self._said(), durable)
        else:
            self._commit(self._write_ahead(), durable)
            self._carry_on(batch)

    def _settle_suspended(self, before: OpenTurn, word: EffectReconciled) -> None:
        """Go on once there is a word on every unknown write."""
        self._on_its_way(word)
        batch, head = self._batch, None
        if batch is not None and (index := batch.index_of(word.call_id)) is not None:
            # The suspension is still on its way; should it be cancelled, that is its result.
            batch.found(index, word.found, by_person=True, stop=True)
        records: list[Record] = [word]
        if not self._waiting(before):
            records.append(Resumed(word.by, self._now.wall))
            head = self._head(None)
        elif self.folded.protocol.status == "suspended":
            head = self._head_at_rest()
        self._suspending = True
        self._enter(RunState.RECONCILE)
        self._commit(records, self._settled, head)

    def _settled(self) -> None:
        """A word is durable: go on once there is one on every unknown write."""
        if self._outstanding:
            return
        if self.folded.protocol.status == "suspended":
            self._rest_as_folded()
            return
        self._settling, self._suspending, self._batch = frozenset(), False, None
        self._go_on()

    def _correct(self, word: EffectReconciled) -> None:
        """Correct the ledger; nothing else changes, and what rests goes on resting."""
        pair = self._on_its_way(word)
        effect = self.folded.business.effects.get(word.effect_key)
        queued = effect is not None and effect.status == "prepared"
        concluded = (word.effect_key,) if queued else ()
        if self.state.at_rest:
            self._enter(self.state)
            head = self._head_at_rest()
            self._commit([word], self._rest_as_folded, head, concluded=concluded)
        else:
            self._commit([word], partial(self._corrected, pair), concluded=concluded)

    def _corrected(self, pair: tuple[int, CallId]) -> None:
        """A word is durable; what would have gone on before it, and waited for it, does now."""
        self._settling -= {pair}
        if self._outstanding:
            return
        if self.folded.protocol.status != "running":
            self._rest_as_folded()
        elif self.state is RunState.WAIT_APPROVAL:
            self._answered()
        elif self.state is RunState.RECONCILE and self._suspending:
            self._settled()

    def _on_its_way(self, word: EffectReconciled) -> tuple[int, CallId]:
        """Take it down that there is a word, so that there is no second one."""
        pair = word.turn, word.call_id
        self._settling |= {pair}
        return pair

    def _head_at_rest(self) -> Head:
        """The head it rests with, so that the ownership is given up again."""
        p, proposal = self.folded.protocol, self.folded.proposal()
        assert p.reason is not None
        detail = p.question if proposal is None else proposal.digest
        if p.open is not None and proposal is None:
            owed, children = self._waiting(p.open), p.open.children()
            if owed:
                detail = unknown_calls((call, p.open.dispatched[call].tool_name) for call in owed)
            elif children:
                detail = f"{WAITS_FOR_CHILD}{children[0]}"
        return self._head(p.reason, detail)

    def _nothing_to_settle(self, message: Settle) -> InvocationStateError:
        where, shown = f"invocation {self.invocation_id}", bounded(message.call_id)
        for effect in reversed(self.folded.business.effects.values()):
            if effect.call_id == message.call_id and message.turn in (None, effect.turn):
                said = (effect.turn, effect.call_id) in self._settling
                if not said and effect.status in ("prepared", "dispatched"):
                    return InvocationStateError(
                        f"{where}: call {shown!r} is {effect.status}; it can be settled once its "
                        "outcome is unknown, and taken out of the outbox by applied or rejected"
                    )
                known = "is settled at this moment" if said else f"is {effect.status}"
                return AlreadyDecidedError(
                    f"{where}: the effect of call {shown!r} {known}; there is nothing to settle"
                )
        before = self.folded.protocol.open
        result = None if before is None else before.results.get(message.call_id)
        if result is not None and result.child is not None:
            return InvocationStateError(
                f"{where}: call {shown!r} stands for child {result.child.invocation_id}, which "
                f"is {result.child.reason}; settle the child's writes, or cancel it"
            )
        when = "" if message.turn is None else f" in turn {message.turn}"
        return InvocationStateError(
            f"{where} has no call {shown!r} whose effect is unknown{when}; look at its effects"
        )
