"""The one place where text enters an invocation: what a Supervisor is told passes a redactor here.

Journal, ledger, trace, outcome and what a model is shown are all made of messages after this
point, so that nothing unredacted is ever durable or told to anybody. What holds the protocol
together is left alone: ids, names of people, tools, agents and models, effect keys, digests,
statuses, numbers.

What is masked in arguments is masked for everybody: what policy judges, a human is shown, the
journal holds and the tool gets is one and the same object. A tool that needs a secret is given a
reference, and resolves it itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from operator import is_
from typing import Final, assert_never

from loopwright.policy import Place, Redact
from loopwright.protocol import (
    Accepted,
    Answer,
    AnswerApproval,
    AnyCall,
    Assessed,
    AttemptFailed,
    BrokenCall,
    Calls,
    Cancel,
    CannotContinue,
    ChildRested,
    Clarification,
    CommitFailed,
    Committed,
    Compacted,
    Decided,
    DecideFailed,
    DecideInstead,
    Executed,
    Expire,
    Faulty,
    Found,
    Grant,
    Handoff,
    Input,
    InvocationStarted,
    JsonObject,
    JsonValue,
    LeaseLost,
    Malformed,
    NeedsApproval,
    NotDispatched,
    Observed,
    Plan,
    Proposed,
    Reconciled,
    Recover,
    RemoteProtocolError,
    RequestApproval,
    ServiceFailed,
    Settle,
    Stalled,
    Start,
    Tick,
    ToolCalls,
    ToolResult,
    Validated,
    ValidationVerdict,
    Verified,
    Wake,
    bounded,
    check_json,
)
from loopwright.protocol import (
    Final as FinalAnswer,
)

from ..machine._results import LATE_RESULT

FAILED: Final = "[redaction failed]"
"""Stands for what a redactor could not redact."""
REPORT: Final = "The redactor failed on a value (%s): %s"
"""What is logged of it: where, and the type of the exception, whose text may be the secret."""
_UNREDACTED: Final = "its arguments could not be redacted, so that it is not run"

logger = logging.getLogger("loopwright.runtime")


def redacted(message: Input, redact: Redact) -> Input:
    """Return what a Supervisor is told as it may be written down.

    Where the redactor raises, or returns something of another kind or that is not JSON, the
    whole value is masked; a call whose arguments it fails on is not run. Plans are the one
    thing that is not looked at again: their arguments are those of a decision that has passed
    here, and policy has judged exactly them.

    Raises:
        RemoteProtocolError: If it fails on edited arguments: what a human has approved is not
            run as something else.
    """
    return Redacting(redact).message(message)


class Redacting:
    """A redactor and what it is applied to.

    Args:
        redact: The redactor, which is foreign code.
    """

    def __init__(self, redact: Redact) -> None:
        self.redact = redact

    def message(self, message: Input) -> Input:
        """Redact what a Supervisor is told; see `redacted`."""
        match message:
            # What a turn is made of first: each case before it takes time.
            case Executed(result=result):
                masked = self.result(result)
                return message if masked is result else message._replace(result=masked)
            case Committed() | Recover() | Grant() | Expire() | Wake() | Tick():
                return message
            case Assessed(stalled=stalled):
                if stalled is None:
                    return message
                return message._replace(stalled=self._stalled(stalled))
            case Observed(stalled=stalled, nudge=nudge):
                if stalled is None and nudge is None:
                    return message
                return message._replace(stalled=self._stalled(stalled), nudge=self._stalled(nudge))
            case Decided(decision=decision, replay=replay):
                said = self.decision(decision)
                kept = None if replay is None else self._replay(replay)
                if said is decision and kept is replay:
                    return message
                return message._replace(decision=said, replay=kept)
            case Validated(verdict=verdict):
                judged = self._verdict(verdict)
                return message if judged is verdict else message._replace(verdict=judged)
            case Start(started=started):
                return Start(self.started(started))
            case DecideInstead(decision=decision):
                return message._replace(decision=self.decision(decision))
            case AttemptFailed() | DecideFailed() | CommitFailed() | NotDispatched() | LeaseLost():
                return message._replace(error=self.text(message.error, "error"))
            case ServiceFailed(error=error):
                return message._replace(error=self.text(error, "error"))
            case Compacted():
                return message._replace(
                    summary=self.text(message.summary, "text"),
                    error=self.text(message.error, "error"),
                )
            case Verified(verification=verification):
                reason = self.text(verification.reason, "text")
                if reason is verification.reason:
                    return message
                return message._replace(verification=replace(verification, reason=reason))
            case ChildRested(result=result):
                return message._replace(result=self.result(result))
            case Found(found=found):
                return message._replace(found=self._found(found, "output"))
            case Settle(found=found, by=by):
                place: Place = "output" if by == LATE_RESULT else "person"
                return message._replace(found=self._found(found, place))
            case Answer(text=text):
                return message._replace(text=self.text(text, "person"))
            case AnswerApproval(reason=reason, edits=edits):
                return message._replace(
                    reason=self.text(reason, "person"),
                    edits={call: self.edit(call, given) for call, given in edits.items()},
                )
            case Cancel(reason=reason):
                return message._replace(reason=self.text(reason, "person"))
            case _:
                assert_never(message)

    def started(self, started: InvocationStarted) -> InvocationStarted:
        """Redact the goal and the metadata of an invocation."""
        goal = self.text(started.goal, "goal")
        metadata = self.value(started.metadata, "metadata")
        if goal is started.goal and metadata is started.metadata:
            return started
        return replace(started, goal=goal, metadata=metadata)

    def decision(self, decision: Proposed) -> Proposed:
        """Redact what a model, or a person in its place, has decided."""
        match decision:
            case FinalAnswer(answer=answer, output=output):
                text, held = self.text(answer, "text"), self.value(output, "text")
                if text is answer and held is output:
                    return decision
                return replace(decision, answer=text, output=held)
            case ToolCalls(calls=calls, commentary=commentary):
                text, masked = self.text(commentary, "text"), self._calls(calls)
                if masked is calls and text is commentary:
                    return decision
                return replace(decision, calls=masked, commentary=text)
            case RequestApproval(calls=calls, reason=reason):
                text = self.text(reason, "text")
                return replace(decision, calls=self._calls(calls), reason=text)
            case Clarification(question=question):
                return replace(decision, question=self.text(question, "text"))
            case CannotContinue(code=code, reason=reason):
                text = self.text(reason, "text")
                return replace(decision, code=self.text(code, "text"), reason=text)
            case Handoff(calls=calls, reason=reason, progress=note):
                done, still = self._texts(note.done), self._texts(note.open)
                return replace(
                    decision,
                    calls=self._calls(calls),
                    reason=self.text(reason, "text"),
                    progress=replace(note, done=done, open=still),
                )
            case Malformed(problem=problem, raw=raw):
                text = self.text(problem, "text")
                return replace(decision, problem=text, raw=self.text(raw, "text"))
            case _:
                assert_never(decision)

    def result(self, result: ToolResult) -> ToolResult:
        """Redact what a tool returned or failed with."""
        error, given = result.error, result.arguments
        if error is not None:
            error = replace(error, message=self.text(error.message, "error"))
        if given is not None:
            masked = self._arguments(given)
            given = {FAILED: FAILED} if masked is None else masked
        output = self.value(result.output, "output")
        if output is result.output and error is None and given is None:
            return result
        return replace(result, output=output, error=error, arguments=given)

    def edit(self, call_id: str, given: JsonObject) -> JsonObject:
        """Redact arguments a person wants a call to run with.

        Raises:
            RemoteProtocolError: If they cannot be redacted.
        """
        arguments = self._arguments(given)
        if arguments is None:
            raise RemoteProtocolError(f"edits.{bounded(call_id)}", "could not be redacted")
        return arguments

    def text(self, text: str, place: Place) -> str:
        """Redact a text."""
        if not text:
            return text
        masked = self.value(text, place)
        return masked if isinstance(masked, str) else FAILED

    def value(self, value: JsonValue, place: Place) -> JsonValue:
        """Redact any value; there is nothing to redact in none."""
        if value is None:
            return None
        try:
            masked = self.redact(value, place)
            if masked is value:
                return value
            check_json(masked, where="the redactor's value")
        except Exception as error:  # noqa: BLE001 - foreign code
            logger.error(REPORT, place, type(error).__name__)
            return FAILED
        return masked

    # ------------------------------------------------------------ parts
    def _arguments(self, given: JsonObject) -> JsonObject | None:
        """Redact arguments; `None` if they cannot be."""
        masked = self.value(given, "arguments")
        return masked if isinstance(masked, dict) else None

    def _calls(self, calls: Calls) -> Calls:
        masked = tuple([self._call(call) for call in calls])
        # Each is what it was: most often nothing is masked.
        return calls if all(map(is_, masked, calls)) else masked

    def _call(self, call: AnyCall) -> AnyCall:
        if isinstance(call, BrokenCall):
            # No tool gets it: it is a text the model wrote.
            text = self.text(call.problem, "text")
            return replace(call, problem=text, raw=self.text(call.raw, "text"))
        arguments = self._arguments(call.arguments)
        if arguments is None:
            return BrokenCall(call.call_id, call.tool_name, _UNREDACTED, FAILED)
        return call if arguments is call.arguments else replace(call, arguments=arguments)

    def _found(self, found: Reconciled, place: Place) -> Reconciled:
        reason = self.text(found.reason, place)
        return replace(found, receipt=self.value(found.receipt, place), reason=reason)

    def _verdict(self, verdict: ValidationVerdict) -> ValidationVerdict:
        match verdict:
            case Accepted(plan=plan, output=output):
                checked = None if plan is None else self._plan(plan)
                if checked is plan and output is None:
                    return verdict
                return Accepted(checked, self.value(output, "text"))
            case NeedsApproval(plan=plan, asks=asks):
                asked = tuple(replace(ask, reason=self.text(ask.reason, "text")) for ask in asks)
                return verdict._replace(plan=self._plan(plan), asks=asked)
            case Faulty(problem=problem):
                return Faulty(self.text(problem, "error"))
            case _:
                assert_never(verdict)

    def _plan(self, plan: Plan) -> Plan:
        if plan.fault is None and plan.runnable == len(plan.calls):
            reasons = [verdict.reason for verdict in plan.verdicts]
            if not any(reasons):
                return plan
        return plan._replace(
            calls=tuple(
                call if call.refused is None else call._replace(refused=self.result(call.refused))
                for call in plan.calls
            ),
            verdicts=tuple(
                replace(verdict, reason=self.text(verdict.reason, "text"))
                for verdict in plan.verdicts
            ),
            fault=None if plan.fault is None else self.text(plan.fault, "error"),
        )

    def _replay(self, replay: JsonValue) -> JsonValue:
        """Keep what is to be sent to the provider again as it came, or not at all.

        It is signed or encrypted: no provider takes it back with a part of it masked.
        """
        return replay if self.value(replay, "text") == replay else None

    def _stalled(self, stalled: Stalled | None) -> Stalled | None:
        if stalled is None:
            return None
        return stalled._replace(evidence=self.text(stalled.evidence, "text"))

    def _texts(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.text(text, "text") for text in texts)
