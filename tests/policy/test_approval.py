"""What exactly is approved, and whose answer counts."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.policy import Approver, Policy, proposal_digest, refused_approver
from loopwright.protocol import (
    Ask,
    CallId,
    ConfigurationError,
    InvocationId,
    JsonObject,
    Principal,
    ProposalDigest,
)

Bound = tuple[CallId, str, JsonObject, str]

CALLS: tuple[Bound, ...] = (
    (CallId("c1"), "pay", {"amount": 1, "to": "ann"}, "1"),
    (CallId("c2"), "pay", {"amount": 2}, "1"),
)


def bind(
    *calls: Bound, version: str = "1", invocation: str = "i1", turn: int = 1
) -> ProposalDigest:
    """Digest these calls."""
    return proposal_digest(calls, version, InvocationId(invocation), turn)


def test_a_digest_is_for_exactly_one_proposal() -> None:
    """Another id, tool, argument, schema, order, number of calls, policy, turn or run is another."""
    first, second = CALLS
    others = [
        bind(second, first),
        bind(first),
        bind((CallId("c9"), *first[1:]), second),
        bind((first[0], "refund", *first[2:]), second),
        bind((first[0], first[1], {"amount": 1.5, "to": "ann"}, "1"), second),
        bind((first[0], first[1], {"amount": 1, "to": "ann", "x": None}, "1"), second),
        bind((*first[:3], "2"), second),
        bind(*CALLS, version="2"),
        bind(*CALLS, invocation="i2"),
        bind(*CALLS, turn=2),
    ]
    assert len({bind(*CALLS), *others}) == len(others) + 1


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    """The same arguments are the same proposal, however they were written."""
    turned: Bound = (CallId("c1"), "pay", {"to": "ann", "amount": 1}, "1")
    assert bind(turned, CALLS[1]) == bind(*CALLS)


# ---------------------------------------------------------------- whose answer counts
ANN = Principal("ann", "acme")


def ask(call_id: str = "c1", **arguments: Any) -> Ask:
    """Ask about a payment."""
    given: JsonObject = arguments
    return Ask(CallId(call_id), "pay", given, "over(100) needs a human's yes")


def four_eyes(approver: Approver) -> bool:
    """Nobody approves what they have asked for themselves."""
    return approver.by != approver.principal.actor


def test_without_a_rule_everybody_may_answer() -> None:
    """Who that is, is on record."""
    assert refused_approver(None, "ann", [ask()], ANN) is None


def test_the_rule_sees_who_answers_for_what_and_for_whom() -> None:
    """By name, for each call, exactly as it would run."""
    seen: list[Approver] = []

    def rule(approver: Approver) -> bool:
        seen.append(approver)
        return True

    asks = [ask(amount=200), ask("c2")]
    assert refused_approver(rule, "bo", asks, ANN) is None
    assert seen == [Approver("bo", one, ANN) for one in asks]


def test_an_answer_that_does_not_count_is_explained() -> None:
    """By the rule's name; one call is enough."""
    policy = Policy(may_approve=four_eyes)
    assert refused_approver(policy.may_approve, "bo", [ask()], ANN) is None
    assert refused_approver(policy.may_approve, "ann", [ask()], ANN) == (
        "'ann' may not answer for call 'c1', by the rule four_eyes; let somebody else answer"
    )

    def small(approver: Approver) -> bool:
        return approver.ask.arguments["amount"] == 1

    both = [ask(amount=1), ask("c2", amount=2)]
    refusal = refused_approver(small, "bo", both, ANN)
    assert refusal is not None
    assert "'c2'" in refusal


def test_a_rule_that_fails_refuses() -> None:
    """It never fails open, and says how it failed, not what it holds."""

    def broken(_: Approver) -> bool:
        raise LookupError("the directory is down")

    assert refused_approver(broken, "bo", [ask()], ANN) == (
        "'bo' may not answer for call 'c1': the rule broken failed with LookupError"
    )


@pytest.mark.parametrize("said", [None, 1, "yes", 0, False, [True], object()])
def test_only_true_is_a_yes(said: Any) -> None:
    """A rule is foreign code; its annotation is only a promise."""

    def rule(_: Approver) -> bool:
        return said  # type: ignore[no-any-return]

    assert refused_approver(rule, "bo", [ask()], ANN) is not None


@pytest.mark.parametrize("given", ["bo", True, Approver, ["bo"]])
def test_what_is_no_rule_is_refused(given: Any) -> None:
    """Where it is written."""
    with pytest.raises(ConfigurationError, match=r"^Policy.may_approve "):
        Policy(may_approve=given)
