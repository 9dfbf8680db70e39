"""The Validator: what policy says of a call, and what the answers of humans hold for."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright import (
    RequestApproval,
    ToolCalls,
)
from loopwright.policy import Access, Allow, Deny, over, tool_named, writes
from loopwright.policy import Ask as AskHuman
from loopwright.protocol import (
    Accepted,
    Ask,
    CallId,
    Decision,
    ProposalDigest,
    ResultStatus,
    Verdict,
)
from services.judging import FIND, MAIL, PAY, asked, call, fates, judge, message_of, plan_of


def test_rules_decide_on_what_would_run() -> None:
    """They see who asks, and the arguments after coercion; their verdicts are kept."""
    seen: list[Access] = []

    def known(access: Access) -> Allow | None:
        seen.append(access)
        return Allow() if access.tool == "find" else None

    def no_mail(access: Access) -> Deny | None:
        return Deny("no mail on Sundays") if access.tool == "mail" else None

    plan = plan_of(FIND, MAIL, rules=[known, no_mail])

    assert [(a.principal.actor, a.agent, a.tool, a.call_id) for a in seen] == [
        ("ann", "desk", "find", "f"),
        ("ann", "desk", "mail", "m"),
    ]
    assert seen[0].arguments == {"sku": "a", "limit": 5}
    assert fates(plan) == ["runs", "denied"]
    assert plan.verdicts == (
        Verdict(CallId("f"), "allow", "known"),
        Verdict(CallId("m"), "deny", "no_mail", "no mail on Sundays"),
    )


def test_what_no_rule_allows_is_denied_by_default() -> None:
    """If the policy says so."""
    plan = plan_of(FIND, default_deny=True)

    assert fates(plan) == ["denied"]
    assert message_of(plan) == "permission/Denied: no rule allows find"


def _raises(_: Access) -> Any:
    raise LookupError("the directory is down")


def _nonsense(_: Access) -> Any:
    return "yes"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rules": [_raises]}, "the rule _raises failed with LookupError"),
        ({"deny": [_raises]}, "the rule _raises failed with LookupError"),
        ({"ask": [_raises]}, "the rule _raises failed with LookupError"),
        ({"rules": [_nonsense]}, "the rule _nonsense returned no judgement"),
    ],
)
def test_a_rule_that_fails_denies(options: dict[str, Any], reason: str) -> None:
    """An authorization never fails open, and the Validator never over it."""
    plan = plan_of(PAY, **options)

    assert fates(plan) == ["denied"]
    assert message_of(plan) == f"permission/Denied: {reason}"


def test_a_call_that_needs_a_human_holds_up_the_batch() -> None:
    """The whole batch is bound by the digest; asked is only about the calls that need it."""
    needed = asked(ToolCalls((FIND, PAY)), ask=[over(0), tool_named("nothing")])

    assert needed.asks == (
        Ask(CallId("p"), "pay", {"order": 7, "amount": 1}, "over(0) needs a human's yes"),
    )
    assert needed.plan.verdicts == (
        Verdict(CallId("p"), "ask", "over(0)", "over(0) needs a human's yes"),
    )
    assert fates(needed.plan) == ["runs", "runs"]


def test_a_model_may_ask_for_a_human_itself() -> None:
    """Then all its calls wait, except those that are refused; a rule's own question goes first."""

    def careful(access: Access) -> AskHuman | None:
        return AskHuman("mail is final") if access.tool == "mail" else None

    decision = RequestApproval((FIND, MAIL), "")
    needed = asked(decision, rules=[careful])

    assert [a.reason for a in needed.asks] == ["the model asks for approval", "mail is final"]
    assert [v.rule for v in needed.plan.verdicts] == ["model", "careful"]
    assert asked(RequestApproval((FIND,), "sure?")).asks[0].reason == "sure?"
    denied = judge(RequestApproval((FIND,), "sure?"), default_deny=True)
    assert isinstance(denied, Accepted)


BOTH = ToolCalls((PAY, MAIL))
ASK_WRITES: dict[str, Any] = {"ask": [writes()]}


def test_answers_hold_for_exactly_what_was_asked() -> None:
    """Approved calls run, denied ones don't, and the question is still on record."""
    digest = asked(BOTH, **ASK_WRITES).digest
    verdict = judge(
        BOTH,
        digest=digest,
        approved=(CallId("p"),),
        denied=((CallId("m"), "bo: too late"),),
        **ASK_WRITES,
    )

    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == ["runs", "denied"]
    assert message_of(verdict.plan, 1) == "permission/DeniedByHuman: denied by bo: too late"
    assert [v.verdict for v in verdict.plan.verdicts] == ["ask", "ask"]
    assert verdict.plan.calls[0].effect_key == "order:7"
    assert verdict.plan.fault is None


def test_what_is_not_answered_is_asked_again() -> None:
    """With the same digest: the proposal is the same."""
    first = asked(BOTH, **ASK_WRITES)
    second = asked(BOTH, digest=first.digest, approved=(CallId("p"),), **ASK_WRITES)

    assert second.digest == first.digest
    assert [a.call_id for a in second.asks] == ["m"]


def test_answers_change_nothing_for_calls_nobody_asked_about() -> None:
    """A read beside an approved write runs as it would have."""
    decision = ToolCalls((FIND, PAY))
    digest = asked(decision, **ASK_WRITES).digest
    verdict = judge(
        decision,
        digest=digest,
        approved=(CallId("p"),),
        denied=((CallId("f"), "bo"),),
        **ASK_WRITES,
    )

    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == ["runs", "runs"]


@pytest.mark.parametrize(
    ("decision", "options"),
    [
        (ToolCalls((PAY, call("m", "mail", to="bob"))), ASK_WRITES),
        (ToolCalls((MAIL, PAY)), ASK_WRITES),
        (BOTH, {**ASK_WRITES, "version": "2"}),
        (BOTH, {"ask": [writes()], "digest": ProposalDigest("other")}),
    ],
)
def test_answers_to_another_proposal_are_void(decision: Decision, options: dict[str, Any]) -> None:
    """Other arguments, another order or another policy: the human is asked again."""
    digest = asked(BOTH, **ASK_WRITES).digest
    given: dict[str, Any] = {"digest": digest, "approved": (CallId("p"), CallId("m")), **options}

    assert len(asked(decision, **given).asks) == 2


def test_an_approval_does_not_outlive_a_policy_that_denies() -> None:
    """Rules are asked as they are today, also for what a human has said yes to."""
    digest = asked(ToolCalls((PAY,)), **ASK_WRITES).digest
    verdict = judge(
        ToolCalls((PAY,)), digest=digest, approved=(CallId("p"),), deny=[tool_named("pay")]
    )

    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == [ResultStatus.DENIED.value]
