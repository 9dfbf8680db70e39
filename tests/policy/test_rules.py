"""The rules that come with the house: what they hold for, and that what they can't tell opens nothing."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from loopwright.policy import (
    Access,
    Allow,
    Ask,
    Deny,
    Policy,
    Predicate,
    all_of,
    allow_if,
    any_of,
    ask_if,
    capability,
    not_,
    operation,
    outside,
    over,
    owns,
    requires,
    role,
    same_tenant,
    tool_named,
    writes,
)
from loopwright.protocol import CallId, ConfigurationError, Effect, JsonValue, Principal

OWNERS = {"order:7": "ann", "order:8": "bo"}
ANN = Principal("ann", "acme", ("clerk",), ("refund",))


def access(*objects: str, by: Principal = ANN, **arguments: JsonValue) -> Access:
    """Let somebody want to pay."""
    return Access(
        by, "desk", "pay", "refund", Effect.IDEMPOTENT, arguments, CallId("c1"), (), objects
    )


NUMBERS = pytest.mark.parametrize(
    ("value", "too_much", "too_little"),
    [
        (0, False, False),
        (100, False, False),
        (101, True, False),
        (100.5, True, False),
        ("100.01", True, False),
        ("99", False, False),
        ("1e9", True, False),
        ("1e2", False, False),
        ("-1", False, True),
        (-5, False, True),
        ("-Infinity", False, True),
        ("Infinity", True, False),
        (10**30, True, False),
        # What can't be compared is treated as too much.
        ("a lot", True, True),
        ("", True, True),
        ("NaN", True, True),
        ("sNaN", True, True),
        (True, True, True),
        (None, True, True),
        ([1], True, True),
        ({"amount": 1}, True, True),
    ],
)


@NUMBERS
def test_limits_of_an_amount(value: JsonValue, too_much: bool, too_little: bool) -> None:
    """Above the limit, or no number; and below, where a negative amount would be a way out."""
    for limit in (100, Decimal(100)):
        assert over(limit)(access(amount=value)) is too_much
        assert outside(0, limit)(access(amount=value)) is (too_much or too_little)


def test_a_limit_looks_at_its_field_only() -> None:
    """A tool without the field is not over it."""
    for predicate in (over(100), outside(0, 100)):
        assert not predicate(access(total=500))
    assert over(100, "total")(access(total=500))
    assert outside(0, 100, "total")(access(total=500))


@pytest.mark.parametrize("limit", ["a lot", None, True, float("nan"), float("inf"), [1]])
def test_a_limit_is_a_number(limit: Any) -> None:
    """It is refused where it is written, not at the first call."""
    for given in ((limit, 0), (0, limit)):
        with pytest.raises(ConfigurationError, match="as a limit; give a number"):
            outside(*given)
    with pytest.raises(ConfigurationError, match="as a limit; give a number"):
        over(limit)


def test_what_is_done() -> None:
    """By the tool's name, its own word for it, or its effect."""
    assert writes()(access())
    assert not writes()(replace(access(), effect=Effect.READ))
    assert tool_named("pay", "mail")(access())
    assert not tool_named("refund")(access())
    assert operation("refund")(access())
    assert not operation("pay")(access())


def test_who_asks() -> None:
    """Roles and capabilities are what the service says of the principal."""
    assert role("clerk")(access())
    assert not role("admin")(access())
    assert capability("refund")(access())
    assert not capability("pay")(access())


@pytest.mark.parametrize(
    ("objects", "tenant", "holds"),
    [
        (["acme/order:7"], "acme", True),
        (["acme/order:7", "acme/order:8"], "acme", True),
        (["acme/order:7", "globex/order:8"], "acme", False),
        (["globex/order:7"], "acme", False),
        (["acme2/order:7"], "acme", False),
        (["acme"], "acme", False),
        (["order:7"], "acme", False),
        ([], "acme", False),
        (["/order:7"], "", False),
        (["acme/x/order:7"], "acme/x", False),
        ([" /order:7"], " ", False),
    ],
)
def test_of_the_same_tenant(objects: list[str], tenant: str, holds: bool) -> None:
    """Everything has to be; where nothing is named, nothing is."""
    assert same_tenant()(access(*objects, by=Principal("ann", tenant))) is holds


def test_of_whom_an_object_is_can_be_looked_up() -> None:
    """Whoever keeps the data knows it better than a name."""
    tenants = {"order:7": "acme"}
    assert same_tenant(tenants.get)(access("order:7"))
    assert not same_tenant(tenants.get)(access("order:8"))
    assert owns(OWNERS.get)(access("order:7"))
    assert not owns(OWNERS.get)(access("order:8"))
    assert not owns(OWNERS.get)(access("order:7", "order:8"))
    assert not owns(OWNERS.get)(access("order:9"))
    assert not owns(OWNERS.get)(access())
    assert not owns(lambda _: "")(access("order:7", by=Principal("")))


def test_a_look_up_that_fails_denies() -> None:
    """Also turned round: an authorization never fails open."""
    failing = same_tenant({"order:7": "acme"}.__getitem__)
    for policy in (Policy(deny=[not_(failing)]), Policy(rules=[allow_if(failing)])):
        verdict = policy.judge(access("order:9"))
        assert isinstance(verdict, Deny)
        assert verdict.reason.endswith("failed with KeyError")


YES, NO = role("clerk"), role("admin")


@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        (not_(NO), True),
        (not_(YES), False),
        (all_of(YES, YES), True),
        (all_of(YES, NO), False),
        (any_of(NO, YES), True),
        (any_of(NO, NO), False),
        (not_(any_of(NO, all_of(YES, not_(YES)))), True),
    ],
)
def test_predicates_compose(predicate: Predicate, holds: bool) -> None:
    """Each is a predicate again."""
    assert predicate(access()) is holds


def test_rules_made_of_predicates() -> None:
    """They decide where each predicate holds, and leave it to the next rule otherwise."""
    assert allow_if(YES)(access()) == Allow()
    assert allow_if(YES, NO)(access()) is None
    assert ask_if(YES, reason="sure?")(access()) == Ask("sure?")
    assert ask_if(NO)(access()) is None
    assert requires("refund", "refund")(access()) is None
    assert requires("admin", "refund")(access()) == Deny("refund needs the capability admin")
    assert requires("admin", "read")(access()) is None
    assert requires("admin")(access()) == Deny("refund needs the capability admin")


@pytest.mark.parametrize("make", [all_of, any_of, allow_if, ask_if])
def test_a_rule_of_nothing_is_refused(make: Any) -> None:
    """`allow_if()` would allow everything."""
    with pytest.raises(ConfigurationError, match="is given no predicate; give at least one"):
        make()
    with pytest.raises(ConfigurationError, match=f"^{make.__name__} holds 'yes'"):
        make("yes")


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (over(100), "over(100)"),
        (outside(0, 100), "outside(0, 100)"),
        (writes(), "writes"),
        (tool_named("pay", "mail"), "tool_named(pay, mail)"),
        (operation("refund"), "operation(refund)"),
        (role("clerk"), "role(clerk)"),
        (capability("refund"), "capability(refund)"),
        (same_tenant(), "same_tenant"),
        (owns(OWNERS.get), "owns"),
        (not_(same_tenant()), "not_(same_tenant)"),
        (any_of(YES, NO), "any_of(role(clerk), role(admin))"),
        (all_of(YES, not_(NO)), "all_of(role(clerk), not_(role(admin)))"),
        (allow_if(YES, writes()), "allow_if(role(clerk), writes)"),
        (ask_if(over(100)), "ask_if(over(100))"),
        (requires("refund", "pay", "mail"), "requires(refund, pay, mail)"),
    ],
)
def test_each_is_explained_by_its_name(rule: Any, name: str) -> None:
    """It is what the trace and the model see."""
    assert rule.__name__ == name


def test_a_denial_says_which_predicate_held() -> None:
    """So does a question."""
    policy = Policy(deny=[not_(same_tenant())], ask=[over(100)])
    foreign = policy.judge(access("globex/order:7"))
    assert foreign == Deny("denied by not_(same_tenant)", "not_(same_tenant)")
    assert policy.judge(access("acme/order:7", amount=200)) == Ask(
        "over(100) needs a human's yes", "over(100)"
    )
