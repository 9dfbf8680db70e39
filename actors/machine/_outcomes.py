"""How an invocation stands, told to those who wait for it."""

from __future__ import annotations

from loopwright.protocol import InvocationState, Outcome, Reason


def outcome_of(folded: InvocationState, reason: Reason, cause: str | None = None) -> Outcome:
    """Tell how an invocation stands at rest."""
    p, business = folded.protocol, folded.business
    done = reason is Reason.COMPLETED
    return Outcome(
        invocation_id=p.started.invocation_id,
        reason=reason,
        answer=business.answer,
        output=business.output,
        partial=None if done else folded.partial(),
        spent=folded.spent,
        budget=p.budget,
        proposal=folded.proposal(),
        question=p.question,
        cause=cause,
        effects=tuple(business.effects.values()),
        history=folded.history(),
        state_version=p.seq,
        agent=p.agent,
        waits_for=p.open.children() if p.open is not None and p.status == "suspended" else (),
    )
