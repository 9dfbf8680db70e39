"""The Validator: what policy says of a call, and what the answers of humans hold for."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright import (
    Agent,
    Budget,
    Policy,
    Principal,
    RequestApproval,
    ToolCalls,
)
from loopwright.actors.roles._judge import Judge
from loopwright.policy import Access, Allow, Deny, over, tool_named, writes
from loopwright.policy import Ask as AskHuman
from loopwright.protocol import (
    Accepted,
    Ask,
    CallId,
    Decision,
    InvocationStarted,
    JsonObject,
    Plan,
    ProposalDigest,
    RemoteProtocolError,
    ResultStatus,
    ToolCall,
    Verdict,
)
from loopwright.testing import ScriptedModel
from services.bench import INVOCATION
from services.judging import FIND, MAIL, PAY, TOOLS, asked, call, fates, judge, message_of, plan_of


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


def test_a_no_stands_where_policy_asks_nobody_any_more() -> None:
    """Rules are today's; what a human has said of exactly this call still holds."""
    digest = asked(BOTH, **ASK_WRITES).digest
    verdict = judge(
        BOTH,
        digest=digest,
        approved=(CallId("p"),),
        denied=((CallId("m"), "bo"),),
        ask=[tool_named("pay")],
    )

    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == ["runs", "denied"]


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


@pytest.mark.parametrize(
    "refusal", [{"denied": ((CallId("m"), "bo"),)}, {"expired": {CallId("m")}}]
)
def test_what_refuses_is_never_void(refusal: dict[str, Any]) -> None:
    """Under another policy a yes has to be given again; a no does not."""
    digest = asked(BOTH, **ASK_WRITES).digest
    given: dict[str, Any] = {"digest": digest, "approved": (CallId("p"),), **refusal}

    needed = asked(BOTH, **given, **ASK_WRITES, version="2")
    assert [ask.call_id for ask in needed.asks] == ["p"]
    assert fates(needed.plan) == ["runs", "denied"]
    verdict = judge(BOTH, **given, version="2")
    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == ["runs", "denied"]


def test_an_approval_does_not_outlive_a_policy_that_denies() -> None:
    """Rules are asked as they are today, also for what a human has said yes to."""
    digest = asked(ToolCalls((PAY,)), **ASK_WRITES).digest
    verdict = judge(
        ToolCalls((PAY,)), digest=digest, approved=(CallId("p"),), deny=[tool_named("pay")]
    )

    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == [ResultStatus.DENIED.value]


# ---------------------------------------------------------------- edits
def at_most(limit: int) -> Any:
    """Deny what is more than that."""

    def too_much(access: Access) -> bool:
        amount = access.arguments.get("amount")
        return isinstance(amount, int) and amount > limit

    return too_much


def approved(edits: dict[str, JsonObject], **options: Any) -> Plan:
    """Propose both writes, and let a human approve both with these edits."""
    given: dict[str, Any] = {**ASK_WRITES, **options}
    digest = asked(BOTH, **ASK_WRITES).digest
    verdict = judge(BOTH, digest=digest, approved=(CallId("p"), CallId("m")), edits=edits, **given)
    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    return verdict.plan


def test_an_edited_call_runs_as_it_was_approved() -> None:
    """B78: the digest is that of the proposal, and only the edited call has changed."""
    plan = approved({"p": {"order": "8", "amount": 5}})

    assert fates(plan) == ["runs", "runs"]
    assert [call.edited for call in plan.calls] == [True, False]
    assert plan.calls[0].arguments == {"order": 8, "amount": 5}
    assert plan.calls[0].effect_key == "order:8"
    assert plan.calls[1].arguments == {"to": "ann"}


def test_edits_are_judged_under_todays_policy() -> None:
    """B78: what was fine when it was approved, and is denied today, does not run."""
    plan = approved({"p": {"order": 7, "amount": 99_999}}, deny=[at_most(1_000)])

    assert fates(plan) == ["denied", "runs"]
    assert not plan.calls[0].edited
    # The model has done nothing wrong.
    assert plan.fault is None


def test_edits_that_no_longer_fit_the_tool_do_not_run() -> None:
    """Its schema has changed since they were approved."""
    plan = approved({"p": {"order": "none"}})

    assert fates(plan) == ["invalid_arguments", "runs"]
    assert not plan.calls[0].edited


def test_edits_of_what_is_denied_do_not_run() -> None:
    """An answer is a yes or a no, whatever goes with it."""
    digest = asked(BOTH, **ASK_WRITES).digest
    verdict = judge(
        BOTH,
        digest=digest,
        approved=(CallId("m"),),
        denied=((CallId("p"), "bo"),),
        edits={"p": {"order": 8}},
        **ASK_WRITES,
    )
    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == ["denied", "runs"]


def test_edits_for_another_proposal_are_void() -> None:
    """The human is asked again, about what was proposed."""
    needed = asked(
        BOTH,
        digest=ProposalDigest("other"),
        approved=(CallId("p"), CallId("m")),
        edits={"p": {"order": 8}},
        **ASK_WRITES,
    )
    assert [ask.arguments for ask in needed.asks] == [{"order": 7, "amount": 1}, {"to": "ann"}]
    assert not any(call.edited for call in needed.plan.calls)


def test_who_has_edited_a_call_is_asked_again_also_where_policy_would_not_ask() -> None:
    """An edit says no to what was proposed: that must not run because the edit is void."""
    digest = asked(BOTH, **ASK_WRITES).digest
    needed = asked(
        BOTH,
        digest=digest,
        approved=(CallId("p"), CallId("m")),
        edits={"p": {"order": 8}},
        version="2",
    )
    assert [ask.call_id for ask in needed.asks] == ["p"]
    assert needed.asks[0].reason == "somebody has edited it, under another policy"


def test_edits_do_not_revive_what_is_refused_anyway() -> None:
    """A call that could not run as it was proposed was not put to anybody."""
    decision = ToolCalls((PAY, call("x", "nothing")))
    verdict = judge(
        decision,
        digest=ProposalDigest("any"),
        approved=(CallId("p"),),
        edits={"p": {"order": 8}, "x": {}},
        **ASK_WRITES,
    )
    assert isinstance(verdict, Accepted)
    assert verdict.plan is not None
    assert fates(verdict.plan) == ["not_started", "unknown_tool"]


def check(arguments: JsonObject, tool_name: str = "pay", **options: Any) -> Ask:
    """Check what a human wants to run instead of the payment."""
    agent = Agent("desk", model=ScriptedModel([]), tools=TOOLS, policy=Policy(**options))
    started = InvocationStarted(
        INVOCATION, "desk", "1", "1", "goal", Principal("ann"), Budget(), 0.0
    )
    return Judge(agent).check_edit(started, 1, ToolCall(CallId("p"), tool_name, arguments), "why")


def test_an_edit_is_shown_as_it_will_run() -> None:
    """After defaults and coercion; that a human has to be asked about it goes without saying."""
    assert check({"order": "8"}, **ASK_WRITES).arguments == {"order": 8, "amount": 1}


def test_an_edit_is_asked_about_for_a_reason_of_its_own() -> None:
    """What today's rules ask about the edited call; where they ask nothing, what they asked before."""
    rules: dict[str, Any] = {"ask": [over(50)]}
    assert check({"order": 8, "amount": 60}, **rules).reason == "over(50) needs a human's yes"
    assert check({"order": 8, "amount": 40}, **rules).reason == "why"


@pytest.mark.parametrize(
    ("arguments", "tool_name", "options", "problem"),
    [
        ({"order": "x"}, "pay", {}, "edits.p: order: Input should be a valid integer"),
        ({}, "pay", {}, "edits.p: order: Field required"),
        ({"order": 1, "more": 1}, "pay", {}, "edits.p: more: Unexpected keyword argument"),
        ({"order": 1, "amount": 99_999}, "pay", {"deny": [at_most(1_000)]}, "denied by too_much"),
        ({"order": 1}, "gone", {}, "there is no tool 'gone'"),
        ({"order": 1}, "keyless", {}, "the effect key of tool 'keyless' is 1"),
    ],
)
def test_an_edit_that_could_not_run_is_refused_to_whoever_approves(
    arguments: JsonObject, tool_name: str, options: dict[str, Any], problem: str
) -> None:
    """B78: it is their mistake, not the model's: a typed error, and the proposal still waits."""
    with pytest.raises(RemoteProtocolError) as caught:
        check(arguments, tool_name, **options)
    assert str(caught.value).startswith("edits.p: ")
    assert problem in str(caught.value)
