"""What exactly a human says yes to, and who may."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from loopwright.protocol import (
    Ask,
    CallId,
    InvocationId,
    JsonObject,
    JsonValue,
    Principal,
    ProposalDigest,
    bounded,
    digest,
)

from ._authorization import discard, name_of


def proposal_digest(
    calls: Iterable[tuple[CallId, str, JsonObject, str]],
    policy_version: str,
    invocation_id: InvocationId,
    turn: int,
) -> ProposalDigest:
    """Bind a proposal: change a call, a tool's schema or the policy, and it is another one.

    So is the same batch in another invocation or turn: an answer that is sent twice, or comes
    late, approves nothing but what it was given for.

    Args:
        calls: Call id, tool name, arguments as they will run, and schema version of every call
            of the batch, in declared order.
        policy_version: Version of the policy in force.
        invocation_id: Whose proposal it is.
        turn: In which turn.
    """
    bound: list[JsonValue] = [
        [call_id, tool, arguments, schema] for call_id, tool, arguments, schema in calls
    ]
    return ProposalDigest(digest([bound, policy_version, invocation_id, turn]))


@dataclass(frozen=True, slots=True)
class Approver:
    """Who answers for one call, and on whose behalf it would run."""

    by: str
    """As the service that takes the answer has identified them."""
    ask: Ask
    principal: Principal


def refused_approver(
    rule: Callable[[Approver], bool] | None,
    by: str,
    asks: Iterable[Ask],
    principal: Principal,
) -> str | None:
    """Say why somebody may not answer for these calls, if so; it fails closed.

    Args:
        rule: Today's `Policy.may_approve`; `None` lets everybody.
        by: Who answers.
        asks: The calls they answer for.
        principal: On whose behalf the calls would run.
    """
    if rule is None:
        return None
    name = name_of(rule)
    for ask in asks:
        shown = f"{bounded(by)!r} may not answer for call {bounded(ask.call_id)!r}"
        try:
            said: object = rule(Approver(by, ask, principal))
        except Exception as error:  # noqa: BLE001 - it never fails open, whatever a rule raises
            return f"{shown}: the rule {name} failed with {type(error).__name__}"
        if said is not True:
            discard(said)
            return f"{shown}, by the rule {name}; let somebody else answer"
    return None
